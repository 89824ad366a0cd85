"""Correct engines and wrong ones, judged: study.py ETALON FOLDER [--only REGEX] [--models NAMES] [--small] [--seeds A-B]

Prints the page's table; exit code 1 where a correct engine fails or a fault that stands out does not, or is misnamed."""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import time

from cuts import CUTS, drawn
from engine import Engine

SEEDS = range(4000, 4020)
TOKENS = 72
MODELS = ("tiny", "mid", "moe")
FAULTY = ("hf_eager", "vllm", "sglang", "trt", "llama_bf16", "f32")
# fault -> what the report says, and the models that have it; None: found only where roundings are read to the bit
FAULTS = {
    "skip_layer@1": ("layer 1, .*the layer is left out", MODELS),
    "residual_missing@1": ("layer 1, .*the mixer's output without x", MODELS),
    "tokens_shifted": ("the ids are shifted by one", MODELS),
    "norm_offset": ("layer 0, .*input norm: w for 1 . w", MODELS),
    "norms_offset": ("layer 0, .*all norms: w for 1 . w", MODELS),
    "theta": ("layer [13], .*theta", MODELS),
    "rope_interleaved": ("layer [13], .*neighbours are paired", MODELS),
    "gqa": ("layer [13], .*key-value head h mod G", MODELS),
    "gqa_lin": ("layer 0, .*key head h mod Hk", MODELS),
    "gate_missing": ("layer [13], .*the gate is not applied", MODELS),
    "z_gate_missing": ("layer 0, .*the gate is not applied", MODELS),
    "beta_missing": ("layer 0, .*u = v - S'k", MODELS),
    "decay_after": ("layer 0, .*after the read", MODELS),
    "retrieve_before_decay": ("layer 0, .*u uses S'k before", MODELS),
    "no_renorm": ("layer 0, .*not divided by their sum", ("moe",)),
    "expert_swap": ("layer 0, .*experts .* exchanged", ("moe",)),
    "eps": (None, MODELS),
}


def cut_of(name):
    return drawn(int(name[5:])) if name.startswith("seed:") else CUTS[name]


def run(job):
    etalon, folder, model, cut, fault, way = job
    name = f"{folder}/{model}.{cut}.{fault or 'right'}.safetensors".replace("@", "_").replace(":", "_")
    if not os.path.exists(name):
        roundings, flags = cut_of(cut)
        engine = Engine(f"{folder}/{model}", roundings, [fault] if fault else [], flags)
        dump, alone = engine.run(), f"{name}.{way}"
        engine.store(alone, dump)
        os.replace(alone, name)
    command = [etalon, "logits", "--model", f"{folder}/{model}", "--got", f"{name}:logits"]
    began = time.time()
    command += ["--contract", "auto"] + (["--quick"] if way == "logits" else [])
    done = subprocess.run(command, capture_output=True, text=True)
    last = (done.stdout.strip().splitlines() or [done.stderr.strip()])[-1]
    sizes = [float(x) for x in re.findall(r"^  (?:layer \d+|logits) +\w+ +\S+ +([\d.e+-]+) ", done.stdout, re.M)]
    return *job[2:], done.returncode, last, time.time() - began, sizes


def jobs(a, folder):
    only = re.compile(a.only)
    right = [f"seed:{s}" for s in a.seeds] if a.seeds else list(CUTS) + [f"seed:{s}" for s in SEEDS]
    faulty = () if a.seeds else FAULTY
    for model in a.models.split(","):
        for i, cut in enumerate(right):
            if a.small and i % 5:
                continue
            for way in ("hidden", "logits"):
                if only.search(f"{model} {cut} right {way}"):
                    yield a.etalon, folder, model, cut, None, way
        for i, cut in enumerate(faulty):
            for k, (fault, (_, models)) in enumerate(FAULTS.items()):
                if model not in models or (a.small and (i + k) % len(faulty)):
                    continue
                if only.search(f"{model} {cut} {fault} hidden"):
                    yield a.etalon, folder, model, cut, fault, "hidden"


def verdict(row):
    """Of a fault: "named", "unnamed", "misnamed", "passes" or "not seen"."""
    model, cut, fault, way, code, last, *_ = row
    expected = FAULTS[fault][0]
    if expected is None:
        in_reach = cut in ("hf_eager", "f32")
        return ("named" if "eps" in last else "misnamed") if code == 1 else "passes" if in_reach else "not seen"
    if code != 1:
        return "passes"
    return "unnamed" if "no known fault" in last else "named" if re.search(expected, last) else "misnamed"


def report(rows):
    right = [r for r in rows if r[2] is None]
    wrong = [r for r in rows if r[2] is not None]
    print("| correct engines | hidden states: runs | fail | logits alone: runs | fail | largest size |")
    print("|---|---:|---:|---:|---:|---:|")
    for model in MODELS:
        parts = [[r for r in right if r[0] == model and r[3] == way] for way in ("hidden", "logits")]
        largest = max((x for r in parts[0] for x in r[7]), default=0)
        cells = [f"{len(p)} | {sum(r[4] != 0 for r in p)}" for p in parts]
        if parts[0] or parts[1]:
            print(f"| {model} | {' | '.join(cells)} | {largest:.2f} |")
    print("\n| fault | runs | named | fails without a name | misnamed | passes | too small to be seen |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for fault in FAULTS:
        fates = [verdict(r) for r in wrong if r[2] == fault]
        kinds = ("named", "unnamed", "misnamed", "passes", "not seen")
        if fates:
            print(f"| {fault} | {len(fates)} | {' | '.join(str(fates.count(k)) for k in kinds)} |")
    bad = [r for r in right if r[4] != 0] + [r for r in wrong if verdict(r) in ("misnamed", "passes")]
    for r in bad:
        print(f"\n    {' '.join(str(x) for x in r[:4])}: exit {r[4]}, {r[5][:300]}", end="")
    print()
    return 1 if bad else 0


def seeds(text):
    first, last = text.split("-")
    return range(int(first), int(last) + 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("etalon")
    p.add_argument("folder")
    p.add_argument("--only", default="")
    p.add_argument("--models", default=",".join(MODELS))
    p.add_argument("--small", action="store_true")
    p.add_argument("--seeds", type=seeds, help="cuts drawn with these seeds alone, as 7300-7309")
    a = p.parse_args()
    folder = os.path.abspath(a.folder)
    os.makedirs(folder, exist_ok=True)
    here = os.path.dirname(os.path.abspath(__file__))
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    for model in a.models.split(","):
        config = f"{here}/models/{model}.json"
        command = [a.etalon, "invent", config, "-o", f"{folder}/{model}", "-n", str(TOKENS)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rows, done = [], open(f"{folder}/rows.jsonl", "w")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for row in pool.map(run, list(jobs(a, folder))):
            rows.append(row)
            print(json.dumps(row), file=done, flush=True)
    return report(rows)


sys.exit(main())
