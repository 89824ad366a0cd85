"""What assert_correct leaves behind under pytest: a capture for each call."""

import hashlib
import os
import re

_where = None  # the folder, and the test that runs
_counts = {}
_written = set()  # names of files, of this process


def name_of(test):
    """The name of a test's files. Ids may differ in characters that no file's name holds."""
    clean = re.sub(r"[^A-Za-z0-9_.-]+", "_", test)[:120]
    return f"{clean}-{hashlib.sha256(test.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


def begin(folder, test):
    """From now on calls are the test's; run again, it writes the same files."""
    global _where
    _where = (folder, test) if folder else None
    _counts.pop(test, None)


def keep(call):
    if _where is None:
        return
    folder, test = _where
    n = _counts[test] = _counts.get(test, 0) + 1
    os.makedirs(folder, exist_ok=True)
    call.note("producer", test.encode("ascii", "backslashreplace").decode())
    name = f"{name_of(test)}.{n}.safetensors"
    call.write(os.path.join(folder, name))
    _written.add(name)


def written():
    return _written
