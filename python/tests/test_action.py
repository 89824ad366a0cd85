"""docs/ci.md's block for GitHub: the step of action.yml, run in an empty folder."""
import http.server
import os
import re
import shutil
import threading

import pytest

import etalon
from ci_page import ROOT, block, folder, real_program, shell, tool  # noqa: F401


def with_of(page):
    return dict(pair.split(": ") for pair in re.search(r"with: \{ (.*?) \}", page)[1].split(", "))


def action(folder, wheel, captures, **more):
    """action.yml's step. wheel: a folder with the release's wheels."""
    here = folder / "action"
    if not here.exists():
        (here / "python" / "etalon").mkdir(parents=True)
        (here / "package").mkdir()
        shutil.copy(os.path.join(ROOT, "package", "action.sh"), here / "package")
        (here / "python" / "etalon" / "__init__.py").write_text(
            f'__version__ = "{etalon.__version__}"\n'
        )
        tool(
            folder,
            "make",
            f"echo make \"$@\"; mkdir -p '{here}/build'; ln -sf '{real_program()}' '{here}/build/etalon'\n",
        )
    with open(os.path.join(ROOT, "action.yml"), encoding="utf-8") as f:
        run = re.search(r"^      run: (.*)$", f.read(), re.M)[1]
    (folder / "temp").mkdir(exist_ok=True)
    return shell(
        run,
        folder,
        GITHUB_ACTION_PATH=str(here),
        RUNNER_TEMP=str(folder / "temp"),
        GITHUB_STEP_SUMMARY=str(folder / "summary.md"),
        CAPTURES=captures,
        RELEASE=str(wheel),
        **{"BASELINE": "", "JUNIT": "etalon.xml", **more},
    )


def test_the_action_has_the_inputs_of_the_page():
    with open(os.path.join(ROOT, "action.yml"), encoding="utf-8") as f:
        text = f.read()
    inputs = re.findall(r"^  (\w+):\n    description:", text, re.M)
    assert set(with_of(block("GitHub"))) <= set(inputs)
    assert "@main" not in block("GitHub")
    assert "${{" not in re.search(r"run: .*", text, re.S)[0]  # no expression where a shell reads it


def test_the_action_compiles_where_no_wheel_is(folder):
    (folder / "none").mkdir()
    shell("etalon gate my-captures --baseline etalon.json --update-baseline", folder, 0)
    status, said = action(
        folder,
        folder / "none",
        BASELINE="etalon.json",
        captures=with_of(block("GitHub"))["captures"],
    )
    assert status == 0 and "make -C" in said and "NVCC= deps all" in said and "5 passed" in said
    assert "5 passed" in (folder / "summary.md").read_text() and (folder / "etalon.xml").exists()


def test_the_action_installs_the_wheel_of_a_release(folder):
    wheels = os.environ.get("ETALON_WHEELS")
    if not wheels:
        pytest.skip("ETALON_WHEELS names no folder")
    status, said = action(folder, wheels, "my-captures")
    assert status == 0 and "make -C" not in said and "5 passed" in said


class ReleasePage(http.server.BaseHTTPRequestHandler):
    """A release's page, as GitHub writes its links, and the wheel behind one."""

    wheel = ""

    def do_GET(self):
        page = self.path == "/OWNER/etalon/releases/expanded_assets/v1.0.0"
        link = f"/OWNER/etalon/releases/download/v1.0.0/{os.path.basename(self.wheel)}"
        if not page and self.path != link:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/html" if page else "application/octet-stream")
        self.end_headers()
        if page:
            self.wfile.write(f'<ul><li><a href="{link}" rel="nofollow">wheel</a></ul>'.encode())
        else:
            with open(self.wheel, "rb") as f:
                shutil.copyfileobj(f, self.wfile)

    def log_message(self, *arguments):
        pass


@pytest.mark.parametrize("tag", ["v1.0.0", "main"])
def test_the_action_reads_the_page_of_a_release(folder, tag):
    wheels = os.environ.get("ETALON_WHEELS")
    if not wheels:
        pytest.skip("ETALON_WHEELS names no folder")
    ReleasePage.wheel = os.path.join(wheels, os.listdir(wheels)[0])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), ReleasePage) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = f"http://127.0.0.1:{server.server_port}/OWNER/etalon/releases/expanded_assets/{tag}"
        status, said = action(folder, page, "my-captures", no_proxy="127.0.0.1")
        server.shutdown()
    assert status == 0 and ("make -C" in said) == (tag == "main"), said


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


def test_the_owners_contract_is_the_gates(folder):
    (folder / "none").mkdir()
    status, said = action(folder, folder / "none", "my-captures", CONTRACT="rope=cos_sin_bf16")
    assert status == 0 and " cos_sin_bf16 " in said
    status, said = action(folder, folder / "none", "my-captures", CONTRACT="rope=nope")
    assert status == 2 and "5 unreadable" in said


def test_the_gates_status_is_the_actions(folder):
    (folder / "none").mkdir()
    shell(
        "etalon ref my-captures/rope.full.etalon.safetensors --fault interleaved_for_half"
        " -o my-captures/wrong.safetensors",
        folder,
        0,
    )
    status, said = action(folder, folder / "none", "my-captures")
    assert status == 1 and "1 failed" in said and "❌ fail" in (folder / "summary.md").read_text()
