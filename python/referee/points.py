"""Which calls of an op are judged: rows, with all that a check says, and sweeps, by the contract's rules alone."""
from . import inputs

# Lengths: every remainder mod 64 behind a state that is given, then behind full chunks, then long ones.
LENGTHS = (*range(1, 67), 95, 96, 97, 127, 128, 129, 191, 192, 193, 1000, 8192)
DECAYS = (-1e-6, -1e-5, -1e-4, -1e-3, -0.01, -0.1, -0.5, -1, -2, -5, -10, -20, -40, -60)
NORMS_INSIDE = (1e-6, 1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 1e4, 1e6)       # of keys that the kernel norms itself
NORMS_OUTSIDE = (1e-6, 1e-3, 0.1, 0.5, 1, 1.2, 1.4)       # of keys used as they are: beta |k|^2 below 2, where the rule is stable
SIZES = (1e-18, 1e-12, 1e-6, 1e-3, 1, 1e3, 1e6, 1e12, 1e18)
WIDTHS = (1, 2, 3, 8, 16, 33, 64, 100, 127, 128, 256, 257, 512, 1000, 1024, 2048, 4096, 5120, 8192, 16384)

# What is put where: tensor, and by how much.
OUTLIERS = (("q", "channel", 100), ("k", "channel", 10), ("k", "channel", 100), ("k", "channel", 1000), ("v", "token", 100),
            ("v", "token", 1e4), ("v", "channel", 1000), ("k", "same", 1), ("x", "channel", 100), ("x", "channel", 1e4),
            ("x", "token", 1e4), ("B", "channel", 100))


def outlier(t, name, kind, by):
    """Channel 3 of every token, or token 40 per cent in, that many times as large; same: every token like the first."""
    x = t[name].float()
    if kind == "channel":
        x[..., 3 % x.shape[-1]] *= by
    elif kind == "token":
        x[int(0.4 * len(x))] *= by
    else:
        x[:] = x[:1].clone()
    return t | {name: x.to(t[name].dtype)}


def recurrent(make, **fixed):
    """Sweeps of an op with a state: decay, length, keys, outliers. make(name, T=, decay=, norm=)."""
    def sweep(kernel, norms):
        for d in DECAYS if "decay" not in kernel.axes else ():
            yield "decay", f"{d:g}", lambda d=d: make(f"decay {d}", T=131, decay=d, **fixed)
        for n in norms:
            yield "norm of keys", f"{n:g}", lambda n=n: make(f"norm {n}", T=131, norm=n, **fixed)
        for n in LENGTHS:
            yield "length", str(n), lambda n=n: make(f"length {n}", T=n, **fixed)
        for o in OUTLIERS:
            yield "outliers", f"{o[0]} {o[1]} x{o[2]:g}", lambda o=o: with_outlier(make("outliers", T=131, **fixed), o, norms is NORMS_OUTSIDE)
    return sweep


def with_outlier(drawn, o, stable=False):
    """stable: keys are used as they are, and the rule holds still only where their norm is at most 1."""
    t, p = drawn
    if o[0] not in t:
        return None
    t = outlier(t, *o)
    if stable and o[0] == "k":
        t["k"] = inputs.unit(t["k"].float()).to(t["k"].dtype)
    return t, p


def gated(kernel):
    fixed = dict(l2norm=kernel.l2norm, heads=(1, 1), gated="decay" not in kernel.axes)
    return recurrent(inputs.delta, **fixed)(kernel, NORMS_INSIDE if kernel.l2norm else NORMS_OUTSIDE)


def channelwise(kernel):
    return recurrent(inputs.channelwise, l2norm=kernel.l2norm)(kernel, NORMS_INSIDE)


def attention(kernel):
    for n in LENGTHS[:-2]:
        yield "length", str(n), lambda n=n: inputs.attention(f"length {n}", T=n, heads=(1, 1))
    for n in (1, 7, 64, 100, 129, 1000, 8192):
        yield "keys of 8 queries", str(n), lambda n=n: inputs.attention(f"keys {n}", T=8, S=n, heads=(1, 1), causal=False)
    for s in (0.01, 0.1, 1, 3, 10, 30, 100, 1000):
        yield "size of logits", f"{s:g}", lambda s=s: inputs.attention(f"size {s}", size=s, heads=(1, 1))
    for o in OUTLIERS:
        yield "outliers", f"{o[0]} {o[1]} x{o[2]:g}", lambda o=o: with_outlier(inputs.attention("outliers", heads=(1, 1)), o)


def norm(about):
    def sweep(kernel):
        for d in WIDTHS:
            yield "width", str(d), lambda d=d: inputs.norm(f"width {d}", R=4, D=d, **about)
        for s in SIZES:
            yield "size", f"{s:g}", lambda s=s: inputs.norm(f"size {s}", R=4, size=s, **about)
        for o in OUTLIERS:
            yield "outliers", f"{o[0]} {o[1]} x{o[2]:g}", lambda o=o: with_outlier(inputs.norm("outliers", size=1, **about), o)
    return sweep


def rope(kernel):
    for n in LENGTHS[:-2]:
        yield "length", str(n), lambda n=n: inputs.rope(f"length {n}", T=n)
    for n in (0, 1000, 131008, 1048000, 16777152):
        yield "first position", str(n), lambda n=n: inputs.rope(f"position {n}", first=n)
    for d in (2, 4, 8, 16, 32, 64, 96, 128, 256):
        yield "width", str(d), lambda d=d: inputs.rope(f"width {d}", d=d)


def conv(kernel):
    for n in LENGTHS:
        yield "length", str(n), lambda n=n: inputs.conv(f"length {n}", T=n, C=32)
    for n in (1, 2, 3, 16, 33, 64, 100, 129, 1000):
        yield "width", str(n), lambda n=n: inputs.conv(f"width {n}", T=20, C=n)
    for s in SIZES:
        yield "size", f"{s:g}", lambda s=s: inputs.conv(f"size {s}", size=s)
    for o in OUTLIERS:
        yield "outliers", f"{o[0]} {o[1]} x{o[2]:g}", lambda o=o: with_outlier(inputs.conv("outliers"), o)


def heads_turned(kernel):
    for n in LENGTHS[:-2]:
        yield "length", str(n), lambda n=n: inputs.head_norms(f"length {n}", T=n)
    for n in (0, 1000, 131008, 1048000, 16777152):
        yield "first position", str(n), lambda n=n: inputs.head_norms(f"position {n}", first=n)


def gates(kernel):
    for d in WIDTHS:
        yield "width", str(d), lambda d=d: inputs.gate(f"width {d}", R=4, D=d)
    for o in OUTLIERS:
        yield "outliers", f"{o[0]} {o[1]} x{o[2]:g}", lambda o=o: with_outlier(inputs.gate("outliers", R=16), o)


def chains(kernel):
    for n in LENGTHS:
        yield "length", str(n), lambda n=n: inputs.chain(f"length {n}", T=n, H=1)


def newton_schulz(kernel):
    for s in (1e-12, 1e-8, 1e-7, 1e-4, 1, 1e4, 1e10):
        yield "norm", f"{s:g}", lambda s=s: inputs.matrix(f"norm {s}", size=s)
    for d in (0.0, 1, 2, 4, 8):
        yield "decades of singular values", f"{d:g}", lambda d=d: inputs.matrix(f"decades {d}", decades=d)
    for n, m in ((1, 8), (8, 8), (31, 33), (33, 31), (64, 64), (96, 48)):
        yield "shape", f"{n}x{m}", lambda n=n, m=m: inputs.matrix(f"shape {n} {m}", n, m)


def muon(kernel):
    for s in (1e-12, 1e-8, 1e-4, 1, 1e4):
        yield "size of gradients", f"{s:g}", lambda s=s: inputs.step(f"size {s}", size=s)
    for n, m in ((1, 8), (8, 8), (31, 33), (33, 31), (64, 64), (128, 72)):
        yield "shape", f"{n}x{m}", lambda n=n, m=m: inputs.step(f"shape {n} {m}", n, m)


def gated_backward(kernel):
    for n in (1, 2, 3, 16, 17, 63, 64, 65, 100, 127, 128, 129, 192, 200):
        yield "length", str(n), lambda n=n: inputs.delta_backward(f"length {n}", T=n)
    for d in DECAYS:
        yield "decay", f"{d:g}", lambda d=d: inputs.delta_backward(f"decay {d}", decay=d)


def norm_variants(dy=False):
    """Whichever of these the kernel takes: plain, zero-centred, gated, with a residual. The first that it takes is swept."""
    return [dict(dy=dy), dict(offset=1, dy=dy)] + ([] if dy else [dict(gate=True), dict(residual=True)])


def heads(kernel):
    """Two value heads a key head; the plain delta rule's kernels want as many of both."""
    return dict(heads=(1, 1), gated=False) if "decay" in kernel.axes else {}


# Rows: (name, how to make them), the first that a kernel takes is profiled. Own: etalon's cases, by the rules alone.
ROWS = {
    "gated_delta_rule": [("normal", lambda k: inputs.delta("normal", l2norm=k.l2norm, **heads(k))),
                         ("model", lambda k: inputs.delta("model", T=257, silu=True, l2norm=k.l2norm, **heads(k)))],
    "kda": [("weak decay", lambda k: inputs.channelwise("weak", decay=-0.02)),
            ("strong decay", lambda k: inputs.channelwise("strong", T=230, decay=-2.0))],
    "gdn2": [("weak decay", lambda k: inputs.two_gates("weak", decay=-0.02)), ("strong decay", lambda k: inputs.two_gates("strong", decay=-2.0))],
    "ssd": [("prefill", lambda k: inputs.mamba2("prefill", T=300)), ("decode", lambda k: inputs.decoding("decode"))],
    "mamba3": [("prefill", lambda k: inputs.mamba3("prefill", T=200)), ("decode", lambda k: inputs.mamba3_step("decode"))],
    "attention": [("causal", lambda k: inputs.attention("causal", T=200, d=128, heads=(2, 1), size=2.0)),
                  ("full", lambda k: inputs.attention("full", T=40, S=300, causal=False))],
    "rmsnorm": [("plain", lambda k: inputs.norm("plain", D=4096)), ("zero-centred", lambda k: inputs.norm("centred", D=4096, offset=1)),
                ("gated", lambda k: inputs.norm("gated", R=100, D=128, gate=True)),
                ("residual", lambda k: inputs.norm("residual", D=2048, residual=True))],
    "rmsnorm.backward": [("plain", lambda k: inputs.norm("plain", R=32, D=512, size=1.0, dy=True))],
    "rope": [("near", lambda k: inputs.rope("near")), ("far", lambda k: inputs.rope("far", first=131008))],
    "causal_conv1d": [("silu", lambda k: inputs.conv("silu"))],
    "newton_schulz": [("three decades", lambda k: inputs.matrix("three", 64, 128)), ("256 rows", lambda k: inputs.matrix("256", 256, 320, 2.0) if k.library == "gram-newton-schulz" else None),
                      ("tall", lambda k: inputs.matrix("tall", 96, 48, 2.0))],
    "conv_ssd_norm": [("chain", lambda k: inputs.chain("chain"))],
    "qk_norm_rope": [("near", lambda k: inputs.head_norms("near")), ("far", lambda k: inputs.head_norms("far", first=131008))],
    "gated_product": [("gate", lambda k: inputs.gate("gate"))],
    "muon_step": [("step", lambda k: inputs.step("step", 96, 160))],
    "gated_delta_rule.backward": [("normal", lambda k: inputs.delta_backward("normal"))],
}
OWN = {
    "gated_delta_rule": ("g_beta_given", "plain", "prefill_f32", "prefill_ragged", "strong_decay", "weak_decay", "tiny_keys", "g_extremes",
                         "lengths"),
    "kda": ("plain", "heads", "ragged", "strong_decay", "weak_decay", "tiny_keys"),
    "gdn2": ("plain", "ragged", "strong_decay", "weak_decay"),
    "ssd": ("plain", "gated", "groups", "decode", "strong_decay", "weak_decay"),
    "mamba3": ("plain", "gated"),
    "attention": ("causal", "full", "window", "window_both", "softcap", "decode"),
    "rmsnorm": ("zero_centred_5120", "zero_centred_256", "plain_f32", "residual", "gated_128", "gated_128_f32", "odd_1007", "tiny_rows",
                "far_mean"),
    "rope": ("partial", "partial_f32", "interleaved", "full", "exact_angles"),
    "causal_conv1d": ("prefill_silu", "no_activation"),
    "newton_schulz": ("square_f16", "one_row", "tiny_f32", "graded_f16", "tall_standard_f32"),
    "muon_step": ("mean_f32", "tiny_grad_f32"),
}
SWEEPS = {
    "gated_delta_rule": [gated], "kda": [channelwise],
    "gdn2": [lambda k: recurrent(inputs.two_gates)(k, NORMS_OUTSIDE)],
    "ssd": [lambda k: recurrent(inputs.mamba2, heads=1)(k, ())], "mamba3": [lambda k: recurrent(inputs.mamba3, h=1)(k, ())],
    "attention": [attention], "rmsnorm": [norm(v) for v in norm_variants()], "rmsnorm.backward": [norm(v) for v in norm_variants(True)],
    "rope": [rope], "causal_conv1d": [conv], "newton_schulz": [newton_schulz], "muon_step": [muon],
    "gated_delta_rule.backward": [gated_backward], "qk_norm_rope": [heads_turned], "gated_product": [gates], "conv_ssd_norm": [chains],
}
