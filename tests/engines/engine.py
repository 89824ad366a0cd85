"""A model of the Qwen3.5 kind in NumPy, in float32, written from the model's definition and docs/models.md alone.
Each of some fifty places may round: roundings maps a place to "b" (bf16) or "h" (float16). faults: names, or NAME@LAYER.
"""

import json

import numpy as np

from delta import Delta
from files import load, read_ids, save
from places import BF, cast

f32 = np.float32


sig = lambda x: (f32(1) / (f32(1) + np.exp(-x))).astype(f32)
silu = lambda x: x * sig(x)
softplus = lambda x: np.logaddexp(f32(0), x).astype(f32)


class Engine(Delta):
    def __init__(s, dir, R, F=(), flags=()):
        s.c = json.load(open(dir + "/config.json"))
        s.W = load(dir)
        s.R = dict(R)
        s.F = {f.split("@")[0]: (int(f.split("@")[1]) if "@" in f else None) for f in F}
        s.flags = set(flags)
        s.ids = read_ids(dir + "/input_ids.safetensors")
        c = s.c
        s.eps = f32(c["rms_norm_eps"])

    def r(s, site, x):
        return cast(x, s.R.get(site))

    def f(s, name):
        return name in s.F and (s.F[name] is None or s.F[name] == s.l)

    def lin(s, site, x, n):
        return s.r(site, s.r("op_in", x) @ s.W[n].T)

    def norm(s, x, w, site="norm", kind=None):
        eps = f32(1e-5) if s.f("eps") and kind != "gated" else s.eps
        off = (
            f32(0)
            if (s.f("norm_offset") and kind == s.normkind) or (s.f("norms_offset") and kind)
            else f32(1)
        )
        xh = s.r(site + ".xhat", x / np.sqrt((x * x).mean(-1, keepdims=True, dtype=f32) + eps))
        ww = s.r(site + ".scale", off + w)
        return s.r(site + ".y", xh * ww)

    normkind = "input"  # the norms that norm_offset is in

    def mlp1(s, h, g, u, d, tag=""):
        G = s.r("gate", s.r("op_in", h) @ g.T)
        U = s.r("up", s.r("op_in", h) @ u.T)
        return s.r("down", s.r("op_in", s.r("product", s.r("silu", silu(G)) * U)) @ d.T)

    def moe(s, h, p):
        W = s.W
        c = s.c
        E = c["num_experts"]
        K = c["num_experts_per_tok"]
        T = len(h)
        lo = s.r("router", s.r("op_in", h) @ W[p + "gate.weight"].T)
        e = np.exp(lo - lo.max(-1, keepdims=True))
        pr = s.r("probability", e / e.sum(-1, keepdims=True))
        idx = np.argsort(-pr, axis=-1, kind="stable")[:, :K]
        w = np.take_along_axis(pr, idx, -1)
        if not s.f("no_renorm"):
            w = w / w.sum(-1, keepdims=True)
        w = s.r("route", w)
        GU = W[p + "experts.gate_up_proj"]
        D = W[p + "experts.down_proj"]
        I = c["moe_intermediate_size"]
        perm = list(range(E))
        if s.f("expert_swap"):  # the two busiest experts exchanged
            cnt = np.bincount(idx.ravel(), minlength=E)
            a, b = np.argsort(-cnt)[:2]
            perm[a], perm[b] = perm[b], perm[a]
        acc = np.zeros_like(h)
        outs = np.zeros((T, E) + h.shape[1:], f32)
        wt = np.zeros((T, E), f32)
        for j in range(E):
            t, k = np.nonzero(idx == j)
            if len(t) == 0:
                continue
            jj = perm[j]
            o = s.mlp1(h[t], GU[jj, :I], GU[jj, I:], D[jj])
            acc[t] = s.r("running", acc[t] + s.r("expert", o * w[t, k][:, None]))
        acc = s.r("experts", acc)
        sh = s.mlp1(
            h,
            W[p + "shared_expert.gate_proj.weight"],
            W[p + "shared_expert.up_proj.weight"],
            W[p + "shared_expert.down_proj.weight"],
        )
        gl = s.r("shared_logit", s.r("op_in", h) @ W[p + "shared_expert_gate.weight"].T)
        return s.r("mlp", acc + s.r("shared", s.r("shared_gate", sig(gl)) * sh))

    def linear(s, h, p):
        c = s.c
        W = s.W
        T = len(h)
        nk, nv, dk, dv = (
            c["linear_num_key_heads"],
            c["linear_num_value_heads"],
            c["linear_key_head_dim"],
            c["linear_value_head_dim"],
        )
        qkv = s.lin("qkv", h, p + "in_proj_qkv.weight")
        w = W[p + "conv1d.weight"][:, 0]
        K = w.shape[1]
        full = np.concatenate([np.zeros((K - 1, qkv.shape[1]), f32), qkv])
        cv = np.zeros_like(qkv)
        for i in range(K):
            cv = cv + full[i : i + T] * w[:, i]
        qkv = s.r("conv_out", silu(s.r("conv", cv)))
        q, k, v = (
            qkv[:, : nk * dk].reshape(T, nk, dk),
            qkv[:, nk * dk : 2 * nk * dk].reshape(T, nk, dk),
            qkv[:, 2 * nk * dk :].reshape(T, nv, dv),
        )
        l2 = lambda a: s.r(
            "l2",
            a
            / np.sqrt(
                s.r("l2sum", (s.r("l2sq", a * a)).sum(-1, keepdims=True, dtype=f32)) + f32(1e-6)
            ),
        )
        q, k = l2(q), l2(k)
        q = s.r("qscaled", q * f32(dk**-0.5))
        a = s.lin("a", h, p + "in_proj_a.weight")
        b = s.lin("b", h, p + "in_proj_b.weight")
        g = s.r("g", -np.exp(W[p + "A_log"]) * softplus(a + W[p + "dt_bias"]))
        be = s.r("beta", sig(b))
        m = [j % nk if s.f("gqa_lin") else j // (nv // nk) for j in range(nv)]
        o = s.r("o", s.delta(q[:, m], k[:, m], v, g, be))
        z = s.lin("z", h, p + "in_proj_z.weight").reshape(T, nv, dv)
        n = s.r("gnorm.xhat", o / np.sqrt((o * o).mean(-1, keepdims=True, dtype=f32) + s.eps))
        y = s.r("gnorm.weighted", n * W[p + "norm.weight"])
        if not s.f("z_gate_missing"):
            y = y * s.r("gnorm.silu", silu(z))
        return s.lin("mixed", s.r("gnorm.y", y).reshape(T, -1), p + "out_proj.weight")

    def full(s, h, p):
        c = s.c
        W = s.W
        T = len(h)
        D, H, G = c["head_dim"], c["num_attention_heads"], c["num_key_value_heads"]
        rp = c["rope_parameters"]
        th = rp["rope_theta"]
        rd = int(D * rp["partial_rotary_factor"])
        if s.f("theta"):
            th = th * 10 if th < 1e6 else 1e4
        qg = s.lin("q", h, p + "q_proj.weight").reshape(T, H, 2 * D)
        q, gate = qg[..., :D], qg[..., D:]
        k = s.lin("k", h, p + "k_proj.weight").reshape(T, G, D)
        v = s.lin("v", h, p + "v_proj.weight").reshape(T, G, D)
        q, k = s.norm(q, W[p + "q_norm.weight"], "qknorm", "qk"), s.norm(
            k, W[p + "k_norm.weight"], "qknorm", "qk"
        )
        inv = s.r("inv_freq", (1.0 / th ** (np.arange(0, rd, 2, dtype=f32) / f32(rd))).astype(f32))
        ang = np.arange(T, dtype=f32)[:, None] * inv
        cs, sn = s.r("cos_sin", np.cos(ang)[:, None]), s.r("cos_sin", np.sin(ang)[:, None])
        hh = rd // 2

        def rot(x):
            if s.f("rope_interleaved"):
                x1, x2 = x[..., 0:rd:2], x[..., 1:rd:2]
            else:
                x1, x2 = x[..., :hh], x[..., hh:rd]
            pr = lambda a: s.r("rope_prod", a)
            y1, y2 = s.r("turned", pr(x1 * cs) - pr(x2 * sn)), s.r(
                "turned", pr(x2 * cs) + pr(x1 * sn)
            )
            if s.f("rope_interleaved"):
                y = x.copy()
                y[..., 0:rd:2] = y1
                y[..., 1:rd:2] = y2
                y[..., rd:] = s.r("turned", x[..., rd:])
                return y
            return np.concatenate([y1, y2, s.r("turned", x[..., rd:])], -1)

        q, k = s.r("qcache", rot(q)), s.r("kcache", rot(k))
        v = s.r("vcache", v)
        m = [j % G if s.f("gqa") else j // (H // G) for j in range(H)]
        sc = np.matmul(q.transpose(1, 0, 2), k[:, m].transpose(1, 2, 0))
        sc = s.r("scaled", s.r("scores", sc) * f32(D**-0.5))
        mask = np.tril(np.ones((T, T), bool))
        sc = np.where(mask, sc, f32(-1e30))
        e = np.exp(sc - sc.max(-1, keepdims=True))
        den = e.sum(-1, keepdims=True, dtype=f32)
        if "flash" in s.flags:
            o = np.matmul(s.r("weights", e), v[:, m].transpose(1, 0, 2)) / den
        else:
            o = np.matmul(s.r("softmax", e / den), v[:, m].transpose(1, 0, 2))
        o = s.r("attention", o.transpose(1, 0, 2))
        if not s.f("gate_missing"):
            o = s.r("gated", o * s.r("sigmoid", sig(gate)))
        return s.lin("mixed", o.reshape(T, -1), p + "o_proj.weight")

    def run(s):
        c = s.c
        W = s.W
        L = c["num_hidden_layers"]
        s.l = -1
        ids = s.ids
        if s.f("tokens_shifted"):
            ids = np.concatenate([ids[:1], ids[:-1]])
        x = s.r("hidden", W["model.embed_tokens.weight"][ids])
        dump = {"hidden.0": x.copy()}
        xf = x
        for l in range(L):
            s.l = l
            if not s.f("skip_layer"):
                p = f"model.layers.{l}."
                h = s.norm(xf, W[p + "input_layernorm.weight"], "norm", "input")
                a = (
                    s.linear(h, p + "linear_attn.")
                    if c["layer_types"][l] == "linear_attention"
                    else s.full(h, p + "self_attn.")
                )
                xf = a if s.f("residual_missing") else x + a
                x = s.r("residual", xf)
                if "unrounded_norm" not in s.flags:
                    xf = x
                h = s.norm(xf, W[p + "post_attention_layernorm.weight"], "norm", "post")
                mm = (
                    s.moe(h, p + "mlp.")
                    if "num_experts" in c
                    else s.mlp1(
                        h,
                        W[p + "mlp.gate_proj.weight"],
                        W[p + "mlp.up_proj.weight"],
                        W[p + "mlp.down_proj.weight"],
                    )
                )
                xf = x + mm
                x = s.r("hidden", xf)
                if "unrounded_norm" not in s.flags:
                    xf = x
            if l < L - 1:
                dump[f"hidden.{l+1}"] = x.copy()
        s.l = L
        y = s.norm(xf, W["model.norm.weight"], "norm", "final")
        dump[f"hidden.{L}"] = y.copy()
        dump["logits"] = s.r("logits", s.r("op_in", y) @ W["lm_head.weight"].T)
        return dump

    def store(s, path, dump, logits_path=None):
        t = {"b": (BF, "BF16"), "h": (np.float16, "F16"), None: (f32, "F32")}

        def one(k, a):
            site = (
                "logits"
                if k == "logits"
                else ("norm.y" if k == f"hidden.{s.c['num_hidden_layers']}" else "hidden")
            )
            d, n = t[s.R.get(site)]
            return (np.ascontiguousarray(a.astype(d)), n)

        ids = (s.ids.astype(np.int32), "I32")
        if path:
            save(path, {**{k: one(k, a) for k, a in dump.items()}, "input_ids": ids})
        if logits_path:
            save(logits_path, {"logits": one("logits", dump["logits"]), "input_ids": ids})
