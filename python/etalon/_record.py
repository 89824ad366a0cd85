"""What assert_correct leaves behind under pytest: a capture for each call."""
import os
import re

_where = None           # the folder, and the test that runs
_counts = {}


def begin(folder, test):
    global _where
    _where = (folder, re.sub(r"[^A-Za-z0-9_.-]+", "_", test)) if folder else None


def keep(call):
    if _where is None:
        return
    folder, test = _where
    n = _counts[test] = _counts.get(test, 0) + 1
    os.makedirs(folder, exist_ok=True)
    call.note("producer", test)         # a baseline's entry is one test's
    call.write(os.path.join(folder, f"{test}.{n}.safetensors"))
