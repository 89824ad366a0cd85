"""Anything that holds numbers, as (dtype, shape, strides in elements, address, what keeps the memory)."""
import ctypes as c
import math
import sys

TORCH = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
         "int32": "I32", "int64": "I64", "uint8": "U8", "bool": "U8"}
ARRAY = {**TORCH, "bool_": "U8"}
SIZE = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "F8_E4M3": 1, "F8_E5M2": 1, "I32": 4, "I64": 8, "U8": 1}
# DLPack: (type code, bits).
DLPACK = {(2, 64): "F64", (2, 32): "F32", (2, 16): "F16", (4, 16): "BF16", (10, 8): "F8_E4M3", (12, 8): "F8_E5M2",
          (0, 32): "I32", (0, 64): "I64", (1, 8): "U8", (6, 8): "U8"}
DLPACK_CPU = (1, 3, 11)         # CPU, and memory that is pinned for CUDA or ROCm


class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32), ("code", c.c_uint8),
                ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)),
                ("byte_offset", c.c_uint64)]


def _named(name, known):
    if name not in known:
        raise TypeError(f"no dtype of etalon's: {name}")
    return known[name]


def _torch(t):
    if t.is_meta:
        raise TypeError("a meta tensor has no numbers")
    t = t.detach().cpu()
    if t.is_sparse or t.is_quantized:
        raise TypeError("a dense tensor is expected")
    t = t.resolve_conj().resolve_neg() if hasattr(t, "resolve_conj") else t
    return _named(str(t.dtype).split(".")[-1], TORCH), tuple(t.shape), tuple(t.stride()), t.data_ptr(), t


def _array(a):
    """NumPy's, also of ml_dtypes' types, whose interface says only how wide they are."""
    i = a.__array_interface__
    if hasattr(a, "mask") and hasattr(a, "filled"):
        raise TypeError("an array without a mask is expected: a.filled(x) says what stands where it masks")
    dtype = _named(str(getattr(getattr(a, "dtype", None), "name", "")) or _typestr(i["typestr"]), ARRAY)
    if i["typestr"][0] == ">":
        raise TypeError("little-endian numbers are expected")
    strides = i.get("strides")
    if strides is not None:
        if any(s % SIZE[dtype] for s in strides):
            raise TypeError("strides that are whole elements are expected")
        strides = tuple(s // SIZE[dtype] for s in strides)
    return dtype, tuple(i["shape"]), strides, i["data"][0], a


def _typestr(text):
    kinds = {"f8": "float64", "f4": "float32", "f2": "float16", "i4": "int32", "i8": "int64", "u1": "uint8", "b1": "bool"}
    return kinds.get(text[1:], text)


def _dlpack(x):
    if x.__dlpack_device__()[0] not in DLPACK_CPU:
        raise TypeError("on a device whose memory cannot be read from here; copy it to the CPU first")
    capsule = x.__dlpack__()
    pointer = c.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c.c_void_p, [c.py_object, c.c_char_p]
    d = DLTensor.from_address(pointer(capsule, b"dltensor"))
    dtype = DLPACK.get((d.code, d.bits))
    if dtype is None or d.lanes != 1:
        raise TypeError(f"no dtype of etalon's: DLPack code {d.code}, {d.bits} bits, {d.lanes} lanes")
    strides = tuple(d.strides[i] for i in range(d.ndim)) if d.strides else None
    return dtype, tuple(d.shape[i] for i in range(d.ndim)), strides, (d.data or 0) + d.byte_offset, (capsule, x)


def view(x):
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _torch(x)
    if hasattr(x, "__cuda_array_interface__") and hasattr(x, "get"):
        x = x.get()             # CuPy
    if hasattr(x, "__array_interface__"):
        return _array(x)
    if hasattr(x, "__dlpack__"):
        if x.__dlpack_device__()[0] in DLPACK_CPU:
            return _dlpack(x)
        if hasattr(x, "addressable_shards") and "jax" in sys.modules:
            return view(sys.modules["jax"].device_get(x))
        if torch is not None:
            return _torch(torch.from_dlpack(x))
        return _dlpack(x)
    if isinstance(x, (memoryview, bytes, bytearray)) or not hasattr(x, "__iter__"):
        raise TypeError(f"expected a tensor, got {type(x).__name__}")
    return _list(x)


def _list(x):
    """Nested lists of numbers: whole ones I32, or I64 where one needs it, others F32."""
    shape, flat = [], x
    while isinstance(flat, (list, tuple)):
        shape.append(len(flat))
        flat = flat[0] if flat else None
    numbers = []

    def walk(part, depth):
        if depth == len(shape):
            numbers.append(part)
            return
        if not isinstance(part, (list, tuple)) or len(part) != shape[depth]:
            raise TypeError("lists of one length are expected")
        for p in part:
            walk(p, depth + 1)
    walk(x, 0)
    if not all(isinstance(v, (int, float)) for v in numbers):
        raise TypeError("expected a tensor or lists of numbers")
    dtype, kind = _kind_of(numbers)
    memory = (kind * len(numbers))(*numbers)
    return dtype, tuple(shape), None, c.addressof(memory), memory


def _too_large(v):
    try:
        return math.isfinite(v) and math.isinf(c.c_float(v).value)
    except OverflowError:       # a whole number beyond a double
        return True


def _kind_of(numbers):
    """ctypes takes what is too large, and cuts it off."""
    if all(isinstance(v, int) for v in numbers):
        most = max((abs(v) for v in numbers), default=0)
        if most >= 2**63:
            raise TypeError(f"whole numbers of at most 64 bits are expected, got one of {most.bit_length() + 1}")
        return ("I32", c.c_int32) if most < 2**31 else ("I64", c.c_int64)
    for v in numbers:
        if _too_large(v):
            raise TypeError(f"numbers that float32 holds are expected in a list, got {str(v):.40}; an array of float64 holds more")
    return "F32", c.c_float
