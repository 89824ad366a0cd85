"""xformers' Triton norm: xformers/ops/_triton/rmsnorm_kernels.py and xformers/triton/importing.py of its wheel, below empty __init__.py."""
from ..kernel import kernel, need, take_only


@kernel("xformers", "rms_norm", "rmsnorm", "f32")
def rms_norm(t, p):
    from xformers.ops._triton.rmsnorm_kernels import _rms_norm_forward as f
    take_only(t, "x", "weight")
    need(p["weight_offset"] == 0, "plain weight")
    return {"y": f(t["x"], t["weight"], p["eps"])}
