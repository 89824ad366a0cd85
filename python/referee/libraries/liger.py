"""Liger-Kernel: Triton kernels for training."""
from ..kernel import kernel, need, take_only
from ..tables import cos_sin, gradients, narrow

LIB = "liger-kernel"


def norm(mode):
    def call(t, p):
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction as f
        take_only(t, "x", "weight")
        return {"y": f.apply(t["x"].clone(), t["weight"], p["eps"], float(p["weight_offset"]), mode, False)}
    return call


for mode, contract in (("llama", "xhat_bf16"), ("gemma", "f32"), ("none", "bf16")):
    kernel(LIB, f"rms_norm, casting {mode}", "rmsnorm", contract)(norm(mode))


@kernel(LIB, "fused_add_rms_norm, casting llama", "rmsnorm", "xhat_bf16")
def fused_add(t, p):
    from liger_kernel.ops.fused_add_rms_norm import LigerFusedAddRMSNormFunction as f
    take_only(t, "x", "weight", "residual")
    need("residual" in t, "a residual")
    y, s = f.apply(t["x"].clone(), t["residual"].clone(), t["weight"], p["eps"], float(p["weight_offset"]), "llama", False)[:2]
    return {"y": y, "residual_out": s}


def norm_backward(mode):
    def call(t, p):
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction as f
        take_only(t, "x", "weight", "dy")
        return gradients(t, ("x", "weight"), ("dy",), lambda x, w: (
            f.apply(x, w, p["eps"], float(p["weight_offset"]), mode, False),))
    return call


for mode, contract in (("llama", "xhat_bf16"), ("gemma", "f32")):
    kernel(LIB, f"rms_norm, casting {mode}, backward", "rmsnorm.backward", contract)(norm_backward(mode))


@kernel(LIB, "rope", "rope", "bf16")
def rope(t, p):
    from liger_kernel.ops.rope import LigerRopeFunction as f
    need(p["rotary_dim"] == t["x"].shape[2] and p.get("layout", "half") == "half", "all dimensions, by halves")
    cos, sin = (narrow(a.repeat(1, 2), t["x"])[None] for a in cos_sin(t, p))
    x = t["x"].transpose(0, 1)[None].contiguous()
    return {"y": f.apply(x, x.clone(), cos, sin)[0][0].transpose(0, 1)}
