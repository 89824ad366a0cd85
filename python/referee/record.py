"""Runs one kernel on its points, in a process of its own: a crash loses one kernel and no other.

Each call is written as a capture; a line of JSON on stdout says so.
"""
import json
import os
import sys
import time
import traceback

import torch

from . import capture, inputs, kernel, points, table


def say(**about):
    print(json.dumps(about), flush=True)


def first_line(error):
    lines = [x for x in str(error).splitlines() if x.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else ''}"[:160]


def fewer_configurations(most):
    """Triton's autotuners are offered at most so many of their configurations, evenly spread: a kernel may be given any of them."""
    try:
        from triton.runtime.autotuner import Autotuner
    except ImportError:
        return
    built = Autotuner.__init__

    def init(self, fn, arg_names, configs, *args, **kwargs):
        configs = list(configs or [])
        step = -(-len(configs) // most) or 1
        built(self, fn, arg_names, configs[::step], *args, **kwargs)
    Autotuner.__init__ = init


def run(k, version, device, label, drawn, path, contract):
    """One call. True where it was recorded."""
    t, p = drawn
    t, p = {n: x.to(device) for n, x in t.items()}, dict(p)
    took = time.perf_counter()
    try:
        # The call may put other inputs in t's place; it must not write into those that it was given.
        outs = k.call(t, p)
        if device == "cuda":
            torch.cuda.synchronize()
    except kernel.Unsupported as e:
        say(what="unsupported", why=str(e), **label)
        return False
    except Exception as e:
        say(what="raised", why=first_line(e), **label)
        if os.environ.get("REFEREE_DEBUG"):
            traceback.print_exc()
        return "CUDA error" not in str(e) and None
    capture.write(path, k.op, t, p, outs, f"{k.library} {version} {k.name}", contract)
    say(what="recorded", path=path, work=sum(x.numel() for x in outs.values()), seconds=round(time.perf_counter() - took, 3), **label)
    return True


def sweeps(k, each):
    """All sweeps of the op; of several variants of the inputs the first that the kernel takes."""
    for sweep in points.SWEEPS.get(k.op, []):
        taken = False
        for axis, value, make in sweep(k):
            drawn = make()
            if drawn is not None:
                taken = each(dict(axis=axis, value=value), drawn) or taken
        if taken:
            return


def main(index, folder, etalon, deadline, configurations, more):
    k = kernel.load()[index]
    version = kernel.version(k.library)
    if version is None:
        say(what="absent", why=f"{k.library} is not installed")
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    n, known = 0, table.known(k.library, version, k.name, k.contract) if more else ()

    def each(label, drawn):
        nonlocal n
        if (label["axis"], label["value"]) in known:
            return True
        if time.time() > deadline:
            say(what="late", why="no time to record it", **label)
            return True
        n += 1
        return run(k, version, device, label, drawn, f"{folder}/{n}.safetensors", k.contract)

    torch.manual_seed(1)
    fewer_configurations(configurations)
    for name, make in points.ROWS.get(k.op, []):
        drawn = make(k)
        if drawn is not None:
            each(dict(axis="row", value=name), drawn)
    sweeps(k, each)
    for case in points.OWN.get(k.op, ()):
        each(dict(axis="etalon's cases", value=case), inputs.of_etalon(etalon, k.op, case, f"{folder}/{case}.inputs"))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]), int(sys.argv[5]), "more" in sys.argv[6:])
