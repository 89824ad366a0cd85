"""libetalon through ctypes: compare/api/etalon.h, function by function."""
import ctypes as c
import os
from ctypes import POINTER, byref

from . import Error

MAX_RANK = 8
NO_OFFSET = 2**64 - 1


class CError(c.Structure):
    _fields_ = [("code", c.c_int), ("offset", c.c_uint64), ("file", c.c_char * 512), ("item", c.c_char * 128), ("message", c.c_char * 384)]


class CTensor(c.Structure):
    _fields_ = [("name", c.c_char_p), ("dtype", c.c_char_p), ("rank", c.c_int), ("shape", c.c_size_t * MAX_RANK),
                ("strides", POINTER(c.c_ssize_t)), ("data", c.c_void_p)]


class CHow(c.Structure):
    _fields_ = [("contract", c.c_char_p), ("quick", c.c_bool), ("require_explained", c.c_bool)]


def _load():
    here = os.path.join(os.path.dirname(__file__), "lib")
    path = os.environ.get("ETALON_LIBRARY") or os.path.join(here, "libetalon.so.1")
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    lib = c.CDLL(path if os.path.exists(path) else "libetalon.so.1")
    err, call, verdict, text = POINTER(CError), c.c_void_p, c.c_void_p, c.c_char_p
    for name, result, *arguments in (
            ("version", text),
            ("op", text, text, err),
            ("call_new", call, text, text, err),
            ("call_read", call, text, err),
            ("call_case", call, text, text, c.c_uint64, err),
            ("call_set", c.c_bool, call, POINTER(CTensor), err),
            ("call_get", c.c_bool, call, c.c_size_t, POINTER(CTensor)),
            ("call_params", text, call),
            ("call_note", c.c_bool, call, text, text, err),
            ("call_answer", c.c_bool, call, text, text, err),
            ("call_error", c.c_bool, call, err),
            ("call_write", c.c_bool, call, text, err),
            ("call_free", None, call),
            ("judge", verdict, call, POINTER(CHow), err),
            ("outcome", c.c_int, verdict),
            ("reason", text, verdict, c.c_size_t),
            ("fault", text, verdict),
            ("report", text, verdict, text, err),
            ("verdict_free", None, verdict)):
        f = getattr(lib, "etalon_" + name)
        f.restype, f.argtypes = result, arguments
    return lib


_lib = None


def lib():
    global _lib
    if _lib is None:
        _lib = _load()
    return _lib


def ask(name, *arguments):
    """The function, with the error that it may leave behind its arguments, raised."""
    e = CError()
    result = getattr(lib(), "etalon_" + name)(*arguments, byref(e))
    if not result:
        raise Error(e.message.decode(), e.item.decode(), e.file.decode(errors="replace"),
                    None if e.offset == NO_OFFSET else e.offset, e.code)
    return result


def text(x, what):
    """As C has it."""
    if not isinstance(x, str):
        raise Error(f"expected text, got {type(x).__name__}", what)
    try:
        said = x.encode()
    except UnicodeEncodeError:
        raise Error("expected text that UTF-8 has", what) from None
    if b"\0" in said:
        raise Error("expected text without a zero byte", what)
    return said


def path(x, what="path"):
    try:
        said = os.fsencode(x)
    except (TypeError, UnicodeEncodeError):
        raise Error(f"expected a path, got {type(x).__name__}", what) from None
    if b"\0" in said:
        raise Error("expected a path without a zero byte", what)
    return said


_ops = {}


def op(file):
    """Reads a formula once: its op's name."""
    said = path(file)
    key = os.path.abspath(file)
    if key not in _ops:
        _ops[key] = ask("op", said).decode()
    return _ops[key]


def ops():
    """The formulas that were read."""
    return tuple(_ops)
