"""Values as a place stores them: "b" (bf16), "h" (float16) or not rounded."""

import ml_dtypes
import numpy as np

f32 = np.float32
BF = ml_dtypes.bfloat16


def cast(x, t):
    if t == "b":
        return x.astype(BF).astype(f32)
    if t == "h":
        return x.astype(np.float16).astype(f32)
    return x.astype(f32)
