"""The references in C of commit 5739f2b, the last with them, against the formulas that took their place: answers and processor time.

usage: python3 tests/studies/formulas.py OLD [CAPTURE...]
  OLD       a checkout of 5739f2b in which `make NVCC=` was run
  CAPTURE   its captures otherwise
Of each capture, with outputs widened to float64: the answers in dd, f64 and f32, of the gated delta rule in both forms, and in dd with
each fault that both have. Last, user and system seconds of a check by both, the least of three, in turn. A line each, and a summary.
"""
import glob
import json
import os
import resource
import struct
import subprocess
import sys
import tempfile

NEW = "build/etalon"
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # threads that wait would count
WIDE = ("F32", "BF16", "F16")
FAULTS_BELOW = 400_000  # bytes: of larger captures the answers without a fault


def widened(source, target):
    """The capture with outputs of 64 bits, all zero: the reference answers in the types of the outputs."""
    with open(source, "rb") as f:
        data = f.read()
    size, = struct.unpack("<Q", data[:8])
    head, data, new, parts, at = json.loads(data[8:8 + size]), data[8 + size:], {}, [], 0
    for name, t in head.items():
        if name == "__metadata__":
            new[name] = t
            continue
        part, dtype = data[slice(*t["data_offsets"])], t["dtype"]
        if name.startswith("out.") and dtype in WIDE:
            part, dtype = bytes(len(part) * (2 if dtype == "F32" else 4)), "F64"
        new[name] = {"dtype": dtype, "shape": t["shape"], "data_offsets": [at, at + len(part)]}
        parts.append(part)
        at += len(part)
    text = json.dumps(new).encode()
    text += b" " * (-len(text) % 8)
    with open(target, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(parts))
    return new["__metadata__"].get("etalon.op")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True)


def seconds(*command):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run(*command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def faults(old, op):
    both = [{e[key] for e in json.loads(run(program, "list", what, op, "--json").stdout)}
            for program, what, key in ((old, "mistakes", "mistake"), (NEW, "faults", "fault"))]
    return sorted(both[0] & both[1])


def main():
    tree, old = sys.argv[1], sys.argv[1] + "/build/etalon"
    captures = sys.argv[2:] or glob.glob(tree + "/fixtures/captures/*.safetensors")
    count, spent = {}, [0, 0]
    with tempfile.TemporaryDirectory() as work:
        wide, a, b = (f"{work}/{n}.safetensors" for n in ("wide", "a", "b"))
        for capture in sorted(captures, key=os.path.getsize):
            op = widened(capture, wide)
            if not op or op == "model":
                continue
            ways = [("dd", "-a", "dd"), ("f64", "-a", "f64"), ("f32", "-a", "f32")]
            if op == "gated_delta_rule":
                ways += [("dd, chunks", "-a", "dd", "-f", "chunk"), ("f64, chunks", "-a", "f64", "-f", "chunk")]
            if os.path.getsize(capture) < FAULTS_BELOW:
                ways += [("fault " + x, "-a", "dd", "-m", x) for x in faults(old, op)]
            for way, *how in ways:
                done = run(old, "ref", wide, "-o", a, *how).returncode == 0 and run(NEW, "ref", wide, "-o", b, *how).returncode == 0
                same = done and run(NEW, "diff", a, b).returncode == 0
                kind = count.setdefault(way.split()[0] if way.startswith("fault") else way, [0, 0])
                kind[0] += 1
                kind[1] += same
                if not same:
                    print(f"{os.path.basename(capture)}\t{way}\t{'differ' if done else 'refused'}", flush=True)
            pair = [min(s) for s in zip(*([seconds(p, "check", capture) for p in (old, NEW)] for _ in range(3)))]
            spent = [x + y for x, y in zip(spent, pair)]
            print(f"{os.path.basename(capture)}\tcheck\t{pair[0]:.2f} s\t{pair[1]:.2f} s", flush=True)
    for kind, (n, same) in sorted(count.items()):
        print(f"{kind}: {same} of {n} answers the same to the bit")
    print(f"checks: {spent[0]:.1f} s of the C, {spent[1]:.1f} s of the formulas, ratio {spent[1] / spent[0]:.3f}")


if __name__ == "__main__":
    main()
