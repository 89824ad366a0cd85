"""Inputs of the calls that are judged: etalon's own cases, and ours at widths that all kernels take."""
import subprocess
import zlib

import torch

from . import capture

BF16 = torch.bfloat16


class Draw:
    """Random tensors that depend on a name alone, the same on every machine."""
    def __init__(self, name):
        self.g = torch.Generator().manual_seed(zlib.crc32(name.encode()))

    def normal(self, *shape):
        return torch.randn(*shape, generator=self.g)

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(*shape, generator=self.g)


def unit(x, norm=1.0):
    """Rows of that norm."""
    return x * (norm / x.norm(dim=-1, keepdim=True))


def delta(name, T=190, decay=-0.3, norm=None, silu=False, l2norm=True, heads=(1, 2), d=128, gated=True):
    """gated_delta_rule; `decay` is the mean log of it a token, `norm` that of keys before any norm inside."""
    r, (hk, hv) = Draw(name), heads
    q, k, v = r.normal(T, hk, d), r.normal(T, hk, d), r.normal(T, hv, d)
    if silu:    # what a model feeds: a convolution's SiLU, channels of very different size, tokens that repeat
        size = torch.exp(0.8 * r.normal(1, hk, d))
        q, k = (torch.nn.functional.silu(x * size) for x in (q, k))
        k[1::7] = k[0::7][:len(k[1::7])]
    if norm is not None:
        k = unit(k, norm)
    if not l2norm:
        q, k = unit(q), unit(k, norm or 1.0)
    t = dict(q=q.to(BF16), k=k.to(BF16), v=v.to(BF16), beta=r.uniform(0.05, 0.95, T, hv), initial_state=0.2 * r.normal(1, hv, d, d))
    if gated:
        t["g"] = decay * r.uniform(0.5, 1.5, T, hv)
    return t, dict(qk_l2norm=l2norm) | ({} if gated else dict(gated=False))


def channelwise(name, T=150, decay=-0.3, norm=None, l2norm=True, d=128):
    """kda: the same with a decay a key channel."""
    t, p = delta(name, T, norm=norm, l2norm=l2norm, heads=(1, 1), d=d)
    t["g"] = decay * Draw(name + " g").uniform(0.5, 1.5, T, 1, d)
    return t, p


def two_gates(name, T=150, decay=-0.3, norm=None, d=128):
    """gdn2."""
    t, _ = channelwise(name, T, decay, norm, False, d)
    r, beta = Draw(name + " gates"), t.pop("beta")
    t |= dict(b=r.uniform(0.05, 0.95, T, 1, d).to(BF16), w=r.uniform(0.05, 0.95, T, 1, d).to(BF16))
    return t, {}


def mamba2(name, T=150, decay=-0.3, heads=2, P=64, S=128):
    """ssd; the decay of a token is A d with d between 0.5 and 1.5."""
    r = Draw(name)
    t = dict(x=r.normal(T, heads, P).to(BF16), dt=torch.log(torch.expm1(r.uniform(0.5, 1.5, T, heads))).to(BF16),
             A=decay * r.uniform(0.8, 1.2, heads), B=r.normal(T, 1, S).to(BF16), C=r.normal(T, 1, S).to(BF16),
             D=r.normal(heads), dt_bias=torch.zeros(heads), initial_state=0.3 * r.normal(1, heads, P, S))
    return t, dict(dt_softplus=True)


def decoding(name, T=5, decay=-0.3, **about):
    """ssd, T sequences of one token."""
    t, p = mamba2(name, T, decay, **about)
    h, P, S = t["initial_state"].shape[1:]
    t |= dict(initial_state=0.3 * Draw(name + " states").normal(T, h, P, S), cu_seqlens=torch.arange(T + 1, dtype=torch.int32))
    return t, p


def chain(name, T=150, H=4, P=32, M=32, W=4):
    """conv_ssd_norm of one group."""
    r, E = Draw(name), H * P + 2 * M
    t = dict(xBC=r.normal(T, E).to(BF16), z=r.normal(T, H, P).to(BF16), dt=r.normal(T, H).to(BF16), conv_weight=0.5 * r.normal(E, W),
             conv_bias=0.2 * r.normal(E), A=-r.uniform(1, 8, H), D=r.normal(H), dt_bias=r.uniform(-4, -1, H), norm_weight=1 + 0.2 * r.normal(H * P),
             initial_state=0.3 * r.normal(1, H, P, M))
    return t, dict(eps=1e-5)


def mamba3(name, T=150, decay=-0.3, h=2, dk=128, dv=64, a=32):
    r = Draw(name)
    t = dict(q=r.normal(T, 1, dk).to(BF16), k=r.normal(T, 1, dk).to(BF16), v=r.normal(T, h, dv).to(BF16),
             adt=decay * r.uniform(0.5, 1.5, T, h), dt=r.uniform(0.01, 0.3, T, h), trap=r.normal(T, h),
             q_bias=1 + 0.1 * r.normal(h, dk), k_bias=1 + 0.1 * r.normal(h, dk), angles=r.normal(T, h, a), D=r.normal(h))
    return t, {}


def mamba3_step(name, T=5, h=2, **about):
    """mamba3, T sequences of one token."""
    t, p = mamba3(name, T, h=h, **about)
    (dk, dv, a), r = (t["q_bias"].shape[1], t["v"].shape[2], t["angles"].shape[2]), Draw(name + " states")
    t |= dict(initial_angle=r.uniform(0, 6.28, T, h, a), initial_state=0.3 * r.normal(T, h, dv, dk), initial_k=r.normal(T, h, dk),
              initial_v=r.normal(T, h, dv).to(BF16), cu_seqlens=torch.arange(T + 1, dtype=torch.int32))
    return t, p


def attention(name, T=160, S=None, heads=(4, 2), d=64, causal=True, size=1.0):
    """`size` multiplies q: the logits have that standard deviation."""
    r, S = Draw(name), S or T
    t = dict(q=(size * r.normal(T, heads[0], d)).to(BF16), k=r.normal(S, heads[1], d).to(BF16), v=r.normal(S, heads[1], d).to(BF16))
    return t, dict(causal=causal)


def norm(name, R=16, D=1024, size=None, offset=0, gate=False, residual=False, dy=False):
    """rmsnorm; rows of every size from 1e-3 to 1e2, or of one."""
    r = Draw(name)
    size = torch.logspace(-3, 2, R)[:, None] if size is None else size
    t = dict(x=(r.normal(R, D) * size).to(BF16), weight=(1 - offset + 0.2 * r.normal(D)).to(BF16))
    if gate:
        t["gate"] = r.normal(R, D).to(BF16)
    if residual:
        t["residual"] = r.normal(R, D).to(BF16)
    if dy:
        t["dy"] = r.normal(R, D).to(BF16)
    return t, dict(eps=1e-6, weight_offset=offset) | (dict(gate="silu") if gate else {})


def rope(name, T=64, first=0, h=2, d=128):
    t = dict(x=Draw(name).normal(T, h, d).to(BF16), positions=torch.arange(first, first + T, dtype=torch.int32))
    return t, dict(rotary_dim=d, theta=1e6)


def head_norms(name, T=64, first=0, heads=(4, 2), d=128, rotary=64):
    """qk_norm_rope."""
    r = Draw(name)
    t = dict(qg=r.normal(T, heads[0], 2 * d).to(BF16), k=r.normal(T, heads[1], d).to(BF16), q_weight=(0.2 * r.normal(d)).to(BF16),
             k_weight=(0.2 * r.normal(d)).to(BF16), positions=torch.arange(first, first + T, dtype=torch.int32))
    return t, dict(rotary_dim=rotary, theta=1e7, eps=1e-6)


def gate(name, R=64, D=1024):
    """gated_product."""
    r = Draw(name)
    return dict(x=r.normal(R, D).to(BF16), gate=(2 * r.normal(R, D)).to(BF16)), {}


def conv(name, T=150, C=96, W=4, size=1.0):
    r = Draw(name)
    return dict(x=(size * r.normal(T, C)).to(BF16), weight=(0.5 * r.normal(C, W)).to(BF16)), dict(activation="silu")


def matrix(name, n=24, m=48, decades=3.0, size=1.0):
    """newton_schulz: singular values over that many decades, Frobenius norm `size`."""
    r, s = Draw(name), min(n, m)
    u, w = (torch.linalg.qr(r.normal(x, s).double())[0] for x in (n, m))
    x = (u * torch.logspace(0, -decades, s, dtype=torch.float64)) @ w.T
    return dict(x=(x * (size / x.norm())).float()), dict(algorithm="standard", coefficients=[[3.4445, -4.775, 2.0315]] * 5)


def step(name, n=48, m=96, size=0.01):
    r = Draw(name)
    t = dict(weight=0.05 * r.normal(n, m), grad=size * r.normal(n, m), momentum=size * r.normal(n, m))
    return t, dict(algorithm="standard", coefficients=[[3.4445, -4.775, 2.0315]] * 5, lr=0.02, momentum=0.95, weight_decay=0.1,
                   scale="0.2*sqrt(max(n,m))", momentum_kind="mean")


def delta_backward(name, T=100, decay=-0.3):
    t, _ = delta(name, T, decay, l2norm=False, heads=(1, 1))
    r = Draw(name + " gradients")
    t |= dict(do=r.normal(T, 1, 128).to(BF16), dfinal_state=0.1 * r.normal(1, 1, 128, 128))
    return t, {}


def of_etalon(etalon, op, case, path):
    """The inputs of a case of etalon's, and its parameters. Decays and step sizes are given, as the kernels take them."""
    subprocess.run([etalon, "inputs", op, "--case", case, "-o", path], check=True, capture_output=True)
    t, p, _ = capture.read(path)
    if op == "gated_delta_rule" and "a" in t:
        t["g"] = -t.pop("A_log").float().exp() * torch.nn.functional.softplus(t.pop("a").float() + t.pop("dt_bias").float())
    if op == "gated_delta_rule" and "b" in t:
        t["beta"] = t.pop("b").float().sigmoid()
    if op == "rmsnorm":
        p.setdefault("eps", 1e-6)
    return t, p
