"""docs/ci.md's blocks, and an empty folder to run them in."""
import os
import re
import shutil
import subprocess

import pytest

from etalon.__main__ import program

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NAMES = (
    "rope.full",
    "rmsnorm_fp8.tiny_rows",
    "causal_conv1d.bias_f32",
    "newton_schulz.one_row",
    "newton_schulz.tiny_f32",
)


def block(title):
    with open(os.path.join(ROOT, "docs", "ci.md"), encoding="utf-8") as f:
        return re.search(
            rf"^<!-- not run: {re.escape(title)} -->\n```\n(.*?)^```$", f.read(), re.M | re.S
        )[1]


def real_program():
    """The program itself, which runs where no Python is."""
    path = program()
    return os.path.abspath(path) if os.sep in path else shutil.which(path)


def shell(line, folder, status=None, **environment):
    """Runs it as CI's shell does: its status, its output."""
    path = os.pathsep.join([os.path.join(str(folder), ".bin"), os.environ["PATH"]])
    done = subprocess.run(
        ["sh", "-c", line],
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": path, **environment},
    )
    assert status is None or done.returncode == status, (
        line,
        done.returncode,
        done.stdout,
        done.stderr,
    )
    return done.returncode, done.stdout + done.stderr


def tool(folder, name, text):
    file = folder / ".bin" / name
    file.write_text("#!/bin/sh\n" + text)
    file.chmod(0o755)


@pytest.fixture
def folder(tmp_path):
    """An empty folder with my-captures, and `etalon` on the path."""
    (tmp_path / "my-captures" / "decode").mkdir(parents=True)
    (tmp_path / ".bin").mkdir()
    os.symlink(real_program(), tmp_path / ".bin" / "etalon")
    for i, name in enumerate(NAMES):
        shutil.copy(
            os.path.join(ROOT, "fixtures", "captures", f"{name}.etalon.safetensors"),
            tmp_path / "my-captures" / ("decode" if i % 2 else ""),
        )
    return tmp_path


def in_one_piece(folder):
    return shell("etalon gate my-captures", folder)
