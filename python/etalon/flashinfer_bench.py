"""flashinfer-bench: an evaluator of the definitions that are bound, judged by etalon.

    import etalon.flashinfer_bench
    etalon.flashinfer_bench.bind("rmsnorm_h*", "rmsnorm", {"x": "hidden_states", "weight": "weight"}, {"y": "output"}, eps=1e-6, weight_offset=0)

at the top of the script that makes the Benchmark, where the processes that it spawns read it too. Of two patterns the first bound that fits
counts."""
import dataclasses
import fnmatch
import traceback

import torch
from flashinfer_bench.bench.evaluators import DefaultEvaluator, registry
from flashinfer_bench.bench.evaluators.utils import allocate_outputs, normalize_result
from flashinfer_bench.bench.utils import make_eval
from flashinfer_bench.data import Correctness, EvaluationStatus

from . import Error
from ._bind import Binding

_bound = {}             # a pattern of definitions' names: Binding


def bind(definitions, op, inputs, outputs, **how):
    """definitions: a pattern of names, as in a shell. inputs, outputs: {the op's tensor: the definition's, or a function of all of the
    definition's tensors and scalars by name}; parameters of the op: values, or such functions."""
    _bound[definitions] = Binding(op, inputs, outputs, **how)


def bound(definition):
    return next((b for pattern, b in _bound.items() if fnmatch.fnmatchcase(definition.name, pattern)), None)


class EtalonEvaluator(DefaultEvaluator):
    @classmethod
    def can_evaluate(cls, definition):
        return bound(definition) is not None

    @classmethod
    def build_baseline(cls, definition, workload, cfg, device, trace_set_root=None):
        """The reference is timed where solutions do not run, and its answers are not kept: none are lent to a solution's process."""
        baseline = super().build_baseline(definition, workload, cfg, device, trace_set_root)
        return dataclasses.replace(baseline, outputs=[[] for _ in baseline.inputs])

    @classmethod
    def check_correctness(cls, definition, sol_runnable, inputs, ref_outputs, cfg, log_path, device):
        binding, verdicts = bound(definition), []

        def failed(status, why="", correctness=None):
            return correctness, make_eval(status=status, device=device, log_path=log_path, correctness=correctness, extra_msg=why or None)
        if not inputs:
            return failed(EvaluationStatus.RUNTIME_ERROR, "no input: nothing was judged")
        for given in inputs:
            try:
                taken = binding.take(dict(zip(definition.inputs, given)))
                outputs = _run(definition, sol_runnable, given, device)
            except Exception:
                return failed(EvaluationStatus.RUNTIME_ERROR, traceback.format_exc())
            axes = definition.get_axes_values_from_inputs(given)
            if [tuple(t.shape) for t in outputs] != [tuple(s or ()) for s in definition.get_output_shapes(axes)]:
                return failed(EvaluationStatus.INCORRECT_SHAPE)
            if [t.dtype for t in outputs] != list(definition.torch_output_dtypes):
                return failed(EvaluationStatus.INCORRECT_DTYPE)
            try:
                verdict = binding.judge(taken, dict(zip(definition.outputs, outputs)))
            except Error as e:
                return failed(EvaluationStatus.RUNTIME_ERROR, f"etalon: {e}")
            if verdict.outcome == "undecided":
                return failed(EvaluationStatus.RUNTIME_ERROR, f"etalon: undecided\n{verdict}")
            verdicts.append(verdict)
            if not verdict.passed:
                return failed(EvaluationStatus.INCORRECT_NUMERICAL, str(verdict), _correctness(verdicts))
        return _correctness(verdicts), None


def _run(definition, runnable, given, device):
    with torch.no_grad():
        if runnable.metadata.destination_passing_style:
            got = allocate_outputs(definition, given, device)
            runnable(*given, *got)
        else:
            got = normalize_result(definition, runnable(*given), device)
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)
    return got


def _correctness(verdicts):
    """The worst element of each output: its error, and what a correct kernel's may be there."""
    worst = [o["worst"] for v in verdicts for o in v.json["outputs"]]
    errors = [abs(w["got"] - w["expected"]) if None not in (w["got"], w["expected"]) else float("nan") for w in worst]
    relative = [e / abs(w["expected"]) if w["expected"] else float("inf") if e else 0.0 for e, w in zip(errors, worst)]
    last = verdicts[-1]
    return Correctness(max_absolute_error=_largest(errors), max_relative_error=_largest(relative), extra={
        "etalon": {"verdict": last.outcome, "contract": last.json["contract"], "fault": last.fault, "reasons": last.reasons,
                   "sigma": _largest(abs(w["sigma"]) if w["sigma"] is not None else float("nan") for w in worst)}})


def _largest(numbers):
    numbers = list(numbers)
    return float("nan") if any(n != n for n in numbers) else max(numbers)


if EtalonEvaluator not in registry._EVALUATORS:
    registry._EVALUATORS.append(EtalonEvaluator)
