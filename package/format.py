"""usage: format.py CLANG-FORMAT [--check] FILE...
clang-format by .clang-format, less what it cannot do well: line breaks and columns are the writer's. Taken are indentation by whole tabs, and
whether a space stands between two tokens. (Left alone, it breaks structs of one line and joins lists of designated initializers into one line.)
--check writes nothing: a line for each place, exit code 1."""
import os
import subprocess
import sys
import xml.etree.ElementTree
from concurrent.futures import ThreadPoolExecutor


def taken(was, now, left, right):
    """Whether the white space `was` between left and right (its next two bytes) becomes `now`."""
    if was.count(b"\n") != now.count(b"\n") or b"\\" in was:            # in a macro a line's depth is the writer's
        return False
    if b"\n" in was:
        tabs = not now.rpartition(b"\n")[2].strip(b"\t")
        went_on = right[:1] == b'"' and not was.rpartition(b"\n")[2].strip(b"\t")          # a string over lines
        return tabs and not went_on and right[:1] != b"#"
    if left.rpartition(b"\n")[2].lstrip().startswith(b"#pragma"):
        return False
    # not a column; nor where it guesses what is a type: (enum x)-1, a * b, (type *)"x", int (*f)
    return (was in (b"", b" ") and now in (b"", b" ") and left[-1:] not in b"*&+-<>)" and right[:1] not in b"*&+-<>"
            and right != b"(*" and (now or right[:1] != b"}"))


def formatted(path):
    with open(path, "rb") as f:
        old = f.read()
    said = subprocess.run([clang, "--output-replacements-xml", path], stdout=subprocess.PIPE, check=True).stdout
    new, at, lines = [], 0, []
    for r in xml.etree.ElementTree.fromstring(said).iter("replacement"):
        first = int(r.get("offset"))
        end = first + int(r.get("length"))
        text = (r.text or "").encode()
        if taken(old[first:end], text, old[:first], old[end:end + 2]):
            new += [old[at:first], text]
            at = end
            lines.append(old.count(b"\n", 0, end) + 1)
    return path, b"".join(new) + old[at:], lines


clang, *files = sys.argv[1:]
check = files[:1] == ["--check"]
files = files[check:]
found = 0
with ThreadPoolExecutor(os.cpu_count()) as pool:
    for path, text, lines in pool.map(formatted, files):
        found += len(lines)
        if check:
            for line in lines:
                print(f"{path}:{line}: not as `make format` has it")
        elif lines:
            with open(path, "wb") as f:
                f.write(text)
print(f"{'check-format' if check else 'format'}: {len(files)} files, {found} places")
sys.exit(check and found > 0)
