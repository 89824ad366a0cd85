"""transformers: the modules that run where no kernel library is installed."""
import inspect

from ..kernel import kernel, need, take_only
from ..tables import cos_sin, narrow

LIB = "transformers"


def qwen():
    from transformers.models.qwen3_5 import modeling_qwen3_5 as m
    return m


def own(name):
    """transformers' own function: what it exports hands over to another package's kernel where that is installed."""
    return inspect.unwrap(getattr(qwen(), name))


def rule(name):
    def call(t, p):
        take_only(t, "q", "k", "v", "g", "beta", "initial_state")
        need(p.get("gated", True) and p.get("scale") is None, "has a decay, no scale")
        n = t["v"].shape[1] // t["q"].shape[1]
        q, k = (t[x].repeat_interleave(n, 1)[None] for x in "qk")
        o, s = own(f"torch_{name}_gated_delta_rule")(
            q, k, t["v"][None], g=t["g"][None], beta=t["beta"][None], initial_state=t.get("initial_state"),
            output_final_state=True, use_qk_l2norm_in_kernel=bool(p.get("qk_l2norm")))
        return {"o": o[0], "final_state": s}
    return call


kernel(LIB, "Qwen3.5 torch_chunk_gated_delta_rule", "gated_delta_rule", "chunk_f32", l2norm=True)(rule("chunk"))
kernel(LIB, "Qwen3.5 torch_recurrent_gated_delta_rule", "gated_delta_rule", "f32", l2norm=True)(rule("recurrent"))


@kernel(LIB, "Qwen3.5 RMSNorm", "rmsnorm", "f32")
def rms_norm(t, p):
    take_only(t, "x", "weight")
    need(p["weight_offset"] == 1, "zero-centred weight")
    m = qwen().Qwen3_5RMSNorm(t["x"].shape[1], eps=p["eps"]).to(t["x"].device)
    m.weight.data = t["weight"]
    return {"y": m(t["x"]).detach()}


@kernel(LIB, "Qwen3.5 RMSNormGated", "rmsnorm", "xhat_bf16")
def gated(t, p):
    take_only(t, "x", "weight", "gate")
    need("gate" in t and p["weight_offset"] == 0, "plain weight and a gate")
    m = qwen().Qwen3_5RMSNormGated(t["x"].shape[1], eps=p["eps"]).to(t["x"].device)
    m.weight.data = t["weight"]
    return {"y": m(t["x"], t["gate"]).detach()}


@kernel(LIB, "Llama RMSNorm", "rmsnorm", "xhat_bf16")
def llama(t, p):
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    take_only(t, "x", "weight")
    need(p["weight_offset"] == 0, "plain weight")
    m = LlamaRMSNorm(t["x"].shape[1], eps=p["eps"]).to(t["x"].device)
    m.weight.data = t["weight"]
    return {"y": m(t["x"]).detach()}


@kernel(LIB, "Llama apply_rotary_pos_emb", "rope", "bf16")
def rope(t, p):
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb as f
    need(p["rotary_dim"] == t["x"].shape[2] and p.get("layout", "half") == "half", "all dimensions, by halves")
    cos, sin = (narrow(a.repeat(1, 2), t["x"])[None] for a in cos_sin(t, p))
    x = t["x"].transpose(0, 1)[None]
    return {"y": f(x, x, cos, sin)[0][0].transpose(0, 1)}


@kernel(LIB, "Qwen3.5 causal_conv1d_fn", "causal_conv1d", "conv_bf16")
def conv(t, p):
    take_only(t, "x", "weight", "bias")
    act = p.get("activation", "none")
    y = own("causal_conv1d_fn")(t["x"].T[None], t["weight"], t.get("bias"), None if act == "none" else act)
    return {"y": y[0].T}


@kernel(LIB, "Llama rotary_emb and apply_rotary_pos_emb", "rope", "bf16")
def rope_with_angles(t, p):
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb as f
    (_, h, d), x = t["x"].shape, t["x"].transpose(0, 1)[None]
    need(p["rotary_dim"] == d and p.get("layout", "half") == "half", "all dimensions, by halves")
    c = LlamaConfig(hidden_size=h * d, num_attention_heads=h, head_dim=d, rope_parameters=dict(rope_type="default", rope_theta=p["theta"]))
    cos, sin = LlamaRotaryEmbedding(c).to(t["x"].device)(x, t["positions"].long()[None])
    return {"y": f(x, x, cos, sin)[0][0].transpose(0, 1)}
