"""pytest: `etalon.assert_correct(...)` in a test. --etalon-record DIR keeps its calls as captures.
--etalon-baseline FILE fails the run where a kernel got worse than the file says (`etalon gate
--baseline`), or where a test that ran no longer makes a call that the file has; a file that is not
there is made."""

import os
import shutil
import tempfile

import pytest

from . import _baseline, _record


def pytest_addoption(parser):
    group = parser.getgroup("etalon")
    group.addoption(
        "--etalon-record", metavar="DIR", help="keep the calls of etalon.assert_correct as captures"
    )
    group.addoption(
        "--etalon-baseline",
        metavar="FILE",
        help="fail where a kernel got worse than FILE says; made where there is none",
    )
    group.addoption(
        "--etalon-update-baseline",
        action="store_true",
        help="write the figures of this run into the baseline",
    )


def pytest_configure(config):
    folder = config.getoption("--etalon-record")
    config._etalon_temporary = None
    if hasattr(config, "workerinput"):
        folder = config.workerinput.get("etalon_folder")
    else:
        if config.getoption("--etalon-update-baseline") and not config.getoption(
            "--etalon-baseline"
        ):
            raise pytest.UsageError("--etalon-update-baseline needs --etalon-baseline FILE")
        if config.getoption("--etalon-baseline") and not folder:
            folder = config._etalon_temporary = tempfile.mkdtemp(prefix="etalon-")
    config._etalon_folder = os.path.abspath(folder) if folder else None
    config._etalon_failed, config._etalon_written, config._etalon_text = set(), set(), ""


def pytest_unconfigure(config):
    if getattr(config, "_etalon_temporary", None):
        shutil.rmtree(config._etalon_temporary, ignore_errors=True)


class _Workers:
    """pytest-xdist: the folder goes to the workers, and what they wrote comes back."""

    def pytest_configure_node(self, node):
        node.workerinput["etalon_folder"] = node.config._etalon_folder

    def pytest_testnodedown(self, node, error):
        node.config._etalon_written.update(
            getattr(node, "workeroutput", {}).get("etalon_written", ())
        )


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    if session.config.pluginmanager.hasplugin("dsession"):
        session.config.pluginmanager.register(_Workers(), "etalon-workers")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    _record.begin(item.config._etalon_folder, item.nodeid)


def pytest_runtest_teardown(item):
    _record.begin(None, "")


class _Failed:
    """The tests that failed, which say themselves what is wrong."""

    def __init__(self, config):
        self.config = config

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.config._etalon_failed.add(report.nodeid)


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session):
    session.config.pluginmanager.register(_Failed(session.config), "etalon-failed")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session, exitstatus):
    config = session.config
    if hasattr(config, "workerinput"):
        config.workeroutput["etalon_written"] = sorted(_record.written())
        return
    if not config.getoption("--etalon-baseline") or config.getoption("collectonly", False):
        return
    if exitstatus not in (0, 1):
        config._etalon_text = f"not compared, as the run ended with {int(exitstatus)}\n"
        return
    config._etalon_written.update(_record.written())
    wrong, config._etalon_text = _baseline.hold(session)
    if not wrong:
        return
    # A report like a test's: pytest's last line and its JUnit file agree with the exit code.
    name = f"etalon-baseline {config.getoption('--etalon-baseline')}"
    config.hook.pytest_runtest_logreport(
        report=pytest.TestReport(
            nodeid=name,
            location=(name, None, name),
            keywords={name: 1},
            outcome="failed",
            longrepr=config._etalon_text,
            when="call",
        )
    )
    config._etalon_text = ""
    session.exitstatus = 1


def pytest_terminal_summary(terminalreporter, config):
    if config._etalon_text:
        terminalreporter.section("etalon baseline")
        terminalreporter.write(config._etalon_text)
