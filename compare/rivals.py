# What PyTorch and flash-linear-attention make of the works that bench-gpu shares: a line on stdout for each
#   work <tab> rival <tab> microseconds <tab> error of each output...
# usage: rivals.py FOLDER [WORK...]: FOLDER has WORK.safetensors, inputs "in.NAME" and what is right "truth.NAME". First comes a
# line "about <tab> versions". An error is |x - y| / |y|; microseconds are nan where a rival is missing or fails, and a line on
# stderr says why. Times: medians of graphs of so many calls that the launch of one does not count; decoding goes over as many
# states that no cache holds them.
import importlib.metadata
import json
import math
import pathlib
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from safetensors import safe_open

WARM, ROUNDS, MICROSECONDS, MOST = 3, 15, 1500, 32
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"


# ---- time and error ----

def once(runs):
    start = time.perf_counter()
    for run in runs:
        run()
    if GPU:
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e6


def graph_of(runs):
    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        runs[0]()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        for run in runs:
            run()
    return graph


def time_of(runs):
    """Median microseconds of one of `runs`, which do the same, on numbers of their own or not."""
    for _ in range(WARM):
        once(runs[:1])
    if len(runs) == 1:
        runs = runs * max(1, min(MOST, math.ceil(MICROSECONDS / once(runs))))
    if not GPU:
        return statistics.median(once(runs) / len(runs) for _ in range(3))
    graph = graph_of(runs)
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(WARM + ROUNDS):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000 / len(runs))
    return statistics.median(times[WARM:])


def launched(run):
    """Median microseconds of one call from Python, without a graph."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    times = []
    for _ in range(WARM + ROUNDS):
        torch.cuda.synchronize()
        begin.record()
        run()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return statistics.median(times[WARM:])


def error_of(got, right):
    right = right.double().flatten()
    return ((got.double().flatten() - right).norm() / right.norm()).item()


def row(work, rival, make, right, runs=None, timer=time_of):
    """make(): the outputs that `right` lists. runs: what is timed, where that is not `make` again."""
    try:
        errors = [error_of(x, y) for x, y in zip(make(), right, strict=True)]
        us = timer(runs or [make])
        print("\t".join([work, rival, f"{us:.3f}"] + [f"{e:.3e}" for e in errors]), flush=True)
    except Exception as e:      # a rival that does not run here is a gap
        gap(work, rival, e)


def gap(work, rival, why):
    print(f"{work}\t{rival}\tnan", flush=True)
    print(f"rivals.py: {work}, {rival}: {type(why).__name__}: {str(why)[:200]}", file=sys.stderr)


def both(work, function, arguments, right):
    """Eager now; compiled when `later` runs, for compiling takes long."""
    row(work, "eager", lambda: function(*arguments), right)
    later.append(lambda: row(work, "compiled", bound(torch.compile(function, dynamic=False), arguments), right))


def bound(function, arguments):
    return lambda: function(*arguments)


later = []


# ---- the ops, as eager code has them ----

def rmsnorm(x, weight, eps, offset, residual=None, gate=None):
    if residual is not None:
        x = x + residual
    z = x.float()
    z = z * torch.rsqrt(z.square().mean(-1, keepdim=True) + eps) * (offset + weight.float())
    if gate is not None:
        z = z * F.silu(gate.float())
    y = z.to(x.dtype)
    return (y,) if residual is None else (y, x)


def rmsnorm_fp8(x, weight, eps, offset, min_scale, residual):
    z, x = rmsnorm(x, weight, eps, offset, residual)
    z = z.float()
    scale = (z.abs().amax(-1) / 448).clamp(min=min_scale)
    return (z / scale[:, None]).clamp(-448, 448).to(torch.float8_e4m3fn), scale, x


def angles(positions, rotary_dim, theta, dtype):
    turns = positions.double()[:, None] * theta ** (-torch.arange(0, rotary_dim, 2, device=DEVICE).double() / rotary_dim)
    turns = torch.cat((turns, turns), -1)[:, None]
    return turns.cos().to(dtype), turns.sin().to(dtype)


def turn(x, cos, sin):
    P = cos.shape[-1] // 2
    head, rest = x[..., :2 * P], x[..., 2 * P:]
    return torch.cat((head * cos + torch.cat((-head[..., P:], head[..., :P]), -1) * sin, rest), -1)


def heads(qg, k, q_weight, k_weight, eps, cos, sin):
    q, gate = qg.chunk(2, -1)
    return (turn(rmsnorm(q, q_weight, eps, 1)[0], cos, sin), turn(rmsnorm(k, k_weight, eps, 1)[0], cos, sin),
            gate.contiguous())


def gated(x, gate):
    return (x * gate.sigmoid(),)


def gated_expert(x, hidden, gate_weight, addend):
    return (torch.sigmoid(hidden @ gate_weight)[:, None] * x + addend,)


def convolution(x, weight, state):
    window = torch.cat((state[0], x.T), -1)
    y = F.conv1d(window[None], weight[:, None], groups=weight.shape[0])[0]
    return F.silu(y).T.contiguous(), window[None, :, -(weight.shape[1] - 1):].contiguous()


def newton_schulz(X, coefficients):
    for a, b, c in coefficients:
        A = X @ X.T
        X = torch.addmm(X, torch.addmm(A, A, A, beta=b, alpha=c), X, beta=a)
    return (X,)


def unit(x, group):
    return (x * torch.rsqrt(x.square().sum(-1, keepdim=True) + 1e-6)).repeat_interleave(group, 1)


def gates(a, b, A_log, dt_bias):
    return -A_log.float().exp() * F.softplus(a.float() + dt_bias.float()), b.float().sigmoid()


def chunks(q, k, v, a, b, A_log, dt_bias, S, C=64):
    """The chunked delta rule in float32; q, k [T,Hk,D], v [T,Hv,D], S [Hv,D,D]; T a multiple of C."""
    group, D = v.shape[1] // q.shape[1], q.shape[-1]
    g, beta = gates(a, b, A_log, dt_bias)
    cut = lambda x: x.reshape(-1, C, *x.shape[1:]).transpose(1, 2).contiguous()       # [T/C,Hv,C,...]
    q, k, v, g, beta = cut(unit(q.float(), group) * D ** -0.5), cut(unit(k.float(), group)), cut(v.float()), cut(g), cut(beta)
    g = g.cumsum(-1)
    decay = (g[..., :, None] - g[..., None, :]).tril().exp().tril()
    below = (k * beta[..., None] @ k.transpose(-1, -2) * decay).tril(-1)
    one = torch.eye(C, device=q.device)
    inverse = torch.linalg.solve_triangular(below + one, one.expand_as(below), upper=False, unitriangular=True)
    u, w = inverse @ (v * beta[..., None]), inverse @ (k * (beta * g.exp())[..., None])
    scores, out = q @ k.transpose(-1, -2) * decay, []
    for n in range(q.shape[0]):
        new = u[n] - w[n] @ S
        out.append(q[n] * g[n].exp()[..., None] @ S + scores[n] @ new)
        S = S * g[n, :, -1].exp()[:, None, None] + (k[n] * (g[n, :, -1:] - g[n]).exp()[..., None]).transpose(-1, -2) @ new
    return torch.stack(out).transpose(1, 2).reshape(-1, S.shape[0], D).bfloat16(), S


def decode(x, z, a, b, conv_weight, A_log, dt_bias, norm_weight, history, S):
    """A layer's step, its memory in place: history [R,C,3], S [R,Hv,D,D]."""
    Hv, D = S.shape[1], S.shape[2]
    window = torch.cat((history, x[..., None]), -1)
    qkv = F.silu((window.float() * conv_weight).sum(-1))
    history.copy_(window[..., 1:])
    keys = (qkv.shape[-1] - Hv * D) // 2
    q, k, v = qkv.split((keys, keys, Hv * D), -1)
    q, k = (unit(h.reshape(len(x), -1, D), Hv * D // keys) for h in (q, k))
    g, beta = gates(a, b, A_log, dt_bias)
    new = S.float() * g.exp()[..., None, None]
    u = beta[..., None] * (v.reshape(-1, Hv, D) - (new * k[..., None]).sum(-2))
    new = new + k[..., None] * u[..., None, :]
    S.copy_(new)
    o = (new * q[..., None]).sum(-2) * D ** -0.5
    return rmsnorm(o, norm_weight, 1e-6, 0, gate=z)[0].to(x.dtype), S


# ---- the works ----

def numbers(params, *names):
    absent = {"eps": 1e-6, "min_scale": 2.0 ** -18}
    return [params.get(n, absent.get(n)) for n in names]


def do_rmsnorm(work, t, right, params):
    both(work, rmsnorm, (t["x"], t["weight"], *numbers(params, "eps", "weight_offset"), t.get("residual"), t.get("gate")), right)


def do_rmsnorm_fp8(work, t, right, params):
    both(work, rmsnorm_fp8, (t["x"], t["weight"], *numbers(params, "eps", "weight_offset", "min_scale"), t["residual"]), right)


def do_qk_norm_rope(work, t, right, params):
    cos, sin = angles(t["positions"], params["rotary_dim"], params["theta"], t["k"].dtype)
    for T in (64, 4096) if len(t["k"]) == 4096 else (len(t["k"]),):
        both(f"{work}_{T}", heads, (t["qg"][:T], t["k"][:T], t["q_weight"], t["k_weight"], *numbers(params, "eps"), cos[:T], sin[:T]),
             [r[:T] for r in right])


def do_gated_product(work, t, right, params):
    if "gate" in t:
        both(work, gated, (t["x"], t["gate"]), right)
    else:
        both(work, gated_expert, (t["x"], t["hidden"], t["gate_weight"], t["addend"]), right)


def do_rope(work, t, right, params):
    cos, sin = angles(t["positions"], params["rotary_dim"], params["theta"], t["x"].dtype)
    both(work, lambda x, cos, sin: (turn(x, cos, sin),), (t["x"], cos, sin), right)


def do_causal_conv1d(work, t, right, params):
    x, weight = t["x"], t["weight"].to(t["x"].dtype)
    both(work, convolution, (x, weight, x.new_zeros(1, x.shape[1], weight.shape[1] - 1)), right)


def do_newton_schulz(work, t, right, params):
    x = t["x"].float()
    both(work, newton_schulz, ((x / (x.norm() + 1e-7)).half(), params["coefficients"]), right)


def do_gated_delta_rule(work, t, right, params):
    if "cu_seqlens" in t:
        return recurrence(work, t, right)
    every = [t[n] for n in ("q", "k", "v", "a", "b", "A_log", "dt_bias")]
    row(work, "eager", lambda: chunks(*every, t["initial_state"][0]), right)
    try:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    except ImportError as e:
        return gap(work, "fla", e)
    q, k, v, g, beta = (x[None] for x in (t["q"], t["k"], t["v"], *gates(t["a"], t["b"], t["A_log"], t["dt_bias"])))
    common = dict(initial_state=t["initial_state"], output_final_state=True, use_qk_l2norm_in_kernel=True)
    within = dict(use_gate_in_kernel=True, A_log=t["A_log"], dt_bias=t["dt_bias"], use_beta_sigmoid_in_kernel=True)
    given = lambda: chunk_gated_delta_rule(q, k, v, g, beta, **common)
    row(work, "fla", given, right)
    row(work, "fla, launched from Python", given, right, timer=lambda runs: launched(runs[0]))
    row(work, "fla, gates inside", lambda: chunk_gated_delta_rule(q, k, v, t["a"][None], t["b"][None], **common, **within), right)
    row(work, "fla, token by token", lambda: fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, **common), right)


def states_of(rows):
    """As many copies of the states that no cache holds them: those of bench_gpu_executor.cu."""
    return max(8, 48 // rows) if GPU else 1


def rows_of(t, right, names, rows):
    """So many rows of what has rows, from the first on again where they do not suffice."""
    index = torch.arange(rows, device=DEVICE) % len(right[0])
    return {n: x[index] if n in names else x for n, x in t.items()}, [r[index] for r in right]


def recurrence(work, t, right):
    """Decoding by flash-linear-attention: the bare recurrence, gates given."""
    if t["initial_state"].dtype != torch.float32:
        return
    for rows in (1, 16, 64, 256):
        try:
            from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule
        except ImportError as e:
            gap(f"decode_f32_{rows}", "fla", e)
            continue
        some, true = rows_of(t, right, ("q", "k", "v", "a", "b", "initial_state"), rows)
        token = [some[n][:, None] for n in ("q", "k", "v")]
        g, beta = (x[:, None] for x in gates(*(some[n] for n in ("a", "b", "A_log", "dt_bias"))))
        run = lambda S: lambda: fused_recurrent_gated_delta_rule(*token, g=g, beta=beta, initial_state=S, output_final_state=True,
                                                                 use_qk_l2norm_in_kernel=True)
        row(f"decode_f32_{rows}", "fla", run(some["initial_state"]), true,
            [run(some["initial_state"].clone()) for _ in range(states_of(rows))])
        if rows == 1:
            row("decode_f32_1", "fla, launched from Python", run(some["initial_state"]), true, timer=lambda runs: launched(runs[0]))


def do_mixed_batch(work, t, right, params):
    p = int(t["position"][0]) % 4       # the oldest input's column, which the new one takes
    t = {n: x[0] if n in ("conv_weight", "A_log", "dt_bias", "norm_weight") else x for n, x in t.items()}
    layer = {n: t[n][:, 0] for n in ("x", "z", "a", "b")} | {"history": t["conv_pool"][:, 0][..., [(p + i) % 4 for i in (1, 2, 3)]]}
    layer |= {"S": t["state_pool"][:, 0]}
    for rows in (1, 16, 64, 256):
        some, true = rows_of(layer, [r[:, 0] for r in right[:2]], tuple(layer), rows)

        def run_of(function, some=some):
            history, S = some["history"].clone(), some["S"].clone()
            return lambda: function(*(some[n] for n in ("x", "z", "a", "b")), *(t[n] for n in ("conv_weight", "A_log", "dt_bias", "norm_weight")),
                                    history, S)

        def measure(function, rival, rows=rows, true=true, run_of=run_of):
            fresh, runs = run_of(function), [run_of(function) for _ in range(states_of(rows))]
            row(f"{work}_{rows}", rival, fresh, true, runs)

        measure(decode, "eager")
        if rows in (1, 64):
            later.append(lambda measure=measure: measure(torch.compile(decode, dynamic=False), "compiled"))


def main(folder, *only):
    try:
        fla = "flash-linear-attention " + importlib.metadata.version("fla-core")
    except importlib.metadata.PackageNotFoundError:
        fla = "no flash-linear-attention"
    print(f"about\tPyTorch {torch.__version__}, {fla}", flush=True)
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        if only and path.stem not in only:
            continue
        with safe_open(path, "pt", device=DEVICE) as f:
            about = f.metadata()
            t = {n[3:]: f.get_tensor(n) for n in f.keys() if n.startswith("in.")}
            truth = {n[6:]: f.get_tensor(n) for n in f.keys() if n.startswith("truth.")}
        order = {"mixed_batch": ("y", "state_pool"), "qk_norm_rope": ("q", "k", "gate"), "rmsnorm_fp8": ("y", "scale", "residual_out"),
                 "rmsnorm": ("y", "residual_out"), "causal_conv1d": ("y", "final_state")}.get(about["etalon.op"], ("y", "o", "final_state"))
        globals()["do_" + about["etalon.op"]](path.stem, t, [truth[n] for n in order if n in truth], json.loads(about["etalon.params"]))
    for compile in later:
        compile()


if __name__ == "__main__":
    with torch.no_grad():
        main(*sys.argv[1:])
