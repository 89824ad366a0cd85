"""docs/ci.md's blocks for GitLab, GNU parallel and SLURM, taken from the page and run in an
empty folder. What each gives is what a gate in one piece gives. The commands that begin with "$" are
run by docs/run_pages.sh."""
import os
import re
import shlex
import shutil
import subprocess

from ci_page import ROOT, block, folder, in_one_piece, real_program, shell, tool  # noqa: F401


# ---- GitLab ----


def script(job):
    """The one line of a GitLab job's script."""
    return re.search(rf"^{job}:\n(?:  .*\n)*?  script:\n    - (.*)$", block("GitLab"), re.M)[1]


def gitlab(folder):
    """Both jobs, as GitLab runs them once etalon is built: the last one's status and output."""
    allowed = [
        int(x)
        for x in re.search(r"allow_failure: \{ exit_codes: \[(.*?)\]", block("GitLab"))[1].split(
            ","
        )
    ]
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
    assert (
        'errors="1"' in (folder / "etalon.xml").read_text()
        and "cut" in (folder / "etalon.md").read_text()
    )


def test_gitlab_says_which_shard_is_lost(folder):
    assert gitlab(folder)[0] == 0
    (folder / "shard.3.json").unlink()
    status, said = shell(script("gate"), folder)
    assert status == 2 and "shard 3/4 is missing" in said


def test_gitlab_builds_what_the_makefile_has(folder):
    """The targets of before_script, and of the page's other builds, are there."""
    target = re.search(r"make -C etalon (.*)$", block("GitLab"), re.M)[1]
    done = subprocess.run(
        ["make", "-C", ROOT, "-n", "BUILD=" + str(folder / "b"), *shlex.split(target)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


# ---- machines ----

PARALLEL = """
while read -r n; do sh -c "$(printf '%s' "$1" | sed "s/{}/$n/g")" || failed=1; done
exit ${failed:-0}
"""


def test_gnu_parallel(folder):
    if not shutil.which("parallel"):
        tool(folder, "parallel", PARALLEL)
    run, merge = block("GNU parallel").strip().splitlines()
    shell(run, folder, 0)
    assert shell(merge, folder) == in_one_piece(folder)
    (folder / "shard.2.json").unlink()  # the same line again runs what is missing
    shell(run, folder, 0)
    assert shell(merge, folder, 0)[0] == 0
    shutil.copy(
        folder / "my-captures" / "rope.full.etalon.safetensors",
        folder / "my-captures" / "newton_schulz.tiny_f32.etalon.safetensors",
    )
    shell(run, folder, 0)  # what is stale is there
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
