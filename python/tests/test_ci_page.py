"""docs/ci.md's blocks for GitHub, GitLab, GNU parallel and SLURM, taken from the page and run in an empty folder: what each gives is what
a gate in one piece gives. The commands that begin with "$" are run by docs/run_pages.sh."""
import os
import re
import shlex
import shutil
import subprocess

import pytest

import etalon
from etalon.__main__ import program

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
NAMES = ("rope.full", "rmsnorm_fp8.tiny_rows", "causal_conv1d.bias_f32", "newton_schulz.one_row", "newton_schulz.tiny_f32")


def block(title):
    with open(os.path.join(ROOT, "docs", "ci.md"), encoding="utf-8") as f:
        return re.search(rf"^<!-- not run: {re.escape(title)} -->\n```\n(.*?)^```$", f.read(), re.M | re.S)[1]


def real_program():
    """The program itself, which runs where no Python is."""
    path = program()
    return os.path.abspath(path) if os.sep in path else shutil.which(path)


def shell(line, folder, status=None, **environment):
    """Runs it as CI's shell does: its status, its output."""
    path = os.pathsep.join([os.path.join(str(folder), ".bin"), os.environ["PATH"]])
    done = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                          env={**os.environ, "PATH": path, **environment})
    assert status is None or done.returncode == status, (line, done.returncode, done.stdout, done.stderr)
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
        shutil.copy(os.path.join(ROOT, "fixtures", "captures", f"{name}.etalon.safetensors"), tmp_path / "my-captures" / ("decode" if i % 2 else ""))
    return tmp_path


def in_one_piece(folder):
    return shell("etalon gate my-captures", folder)


# ---- GitLab ----

def script(job):
    """The one line of a GitLab job's script."""
    return re.search(rf"^{job}:\n(?:  .*\n)*?  script:\n    - (.*)$", block("GitLab"), re.M)[1]


def gitlab(folder):
    """Both jobs, as GitLab runs them after the checkout was built: the last one's status and output."""
    allowed = [int(x) for x in re.search(r"allow_failure: \{ exit_codes: \[(.*?)\]", block("GitLab"))[1].split(",")]
    total = int(re.search(r"parallel: (\d+)", block("GitLab"))[1])
    (folder / "etalon" / "build").mkdir(parents=True, exist_ok=True)
    if not (folder / "etalon" / "build" / "etalon").exists():
        os.symlink(real_program(), folder / "etalon" / "build" / "etalon")
    for i in range(1, total + 1):
        status, _ = shell(script("shards"), folder, CI_NODE_INDEX=str(i), CI_NODE_TOTAL=str(total))
        if status and status not in allowed:
            return None, f"job {i} of shards failed with {status}, and the gate's job never ran"
    return shell(script("gate"), folder)


def test_gitlab(folder):
    assert gitlab(folder) == in_one_piece(folder) and gitlab(folder)[0] == 0
    assert (folder / "etalon.xml").exists() and (folder / "etalon.md").exists()


def test_gitlab_reports_an_unreadable_capture(folder):
    (folder / "my-captures" / "cut.safetensors").write_bytes(b"no capture")
    status, said = gitlab(folder)
    assert status == 2 and "cut.safetensors: error" in said
    assert (status, said) == in_one_piece(folder)
    assert 'errors="1"' in (folder / "etalon.xml").read_text() and "cut" in (folder / "etalon.md").read_text()


def test_gitlab_says_which_shard_is_lost(folder):
    assert gitlab(folder)[0] == 0
    (folder / "shard.3.json").unlink()
    status, said = shell(script("gate"), folder)
    assert status == 2 and "shard 3/4 is missing" in said


def test_gitlab_builds_what_the_makefile_has(folder):
    """The targets of before_script, and of the page's other builds, are there."""
    target = re.search(r"make -C etalon (.*)$", block("GitLab"), re.M)[1]
    done = subprocess.run(["make", "-C", ROOT, "-n", "BUILD=" + str(folder / "b"), *shlex.split(target)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# ---- machines ----

PARALLEL = """while read -r n; do sh -c "$(printf '%s' "$1" | sed "s/{}/$n/g")" || failed=1; done; exit ${failed:-0}
"""


def test_gnu_parallel(folder):
    if not shutil.which("parallel"):
        tool(folder, "parallel", PARALLEL)
    run, merge = block("GNU parallel").strip().splitlines()
    shell(run, folder, 0)
    assert shell(merge, folder) == in_one_piece(folder)
    (folder / "shard.2.json").unlink()                      # the same line again runs what is missing
    shell(run, folder, 0)
    assert shell(merge, folder, 0)[0] == 0
    shutil.copy(folder / "my-captures" / "rope.full.etalon.safetensors", folder / "my-captures" / "newton_schulz.tiny_f32.etalon.safetensors")
    shell(run, folder, 0)                                   # what is stale is there
    status, said = shell(merge, folder)
    assert status == 2 and "has changed since; run it again: etalon gate --shard" in said


SBATCH = """
script=$1 array=
case $1 in --array=*) array=${1#--array=}; script=$2;; esac
[ "$array" ] || array=$(sed -n 's/^#SBATCH.*--array=\\([0-9-]*\\).*/\\1/p' "$script")
for i in $(seq "${array%-*}" "${array#*-}"); do
	SLURM_ARRAY_TASK_ID=$i SLURM_CPUS_PER_TASK=1 sh "$script" || :
done
"""


def test_slurm(folder):
    tool(folder, "sbatch", SBATCH)
    (folder / "gate.sh").write_text(block("SLURM"))
    shell("sbatch gate.sh", folder, 0)
    with open(os.path.join(ROOT, "docs", "ci.md"), encoding="utf-8") as f:
        again = re.search(r"are run again by `(.*?)`", f.read())[1]
    assert len([x for x in os.listdir(folder) if x.startswith("shard.")]) == 16
    assert shell("etalon merge shard.*.json", folder) == in_one_piece(folder)
    (folder / "shard.7.json").unlink()
    shell(again, folder, 0)
    assert shell("etalon merge shard.*.json", folder) == in_one_piece(folder)


# ---- GitHub ----

def with_of(page):
    return dict(pair.split(": ") for pair in re.search(r"with: \{ (.*?) \}", page)[1].split(", "))


def action(folder, wheel, captures, **more):
    """action.yml's step. wheel: a folder with the release's wheels."""
    here = folder / "action"
    if not here.exists():
        (here / "python" / "etalon").mkdir(parents=True)
        (here / "package").mkdir()
        shutil.copy(os.path.join(ROOT, "package", "action.sh"), here / "package")
        (here / "python" / "etalon" / "__init__.py").write_text(f'__version__ = "{etalon.__version__}"\n')
        tool(folder, "make", f"echo make \"$@\"; mkdir -p '{here}/build'; ln -sf '{real_program()}' '{here}/build/etalon'\n")
    with open(os.path.join(ROOT, "action.yml"), encoding="utf-8") as f:
        run = re.search(r"^      run: (.*)$", f.read(), re.M)[1]
    (folder / "temp").mkdir(exist_ok=True)
    return shell(run, folder, GITHUB_ACTION_PATH=str(here), RUNNER_TEMP=str(folder / "temp"), GITHUB_STEP_SUMMARY=str(folder / "summary.md"),
                 CAPTURES=captures, RELEASE=str(wheel), **{"BASELINE": "", "JUNIT": "etalon.xml", **more})


def test_the_action_has_the_inputs_of_the_page():
    with open(os.path.join(ROOT, "action.yml"), encoding="utf-8") as f:
        text = f.read()
    inputs = re.findall(r"^  (\w+):\n    description:", text, re.M)
    assert set(with_of(block("GitHub"))) <= set(inputs)
    assert "@main" not in block("GitHub")
    assert "${{" not in re.search(r"run: .*", text, re.S)[0]       # no expression where a shell reads it


def test_the_action_compiles_where_no_wheel_is(folder):
    (folder / "none").mkdir()
    shell("etalon gate my-captures --baseline etalon.json --update-baseline", folder, 0)
    status, said = action(folder, folder / "none", BASELINE="etalon.json", captures=with_of(block("GitHub"))["captures"])
    assert status == 0 and "make -C" in said and "NVCC= deps all" in said and "5 passed" in said
    assert "5 passed" in (folder / "summary.md").read_text() and (folder / "etalon.xml").exists()


def test_the_action_installs_the_wheel_of_a_release(folder):
    wheels = os.environ.get("ETALON_WHEELS")
    if not wheels:
        pytest.skip("ETALON_WHEELS names no folder")
    status, said = action(folder, wheels, "my-captures")
    assert status == 0 and "make -C" not in said and "5 passed" in said


def test_a_file_name_is_no_option(folder):
    (folder / "none").mkdir()
    right = folder / "my-captures" / "rope.full.etalon.safetensors"
    shutil.copy(right, folder / "-O.evil.safetensors")
    shutil.copy(right, folder / "--help.safetensors")
    (folder / ".evil.safetensors").write_text("op rope\n")
    status, said = action(folder, folder / "none", "*.safetensors")
    assert status == 0 and "2 captures: 2 passed" in said
    (folder / "-O.evil.safetensors").write_bytes(b"no capture")
    status, said = action(folder, folder / "none", "*.safetensors")
    assert status == 2 and "replay: etalon check './-O.evil.safetensors'" in said


def test_no_capture_is_no_pass(folder):
    (folder / "none").mkdir()
    for captures in ("", "  "):
        status, said = action(folder, folder / "none", captures)
        assert status == 2 and "expected paths, got none" in said
    assert action(folder, folder / "none", "nothing*.safetensors")[0] == 2


def test_the_gates_status_is_the_actions(folder):
    (folder / "none").mkdir()
    shell("etalon ref my-captures/rope.full.etalon.safetensors --fault interleaved_for_half -o my-captures/wrong.safetensors", folder, 0)
    status, said = action(folder, folder / "none", "my-captures")
    assert status == 1 and "1 failed" in said and "❌ fail" in (folder / "summary.md").read_text()
