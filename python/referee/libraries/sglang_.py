"""SGLang's Triton kernels: files of its wheel below empty __init__.py, and an sglang/srt/utils/__init__.py that says is_cuda() and not is_hip()."""
import torch

from ..kernel import kernel, need, take_only

LIB = "sglang"


def attention_only(t, p):
    take_only(t, "q", "k", "v")
    need(not p.get("window") and not p.get("softcap") and p.get("scale") is None, "no window, no softcap, no scale")
    need(t["q"].shape[2] == t["v"].shape[2], "keys and values of one width")


# In blocks of keys from the first on, each block's exponentials divided by the sum so far before they are rounded (prefill_attention.py:141-153).
@kernel(LIB, "context_attention_fwd", "attention", "bf16_operands_ascending")
def prefill(t, p):
    from sglang.srt.layers.attention.triton_ops.prefill_attention import context_attention_fwd as f
    attention_only(t, p)
    n = len(t["q"])
    need(len(t["k"]) == n, "as many queries as keys")
    o, one = torch.empty_like(t["q"]), lambda x: torch.tensor([x], dtype=torch.int32, device=t["q"].device)
    f(t["q"], t["k"], t["v"], o, one(0), one(n), n, is_causal=bool(p.get("causal")))
    return {"o": o}


@kernel(LIB, "decode_attention_fwd, 4 parts", "attention", "bf16_operands_split")
def decode(t, p):
    """Each query is a sequence of one new token; all read the same keys."""
    from sglang.srt.layers.attention.triton_ops.decode_attention import decode_attention_fwd as f
    attention_only(t, p)
    need(not p.get("causal"), "one query a sequence")
    (T, H, D), S, parts, there = t["q"].shape, len(t["k"]), 4, t["q"].device
    o = torch.empty_like(t["q"])
    starts = torch.arange(0, T * S + 1, S, dtype=torch.int32, device=there)
    keys = torch.arange(S, dtype=torch.int32, device=there).repeat(T)
    f(t["q"], t["k"], t["v"], o, starts, keys, torch.empty(T, H, parts, D, device=there), torch.empty(T, H, parts, device=there),
      torch.full((T,), parts, dtype=torch.int32, device=there), parts, D ** -0.5, 1.0, 1.0)
    return {"o": o}


def gating(channels):
    def call(t, p):
        """The kernel makes g and beta of a, A_log, dt_bias and b: such that g and beta are about those of the call."""
        from sglang.srt.layers.attention.fla.fused_sigmoid_gating_recurrent import fused_sigmoid_gating_delta_rule_update as f
        take_only(t, "q", "k", "v", "g", "beta", "initial_state")
        need(p.get("gated", True) and p.get("scale") is None, "has a decay, no scale")
        heads = t["v"].shape[1]
        t["a"] = torch.log(torch.expm1(-t.pop("g").float()))
        t["A_log"] = torch.zeros(heads, device=t["q"].device)
        t["dt_bias"] = torch.zeros_like(t["a"][0])
        if channels:
            beta = t["beta"]
            b = torch.logit(beta.float())
            t["beta"] = 1 / (1 + torch.exp(-b))
        else:
            t["b"] = b = torch.logit(t.pop("beta").float())
        state = t["initial_state"].transpose(-1, -2).contiguous()
        one = torch.zeros(1, dtype=torch.int32, device=t["q"].device)
        o = f(t["A_log"], t["a"][None].contiguous(), t["dt_bias"], 1.0, 20.0, t["q"][None], t["k"][None], t["v"][None], b[None],
              state, one, use_qk_l2norm_in_kernel=bool(p.get("qk_l2norm")), is_kda=channels)
        return {"o": o.reshape(t["v"].shape), "final_state": state.transpose(-1, -2)}
    return call


kernel(LIB, "fused_sigmoid_gating_delta_rule_update", "gated_delta_rule", "f32", l2norm=True)(gating(False))
kernel(LIB, "fused_sigmoid_gating_delta_rule_update, is_kda", "kda", "f32", l2norm=True)(gating(True))


# Products of x and weight in their own type (causal_conv1d_triton.py:352, matrix_x * matrix_w of bf16), summed in float32.
@kernel(LIB, "causal_conv1d_fn, Triton", "causal_conv1d", "bf16")
def conv(t, p):
    from sglang.srt.layers.attention.mamba.causal_conv1d_triton import causal_conv1d_fn as f
    take_only(t, "x", "weight", "bias")
    T, C, W = *t["x"].shape, t["weight"].shape[1]
    there = dict(dtype=torch.int32, device=t["x"].device)
    past = torch.zeros(1, W - 1, C, dtype=t["x"].dtype, device=t["x"].device).transpose(1, 2)
    y = f(t["x"].contiguous().T, t["weight"], t.get("bias"), past, torch.tensor([0, T], **there), [T], torch.zeros(1, **there),
          torch.zeros(1, dtype=torch.bool, device=t["x"].device), activation="silu" if p.get("activation") == "silu" else None)
    return {"y": y.T}
