"""The delta rule of an engine: token by token, or in chunks of 64 with operands that may be rounded."""

import numpy as np

from places import cast

f32 = np.float32


class Delta:
    def delta(s, q, k, v, g, be):
        T, H, dk = k.shape
        dv = v.shape[2]
        mode = (
            "token"
            if s.f("decay_after") or s.f("retrieve_before_decay")
            else s.R.get("delta", "token")
        )
        if mode == "token":
            S = np.zeros((H, dk, dv), f32)
            o = np.zeros((T, H, dv), f32)
            for t in range(T):
                S0 = S
                if not s.f("decay_after"):
                    S = S * np.exp(g[t])[:, None, None]
                b = np.ones_like(be[t]) if s.f("beta_missing") else be[t]
                Sx = S0 if s.f("retrieve_before_decay") else S
                u = s.r(
                    "u", b[:, None] * (v[t] - np.einsum("hkv,hk->hv", Sx, k[t], optimize=False))
                )
                S = S + k[t][:, :, None] * u[:, None]
                if s.f("decay_after"):
                    o[t] = np.einsum("hkv,hk->hv", S, q[t])
                    S = S * np.exp(g[t])[:, None, None]
                    S = s.r("state", S)
                    continue
                S = s.r("state", S)
                o[t] = np.einsum("hkv,hk->hv", S, q[t])
            return o
        # chunked, as FLA: operands of products rounded to bf16 when mode=='chunkb'
        B = (
            (lambda x: cast(x, "b"))
            if mode == "chunkb"
            else ((lambda x: cast(x, "h")) if mode == "chunkh" else (lambda x: x))
        )
        C = 64
        o = np.zeros((T, H, dv), f32)
        S = np.zeros((H, dk, dv), f32)
        for t0 in range(0, T, C):
            n = min(C, T - t0)
            Q, K, V = [x[t0 : t0 + n].transpose(1, 0, 2) for x in (q, k, v)]
            G = np.cumsum(g[t0 : t0 + n].T, -1, dtype=f32)
            Be = be[t0 : t0 + n].T
            Dm = np.exp(np.minimum(G[:, :, None] - G[:, None, :], 0))
            low = np.tril(np.ones((n, n), f32), -1)
            le = np.tril(np.ones((n, n), f32))
            if s.f("beta_missing"):
                Be = np.ones_like(Be)
            A = np.matmul(B(K * Be[..., None]), B(K).transpose(0, 2, 1)) * Dm * low
            Ti = np.zeros_like(A)
            I = np.eye(n, dtype=f32)
            for i in range(n):
                Ti[:, i] = I[i] - np.einsum("hj,hjk->hk", A[:, i, :i], Ti[:, :i])
            Ti = B(Ti)
            u = B(np.matmul(Ti, B(V * Be[..., None])))
            w = B(np.matmul(Ti, B(K * (Be * np.exp(G))[..., None])))
            Sb = B(S)
            vn = u - np.matmul(w, Sb)
            P = np.matmul(B(Q), B(K).transpose(0, 2, 1)) * Dm * le
            oo = np.matmul(B(Q), Sb) * np.exp(G)[..., None] + np.matmul(B(P), B(vn))
            o[t0 : t0 + n] = oo.transpose(1, 0, 2)
            gl = G[:, -1:]
            S = S * np.exp(gl)[..., None] + np.matmul(
                B(K).transpose(0, 2, 1), B(vn * np.exp(gl - G)[..., None])
            )
            S = s.r("state", S)
        return o
