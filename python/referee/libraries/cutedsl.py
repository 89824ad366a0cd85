"""Kernels in CuTe DSL: quack, flash-attn-4, FlashInfer's gated delta rule."""
import torch

from ..kernel import kernel, need, take_only
from ..tables import gradients


@kernel("quack-kernels", "rmsnorm", "rmsnorm", "f32")
def norm(t, p):
    from quack.rmsnorm import rmsnorm
    take_only(t, "x", "weight", "residual")
    out = rmsnorm(t["x"], t["weight"], residual=t.get("residual"), eps=p["eps"], weight_offset=float(p["weight_offset"]),
                  prenorm="residual" in t)
    return {"y": out[0], "residual_out": out[1]} if "residual" in t else {"y": out}


@kernel("quack-kernels", "rmsnorm, backward", "rmsnorm.backward", "f32")
def norm_backward(t, p):
    from quack.rmsnorm import rmsnorm
    take_only(t, "x", "weight", "dy")
    return gradients(t, ("x", "weight"), ("dy",), lambda x, w: (
        rmsnorm(x, w, eps=p["eps"], weight_offset=float(p["weight_offset"])),))


@kernel("flash-attn-4", "flash_attn_func", "attention", "bf16_operands")
def attention(t, p):
    from flash_attn.cute import flash_attn_func
    take_only(t, "q", "k", "v")
    need(t["q"].dtype != torch.float32, "refuses float32")
    w = int(p.get("window", 0))
    size = (None, None) if not w else (w - 1, 0) if p.get("causal") else (w - 1, w - 1)
    r = flash_attn_func(*(t[n][None] for n in "qkv"), softmax_scale=p.get("scale"), causal=bool(p.get("causal")), window_size=size,
                        softcap=float(p.get("softcap", 0)), return_lse=True)
    return {"o": r[0][0], "lse": r[1][0]}


@kernel("flashinfer-python", "delta_rule_prefill_dsl_sm90", "gated_delta_rule", "bf16_operands", width=128)
def prefill(t, p):
    from flashinfer.gdn_kernels.delta_rule_dsl.delta_rule_sm90 import delta_rule_prefill_dsl_sm90 as f
    take_only(t, "q", "k", "v", "g", "beta", "initial_state", "cu_seqlens")
    (T, hv, d), wide = t["v"].shape, t["q"].shape[2]
    need(not p.get("qk_l2norm") and p.get("gated", True), "q and k normed before, and a decay")
    need(d == wide == 128 and t["q"].dtype == torch.bfloat16, "heads of 128 in bf16")
    cuts = t["cu_seqlens"].long() if "cu_seqlens" in t else torch.tensor([0, T], device="cuda")
    o, s = torch.empty_like(t["v"]), torch.empty(len(cuts) - 1, hv, d, d, device="cuda")
    start = t["initial_state"].transpose(-1, -2).contiguous() if "initial_state" in t else None
    f(o, s, t["q"], t["k"], t["v"], start, t["g"].exp(), t["beta"], cuts, p.get("scale", d ** -0.5))
    torch.cuda.synchronize()
    return {"o": o, "final_state": s.transpose(-1, -2)}


@kernel("flashinfer-python", "norm.kernels rmsnorm_cute", "rmsnorm", "f32")
def cute_norm(t, p):
    from flashinfer.norm.kernels.rmsnorm import rmsnorm_cute as f
    take_only(t, "x", "weight")
    y = torch.empty_like(t["x"])
    f(t["x"], t["weight"], y, p["eps"], float(p["weight_offset"]), False)
    return {"y": y}
