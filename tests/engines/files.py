"""safetensors files, read and written without the library."""

import glob
import json
import struct

import ml_dtypes
import numpy as np

TYPES = {"BF16": ml_dtypes.bfloat16, "F32": np.float32, "F16": np.float16, "I64": np.int64}
TYPES["I32"] = np.int32


def read(path):
    with open(path, "rb") as file:
        raw = file.read()
    n = struct.unpack("<Q", raw[:8])[0]
    arrays = {}
    for name, entry in json.loads(raw[8 : 8 + n]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        data = raw[8 + n + begin : 8 + n + end]
        arrays[name] = np.frombuffer(data, TYPES[entry["dtype"]]).reshape(entry["shape"])
    return arrays


def load(folder):
    """All weights of a model, as float32."""
    weights = {}
    for path in glob.glob(folder + "/model*.safetensors"):
        weights |= {name: x.astype(np.float32) for name, x in read(path).items()}
    return weights


def read_ids(path):
    return read(path)["input_ids"].reshape(-1)


def save(path, arrays):
    """arrays: name -> (array, its type's name)."""
    header, blocks, at = {}, [], 0
    for name, (array, dtype) in arrays.items():
        data = array.tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        blocks.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blocks))
