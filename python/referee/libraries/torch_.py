"""PyTorch itself: norms, scaled_dot_product_attention, flex_attention, Muon."""
import torch
import torch.nn.functional as F

from ..kernel import kernel, need, take_only
from ..tables import gradients

LIB = "torch"
JORDAN = (3.4445, -4.7750, 2.0315)


def weight(t, p):
    need(p["weight_offset"] == 0, "plain weight")
    need(t["weight"].dtype == t["x"].dtype, "weight of x's type")
    return t["weight"]


@kernel(LIB, "rms_norm", "rmsnorm", "f32")
def rms_norm(t, p):
    take_only(t, "x", "weight")
    return {"y": F.rms_norm(t["x"], t["x"].shape[1:], weight(t, p), p["eps"])}


@kernel(LIB, "rms_norm, backward", "rmsnorm.backward", "f32")
def rms_norm_backward(t, p):
    take_only(t, "x", "weight", "dy")
    return gradients(t, ("x", "weight"), ("dy",), lambda x, w: (F.rms_norm(x, x.shape[1:], w, p["eps"]),))


def as_written(x, w, eps):
    z = x.float()
    return (z * torch.rsqrt(z.pow(2).mean(-1, keepdim=True) + eps) * (1 + w.float())).to(x.dtype)


@kernel(LIB, "compile of a zero-centred rms norm", "rmsnorm", "f32")
def compiled_norm(t, p):
    take_only(t, "x", "weight")
    need(p["weight_offset"] == 1, "zero-centred weight")
    torch._dynamo.config.recompile_limit = 64
    return {"y": torch.compile(as_written)(t["x"], t["weight"], p["eps"])}


def heads(t):
    """[1, H, T, D]; key heads repeated for their query heads."""
    n = t["q"].shape[1] // t["k"].shape[1]
    wide = lambda x, n: x.repeat_interleave(n, 1).transpose(0, 1)[None].contiguous()
    return wide(t["q"], 1), wide(t["k"], n), wide(t["v"], n)


def fits(t, p):
    take_only(t, "q", "k", "v")
    need(not p.get("window") and not p.get("softcap"), "no window, no softcap")
    need(not p.get("causal") or len(t["q"]) == len(t["k"]), "causal: as many queries as keys")


def sdpa(backend):
    def call(t, p):
        from torch.nn.attention import SDPBackend, sdpa_kernel
        fits(t, p)
        with sdpa_kernel(getattr(SDPBackend, backend)):
            o = F.scaled_dot_product_attention(*heads(t), is_causal=bool(p.get("causal")), scale=p.get("scale"))
        return {"o": o[0].transpose(0, 1)}
    return call


for backend, contract in (("FLASH_ATTENTION", "bf16_operands_split"), ("CUDNN_ATTENTION", "bf16_operands_ascending"),
                          ("EFFICIENT_ATTENTION", "bf16_operands_ascending"), ("MATH", "bf16")):
    kernel(LIB, f"SDPA {backend.split('_')[0].lower()}", "attention", contract)(sdpa(backend))


@kernel(LIB, "flex_attention, compiled", "attention", "bf16_operands_ascending")
def flex(t, p):
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    fits(t, p)
    torch._dynamo.config.recompile_limit = 64
    mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, len(t["q"]), len(t["k"])) if p.get("causal") else None
    o = torch.compile(flex_attention)(*heads(t), block_mask=mask, scale=p.get("scale"))
    return {"o": o[0].transpose(0, 1)}


def five(p):
    need(p["algorithm"] == "standard", "the standard iteration")
    p.update(coefficients=[list(JORDAN)] * 5, eps=1e-7, eps_kind="max", iterate_dtype="BF16")


@kernel(LIB, "optim.Muon's Newton-Schulz", "newton_schulz", "bf16_input")
def newton_schulz(t, p):
    from torch.optim._muon import _zeropower_via_newtonschulz as f
    need(t["x"].dim() == 2, "one matrix")
    five(p)
    return {"y": f(t["x"].clone(), JORDAN, 5, 1e-7)}


@kernel(LIB, "optim.Muon, a step", "muon_step", "bf16_input")
def muon(t, p):
    need(p.get("momentum_kind") == "mean" and not p.get("split"), "momentum of kind mean")
    five(p)
    w = torch.nn.Parameter(t["weight"].clone())
    adjust = {"0.2*sqrt(max(n,m))": "match_rms_adamw", "sqrt(max(1,n/m))": "original"}[p["scale"]]
    o = torch.optim.Muon([w], lr=p["lr"], momentum=p["momentum"], nesterov=p.get("nesterov", True),
                         weight_decay=p.get("weight_decay", 0), adjust_lr_fn=adjust)
    o.state[w]["momentum_buffer"] = t["momentum"].clone()
    w.grad = t["grad"].clone()
    o.step()
    return {"weight": w.detach(), "momentum": o.state[w]["momentum_buffer"]}


def compiled_gate(compiled):
    def call(t, p):
        """Qwen3.5's line behind attention."""
        take_only(t, "x", "gate")
        f = lambda x, g: x * torch.sigmoid(g)
        return {"y": (torch.compile(f) if compiled else f)(t["x"], t["gate"])}
    return call


kernel(LIB, "x * sigmoid(gate)", "gated_product", "bf16")(compiled_gate(False))
kernel(LIB, "compile of x * sigmoid(gate)", "gated_product", "f32")(compiled_gate(True))
