"""JAX and what is built on it: attention by XLA and cuDNN, Flax's norm, Optax's Muon."""
from ..kernel import kernel, need, take_only


def across(x):
    import jax.dlpack
    return jax.dlpack.from_dlpack(x.contiguous())


def back(x):
    import torch
    return torch.from_dlpack(x.block_until_ready()).clone()


def attention(way):
    def call(t, p):
        import jax
        take_only(t, "q", "k", "v")
        need(t["q"].shape[2] == t["v"].shape[2], "keys and values of one width")
        need(not p.get("window") and not p.get("softcap"), "no window, no softcap")
        need(not p.get("causal") or len(t["q"]) == len(t["k"]), "causal: as many queries as keys")
        o = jax.nn.dot_product_attention(*(across(t[n][None]) for n in "qkv"), is_causal=bool(p.get("causal")),
                                         scale=p.get("scale"), implementation=way)
        return {"o": back(o)[0]}
    return call


kernel("jax", "nn.dot_product_attention, xla", "attention", "bf16")(attention("xla"))
kernel("jax", "nn.dot_product_attention, cudnn", "attention", "bf16_operands_ascending")(attention("cudnn"))


@kernel("flax", "linen.RMSNorm", "rmsnorm", "f32")
def rms_norm(t, p):
    import flax.linen as nn
    take_only(t, "x", "weight")
    need(p["weight_offset"] == 0, "plain weight")
    x = across(t["x"])
    m = nn.RMSNorm(epsilon=p["eps"], dtype=x.dtype, param_dtype=x.dtype)
    return {"y": back(m.apply({"params": {"scale": across(t["weight"])}}, x))}


@kernel("optax", "contrib.muon's Newton-Schulz", "newton_schulz", "f32")
def newton_schulz(t, p):
    import jax
    import jax.numpy as jnp
    from optax.contrib import _muon as m
    need(p["algorithm"] == "standard" and t["x"].dim() == 2 and t["x"].shape[0] <= t["x"].shape[1], "standard, one wide matrix")
    c = (3.4445, -4.7750, 2.0315)
    p.update(coefficients=[list(c)] * 5, eps=1e-8, iterate_dtype="F32")
    with jax.default_matmul_precision("highest"):
        y = m.orthogonalize_via_newton_schulz(across(t["x"]), jnp.asarray(c), 5, eps=1e-8)
    return {"y": back(y)}
