"""A pytest session's calls against a baseline."""

import json
import os
import subprocess
import tempfile

from . import _record
from .__main__ import program


def hold(session):
    """Is it worse than the baseline? And the text that says why, or what was written."""
    config = session.config
    path, folder = config.getoption("--etalon-baseline"), config._etalon_folder
    write = config.getoption("--etalon-update-baseline") or not os.path.exists(path)
    said, records, status = "", [], 0
    if config._etalon_written:
        status, records, said = _gate(folder, path, write)
    elif write:
        return False, f"{path}: not written, as no test called etalon.assert_correct\n"
    if write:
        return status in (2, 4) and not records, f"{said}{path}: written\n" if records else said
    failed = {_record.name_of(test) for test in config._etalon_failed}
    gone = _gone(session, path)
    wrong = bool(
        gone
        or (status and not records)
        or any(
            r.get("baseline") or (r["exit"] and r["name"].rsplit(".", 2)[0] not in failed)
            for r in records
        )
    )
    for name, test in gone:
        said += f"{test}: in the baseline as {name}, and made no call now; "
        said += "--etalon-update-baseline does not remove it, "
        said += "`etalon gate DIR --baseline FILE --update-baseline --prune` does\n"
    if wrong and config._etalon_temporary:
        said += "The captures are removed with the run; --etalon-record DIR keeps them for replay.\n"
    return wrong, said


def _gate(folder, path, write):
    """The exit code, the records, and what was printed."""
    with tempfile.TemporaryDirectory(prefix="etalon-") as scratch:
        output = os.path.join(scratch, "gate.json")
        done = subprocess.run(
            [
                program(),
                "gate",
                "--flat",
                "--partial",
                "--baseline",
                path,
                *(["--update-baseline"] if write else []),
                "--output",
                output,
                "--",
                folder,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        try:
            with open(output, encoding="utf-8") as f:
                records = json.load(f)["captures"]
        except (OSError, ValueError):
            records = []
    return done.returncode, records, done.stdout


def _gone(session, path):
    """(name, test) of entries whose test was asked for and made no such call."""
    try:
        with open(path, encoding="utf-8") as f:
            entries = json.load(f)["captures"]
    except (OSError, ValueError, KeyError, TypeError):
        return []  # the gate has said so
    if _narrowed(session):
        return []
    return [
        (name, entry.get("producer", ""))
        for name, entry in sorted(entries.items())
        if name not in session.config._etalon_written
        and _asked_for(session.config, entry.get("producer", ""))
    ]


def _narrowed(session):
    option = session.config.option
    return bool(
        session.shouldstop
        or session.shouldfail
        or any(
            getattr(option, o, None)
            for o in ("keyword", "markexpr", "deselect", "lf", "stepwise", "ignore", "ignore_glob")
        )
    )


def _asked_for(config, test):
    """Is the test below one of the paths on pytest's command line?"""
    file, _, rest = test.partition("::")
    file = os.path.normpath(os.path.join(str(config.rootpath), file))
    for argument in config.args:
        path, _, part = str(argument).partition("::")
        path = os.path.normpath(os.path.join(str(config.invocation_params.dir), path))
        if (file == path or file.startswith(path + os.sep)) and (not part or rest.startswith(part)):
            return True
    return False
