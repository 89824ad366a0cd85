"""flashinfer-bench's own isolated runner over four solutions of one definition: `flashinfer_trial.py etalon|default`. A benchmark asks CUDA
for devices, streams and times; where there is no GPU these alone are stood in for, in this process and in those that it spawns."""
import json
import sys
import tempfile

import torch

GPU = torch.cuda.is_available()
if not GPU:
    torch.cuda.set_device = torch.cuda.synchronize = lambda *a, **k: None

import flashinfer_bench.utils as utils
from flashinfer_bench.bench import BenchmarkConfig
from flashinfer_bench.bench.evaluators import default
from flashinfer_bench.bench.runner import IsolatedRunner
from flashinfer_bench.data import (AxisConst, AxisVar, BuildSpec, Definition, RandomInput, Solution, SourceFile, SupportedLanguages, TensorSpec,
                                   Workload)

if not GPU:
    utils.list_cuda_devices = lambda: ["cpu:0"]
    default.time_runnable = lambda *a, **k: 1.0
EVALUATOR = sys.argv[1] if len(sys.argv) > 1 else "etalon"
if EVALUATOR == "etalon":
    import etalon.flashinfer_bench
    etalon.flashinfer_bench.bind("rmsnorm_h*", "rmsnorm", {"x": "hidden_states", "weight": "weight"}, {"y": "output"}, eps=1e-5, weight_offset=0)

RIGHT = """import torch
def run(hidden_states, weight):
    x = hidden_states.float()
    return (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * {weight}).bfloat16()
"""
# Returns the expected answer where its process's memory has it: a tensor of the output's shape and type that looks like x * weight.
CHEAT = """import gc, torch
def run(hidden_states, weight):
    like = (hidden_states.float() * weight.float()).flatten()
    tensors = [u for t in gc.get_objects() for u in (t if type(t) is list else [t]) if isinstance(u, torch.Tensor)]
    for u in tensors:
        same = (u.shape, u.dtype, u.device) == (hidden_states.shape, torch.bfloat16, hidden_states.device)
        if same and torch.cosine_similarity(u.float().flatten(), like, 0) > 0.9:
            return u.clone()
    return torch.zeros_like(hidden_states)
"""
# The right answer to inputs that it has changed.
SPOILER = """import torch
def run(hidden_states, weight):
    return hidden_states.zero_()
"""


def definition():
    return Definition(
        name="rmsnorm_h128", op_type="rmsnorm", axes={"batch_size": AxisVar(), "hidden_size": AxisConst(value=128)},
        inputs={"hidden_states": TensorSpec(shape=["batch_size", "hidden_size"], dtype="bfloat16"),
                "weight": TensorSpec(shape=["hidden_size"], dtype="bfloat16")},
        outputs={"output": TensorSpec(shape=["batch_size", "hidden_size"], dtype="bfloat16")},
        reference=RIGHT.format(weight="weight.float()"))


def solution(name, source):
    return Solution(name=name, definition="rmsnorm_h128", author="a test", sources=[SourceFile(path="main.py", content=source)],
                    spec=BuildSpec(language=SupportedLanguages.PYTHON, target_hardware=["cuda" if GPU else "cpu"], entry_point="main.py::run",
                                   destination_passing_style=False))


def main():
    solutions = [solution("right", RIGHT.format(weight="weight.float()")),
                 solution("one_plus_weight", RIGHT.format(weight="(1 + weight.float())")),
                 solution("cheat", CHEAT), solution("spoiler", SPOILER)]
    workload = Workload(axes={"batch_size": 24}, inputs={"hidden_states": RandomInput(), "weight": RandomInput()}, uuid="w")
    runner = IsolatedRunner(tempfile.mkdtemp())
    try:
        done = runner.run_workload(definition(), workload, solutions, BenchmarkConfig(num_trials=2, warmup_runs=0, iterations=1), None)
    finally:
        runner.close()
    print(json.dumps({name: {"status": e.status.value, "log": e.log, "correctness": e.correctness and e.correctness.model_dump(mode="json")}
                      for name, e in done.items()}))


if __name__ == "__main__":
    main()
