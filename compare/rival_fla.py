# flash-linear-attention on the numbers of `bench-gpu --prefill FILE`, a line for each of its kernels:
#   name <tab> microseconds <tab> error of o <tab> error of the state        errors |x - y| / |y|, "-" if there is none
# y is FILE's answer in float32 by the sequential kernel; for a step of decoding, float64 of the same numbers. Times are medians
# of 15 replays of a CUDA graph. What cannot run is a line of its own on stderr, and its row is missing.
import statistics
import sys

import torch
from safetensors.torch import load_file

WARM, ROUNDS = 3, 15


def time_of(run):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(WARM):
            run()                       # tunes, compiles and allocates
    side.synchronize()
    graph = torch.cuda.CUDAGraph()
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    with torch.cuda.graph(graph):
        run()
    times = []
    for n in range(WARM + ROUNDS):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return statistics.median(times[WARM:])


def error_of(got, right):
    right = right.double()
    return ((got.double() - right).norm() / right.norm()).item()


def row(name, run, right_o, right_state):
    try:
        o, state = run()
        error = error_of(o, right_o), error_of(state, right_state)
        print(f"{name}\t{time_of(run):.1f}\t{error[0]:.3e}\t{error[1]:.3e}", flush=True)
    except Exception as e:              # a kernel that does not compile here
        print(f"rival_fla.py: {name}: {type(e).__name__}: {e}"[:300], file=sys.stderr)


def gates(x, decay_type=torch.float32):
    a, A_log, dt_bias, b = (x[n].to(decay_type) for n in ("a", "A_log", "dt_bias", "b"))
    return -A_log.exp() * torch.nn.functional.softplus(a + dt_bias), b.sigmoid()


def prefill(x):
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    q, k, v, a, b = (x[n][None] for n in ("q", "k", "v", "a", "b"))
    g, beta = (z[None] for z in gates(x))
    common = dict(initial_state=x["initial_state"], output_final_state=True, use_qk_l2norm_in_kernel=True)
    within = dict(use_gate_in_kernel=True, A_log=x["A_log"], dt_bias=x["dt_bias"], use_beta_sigmoid_in_kernel=True)
    right = x["o"][None], x["final_state"]
    row("prefill, chunks, g and beta given", lambda: chunk_gated_delta_rule(q, k, v, g, beta, **common), *right)
    row("prefill, chunks", lambda: chunk_gated_delta_rule(q, k, v, a, b, **common, **within), *right)
    row("prefill, sequential", lambda: fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, **common), *right)


def step(S, x, g, beta):
    """One token a row in float64: S [rows,Hv,Dk,Dv]."""
    group = x["v"].shape[1] // x["q"].shape[1]
    unit = lambda z: (z * (z.square().sum(-1, keepdim=True) + 1e-6).rsqrt()).repeat_interleave(group, 1)
    q, k = unit(x["q"].double()), unit(x["k"].double())
    S = S * g.exp()[..., None, None]
    u = beta[..., None] * (x["v"].double() - torch.einsum("nhkv,nhk->nhv", S, k))
    S = S + k[..., None] * u[..., None, :]
    return torch.einsum("nhkv,nhk->nhv", S, q) * q.shape[-1] ** -0.5, S


def decode(x, rows):
    from fla.ops.gated_delta_rule import fused_recurrent_gated_delta_rule
    few = {n: x[n][:rows] for n in ("q", "k", "v", "a", "b")} | {n: x[n] for n in ("A_log", "dt_bias")}
    S = x["initial_state"].repeat(rows, 1, 1, 1)
    right = step(S.double(), few, *gates(few, torch.float64))
    token = {n: few[n][:, None] for n in ("q", "k", "v")}
    g, beta = (z[:, None] for z in gates(few))
    row(f"decode, {rows} rows, g and beta given",
        lambda: fused_recurrent_gated_delta_rule(**token, g=g, beta=beta, initial_state=S, output_final_state=True,
                                                 use_qk_l2norm_in_kernel=True), right[0][:, None], right[1])


if __name__ == "__main__":
    torch.cuda.set_device(0)
    tensors = load_file(sys.argv[1], device="cuda")
    with torch.no_grad():
        prefill(tensors)
        for n in (1, 64, 256):
            decode(tensors, n)
