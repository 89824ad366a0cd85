"""Models of causes that docs/referee.md and docs/first-figures.md give: python -m referee.causes ETALON.

Each makes the outputs that a kernel would have if that were the cause, of the inputs of the call that left its contract, and lets etalon
judge them: a line with the rule, its value, the share of its limit, and what the H200's outputs had.
"""
import importlib.util
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch

from . import capture, inputs, judge

F32 = np.float32


def bf16(x):
    return torch.as_tensor(np.asarray(x)).to(torch.bfloat16).double().numpy()


def say(cause, etalon, path, output, rule, seen):
    said = judge.check(etalon, path, True, seconds=300, threads=1)
    r = next(o for o in said["outputs"] if o["name"] == output)["rules"][rule]
    print(f"{cause:52} {rule + ' of ' + output:22} {float(r['value']):7.3f} sigma {float(r['value']) / float(r['limit']):6.3f}   H200 {seen}", flush=True)


def cut(x, e, bits):
    """x without what is below 2^(e - bits)."""
    u = np.exp2(e - bits)
    return np.trunc(x / u) * u


def tensor_core(c, a, b):
    """c [M, N] + a [M, K] b [K, N] as Hopper adds: 16 products and the sum so far, cut at 25 bits of the largest, the result at 24."""
    for k in range(0, a.shape[1], 16):
        terms = np.concatenate([c[..., None], a[:, None, k:k + 16] * b.T[None, :, k:k + 16]], -1)
        top = np.max(np.where(terms != 0, np.frexp(terms)[1] - 1, -999), -1)
        s = cut(terms, top[..., None].astype(float), 25).sum(-1)
        c = cut(s, np.frexp(s)[1].astype(float), 24)
    return c


def in_order(x, first=None):
    """Running sums in float32."""
    out, s = [], first
    for v in x:
        s = v if s is None else F32(s + v)
        out.append(s)
    return out


def cub_scan(x, items):
    """CUB's inclusive scan of one row: `items` numbers a thread in order, threads' sums by doubling distances, then each thread's own again."""
    parts = [x[i:i + items] for i in range(0, len(x), items)]
    total, d = [in_order(p)[-1] for p in parts], 1
    while d < len(parts):
        total, d = [F32(total[i - d] + t) if i >= d else t for i, t in enumerate(total)], 2 * d
    return np.array([y for i, p in enumerate(parts) for y in in_order(p, total[i - 1] if i else None)], F32)


def running_sum(etalon, path):
    from . import kernel
    k = next(k for k in kernel.load() if k.name == "Qwen3.5 torch_chunk_gated_delta_rule")
    whole = torch.Tensor.cumsum

    def one_row(x, dim=-1, **about):
        if x.dtype != torch.float32 or x.numel() != x.shape[dim]:
            return whole(x, dim, **about)
        return torch.from_numpy(cub_scan(x.flatten().numpy(), 15)).reshape(x.shape)

    torch.Tensor.cumsum = one_row
    try:
        for n, seen in ((38, 1.164), (40, 1.081), (43, 1.163), (57, 1.27), (58, 1.768), (59, "below 1"), (60, 1.1)):
            t, p = inputs.delta(f"length {n}", T=n, heads=(1, 1))
            capture.write(path, k.op, t, p, k.call(dict(t), p), "model", k.contract)
            say(f"running sum by CUB, {n} tokens", etalon, path, "final_state", "worst", seen)
    finally:
        torch.Tensor.cumsum = whole


def logits(etalon, path):
    for size, seen in ((30, 1.378), (100, 1.139)):
        t, p = inputs.attention(f"size {size}", size=size, heads=(1, 1))
        q, k = (t[n].double().numpy()[:, 0] for n in "qk")
        lse, scale = [], F32(F32(q.shape[1] ** -0.5) * F32(1.4426950408889634))
        for i, raw in enumerate(tensor_core(np.zeros((len(q), len(k))), q, k.T)):
            x = raw[:i + 1].astype(F32)
            top = F32(x.max() * scale)
            e = np.exp2((x.astype(float) * float(scale) - float(top)).astype(F32).astype(float)).astype(F32)
            lse.append(F32(F32(top + F32(np.log2(float(in_order(e)[-1])))) * F32(np.log(2.0))))
        outs = answered(etalon, path, "attention", t, p, dict(o=t["q"], lse=torch.zeros(1, len(q))), "bf16_operands", "--form", "online", "--arith", "f32")
        outs["lse"] = torch.tensor(np.array(lse)).reshape(1, -1)
        capture.write(path, "attention", t, p, outs, "model", "bf16_operands")
        say(f"q k' on a tensor core, logits of {size}", etalon, path, "lse", "bias", seen)


def answered(etalon, path, op, t, p, outs, contract, *how):
    """The reference's outputs of a call."""
    capture.write(path, op, t, p, {n: torch.zeros_like(x) for n, x in outs.items()}, "model", contract)
    subprocess.run([etalon, "ref", path, *how, "-o", path + ".ref"], check=True, capture_output=True)
    return capture.read(path + ".ref")[2]


def tiny_keys(etalon, path):
    t, p = inputs.delta("norm 1e-06", T=131, norm=1e-6, l2norm=False, heads=(1, 1), gated=False)
    k, v, beta = (t[n].double().numpy()[:, 0] for n in ("k", "v", "beta"))
    s = t["initial_state"].double().numpy()[0, 0]
    for c in range(0, len(k), 64):
        kc, vc, bc = k[c:c + 64], v[c:c + 64], beta[c:c + 64, None]
        inverse = bf16(np.linalg.inv(np.eye(len(kc)) + np.tril(bc * (kc @ kc.T), -1)))
        new = bf16(bf16(inverse @ bf16(bc * vc)) - bf16(inverse @ bf16(bc * kc)) @ bf16(s))
        s = tensor_core(s, kc.T, new)
    outs = answered(etalon, path, "gated_delta_rule", t, p, dict(o=t["v"], final_state=t["initial_state"]), "bf16_operands")
    outs["final_state"] = torch.tensor(s).float()[None, None]
    capture.write(path, "gated_delta_rule", t, p, outs, "model", "bf16_operands")
    say("state on a tensor core, keys of 1e-6", etalon, path, "final_state", "rms", 2.015)


def decoding(etalon, path):
    """Sums of 8 neighbours a thread in order, then 8 threads by halves; 4 parts of the keys."""
    for n in (64, 256, 1024):
        t, p = inputs.attention(f"keys {n}", T=8, S=n, heads=(1, 1), causal=False)
        q, k, v = (t[x].double().numpy()[:, 0] for x in "qkv")
        x = bf16(q[:, None] * k[None]).reshape(len(q), n, 8, 8)
        s = x[..., 0]
        for i in range(1, 8):
            s = bf16(s + x[..., i])
        while s.shape[-1] > 1:
            s = bf16(s[..., :s.shape[-1] // 2] + s[..., s.shape[-1] // 2:])
        w = np.exp(s[..., 0] / 8 - (s[..., 0] / 8).max(1, keepdims=True))
        o = torch.tensor(w @ v / w.sum(1, keepdims=True)).to(torch.bfloat16)[:, None]
        capture.write(path, "attention", t, p, dict(o=o), "model", "bf16_operands_split")
        say(f"logits added in bf16, {n} keys", etalon, path, "o", "rms", "2.3 to 3.1 sigma")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for model in (running_sum, logits, tiny_keys, decoding):
            if model is running_sum and not importlib.util.find_spec("transformers"):
                print("running sum: transformers is not installed")
                continue
            model(os.path.abspath(sys.argv[1]), folder + "/model.safetensors")
