# What PyTorch and flash-linear-attention make of the works that bench-gpu shares: a row (bench/row.h) on stdout for each, of
# the table rival, or other where a way has no column on the page.
# usage: rivals.py FOLDER [WORK...]: FOLDER has WORK.safetensors, inputs "in.NAME" and what is right "truth.NAME". First comes a
# row with versions. An error is |x - y| / |y|; microseconds are nan where a rival is missing or fails, and a line on
# stderr says why. Times: medians of graphs of so many calls that the launch of one does not count; decoding goes over as many
# states that no cache holds them.
import importlib.metadata
import json
import math
import os
import pathlib
import statistics
import sys
import time

import torch
from safetensors import safe_open

os.environ.setdefault("FLA_FLASH_QLA", "0")        # or it hands over to FlashQLA, which has a row of its own
import rival_ops as ops
import rivals_gdn

WARM, ROUNDS, MICROSECONDS, MOST = 3, 15, 1500, 32
GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
ORDER = "y", "scale", "residual_out", "q", "k", "gate", "o", "final_state", "state_pool"     # of outputs; rings are not compared


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


def tell(work, rival, us, errors=()):
    table = "rival" if rival in ("eager", "compiled", "fla") else "other"
    print("\t".join([table, work, rival, us, "", "", "us", "", "", "", "", " ".join(errors)]), flush=True)


def row(work, rival, make, right, runs=None, timer=time_of, compared=True):
    """make(): the outputs that `right` lists. runs: what is timed, where that is not `make` again."""
    try:
        outputs = make()
        errors = [error_of(x, y) for x, y in zip(outputs, right, strict=True)] if compared else []
        us = timer(runs or [make])
        tell(work, rival, f"{us:.3f}", [f"{e:.3e}" for e in errors])
    except Exception as e:      # a rival that does not run here is a gap
        gap(work, rival, e)


def gap(work, rival, why):
    tell(work, rival, "nan")
    print(f"rivals.py: {work}, {rival}: {type(why).__name__}: {str(why)[:200]}", file=sys.stderr)


def both(work, function, arguments, right):
    """Eager now; compiled when `later` runs, for compiling takes long."""
    row(work, "eager", lambda: function(*arguments), right)
    later.append(lambda: row(work, "compiled", bound(torch.compile(function, dynamic=False), arguments), right))


def bound(function, arguments):
    return lambda: function(*arguments)


later = []


# ---- the works ----

def numbers(params, *names):
    absent = {"eps": 1e-6, "min_scale": 2.0 ** -18}
    return [params.get(n, absent.get(n)) for n in names]


def do_rmsnorm(work, t, right, params):
    eps, offset = numbers(params, "eps", "weight_offset")
    both(work, ops.rmsnorm, (t["x"], t["weight"], eps, offset, t.get("residual"), t.get("gate")), right)
    try:
        if "gate" in t:
            from fla.modules.norm.fused_norm_gate import rms_norm_gated
            row(work, "fla", lambda: (rms_norm_gated(t["x"], t["gate"], t["weight"], None, eps=eps),), right)
        elif "residual" in t:
            from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward
            row(work, "Liger", lambda: fused_add_rms_norm_forward(t["x"], t["residual"], t["weight"], eps, float(offset), "gemma")[:2], right)
        else:
            from liger_kernel.ops.rms_norm import rms_norm_forward
            row(work, "Liger", lambda: rms_norm_forward(t["x"], t["weight"], eps, float(offset), "gemma", None)[:1], right)
    except ImportError as e:
        gap(work, "fla" if "gate" in t else "Liger", e)
    if "gate" not in t:
        later.insert(0, lambda: quack_norm(work, t, right, eps, offset))


def quack_norm(work, t, right, eps, offset):
    try:
        from quack.rmsnorm import rmsnorm_fwd
    except Exception as e:      # where there is no device it fails otherwise than by ImportError
        return gap(work, "quack", e)
    weight = t["weight"].float() + offset
    run = lambda: tuple(y for y in rmsnorm_fwd(t["x"], weight, residual=t.get("residual"), eps=eps)[:len(right)])
    row(work, "quack", run, right)


def do_rmsnorm_fp8(work, t, right, params):
    both(work, ops.rmsnorm_fp8, (t["x"], t["weight"], *numbers(params, "eps", "weight_offset", "min_scale"), t["residual"]), right)


def do_qk_norm_rope(work, t, right, params):
    cos, sin = ops.angles(t["positions"], params["rotary_dim"], params["theta"], t["k"].dtype)
    for T in (64, 4096) if len(t["k"]) == 4096 else (len(t["k"]),):
        every = (t["qg"][:T], t["k"][:T], t["q_weight"], t["k_weight"], *numbers(params, "eps"), cos[:T], sin[:T])
        both(f"{work}_{T}", ops.heads, every, [r[:T] for r in right])


def do_gated_product(work, t, right, params):
    if "gate" in t:
        both(work, ops.gated, (t["x"], t["gate"]), right)
    else:
        both(work, ops.gated_expert, (t["x"], t["hidden"], t["gate_weight"], t["addend"]), right)


def do_rope(work, t, right, params):
    cos, sin = ops.angles(t["positions"], params["rotary_dim"], params["theta"], t["x"].dtype)
    both(work, lambda x, cos, sin: (ops.turn(x, cos, sin),), (t["x"], cos, sin), right)


def do_causal_conv1d(work, t, right, params):
    x, weight, work = t["x"], t["weight"].to(t["x"].dtype), f"{work}_{len(t['x'])}"
    cuts, before = t.get("cu_seqlens"), t.get("initial_state")
    if cuts is None:
        both(work, ops.convolution, (x, weight, x.new_zeros(1, x.shape[1], weight.shape[1] - 1)), right)
    try:
        from fla.modules.causal_conv1d import causal_conv1d
    except ImportError as e:
        return gap(work, "fla", e)
    if before is not None:      # as many columns as taps there, the oldest of which no output needs
        before = torch.nn.functional.pad(before.to(x.dtype), (1, 0))

    def run():
        y, last = causal_conv1d(x[None], weight, initial_state=before, output_final_state=True, activation="silu", cu_seqlens=cuts)
        return y[0], last[..., 1:]

    row(work, "fla", run, right)


def do_newton_schulz(work, t, right, params):
    x = t["x"].float()
    both(work, ops.newton_schulz, ((x / (x.norm() + 1e-7)).half(), params["coefficients"]), right)
    try:
        from gram_newton_schulz import GramNewtonSchulz
    except ImportError as e:
        return gap(work, "gram-newton-schulz, cuBLAS", e)
    grams = [GramNewtonSchulz(ns_use_kernels=kernels, ns_coefficients=params["coefficients"], gram_newton_schulz_reset_iterations=[2],
                              compile_kwargs=None) for kernels in (False, True)]
    row(work, "gram-newton-schulz, cuBLAS", lambda: (grams[0](x),), right)
    later.insert(0, lambda: row(work, "gram-newton-schulz, quack's symmetric products", lambda: (grams[1](x),), right))


def do_gated_delta_rule(work, t, right, params):
    if "cu_seqlens" in t:
        return recurrence(work, t, right)
    every = [t[n] for n in ("q", "k", "v", "a", "b", "A_log", "dt_bias")]
    work = f"{work}_{len(t['q'])}"
    row(work, "eager", lambda: ops.chunks(*every, t["initial_state"][0]), right)
    try:
        from fla.ops.gated_delta_rule import chunk_gated_delta_rule, fused_recurrent_gated_delta_rule
    except ImportError as e:
        return gap(work, "fla", e)
    q, k, v, g, beta = (x[None] for x in (t["q"], t["k"], t["v"], *ops.gates(t["a"], t["b"], t["A_log"], t["dt_bias"])))
    common = dict(initial_state=t["initial_state"], output_final_state=True, use_qk_l2norm_in_kernel=True)
    within = dict(use_gate_in_kernel=True, A_log=t["A_log"], dt_bias=t["dt_bias"], use_beta_sigmoid_in_kernel=True)
    given = lambda: chunk_gated_delta_rule(q, k, v, g, beta, **common)
    row(work, "fla", given, right)
    row(work, "fla, gates inside", lambda: chunk_gated_delta_rule(q, k, v, t["a"][None], t["b"][None], **common, **within), right)
    row(work, "fla, launched from Python", given, right, timer=lambda runs: launched(runs[0]))
    row(work, "fla, token by token", lambda: fused_recurrent_gated_delta_rule(q, k, v, g, beta=beta, **common), right)
    others(work, [x[0] for x in (q, k, v, g, beta)], t["initial_state"], torch.tensor([0, len(t["q"])], device=DEVICE), right)
    for T, N in ((1024, 1), (16384, 1), (65536, 1), (16384, RAGGED)) if GPU else ():
        # the same tokens again and again, whose answer is not compared
        some = [x.repeat(1, -(-T // x.shape[1]), *[1] * (x.dim() - 2))[:, :T].contiguous() for x in (q, k, v, g, beta)]
        own = common | {"initial_state": t["initial_state"].repeat(N, 1, 1, 1)}
        if N > 1:
            own["cu_seqlens"] = torch.tensor([ragged_cut(i, T) for i in range(N + 1)], device=DEVICE)
        run = lambda some=some, own=own: chunk_gated_delta_rule(*some, **own)
        name, cuts = f"prefill_{'ragged_' if N > 1 else ''}{T}", torch.tensor([ragged_cut(i, T) if N > 1 else i * T for i in range(N + 1)],
                                                                              device=DEVICE)
        row(name, "fla", run, [], compared=False)
        others(name, [x[0] for x in some], own["initial_state"], cuts, None)


def others(work, every, S, cuts, right):
    for name, make in rivals_gdn.PREFILLS.items():
        if "along" in name and len(cuts) > 2:
            continue
        try:
            run = make(*every, S, cuts)
        except Exception as e:
            gap(work, name, e)
            continue
        row(work, name, run, right or [], compared=right is not None)


RAGGED = 32


def ragged_cut(i, T):
    """That of bench/gpu_works.h."""
    return T * i * i // RAGGED ** 2 + (i % 3 if 0 < i < RAGGED else 0)


def states_of(rows):
    """As many copies of the states that no cache holds them: those of bench/gpu_executor.cu."""
    return max(8, 48 // rows) if GPU else 1


def rows_of(t, right, names, rows):
    """So many rows of what has rows, from the first on again where they do not suffice."""
    index = torch.arange(rows, device=DEVICE) % len(right[0])
    return {n: x[index] if n in names else x for n, x in t.items()}, [r[index] for r in right]


def rivals_gdn_run(t, S):
    try:
        return rivals_gdn.decode(t, S)
    except Exception as e:
        why = e

        def fails():
            raise why
        return fails


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
        g, beta = (x[:, None] for x in ops.gates(*(some[n] for n in ("a", "b", "A_log", "dt_bias"))))
        run = lambda S: lambda: fused_recurrent_gated_delta_rule(*token, g=g, beta=beta, initial_state=S, output_final_state=True,
                                                                 use_qk_l2norm_in_kernel=True)
        row(f"decode_f32_{rows}", "fla", run(some["initial_state"]), true,
            [run(some["initial_state"].clone()) for _ in range(states_of(rows))])
        for kind, S in (("f32", some["initial_state"]), ("bf16", some["initial_state"].bfloat16())):
            first = dict(some)
            row(f"decode_{kind}_{rows}", "FlashInfer, the recurrence", rivals_gdn_run(first, S), true,
                [rivals_gdn_run(first, S) for _ in range(states_of(rows))])
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
            weights = (t[n] for n in ("conv_weight", "A_log", "dt_bias", "norm_weight"))
            every = (*(some[n] for n in ("x", "z", "a", "b")), *weights, history, S)
            return lambda: function(*every)

        def measure(function, rival, rows=rows, true=true, run_of=run_of):
            fresh, runs = run_of(function), [run_of(function) for _ in range(states_of(rows))]
            row(f"{work}_{rows}", rival, fresh, true, runs)

        measure(ops.decode, "eager")
        if rows in (1, 64):
            later.append(lambda measure=measure: measure(torch.compile(ops.decode, dynamic=False), "compiled"))


def main(folder, *only):
    rivals = ["PyTorch " + torch.__version__]
    for package, name in (("fla-core", "flash-linear-attention"), ("liger-kernel", "Liger"), ("gram-newton-schulz",) * 2,
                          ("flashinfer-python", "FlashInfer"), ("flash-qla", "FlashQLA"), ("quack-kernels", "quack")):
        try:
            rivals.append(f"{name} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            rivals.append("no " + name)
    print("rivals\t" + ", ".join(rivals), flush=True)
    for path in sorted(pathlib.Path(folder).glob("*.safetensors")):
        if only and path.stem not in only:
            continue
        with safe_open(path, "pt", device=DEVICE) as f:
            about = f.metadata()
            t = {n[3:]: f.get_tensor(n) for n in f.keys() if n.startswith("in.")}
            truth = {n[6:]: f.get_tensor(n) for n in f.keys() if n.startswith("truth.")}
        right = [truth[n] for n in ORDER if n in truth]
        globals()["do_" + about["etalon.op"]](path.stem, t, right, json.loads(about["etalon.params"]))
    for compile in later:
        compile()


if __name__ == "__main__":
    with torch.no_grad():
        main(*sys.argv[1:])
