"""The Python package against arrays that know nothing of it. torch, ml_dtypes: where they are installed."""
import os
import subprocess
import sys

import numpy as np
import pytest

import etalon

PARAMS = {"eps": 1e-6, "weight_offset": 1}


def norm(x, weight, offset=1):
    x = x.astype(np.float64)
    return (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * (weight + offset)).astype(np.float32)


@pytest.fixture
def call():
    r = np.random.default_rng(5)
    return r.standard_normal((48, 96), dtype=np.float32), 0.2 * r.standard_normal(96, dtype=np.float32)


def test_a_right_answer_passes(call):
    x, w = call
    v = etalon.check("rmsnorm", {"x": x, "weight": w}, {"y": norm(x, w)}, **PARAMS)
    assert v.passed and v.fault is None and not v.reasons
    assert "PASS under contract f32" in str(v) and "PASS" in v._repr_html_()
    assert v.json["outputs"][0]["elements"] == x.size


def test_a_fault_is_named(call):
    x, w = call
    v = etalon.check("rmsnorm", {"x": x, "weight": w}, {"y": norm(x, w, 0)}, **PARAMS)
    assert v.outcome == "fail" and v.fault == "plain_weight_for_zero_centred"
    with pytest.raises(AssertionError, match="^fail: plain_weight_for_zero_centred\n"):
        etalon.assert_correct("rmsnorm", {"x": x, "weight": w}, {"y": norm(x, w, 0)}, **PARAMS)
    with pytest.raises(TypeError):
        bool(v)


def test_nan_never_passes(call):
    x, w = call
    y = norm(x, w)
    y[3, 7] = np.nan
    assert etalon.check("rmsnorm", {"x": x, "weight": w}, {"y": y}, **PARAMS).outcome == "fail"


def test_strides_are_followed(call):
    x, w = call
    wide = np.zeros((96, 48, 2), dtype=np.float32)
    wide[:, :, 0] = norm(x, w).T
    y = wide[::-1, :, 0][::-1].T
    assert not y.flags["C_CONTIGUOUS"]
    assert etalon.check("rmsnorm", {"x": x[:, ::-1][:, ::-1], "weight": w}, {"y": y}, **PARAMS).passed


class OnlyDLPack:
    def __init__(self, a):
        self.a = a

    def __dlpack__(self):
        return self.a.__dlpack__()

    def __dlpack_device__(self):
        return self.a.__dlpack_device__()


def test_dlpack(call):
    x, w = call
    assert etalon.check("rmsnorm", {"x": OnlyDLPack(x), "weight": OnlyDLPack(w)}, {"y": OnlyDLPack(norm(x, w))}, **PARAMS).passed


def test_errors_say_where():
    with pytest.raises(etalon.Error, match="no_such_op"):
        etalon.check("no_such_op", {}, {})
    with pytest.raises(etalon.Error) as e:
        etalon.check("rmsnorm", {"x": np.zeros((2, 3), dtype=np.complex64)}, {}, **PARAMS)
    assert e.value.item == "in.x" and "complex64" in str(e.value)
    with pytest.raises(etalon.Error, match="expected a tensor"):
        etalon.check("rmsnorm", {"x": "text"}, {}, **PARAMS)
    with pytest.raises(etalon.Error, match="in.weight"):
        etalon.check("rmsnorm", {"x": np.zeros((2, 3), dtype=np.float32)}, {}, **PARAMS)
    with pytest.raises(etalon.Error, match="no_such"):
        etalon.check("rmsnorm", {"x": np.zeros((2, 3), dtype=np.float32)}, {}, no_such=1, **PARAMS)
    with pytest.raises(etalon.Error, match="'op': expected an op's name or an etalon.Op, got function"):
        etalon.check(norm, {}, {})
    with pytest.raises(etalon.Error, match="'in.0': unexpected tensor"):
        etalon.check("rmsnorm", {0: np.ones(3), "x": np.ones((2, 3)), "weight": np.ones(3)}, {"y": np.ones((2, 3))}, **PARAMS)


def test_a_case_and_its_answer():
    case = etalon.inputs("rmsnorm", "plain_f32", seed=1)
    a = case.numpy()
    y = case.answer()["y"].numpy()
    assert y.dtype == np.float64
    expected = norm(a["x"], a["weight"], 0)
    assert np.abs(y - expected).max() < 1e-5
    assert etalon.check("rmsnorm", a, {"y": y.astype(np.float32)}, **case.params).passed


def test_an_op_of_ones_own(tmp_path):
    path = tmp_path / "l2.op"
    path.write_text("op l2   # y = x/|x|\nin x [R, D]   # rows\nout y [R, D]\neach r in R\n\ns = sum(x[r]^2)\ny[r] = x[r] * rsqrt(s)\n"
                    "fault mean_for_sum: s = mean(x[r]^2)   # the mean\ncontract f32   # all in float32\n")
    op = etalon.Op(path)
    x = np.random.default_rng(1).standard_normal((20, 33))
    y = x / np.sqrt((x * x).sum(-1, keepdims=True))
    assert op.check({"x": x}, {"y": y.astype(np.float32)}).passed
    assert op.check({"x": x}, {"y": (y * np.sqrt(33)).astype(np.float32)}).fault == "mean_for_sum"
    (tmp_path / "bad.op").write_text("op bad\nin x [\n")
    with pytest.raises(etalon.Error, match="bad.op"):
        etalon.Op(tmp_path / "bad.op")


def test_a_saved_call_is_a_capture(call, tmp_path):
    x, w = call
    path = tmp_path / "call.safetensors"
    etalon.save(path, "rmsnorm", {"x": x, "weight": w}, {"y": norm(x, w)}, producer="a test", **PARAMS)
    done = subprocess.run([sys.executable, "-m", "etalon", "check", path], capture_output=True, text=True)
    assert done.returncode == 0 and "a test" in done.stdout


def test_bfloat16_of_ml_dtypes(call):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x, w = call
    x = x.astype(ml_dtypes.bfloat16)
    y = norm(x.astype(np.float32), w).astype(ml_dtypes.bfloat16)
    assert etalon.check("rmsnorm", {"x": x, "weight": w}, {"y": y}, **PARAMS).passed


def test_torch(call):
    torch = pytest.importorskip("torch")
    x, w = (torch.tensor(a) for a in call)
    x = x.bfloat16()
    y = torch.nn.functional.rms_norm(x.float(), (96,), 1 + w, 1e-6).bfloat16()
    assert etalon.check("rmsnorm", {"x": x.requires_grad_(), "weight": w}, {"y": y.t().contiguous().t()}, **PARAMS).passed
    case = etalon.inputs("rmsnorm", "zero_centred_256").torch()
    assert case["x"].dtype is torch.bfloat16
    for bad, said in ((x.to("meta"), "no numbers"), (x.to_sparse(), "dense"), (x.to(torch.complex64), "complex64")):
        with pytest.raises(etalon.Error, match="in.x.*" + said):
            etalon.check("rmsnorm", {"x": bad, "weight": w}, {"y": y}, **PARAMS)


TORCH = """
import etalon, torch
def norm(x, w):
    h = x.float()
    return (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)
def run(w_of_kernel):
    torch.manual_seed(0)
    x, w = torch.randn(64, 256).bfloat16(), (0.1 * torch.randn(256)).bfloat16()
    etalon.assert_correct("rmsnorm", {"x": x, "weight": w}, {"y": norm(x, w_of_kernel(w))}, eps=1e-6, weight_offset=1)
def test_right(): run(lambda w: 1 + w.float())
def test_planted(): run(lambda w: w)
"""


def test_a_torch_test_fails_with_the_faults_name(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "test_it.py").write_text(TORCH)
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py"], cwd=tmp_path, capture_output=True,
                          text=True, env={**os.environ, "PYTEST_ADDOPTS": "", "COLUMNS": "120"})
    assert done.returncode == 1 and "1 failed, 1 passed" in done.stdout
    assert "FAILED test_it.py::test_planted - AssertionError: fail: plain_weight_for_zero_centred" in done.stdout


def test_a_failure_says_first_what_is_wrong(call):
    x, w = call
    y = norm(x, w)
    y[3] *= np.float32(1.01)
    with pytest.raises(AssertionError) as failed:
        etalon.assert_correct("rmsnorm", {"x": x, "weight": w}, {"y": y}, **PARAMS)
    lines = str(failed.value).splitlines()
    assert "at R = 3" in lines[0] and any("1.0100" in line for line in lines[:3])
    assert "--contract" not in str(failed.value) and "the call names no contract" in str(
        failed.value
    )
