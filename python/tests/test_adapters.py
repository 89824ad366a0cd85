"""Verdicts of another process, and the benchmarks that ask for them: each with the real package where it is there. KernelBench and GPU MODE's
problems are on no package index: PYTHONPATH has KernelBench's src, GPU_MODE a folder with its utils.py."""
import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import etalon
from etalon._bind import Binding
from etalon.gpu_mode import make_match_etalon

HERE = os.path.dirname(os.path.abspath(__file__))
PARAMS = {"eps": 1e-5, "weight_offset": 0}
BOUND = {"inputs": {"x": 0, "weight": 1}, "outputs": {"y": 0}}


def norm(x, weight):
    x = x.astype(np.float64)
    return (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight).astype(np.float32)


@pytest.fixture
def call():
    r = np.random.default_rng(8)
    return r.standard_normal((24, 64), dtype=np.float32), r.standard_normal(64, dtype=np.float32)


def test_another_process_says_the_same(call):
    x, w = call
    for y in norm(x, w), norm(x, 1 + w):
        here, there = (etalon.check("rmsnorm", {"x": x, "weight": w}, {"y": y}, apart=apart, **PARAMS) for apart in (False, True))
        assert (here.outcome, here.fault, here.reasons, here.text) == (there.outcome, there.fault, there.reasons, there.text)
    assert there.fault == "zero_centred_for_plain"


def test_another_process_has_the_errors_too(call, tmp_path):
    x, w = call
    with pytest.raises(etalon.Error) as e:
        etalon.check("rmsnorm", {"x": x}, {"y": x}, apart=True, **PARAMS)
    assert e.value.item == "in.weight" and e.value.code == 2
    path = tmp_path / "double.op"
    path.write_text("op double   # y = 2x\nin x [R, D]   # rows\nout y [R, D]\neach r in R\n\ny[r] = 2 x[r]\ncontract f32   # all in float32\n")
    assert etalon.Op(path).check({"x": x}, {"y": 2 * x}, apart=True).passed
    assert not etalon.Op(path).check({"x": x}, {"y": 3 * x}, apart=True).passed


def test_a_judge_that_dies_passes_nothing(call, monkeypatch):
    x, w = call
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(etalon.Error) as e:
        etalon.check("rmsnorm", {"x": x, "weight": w}, {"y": norm(x, w)}, apart=True, **PARAMS)
    assert e.value.code == 4


def test_inputs_are_those_before_the_call(call):
    x, w = call
    binding = Binding("rmsnorm", BOUND["inputs"], {"y": lambda v: v["got"]}, eps=lambda v: v["eps"], weight_offset=0)
    values = {0: x.copy(), 1: w, "eps": 1e-5}
    taken = binding.take(values)
    values[0][:] = 0
    assert binding.judge(taken, {"got": norm(x, w)}).passed
    assert not binding.judge(binding.take(values), {"got": norm(x, w)}).passed


def test_what_is_bound_wrongly_is_an_error(call):
    x, w = call
    with pytest.raises(etalon.Error, match="in.weight.*no 3; it has 0, 1"):
        Binding("rmsnorm", {"x": 0, "weight": 3}, {"y": 0}, **PARAMS).take({0: x, 1: w})
    with pytest.raises(etalon.Error, match="no output"):
        Binding("rmsnorm", BOUND["inputs"], {}, **PARAMS)


def test_gpu_mode(call):
    x, w = call
    check_implementation = make_match_etalon("rmsnorm", **BOUND, **PARAMS)
    assert check_implementation((x, w), norm(x, w)) == (True, "")
    good, message = check_implementation((x, w), norm(x, 1 + w))
    assert good is False and "zero_centred_for_plain" in message


def test_gpu_mode_beside_its_own(call):
    torch = pytest.importorskip("torch")
    if "GPU_MODE" not in os.environ:
        pytest.skip("GPU_MODE names no folder with GPU MODE's utils.py")
    spec = importlib.util.spec_from_file_location("gpu_mode_utils", os.path.join(os.environ["GPU_MODE"], "utils.py"))
    utils = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(utils)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = tuple(torch.tensor(a, device=device) for a in call)
    theirs = utils.make_match_reference(lambda d: torch.tensor(norm(*(a.cpu().numpy() for a in d)), device=device), rtol=1e-3, atol=1e-3)
    ours = make_match_etalon("rmsnorm", **BOUND, **PARAMS)
    right = torch.tensor(norm(*call), device=device)
    assert [bool(f(data, right)[0]) for f in (theirs, ours)] == [True, True]
    assert [bool(f(data, right * (1 + 3e-4))[0]) for f in (theirs, ours)] == [True, False]      # a gain within the tolerance
    assert [bool(f(data, right.bfloat16().float())[0]) for f in (theirs, ours)] == [False, False]     # an output in bf16 is none in float32


MODEL = """import torch
class Model(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(n))
    def forward(self, x):
        {body}
"""
RIGHT = "return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight"


@pytest.mark.parametrize("body, correct, said", [
    (RIGHT, True, None),
    (RIGHT.replace("self.weight", "(1 + self.weight)"), False, "zero_centred_for_plain"),
    (RIGHT.replace(" + 1e-5", ""), False, "eps_missing"),
    ("raise RuntimeError('no launch')", False, None)])
def test_kernelbench(body, correct, said):
    torch = pytest.importorskip("torch")
    bench = pytest.importorskip("kernelbench.eval")
    from etalon.kernelbench import checker
    made = []
    for text in RIGHT, body:
        scope = {}
        exec(MODEL.format(body=text), scope)
        torch.manual_seed(7)
        made.append(scope["Model"](96))
    check = checker("rmsnorm", inputs={"x": 0, "weight": "weight"}, outputs={"y": 0}, **PARAMS)
    done = check(*made, lambda: [0.02 * torch.randn(40, 96)], metadata={}, num_correct_trials=2, seed=1, device=torch.device("cuda" if torch.cuda.is_available() else "cpu"))
    assert isinstance(done, bench.KernelExecResult) and done.compiled and done.correctness is correct
    assert said is None or said in done.metadata["correctness_issue"]
    with pytest.raises(ValueError):
        check(*made, lambda: [], metadata={}, num_correct_trials=0)


def test_flashinfer_bench():
    """Its own evaluator lends the expected answers to the process of a solution, which can return them."""
    pytest.importorskip("flashinfer_bench")
    of = {}
    for evaluator in "default", "etalon":
        done = subprocess.run([sys.executable, os.path.join(HERE, "flashinfer_trial.py"), evaluator], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        of[evaluator] = json.loads(done.stdout.splitlines()[-1])
    status = {e: {name: s["status"] for name, s in d.items()} for e, d in of.items()}
    wrong = "INCORRECT_NUMERICAL"
    assert status["default"] == {"right": "PASSED", "one_plus_weight": wrong, "cheat": "PASSED", "spoiler": wrong}
    assert status["etalon"] == {"right": "PASSED", "one_plus_weight": wrong, "cheat": wrong, "spoiler": wrong}
    assert of["etalon"]["one_plus_weight"]["correctness"]["extra"]["etalon"]["fault"] == "zero_centred_for_plain"
    assert "FAIL under contract" in of["etalon"]["one_plus_weight"]["log"]
