"""pytest: `etalon.assert_correct(...)` in a test; --etalon-record DIR keeps its calls as captures, --etalon-baseline FILE fails the run
where a kernel got worse than the file says (`etalon gate --baseline`); a file that is not there is made."""
import os
import subprocess
import tempfile

import pytest

from . import _record
from .__main__ import program


def pytest_addoption(parser):
    group = parser.getgroup("etalon")
    group.addoption("--etalon-record", metavar="DIR", help="keep the calls of etalon.assert_correct as captures")
    group.addoption("--etalon-baseline", metavar="FILE", help="fail where a kernel got worse than FILE says; made where there is none")


def pytest_configure(config):
    folder = config.getoption("--etalon-record")
    if hasattr(config, "workerinput"):
        folder = config.workerinput.get("etalon_folder")
    elif config.getoption("--etalon-baseline"):
        folder = folder or tempfile.mkdtemp(prefix="etalon-")
    config._etalon_folder = os.path.abspath(folder) if folder else None


class _Workers:
    def pytest_configure_node(self, node):
        node.workerinput["etalon_folder"] = node.config._etalon_folder


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    if session.config.pluginmanager.hasplugin("dsession"):
        session.config.pluginmanager.register(_Workers(), "etalon-workers")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _record.begin(item.config._etalon_folder, item.nodeid)


def pytest_runtest_teardown(item):
    _record.begin(None, "")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    config = session.config
    baseline = config.getoption("--etalon-baseline")
    if hasattr(config, "workerinput") or not baseline or exitstatus not in (0, 1) or not os.path.isdir(config._etalon_folder):
        return
    new = not os.path.exists(baseline)
    if new and exitstatus:
        return
    done = subprocess.run([program(), "gate", config._etalon_folder, "--baseline", baseline, *(["--update-baseline"] if new else [])],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    config._etalon_text = done.stdout
    if done.returncode:
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter, config):
    text = getattr(config, "_etalon_text", None)
    if text:
        terminalreporter.section("etalon baseline")
        terminalreporter.write(text)
