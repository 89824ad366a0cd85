"""The library in a Python process as it may be: forked, under a locale that writes 0,5, with arguments of any kind."""
import os
import subprocess
import sys

import numpy as np
import pytest

import etalon

PARAMS = {"eps": 1e-6, "weight_offset": 0}

CALL = """
import numpy as np, etalon
x = np.random.default_rng(5).standard_normal((48, 96), dtype=np.float32)
y = (x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)).astype(np.float32)
def judged(gain=1):
    return etalon.check("rmsnorm", {"x": x, "weight": np.ones(96, dtype=np.float32)}, {"y": (y * gain).astype(np.float32)}, eps=1e-6, weight_offset=0)
"""


def norm(x, weight):
    x = x.astype(np.float64)
    return (x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight).astype(np.float32)


def run(code, **env):
    done = subprocess.run([sys.executable, "-c", CALL + code], capture_output=True, text=True, timeout=300, env={**os.environ, **env})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.split()


def test_a_forked_child_judges():
    """As multiprocessing's pools do, after the parent has judged, each with several threads."""
    assert run("""
import multiprocessing, os, signal
def outcome(gain): return judged(gain).outcome
print(judged().outcome, flush=True)
pid = os.fork()
if not pid:
    signal.alarm(100)
    print(judged().outcome, judged(1.5).outcome, flush=True)
    os._exit(0)
print(os.waitpid(pid, 0)[1])
with multiprocessing.get_context("fork").Pool(2) as p:
    print(*p.map_async(outcome, [1, 2]).get(100))
""", OMP_NUM_THREADS="4") == ["pass", "pass", "fail", "0", "pass", "fail"]


def test_a_locale_that_writes_commas(tmp_path):
    (tmp_path / "source").write_text('LC_NUMERIC\ndecimal_point ","\nthousands_sep ""\ngrouping -1\nEND LC_NUMERIC\n')
    subprocess.run(["localedef", "-c", "-i", "source", "-f", "ANSI_X3.4-1968", "./comma"], cwd=tmp_path, capture_output=True)
    code = """
import locale
locale.setlocale(locale.LC_ALL, "comma")
assert locale.format_string("%g", 0.5) == "0,5"
v, w = judged(), judged(1.5)
print(v.outcome, w.outcome, w.fault, w.json["outputs"][0]["rules"]["rms"]["limit"] > 0.5, "0," in str(v))
"""
    assert run(code, LOCPATH=str(tmp_path)) == ["pass", "fail", "None", "True", "False"]


def rope(x, positions):
    angle = np.outer(np.array(positions, dtype=np.float64), 10000.0 ** (-np.arange(4) / 4))
    c, s, u, v = np.cos(angle)[:, None], np.sin(angle)[:, None], x[..., :4].astype(float), x[..., 4:].astype(float)
    return np.concatenate([u * c - v * s, v * c + u * s], -1).astype(np.float32)


def test_whole_numbers_of_a_list_are_kept():
    x = np.random.default_rng(1).standard_normal((4, 1, 8)).astype(np.float32)

    def outcome(positions, as_if):
        return etalon.check("rope", {"x": x, "positions": positions}, {"y": rope(x, as_if)}, rotary_dim=8, theta=10000.0, quick=True).outcome
    small, large = [3, 4, 5, 6], [2**32 + 3, 2**32 + 4, 2**32 + 5, 2**32 + 6]
    assert outcome(small, small) == "pass"
    assert outcome(large, small) != "pass"      # it did, as 2^32 was cut off
    for positions in ([2**63, 0, 0, 0], [-2**63 - 1, 0, 0, 0], [10**30, 0, 0, 0]):
        with pytest.raises(etalon.Error, match="in.positions': whole numbers of at most 64 bits"):
            outcome(positions, small)
    with pytest.raises(etalon.Error, match="that a double holds"):
        outcome([2**53 + 1, 0, 0, 0], small)


def test_numbers_of_a_list_are_float32s():
    def outcome(x):
        return etalon.check("rmsnorm", {"x": x, "weight": [1.0, 1.0]}, {"y": norm(np.array([[1, 2]]), np.ones(2))}, quick=True, **PARAMS).outcome
    assert outcome([[1.0, 2.0]]) == "pass"
    for x in (1e39, -1e300, 10**400):
        with pytest.raises(etalon.Error, match="in.x': numbers that float32 holds"):
            outcome([[x, 2.0]])


def test_arguments_of_any_kind_are_errors():
    x = np.ones((2, 4), dtype=np.float32)
    good = {"inputs": {"x": x, "weight": x[0]}, "outputs": {"y": norm(x, x[0])}, **PARAMS}
    for change, said in (({"contract": 5}, "contract': expected text, got int"), ({"contract": "f\ud800"}, "UTF-8"),
                         ({"contract": "f32\0"}, "zero byte"), ({"producer": "a\0b"}, "producer': expected text without a zero byte"),
                         ({"contract": "auto\0"}, "zero byte"), ({"eps": 2**70}, "params"), ({"eps": 2**53 + 1}, "eps': .*that a double holds"),
                         ({"eps": -1e-6}, "eps"), ({"inputs": {"x": np.ma.masked_array(x, x > 0), "weight": x[0]}}, "without a mask"),
                         ({"inputs": {"x\0y": x, "weight": x[0]}}, "zero byte"), ({"inputs": {5: x, "weight": x[0]}}, "in.x': missing")):
        with pytest.raises(etalon.Error, match=said):
            etalon.check("rmsnorm", **{**good, **change})
    with pytest.raises(etalon.Error, match="zero byte"):
        etalon.save("a\0b", "rmsnorm", **good)
    with pytest.raises(etalon.Error, match="zero byte"):
        etalon.inputs("rmsnorm", "plain_f32\0")
    with pytest.raises(etalon.Error, match="expected a path, got NoneType"):
        etalon.Op(None)
