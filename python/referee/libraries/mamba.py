"""mamba_ssm: its Triton kernels, which need no build (mamba_ssm/ops of the repository, below an empty mamba_ssm/__init__.py)."""
import torch

from ..kernel import kernel, need, take_only

LIB = "mamba_ssm"


def scan(chunk):
    def call(t, p):
        from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined as f
        take_only(t, "x", "dt", "A", "B", "C", "D", "z", "dt_bias", "initial_state")
        b = lambda name: t[name][None] if name in t else None
        y, s = f(b("x"), b("dt"), t["A"], b("B"), b("C"), chunk, D=t.get("D"), z=b("z"), dt_bias=t.get("dt_bias"),
                 initial_states=t.get("initial_state"), dt_softplus=bool(p.get("dt_softplus")), return_final_states=True)[:2]
        return {"y": y[0], "final_state": s}
    return call


for chunk in (64, 256):
    kernel(LIB, f"mamba_chunk_scan_combined, chunks of {chunk}", "ssd", "bf16_operands")(scan(chunk))


@kernel(LIB, "selective_state_update", "ssd", "f32")
def update(t, p):
    from mamba_ssm.ops.triton.selective_state_update import selective_state_update as f
    n, (T, H, P), S = t["initial_state"].shape[0] if "initial_state" in t else 0, t["x"].shape, t["B"].shape[2]
    need(n == T, "one token a sequence, each with its state")
    wide = lambda x, *s: None if x is None else x.reshape(x.shape + (1,) * (len(s) - x.dim())).expand(s)
    state = t["initial_state"].clone()
    y = f(state, t["x"], wide(t["dt"], T, H, P), wide(t["A"], H, P, S), t["B"], t["C"], D=wide(t.get("D"), H, P), z=t.get("z"),
          dt_bias=wide(t.get("dt_bias"), H, P), dt_softplus=bool(p.get("dt_softplus")))
    return {"y": y, "final_state": state}


@kernel(LIB, "mamba3_siso_combined", "mamba3", "bf16_operands")
def mamba3(t, p):
    from mamba_ssm.ops.triton.mamba3.mamba3_siso_combined import mamba3_siso_combined as f
    take_only(t, "q", "k", "v", "adt", "dt", "trap", "q_bias", "k_bias", "angles", "D", "z")
    by_head = lambda name: t[name].T[None].contiguous()
    r = f(t["q"][None], t["k"][None], t["v"][None], by_head("adt"), by_head("dt"), by_head("trap"), t["q_bias"], t["k_bias"],
          t["angles"][None], D=t.get("D"), Z=t["z"][None] if "z" in t else None, chunk_size=64, return_final_states=True)
    return {"y": r[0][0], "final_angle": r[1], "final_state": r[2]}


@kernel(LIB, "mamba3_siso_step", "mamba3", "f32")
def step(t, p):
    """One token of each sequence."""
    from mamba_ssm.ops.triton.mamba3.mamba3_siso_step import mamba3_siso_step as f
    before = ("initial_angle", "initial_state", "initial_k", "initial_v")
    need(set(before) <= set(t) and len(t["q"]) == len(t["initial_state"]), "one token a sequence, each with what it carries")
    y, states = f(*(t[n] for n in ("q", "k", "v", "adt", "dt", "trap", "q_bias", "k_bias", "angles")), D=t.get("D"), Z=t.get("z"),
                  Input_States=tuple(t[n] for n in before))
    return {"y": y} | dict(zip(("final_angle", "final_state", "final_k", "final_v"), states))


@kernel(LIB, "layer_norm.rms_norm_fn", "rmsnorm", "f32")
def rms_norm(t, p):
    from mamba_ssm.ops.triton.layer_norm import rms_norm_fn as f
    take_only(t, "x", "weight", "residual")
    need(p["weight_offset"] == 0, "plain weight")
    if "residual" in t:
        y, s = f(t["x"], t["weight"], None, residual=t["residual"], eps=p["eps"], prenorm=True)
        return {"y": y, "residual_out": s}
    return {"y": f(t["x"], t["weight"], None, eps=p["eps"])}


@kernel(LIB, "layernorm_gated.rmsnorm_fn", "rmsnorm", "f32")
def gated_norm(t, p):
    from mamba_ssm.ops.triton.layernorm_gated import rmsnorm_fn as f
    take_only(t, "x", "weight", "gate")
    need(p["weight_offset"] == 0 and "gate" in t, "plain weight and a gate")
    return {"y": f(t["x"], t["weight"], None, z=t["gate"], eps=p["eps"])}
