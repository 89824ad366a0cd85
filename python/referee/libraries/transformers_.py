"""transformers: the modules that run where no kernel library is installed."""
import inspect

import torch

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


def mamba2():
    from transformers.models.mamba2 import modeling_mamba2 as m
    return m


@kernel(LIB, "Mamba2 mamba2_chunk_scan", "ssd", "chunk_f32")
def scan(t, p):
    take_only(t, "x", "dt", "A", "B", "C", "D", "dt_bias", "initial_state")
    t["dt"] = t["dt"].float()       # it is rounded to its own type behind the bias and behind softplus
    y, s = inspect.unwrap(mamba2().mamba2_chunk_scan)(
        t["x"][None], t["dt"][None], t["A"], t["B"][None], t["C"][None], 64, D=t.get("D"), dt_bias=t.get("dt_bias"),
        initial_states=t["initial_state"], dt_softplus=bool(p.get("dt_softplus")), return_final_states=True)
    return {"y": y[0], "final_state": s}


def mixer(dtype):
    def call(t, p):
        """Mamba2Mixer between its projections: convolution, scan and gated norm."""
        from transformers import Mamba2Config
        m, (T, E), (N, H, P, M) = mamba2(), t["xBC"].shape, t["initial_state"].shape
        need(not p.get("norm_before_gate") and "conv_state" not in t and N == 1, "the gate before the norm, no past")
        G = (E - H * P) // (2 * M)
        need(G == 1, "one norm over all heads")
        c = Mamba2Config(num_heads=H, head_dim=P, hidden_size=H * P, expand=1, state_size=M, n_groups=G, conv_kernel=t["conv_weight"].shape[1],
                         chunk_size=32, num_hidden_layers=1, layer_norm_epsilon=p["eps"], use_conv_bias="conv_bias" in t)
        block = m.Mamba2Mixer(c, 0).to(t["xBC"].device)
        block.in_proj = block.out_proj = torch.nn.Identity()
        t["A"] = -torch.exp(torch.log(-t["A"]).to(dtype).float())
        for name in set(t) & {"xBC", "z", "dt", "conv_weight", "conv_bias", "D", "dt_bias", "norm_weight"}:
            t[name] = t[name].to(dtype)
        block.conv1d.weight.data, block.norm.weight.data, block.dt_bias.data = t["conv_weight"][:, None], t["norm_weight"], t["dt_bias"]
        block.A_log.data, block.D.data = torch.log(-t["A"]).to(dtype), t["D"]
        if "conv_bias" in t:
            block.conv1d.bias.data = t["conv_bias"]
        states, given = [], inspect.unwrap(m.mamba2_chunk_scan)

        def kept(*args, **kw):
            kw |= dict(initial_states=t["initial_state"], return_final_states=True)
            y, s = given(*args, **kw)
            states.append(s)
            return y

        before, m.mamba2_chunk_scan, conv = m.mamba2_chunk_scan, kept, m.causal_conv1d_fn
        m.causal_conv1d_fn = inspect.unwrap(conv)
        try:
            y = block.eval()(torch.cat([t["z"].reshape(T, H * P), t["xBC"], t["dt"]], 1)[None])
        finally:
            m.mamba2_chunk_scan, m.causal_conv1d_fn = before, conv
        return {"y": y[0].reshape(T, H, P).detach(), "final_state": states[0].detach()}
    return call


kernel(LIB, "Mamba2Mixer between its projections, float32", "conv_ssd_norm", "f32")(mixer(torch.float32))
kernel(LIB, "Mamba2Mixer between its projections, bf16", "conv_ssd_norm", "parts_bf16")(mixer(torch.bfloat16))


def heads(q, k, wq, wk, cos, sin, eps):
    """Qwen3.5's attention before its product: norms of the heads, rope."""
    m = qwen()
    normed = []
    for x, w in ((q, wq), (k, wk)):
        norm = m.Qwen3_5RMSNorm(x.shape[-1], eps=eps).to(x.device)
        norm.weight.data = w
        normed.append(norm(x).transpose(0, 1)[None])
    q, k = m.apply_rotary_pos_emb(*normed, cos, sin)
    return q[0].transpose(0, 1), k[0].transpose(0, 1)


@kernel(LIB, "Qwen3.5 q_norm, k_norm and apply_rotary_pos_emb", "qk_norm_rope", "bf16")
def attention_heads(t, p):
    q, gate = t["qg"].chunk(2, -1)
    rope = dict(x=t["k"], positions=t["positions"])
    cos, sin = (narrow(a.repeat(1, 2), t["k"])[None] for a in cos_sin(rope, p))
    q, k = heads(q, t["k"], t["q_weight"], t["k_weight"], cos, sin, p["eps"])
    return {"q": q.detach(), "k": k.detach(), "gate": gate}
