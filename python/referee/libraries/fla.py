"""flash-linear-attention: Triton kernels. On Hopper its chunked gated delta rule hands over to FlashQLA where that is installed."""
import sys

import torch

from ..kernel import kernel, need, take_only

LIB = "fla-core"


def batched(*tensors):
    return [None if x is None else x[None] for x in tensors]


def carried(form, t, p):
    """What all recurrences take beside their tensors: FLA wants int64 cuts; a kernel may write the state that it is given."""
    need(form != "chunk" or t["q"].dtype != torch.float32, "refuses float32")
    return dict(scale=p.get("scale"), initial_state=t["initial_state"].clone() if "initial_state" in t else None,
                output_final_state=True, cu_seqlens=t["cu_seqlens"].long() if "cu_seqlens" in t else None)


def normed(p):
    return dict(use_qk_l2norm_in_kernel=bool(p.get("qk_l2norm")))


def gated(form):
    def call(t, p):
        sys.modules["flash_qla"] = None         # not to be found: the kernel is to be FLA's own
        from fla.ops import gated_delta_rule as ops
        take_only(t, "q", "k", "v", "g", "beta", "initial_state", "cu_seqlens")
        need(p.get("gated", True), "has a decay")
        q, k, v, g, beta = batched(t["q"], t["k"], t["v"], t["g"], t["beta"])
        o, s = getattr(ops, f"{form}_gated_delta_rule")(q, k, v, g=g, beta=beta, **carried(form, t, p), **normed(p))
        return {"o": o[0], "final_state": s}
    return call


kernel(LIB, "chunk_gated_delta_rule", "gated_delta_rule", "bf16_operands", l2norm=True)(gated("chunk"))
kernel(LIB, "fused_recurrent_gated_delta_rule", "gated_delta_rule", "f32", l2norm=True)(gated("fused_recurrent"))


def plain(form):
    def call(t, p):
        from fla.ops import delta_rule as ops
        take_only(t, "q", "k", "v", "beta", "initial_state", "cu_seqlens")
        need(not p.get("gated", True), "has no decay")
        need(t["q"].shape[1] == t["v"].shape[1], "as many key heads as value heads")
        if form == "chunk":
            t["beta"] = t["beta"].to(t["q"].dtype)
        o, s = getattr(ops, f"{form}_delta_rule")(*batched(t["q"], t["k"], t["v"], t["beta"]), **carried(form, t, p), **normed(p))
        return {"o": o[0], "final_state": s}
    return call


kernel(LIB, "chunk_delta_rule", "gated_delta_rule", "bf16_operands", axes=("decay",))(plain("chunk"))
kernel(LIB, "fused_recurrent_delta_rule", "gated_delta_rule", "f32", axes=("decay",))(plain("fused_recurrent"))
# The norm stands before the kernel and hands on q and k in their own type (fla/ops/delta_rule/fused_recurrent.py:399 of 0.6.0).
kernel(LIB, "fused_recurrent_delta_rule, use_qk_l2norm_in_kernel", "gated_delta_rule", "bf16_operands", l2norm=True,
       axes=("decay",))(plain("fused_recurrent"))


@kernel(LIB, "chunk_gated_delta_product, one reflection", "gated_delta_rule", "bf16_operands", l2norm=True)
def product(t, p):
    """With one Householder reflection a token it is the gated delta rule; by kernels of its own around those of that rule."""
    from fla.ops.gated_delta_product import chunk_gated_delta_product as f
    take_only(t, "q", "k", "v", "g", "beta", "initial_state")
    need(p.get("gated", True), "has a decay")
    for name in "qk":
        t[name] = t[name].repeat_interleave(t["v"].shape[1] // t[name].shape[1], 1)
    o, s = f(*batched(t["q"], t["k"], t["v"], t["g"], t["beta"]), num_householder=1, **carried("chunk", t, p), **normed(p))
    return {"o": o[0], "final_state": s}


@kernel(LIB, "chunk_simple_gla", "ssd", "bf16_operands")
def simple_gla(t, p):
    """Values d x and decays A d, of step sizes that are powers of two, so that the caller's products are exact."""
    from fla.ops.simple_gla import chunk_simple_gla as f
    take_only(t, "x", "dt", "A", "B", "C", "D", "dt_bias", "initial_state")
    d = torch.nn.functional.softplus(t["dt"].float() + t.pop("dt_bias"))
    t["dt"] = d = torch.exp2(torch.round(torch.log2(d)))
    p.pop("dt_softplus")
    t.pop("D")
    wide = lambda x: x.repeat_interleave(t["x"].shape[1] // x.shape[1], 1)
    v = (t["x"] * d[..., None]).to(t["x"].dtype)
    o, s = f(*batched(wide(t["C"]), wide(t["B"]), v, t["A"] * d), scale=1.0, initial_state=t["initial_state"].transpose(-1, -2).contiguous(),
             output_final_state=True)
    return {"y": o[0], "final_state": s.transpose(-1, -2)}


def kda(form):
    def call(t, p):
        from fla.ops import kda as ops
        take_only(t, "q", "k", "v", "g", "beta", "initial_state", "cu_seqlens")
        tensors = batched(t["q"], t["k"], t["v"], t["g"], t["beta"])
        o, s = getattr(ops, f"{form}_kda")(*tensors, **carried(form, t, p), **normed(p))[:2]
        return {"o": o[0], "final_state": s}
    return call


kernel(LIB, "chunk_kda", "kda", "bf16_operands", l2norm=True)(kda("chunk"))
kernel(LIB, "fused_recurrent_kda", "kda", "f32", l2norm=True)(kda("fused_recurrent"))


def gdn2(form):
    def call(t, p):
        from fla.ops import gdn2 as ops
        take_only(t, "q", "k", "v", "w", "g", "b", "initial_state", "cu_seqlens")
        tensors = batched(t["q"], t["k"], t["v"], t["g"], t["b"], t["w"])
        o, s = getattr(ops, f"{form}_gdn2")(*tensors, **carried(form, t, p))[:2]
        return {"o": o[0], "final_state": s}
    return call


kernel(LIB, "chunk_gdn2", "gdn2", "bf16_operands")(gdn2("chunk"))
kernel(LIB, "fused_recurrent_gdn2", "gdn2", "f32")(gdn2("fused_recurrent"))


@kernel(LIB, "rms_norm", "rmsnorm", "f32")
def rms_norm(t, p):
    from fla.modules.norm.layernorm import rms_norm as f
    take_only(t, "x", "weight", "residual")
    need(p["weight_offset"] == 0, "plain weight")
    if "residual" in t:
        y, s = f(t["x"], t["weight"], None, residual=t["residual"], eps=p["eps"], prenorm=True)
        return {"y": y, "residual_out": s}
    return {"y": f(t["x"], t["weight"], None, eps=p["eps"])}


@kernel(LIB, "rms_norm_gated", "rmsnorm", "f32")
def rms_norm_gated(t, p):
    from fla.modules.norm.fused_norm_gate import rms_norm_gated as f
    take_only(t, "x", "weight", "gate")
    need("gate" in t and p["weight_offset"] == 0, "plain weight and a gate")
    return {"y": f(t["x"], t["gate"], t["weight"], None, activation="swish", eps=p["eps"])}


@kernel(LIB, "layernorm_gated.rmsnorm_fn", "rmsnorm", "f32")
def rmsnorm_fn(t, p):
    from fla.modules.norm.layernorm_gated import rmsnorm_fn as f
    take_only(t, "x", "weight", "gate")
    need(p["weight_offset"] == 0, "plain weight")
    return {"y": f(t["x"], t["weight"], None, z=t.get("gate"), eps=p["eps"])}


@kernel(LIB, "causal_conv1d", "causal_conv1d", "f32")
def conv(t, p):
    from fla.modules.causal_conv1d import causal_conv1d as f
    take_only(t, "x", "weight", "bias")
    y = f(t["x"][None].contiguous(), t["weight"], t.get("bias"), activation="silu" if p.get("activation") == "silu" else None)
    return {"y": (y[0] if isinstance(y, tuple) else y)[0]}


@kernel(LIB, "rotary_embedding", "rope", "cos_sin_bf16")
def rotary(t, p):
    from fla.modules.rotary import rotary_embedding as f
    from ..tables import cos_sin, narrow
    cos, sin = (narrow(a, t["x"]) for a in cos_sin(t, p))
    return {"y": f(t["x"][None].clone(), cos, sin, interleaved=p.get("layout") == "interleaved")[0]}


@kernel(LIB, "parallel_attn", "attention", "bf16_operands_ascending")
def parallel_attn(t, p):
    from fla.ops.attn.parallel import parallel_attn as f
    take_only(t, "q", "k", "v")
    need(p.get("causal") and len(t["q"]) == len(t["k"]) and not p.get("softcap"), "causal, as many queries as keys")
    need(t["q"].shape[2] == t["v"].shape[2], "keys and values of one width")
    return {"o": f(*batched(t["q"], t["k"], t["v"]), scale=p.get("scale"), window_size=p.get("window") or None)[0]}


@kernel(LIB, "chunk_gated_delta_rule, backward", "gated_delta_rule.backward", "bf16_operands")
def gated_backward(t, p):
    sys.modules["flash_qla"] = None
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule as f
    from ..tables import gradients
    return gradients(t, ("q", "k", "v", "g", "beta", "initial_state"), ("do", "dfinal_state"), lambda q, k, v, g, beta, s: (
        lambda o, e: (o[0], e))(*f(*batched(q, k, v, g, beta), initial_state=s, output_final_state=True)))
