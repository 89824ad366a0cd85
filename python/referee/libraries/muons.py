"""Newton-Schulz iterations of optimisers on PyPI."""
import torch

from ..kernel import kernel, need
from .torch_ import JORDAN, five


def one(t, p, eps=1e-7, kind="sum"):
    need(t["x"].dim() == 2 and t["x"].dtype == torch.float32, "one matrix in float32")
    five(p)
    p.update(eps=eps, eps_kind=kind)
    return t["x"].clone()


@kernel("muon-optimizer", "zeropower_via_newtonschulz5", "newton_schulz", "bf16_input")
def jordan(t, p):
    from muon import zeropower_via_newtonschulz5 as f
    return {"y": f(one(t, p), 5)}


@kernel("pytorch_optimizer", "zero_power_via_newton_schulz_5", "newton_schulz", "bf16_input")
def pytorch_optimizer(t, p):
    from pytorch_optimizer.optimizer.utils.matrix import zero_power_via_newton_schulz_5 as f
    return {"y": f(one(t, p, kind="max"), 5, 1e-7)}


def emerging(precision, dtype):
    def call(t, p):
        from emerging_optimizers.orthogonalized_optimizers.muon_utils import newton_schulz as f
        x = one(t, p, kind="max")
        p["iterate_dtype"] = dtype
        held = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(precision)
        try:
            return {"y": f(x, 5, coefficient_type="custom", custom_coefficient_sets=[JORDAN] * 5)}
        finally:
            torch.set_float32_matmul_precision(held)
    return call


kernel("emerging_optimizers", "newton_schulz, precision highest", "newton_schulz", "f32")(emerging("highest", "F32"))
kernel("emerging_optimizers", "newton_schulz, precision medium", "newton_schulz", "bf16")(emerging("medium", "BF16"))


@kernel("timm", "optim.muon zeropower_via_newtonschulz", "newton_schulz", "bf16_input")
def timm(t, p):
    from timm.optim.muon import zeropower_via_newtonschulz as f
    x = one(t, p, kind="max")
    return {"y": f(x, steps=5, coefficients=[JORDAN] * 5, eps=1e-7, dtype=torch.bfloat16)}
