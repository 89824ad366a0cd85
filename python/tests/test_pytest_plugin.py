"""etalon's pytest plugin: what it records, and the baseline that it holds."""
import json
import os
import subprocess
import sys

import pytest

import etalon


PLUGIN = """
import numpy as np, etalon
def test_norm():
    x = np.random.default_rng(2).standard_normal((32, 64), dtype=np.float32)
    y = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + {eps})
    etalon.assert_correct("rmsnorm", {{"x": x, "weight": np.ones(64, dtype=np.float32)}}, {{"y": (y * {gain}).astype(np.float32)}}, eps=1e-6, weight_offset=0)
def test_other():
    test_norm()
"""


def pytest_of(folder, *arguments, eps=1e-6, gain=1, text=None, only="test_it.py", **environment):
    (folder / "test_it.py").write_text(
        text if text and "{eps}" not in text else (text or PLUGIN).format(eps=eps, gain=gain)
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments, only],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTEST_ADDOPTS": "", **environment},
    )


def test_the_plugin_shows_the_report(tmp_path):
    assert pytest_of(tmp_path).returncode == 0
    failed = pytest_of(tmp_path, eps="1e-2")
    assert failed.returncode == 1 and "FAIL under contract f32" in failed.stdout and "sigma" in failed.stdout


def last_line(done):
    return done.stdout.strip().splitlines()[-1]


def test_the_plugin_records_and_holds_a_baseline(tmp_path):
    recorded = pytest_of(tmp_path, "--etalon-record", "calls", "--etalon-baseline", "base.json")
    assert recorded.returncode == 0, recorded.stdout + recorded.stderr
    assert len(os.listdir(tmp_path / "calls")) == 2 and (tmp_path / "base.json").exists()
    assert pytest_of(tmp_path, "--etalon-baseline", "base.json").returncode == 0
    worse = pytest_of(
        tmp_path, "--etalon-baseline", "base.json", "--junitxml", "j.xml", gain="(1 + 2e-7)"
    )
    assert worse.returncode == 1 and "worse than the baseline" in worse.stdout
    assert (
        "1 failed, 2 passed" in last_line(worse)
        and "FAILED etalon-baseline base.json" in worse.stdout
    )
    assert (
        'failures="1"' in (tmp_path / "j.xml").read_text()
        and "--etalon-record DIR keeps them" in worse.stdout
    )


def test_no_folder_is_left_behind(tmp_path):
    (tmp_path / "tmp").mkdir()
    for gain in ("1", "(1 + 2e-7)"):
        pytest_of(
            tmp_path, "--etalon-baseline", "base.json", gain=gain, TMPDIR=str(tmp_path / "tmp")
        )
        assert (tmp_path / "base.json").exists() and os.listdir(tmp_path / "tmp") == []


def test_a_replay_fails_as_the_baseline_does(tmp_path):
    pytest_of(tmp_path, "--etalon-record", "calls", "--etalon-baseline", "base.json")
    worse = pytest_of(
        tmp_path, "--etalon-record", "calls", "--etalon-baseline", "base.json", gain="(1 + 2e-7)"
    )
    line = next(line for line in worse.stdout.splitlines() if "replay: etalon " in line).split(
        "replay: etalon "
    )[1]
    assert "--baseline" in line
    program = os.environ.get("ETALON_PROGRAM") or os.path.join(
        os.path.dirname(etalon.__file__), "lib", "etalon"
    )
    assert (
        subprocess.run(
            f"{program} {line}", shell=True, cwd=tmp_path, stdout=subprocess.DEVNULL
        ).returncode
        == 1
    )


def test_a_baseline_is_written_while_a_test_fails(tmp_path):
    (tmp_path / "test_more.py").write_text("def test_no(): assert 0\n")
    made = pytest_of(tmp_path, "--etalon-baseline", "base.json", "test_more.py")
    assert made.returncode == 1 and "base.json: written" in made.stdout
    assert "1 failed, 2 passed" in last_line(made)
    assert len(json.loads((tmp_path / "base.json").read_text())["captures"]) == 2
    again = pytest_of(tmp_path, "--etalon-baseline", "base.json", "test_more.py")
    assert again.returncode == 1 and "1 failed, 2 passed" in last_line(again)


def test_nothing_that_fails_is_a_measure(tmp_path):
    made = pytest_of(tmp_path, "--etalon-baseline", "base.json", eps="1e-2")
    assert made.returncode == 1 and "2 of 2 captures did not pass" in made.stdout
    assert json.loads((tmp_path / "base.json").read_text())["captures"] == {}
    assert "2 failed" in last_line(made)


def test_a_call_that_vanished_fails(tmp_path):
    pytest_of(tmp_path, "--etalon-baseline", "base.json")
    gone = pytest_of(
        tmp_path,
        "--etalon-baseline",
        "base.json",
        text=PLUGIN.replace("def test_other():\n    test_norm()", "def test_other(): pass"),
    )
    assert gone.returncode == 1 and "test_it.py::test_other: in the baseline" in gone.stdout
    assert "1 failed, 2 passed" in last_line(gone)
    assert (
        pytest_of(tmp_path, "--etalon-baseline", "base.json", "-k", "norm").returncode == 0
    )  # what was left out is not gone
    assert (
        pytest_of(
            tmp_path, "--etalon-baseline", "base.json", only="test_it.py::test_norm"
        ).returncode
        == 0
    )
    update = pytest_of(
        tmp_path, "--etalon-baseline", "base.json", "--etalon-update-baseline", gain="(1 + 2e-7)"
    )
    assert (
        update.returncode == 0
        and pytest_of(tmp_path, "--etalon-baseline", "base.json", gain="(1 + 2e-7)").returncode == 0
    )


def test_an_old_baseline_is_refused(tmp_path):
    (tmp_path / "base.json").write_text('{"a | b | c": {}}')
    done = pytest_of(tmp_path, "--etalon-baseline", "base.json")
    assert (
        done.returncode == 1
        and "version 1; to write it anew" in done.stdout
        and "1 failed, 2 passed" in last_line(done)
    )


IDS = """
import numpy as np, pytest, etalon
@pytest.mark.parametrize("n", ["x y", "x_y", "x/y", "x:y", "X_Y"])
def test_n(n):
    x = np.random.default_rng(2).standard_normal((8, 64), dtype=np.float32)
    y = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6)
    etalon.assert_correct("rmsnorm", {"x": x, "weight": np.ones(64, dtype=np.float32)}, {"y": y.astype(np.float32)}, eps=1e-6, weight_offset=0)
"""


def test_ids_that_differ_in_special_characters_do_not_meet(tmp_path):
    done = pytest_of(
        tmp_path, "--etalon-record", "calls", "--etalon-baseline", "base.json", text=IDS
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len({name.lower() for name in os.listdir(tmp_path / "calls")}) == 5
    assert len(json.loads((tmp_path / "base.json").read_text())["captures"]) == 5


def test_parallel_runs_do_not_meet(tmp_path):
    pytest.importorskip("xdist")
    done = pytest_of(tmp_path, "-n", "2", "--etalon-record", "calls", "--etalon-baseline", "base.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(os.listdir(tmp_path / "calls")) == 2
    worse = pytest_of(tmp_path, "-n", "2", "--etalon-baseline", "base.json", gain="(1 + 2e-7)")
    assert worse.returncode == 1 and "1 failed, 2 passed" in last_line(worse)
    assert pytest_of(tmp_path, "-n", "2", "--etalon-baseline", "base.json").returncode == 0
