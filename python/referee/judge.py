"""What etalon says of a capture."""
import json
import os
import subprocess
import tempfile

import numpy as np
import torch

from . import capture

ONE = dict(os.environ, OMP_NUM_THREADS="1")
VERDICTS = {0: "pass", 1: "fail", 3: "undecided"}


def etalon(program, *args, seconds=300, threads=1):
    return subprocess.run(["nice", program, *args], capture_output=True, text=True, env=ONE | dict(OMP_NUM_THREADS=str(threads)), timeout=seconds)


def check(program, path, quick, contract=None, **how):
    """The object that check --json prints; verdict "refused" where it prints none."""
    args = ["check", path, "--json"] + (["--quick"] if quick else []) + (["--contract", contract] if contract else [])
    done = etalon(program, *args, **how)
    if done.returncode not in VERDICTS:
        return dict(verdict="refused", why=(done.stderr.strip().splitlines() or ["no word"])[-1][-200:])
    return json.loads(done.stdout)[0]


def nan_as_inf(x):
    """A figure, which JSON holds as text or null where it is not finite."""
    x = float("inf" if x is None else x)
    return x if x == x else float("inf")


def figures(said):
    """Worst and rms error in sigma over the outputs, and the largest share of a limit that any rule reaches, with its name."""
    worst = rms = share = 0.0
    rule = ""
    for out in said["outputs"]:
        if out["not_finite"]:
            worst = rms = share = float("inf")
            rule = f"{out['name']} is not finite"
        for name, r in (out.get("rules") or {}).items():
            value, limit = nan_as_inf(r["value"]), nan_as_inf(r["limit"])
            worst = max(worst, value) if name == "worst" else worst
            rms = max(rms, value) if name == "rms" else rms
            if limit > 0 and not value / limit <= share:
                share, rule = value / limit, f"{name} of {out['name']}"
    return dict(worst=worst, rms=rms, share=share, rule=rule)


def relative_error(program, path):
    """The largest error of an output, as a share of that output's root mean square, over the outputs."""
    ins, params, outs = capture.read(path)
    with tempfile.TemporaryDirectory() as folder:
        bare, exact = folder + "/in.safetensors", folder + "/exact.safetensors"
        op = json_op(path)
        capture.write(bare, op, ins, params, {}, "referee")
        if etalon(program, "ref", bare, "-o", exact).returncode:
            return float("nan")
        truth = capture.read(exact)[2]
    largest = 0.0
    for name, got in outs.items():
        if name not in truth:       # an optional output, which the reference gives only where it is asked for
            continue
        want = truth[name].double().numpy().reshape(got.shape)
        error, size = got.double().numpy() - want, np.sqrt(np.mean(np.square(want)))
        if name.endswith("angle"):      # of a whole turn
            error = np.angle(np.exp(1j * error))
        error = np.abs(error)
        largest = max(largest, float(np.max(error)) / float(size)) if np.isfinite(error).all() and size > 0 else float("inf")
    return largest


def json_op(path):
    from safetensors import safe_open
    with safe_open(path, "pt") as f:
        return f.metadata()["etalon.op"]


def structure(program, path, work):
    """The structure that `profile` finds: the formula with its roundings, or None, and what it explains."""
    done = etalon(program, "profile", path, "--json", "--work", str(work))
    if done.returncode:
        return None
    said = json.loads(done.stdout)
    found = said.get("structure") or {}
    return dict(formula=found.get("formula") if found.get("identified") else None,
                explained=min((o["explained"] for o in found.get("outputs", [])), default=None),
                rounded=[s["site"] + " " + s["type"] for s in said.get("sites", []) if s["state"] == "rounded"])


def full(program, path, **how):
    """A row: check with its x-ray, and the relative error."""
    said = check(program, path, False, **how)
    if said["verdict"] == "fail":
        loose = check(program, path, True, "auto")
        said["loosest"] = dict(verdict=loose["verdict"], contract=loose.get("contract"))
    return dict(said=said, relative=relative_error(program, path))
