"""Records all kernels and judges them on the machine that has the GPU: python -m referee.run ETALON OUT [--only WORD] ...

Each kernel has a process of its own, several at once; captures are judged while others are recorded, rows first, then the
sweeps' small calls, long calls last. What is known is written as it comes: OUT/points.tsv, OUT/rows.jsonl, OUT/captures.tar.
Calls that were recorded and not judged in time are kept in OUT/late; `--late` judges those, on any machine.
"""
import argparse
import glob
import itertools
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import threading
import time

from . import judge, kernel

LONG = 300_000          # outputs of a call that is judged last
LARGE = 4_000_000       # bytes of a call that is judged by several threads
KEEP = 600_000          # bytes of a capture of a row, or of a call that failed, that is brought home
LATE = 60_000_000       # bytes of calls that were not judged in time


def rank(said):
    """In which order captures are judged: rows; sweeps of few calls; lengths; structures of rows; long calls."""
    if said["what"] == "structure":
        return 3
    if said["axis"] == "row":
        return 0
    return 4 if said["work"] > LONG else 2 if said["axis"] == "length" else 1


class Referee:
    def __init__(self, args):
        self.args, self.lock, self.todo = args, threading.Lock(), queue.PriorityQueue()
        self.deadline, self.count = time.time() + args.seconds, itertools.count()
        self.failed, self.late, self.recorded = {}, 0, {}
        os.makedirs(args.out + "/late", exist_ok=True)
        self.points = open(args.out + "/points.tsv", "a")
        self.rows = open(args.out + "/rows.jsonl", "a")
        self.tar = tarfile.open(args.out + "/captures.tar", "a" if args.late else "w")

    def version(self, k):
        """As recorded: where late calls are judged the library need not be."""
        return self.recorded.get(k.library) or kernel.version(k.library) or ""

    def note(self, k, axis="", value="", verdict="", why="", **f):
        figures = [f"{f[n]:.4g}" if n in f else "" for n in ("share", "worst", "rms")]
        with self.lock:
            print(k.library, self.version(k), k.name, k.op, k.contract, axis, value, verdict, *figures,
                  f.get("rule", ""), re.sub(r"\s+", " ", why), sep="\t", file=self.points, flush=True)

    def bring(self, path, k, label):
        name = re.sub(r"[^A-Za-z0-9.]+", "_", f"{k.op}.{k.library}.{k.name}.{label['axis']}.{label['value']}")
        if os.path.getsize(path) <= KEEP:
            with self.lock:
                self.tar.add(path, name + ".safetensors")

    def record(self, kernels):
        """Takes kernels until none is left."""
        for index, k in iter(kernels.get, None):
            with tempfile.TemporaryFile("w+") as errors:
                folder = tempfile.mkdtemp(dir=self.args.scratch)
                # Inductor's workers, one a processor for each recorder, would starve all else.
                alone = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="1", XLA_PYTHON_CLIENT_PREALLOCATE="false")
                p = subprocess.Popen([sys.executable, "-m", "referee.record", str(index), folder, self.args.etalon, str(self.deadline),
                                      str(self.args.configurations), "more" if self.args.more else "all"],
                                     stdout=subprocess.PIPE, stderr=errors, text=True, env=alone)
                ending = threading.Timer(max(1, self.deadline + 20 - time.time()), p.kill)
                ending.daemon = True
                ending.start()
                for line in p.stdout:
                    if line.startswith("{"):
                        self.heard(k, json.loads(line))
                ending.cancel()
                if p.wait() == -9:
                    self.note(k, "process", "killed", "late", "a call did not return in time")
                elif p.returncode:
                    errors.seek(0)
                    self.note(k, "process", str(p.returncode), "raised", why="; ".join(errors.read().strip().splitlines()[-3:])[-300:])
            print(f"{time.time() - self.start:6.1f} s  recorded {k.library} {k.name}, {self.todo.qsize()} to judge", flush=True)

    def heard(self, k, said):
        if said["what"] != "recorded":
            self.note(k, said.get("axis", ""), said.get("value", ""), said["what"], said.get("why", ""))
            return
        self.todo.put((rank(said), said["work"], next(self.count), k, said))
        if said["axis"] == "row":
            self.bring(said["path"], k, said)

    def judge(self):
        """Takes captures until a None comes."""
        while True:
            *_, k, said = self.todo.get()
            if k is None:
                return
            path, label = said["path"], dict(axis=said["axis"], value=said["value"])
            try:
                if time.time() > self.deadline + self.args.after:
                    raise subprocess.TimeoutExpired("check", 0)
                elif said["what"] == "structure":
                    self.structure(k, path, label)
                elif label["axis"] == "row":
                    self.row(k, path, label)
                    said["what"] = "structure"
                    self.todo.put((rank(said), said["work"], next(self.count), k, said))
                    continue
                else:
                    self.point(k, path, label)
            except subprocess.TimeoutExpired:
                self.note(k, verdict="late", why="not judged in time", **label)
                self.keep(path, k, said)
            except Exception as e:
                self.note(k, verdict="unjudged", why=f"{type(e).__name__}: {e}"[:200], **label)
            os.unlink(path)

    def keep(self, path, k, said):
        """A call for --late."""
        with self.lock:
            if said["what"] == "structure" or self.late + os.path.getsize(path) > LATE:
                return
            self.late += os.path.getsize(path)
            name = f"{self.args.out}/late/{next(self.count)}"
            shutil.copy(path, name + ".safetensors")
            with open(name + ".json", "w") as f:
                json.dump(said | dict(library=k.library, version=self.version(k), kernel=k.name), f)

    def left(self):
        """Seconds until nothing more is judged."""
        return max(1, self.deadline + self.args.after - time.time())

    def point(self, k, path, label):
        said = judge.check(self.args.etalon, path, True, seconds=self.left(), threads=self.args.threads if os.path.getsize(path) > LARGE else 1)
        figures = judge.figures(said) if said["verdict"] != "refused" else {}
        why = said.get("why") or "; ".join(r if isinstance(r, str) else json.dumps(r) for r in said["reasons"])[:200]
        self.note(k, verdict=said["verdict"], why=why, **label, **figures)
        kept = self.failed.setdefault((k.name, label["axis"]), 0)
        if said["verdict"] == "fail" and kept < 2:
            self.failed[k.name, label["axis"]] += 1
            self.bring(path, k, label)

    def row(self, k, path, label):
        said = judge.full(self.args.etalon, path, seconds=self.left())
        figures = judge.figures(said["said"]) if said["said"]["verdict"] != "refused" else {}
        self.note(k, verdict=said["said"]["verdict"], why=said["said"].get("why", ""), **label, **figures)
        self.tell(k, label, said | figures)

    def structure(self, k, path, label):
        if self.args.profile:
            self.tell(k, label, dict(structure=judge.structure(self.args.etalon, path, self.args.profile)))

    def tell(self, k, label, said):
        about = dict(library=k.library, version=self.version(k), kernel=k.name, op=k.op, contract=k.contract, row=label["value"])
        with self.lock:
            print(json.dumps(about | said), file=self.rows, flush=True)

    def main(self):
        self.start = time.time()
        wanted = re.compile(self.args.only)
        kernels = queue.Queue()
        all = kernel.load()
        for path in glob.glob(self.args.out + "/late/*.json") if self.args.late else ():
            with open(path) as f:
                said = json.load(f)
            if not wanted.search(f"{said['library']} {said['kernel']}"):
                continue
            os.rename(path[:-4] + "safetensors", path[:-4] + "again")
            os.unlink(path)
            said["path"] = path[:-4] + "again"
            self.recorded[said["library"]] = said["version"]
            k = next(k for k in all if (k.library, k.name) == (said["library"], said["kernel"]))
            self.todo.put((rank(said), said["work"], next(self.count), k, said))
        for index, k in enumerate(all if not self.args.late else ()):
            if wanted.search(f"{k.library} {k.name} {k.op}"):
                kernels.put((index, k))
        for _ in range(self.args.recorders):
            kernels.put(None)
        recorders = [threading.Thread(target=self.record, args=(kernels,)) for _ in range(self.args.recorders)]
        judges = [threading.Thread(target=self.judge) for _ in range(self.args.judges)]
        for t in recorders + judges:
            t.start()
        for t in recorders:
            t.join()
        for _ in judges:
            self.todo.put((float("inf"), 0, next(self.count), None, None))
        for t in judges:
            t.join()
        self.tar.close()
        print(f"{time.time() - self.start:6.1f} s  {next(self.count)} calls and structures", flush=True)


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("etalon")
    a.add_argument("out")
    a.add_argument("--only", default="", help="kernels whose library, name and op have this in them, a regular expression")
    a.add_argument("--seconds", type=float, default=3600, help="after which nothing more is recorded")
    a.add_argument("--after", type=float, default=3600, help="more, after which nothing more is judged")
    a.add_argument("--profile", type=int, default=20, help="billions of operations of the search for a row's structure; 0: none")
    a.add_argument("--more", action="store_true", help="only what results/*.tsv do not say held the kernel's contract")
    a.add_argument("--late", action="store_true", help="record nothing; judge what an earlier run left in OUT/late")
    a.add_argument("--threads", type=int, default=4, help="that judge a long call")
    a.add_argument("--configurations", type=int, default=4, help="of a kernel that Triton's autotuners may choose from")
    a.add_argument("--recorders", type=int, default=8)
    a.add_argument("--judges", type=int, default=os.cpu_count())
    a.add_argument("--scratch", default=None, help="folder for captures until they are judged")
    Referee(a.parse_args()).main()
