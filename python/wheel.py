#!/usr/bin/env python3
"""One wheel for all Pythons: wheel.py FOLDER VERSION OUT_DIR. The package, FOLDER's etalon and libetalon.so.1, and the libraries that these
need but for glibc's, which the wheel's tag asks for. They look for them beside themselves (rpath $ORIGIN)."""
import base64
import hashlib
import os
import platform
import re
import subprocess
import sys
import zipfile

GLIBC = re.compile(r"^(linux-vdso|ld-linux|lib(c|m|dl|pthread|rt)\.so)")
HERE = os.path.dirname(os.path.abspath(__file__))


def needed(path):
    """{name: file} of all libraries that are loaded with it."""
    found = {}
    for line in subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout.splitlines():
        m = re.match(r"\s*(\S+) => (/\S+)", line)
        if m and not GLIBC.match(m[1]) and not m[1].startswith("libetalon"):
            found[m[1]] = os.path.realpath(m[2])
    return found


def tag():
    version = platform.libc_ver()[1].split(".")
    return f"py3-none-manylinux_{version[0]}_{version[1]}_{platform.machine()}"


def stripped(path, scratch):
    to = os.path.join(scratch, os.path.basename(path) + ".stripped")
    subprocess.run(["strip", "--strip-unneeded", "-o", to, path], check=True)
    with open(to, "rb") as f:
        return f.read()


def files(program, library, scratch):
    for name in sorted(os.listdir(os.path.join(HERE, "etalon"))):
        if name.endswith(".py"):
            with open(os.path.join(HERE, "etalon", name), "rb") as f:
                yield "etalon/" + name, f.read(), 0o644
    yield "etalon/lib/etalon", stripped(program, scratch), 0o755
    yield "etalon/lib/libetalon.so.1", stripped(library, scratch), 0o644
    for name, path in sorted({**needed(program), **needed(library)}.items()):
        yield "etalon/lib/" + name, stripped(path, scratch), 0o644


def metadata(version):
    with open(os.path.join(HERE, "README.md"), encoding="utf-8") as f:
        text = f.read()
    return f"""Metadata-Version: 2.1
Name: etalon
Version: {version}
Summary: Is what a GPU kernel computed right? An exact reference, a verdict, and the fault by name.
License: Apache-2.0
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{text}"""


def main():
    folder, version, out = sys.argv[1:]
    program, library = os.path.join(folder, "etalon"), os.path.join(folder, "libetalon.so.1")
    info = f"etalon-{version}.dist-info/"
    os.makedirs(out, exist_ok=True)
    content = list(files(program, library, out))
    with open(os.path.join(HERE, "..", "LICENSE"), "rb") as f:
        content.append((info + "licenses/LICENSE", f.read(), 0o644))
    content += [
        (info + "METADATA", metadata(version).encode(), 0o644),
        (info + "WHEEL", f"Wheel-Version: 1.0\nGenerator: etalon\nRoot-Is-Purelib: false\nTag: {tag()}\n".encode(), 0o644),
        (info + "entry_points.txt", b"[console_scripts]\netalon = etalon.__main__:main\n\n[pytest11]\netalon = etalon.pytest_plugin\n", 0o644)]
    path = os.path.join(out, f"etalon-{version}-{tag()}.whl")
    record = ""
    with zipfile.ZipFile(path + ".new", "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        def put(name, data, mode):
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr, entry.compress_type = (mode | 0o100000) << 16, zipfile.ZIP_DEFLATED
            z.writestr(entry, data)
        for name, data, mode in content:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(data)}\n"
            put(name, data, mode)
        put(info + "RECORD", (record + info + "RECORD,,\n").encode(), 0o644)
    os.replace(path + ".new", path)
    for name in os.listdir(out):
        if name.endswith(".stripped"):
            os.remove(os.path.join(out, name))
    print(f"{path}: {os.path.getsize(path) / 2**20:.1f} MiB")


main()
