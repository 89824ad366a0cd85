"""What a run brought, as the two tables that are kept: results/rows.tsv, results/ranges.tsv.

RUN holds points.tsv and rows.jsonl. With `--more` the tables keep what they say of calls that RUN did not judge. STRUCTURES holds what
`etalon profile --json` said of captures that RUN brought, in CAPTURE.json. A row says which run it is of, by `--name`; results/runs.tsv says of
each what it was.
"""
import argparse
import collections
import csv
import json
import os
import re
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS = ("library", "version", "kernel", "op", "inputs", "contract", "verdict", "worst", "rms", "share", "rule", "relative", "form", "rounds",
        "explained", "structure", "why", "run")
RANGES = ("library", "version", "kernel", "op", "contract", "axis", "judged", "held", "left", "refused", "unjudged")
POINTS = ("library", "version", "kernel", "op", "contract", "axis", "value", "verdict", "share", "worst", "rms", "rule", "why")


def clean(text):
    """One cell: no tab, no line break, no colour of a terminal."""
    return re.sub(r"\s+", " ", re.sub(r"\x1b\[[0-9;]*m", "", str(text))).strip()


def lines(path):
    with open(path) as f:
        return f.read().splitlines()


def capture_name(op, library, kernel, inputs):
    """As run.py names it."""
    return re.sub(r"[^A-Za-z0-9.]+", "_", f"{op}.{library}.{kernel}.row.{inputs}")


def percent(share):
    """Of an error; what is not above 0 explains nothing."""
    return "0 %" if not share > 0 else f"{100 * share:.4g} %" if share < 0.9999 else f"{100 * share:.6g} %"


def xray(said):
    """Form, what is rounded, and how much of each output's error that explains, as check says it."""
    x = said.get("xray") or {}
    form = x.get("form", "") + (f" of {x['chunk']}" if x.get("chunk") else "")
    rounds = [s["name"] + " " + s["type"] for s in x.get("suspects", []) if s["state"] in ("allowed", "detected") and s.get("type")]
    return dict(form=form, rounds=", ".join(rounds) if x.get("identified") else "not identified",
                explained=", ".join(f"{o['name']} {percent(o['explained'])}" for o in x.get("outputs", [])))


def read(name):
    with open(f"{HERE}/results/{name}.tsv", newline="") as f:
        return list(csv.DictReader(f, delimiter="\t", quoting=csv.QUOTE_NONE))


def known(library, version, kernel, contract):
    """Axes and values of the kernel's calls that the tables say held that contract: what failed is asked again, for etalon changes too."""
    of = lambda name: [r for r in read(name) if (r["library"], r["version"], r["kernel"], r["contract"]) == (library, version, kernel, contract)]
    return ({("row", r["inputs"]) for r in of("rows") if r["verdict"] == "pass"} |
            {(p["axis"], p["value"]) for r in of("ranges") for p in points_of_line(r) if p["verdict"] == "pass"})


def rows_of(run, structures, earlier, name):
    """One line for each row that was judged, in the order of libraries, ops and kernels; and those of `earlier` that were not."""
    now = [r | dict(run=name) for r in rows(run, structures)]
    found = {(r["library"], r["kernel"], r["inputs"]): r for r in [*earlier, *now]}
    return sorted(found.values(), key=lambda r: (r["library"].lower(), r["op"], r["kernel"], r["inputs"]))


def rows(run, structures):
    found = collections.defaultdict(dict)
    for r in map(json.loads, lines(run + "/rows.jsonl")):
        found[r["library"], r["kernel"], r["row"]].update({n: v for n, v in r.items() if v is not None})
    for (library, kernel, inputs), r in found.items():
        said = r.get("said")
        if not said or said["verdict"] == "refused":
            continue
        s = r.get("structure") or {}
        path = f"{structures}/{capture_name(r['op'], library, kernel, inputs)}.safetensors.json" if structures else ""
        if not s.get("formula") and os.path.exists(path) and os.path.getsize(path):
            one = json.loads("\n".join(lines(path))).get("structure") or {}
            s = dict(formula=one.get("formula") if one.get("identified") else None)
        why = "; ".join(x if isinstance(x, str) else json.dumps(x) for x in said["reasons"])
        if r.get("loosest"):
            why += f"; under {r['loosest']['contract']}: {r['loosest']['verdict']}"
        verdict = said["verdict"]
        if verdict == "pass" and not r["relative"] <= 1:
            verdict, why = "unsettled", f"passes with an error of {r['relative']:.3g} times the output's own size"
        yield dict(library=library, version=r["version"], kernel=kernel, op=r["op"], inputs=inputs, contract=r["contract"],
                   verdict=verdict, worst=f"{r['worst']:.3g}", rms=f"{r['rms']:.3g}", share=f"{r['share']:.2g}", rule=r["rule"],
                   relative=f"{r['relative']:.2g}", structure="; ".join(s.get("formula") or []), why=why) | xray(said)


def size(value):
    """What a sweep's values are ordered by."""
    m = re.fullmatch(r"-?[0-9.]+(e[-+]?[0-9]+)?", value)
    return (0, abs(float(value)), value) if m else (1, 0, value)


def numbers(values):
    """1, 2, 3, 5 as 1-3, 5."""
    out, values = [], sorted(set(values), key=size)
    for v in values:
        if out and v.isdigit() and out[-1][1].isdigit() and int(v) == int(out[-1][1]) + 1:
            out[-1][1] = v
        else:
            out.append([v, v])
    return ", ".join(a if a == b else f"{a}-{b}" for a, b in out)


def values(listed):
    """1-3, 5 as 1, 2, 3, 5: what `numbers` wrote."""
    for part in filter(None, listed.split(", ")):
        m = re.fullmatch(r"(\d+)-(\d+)", part)
        yield from map(str, range(int(m[1]), int(m[2]) + 1)) if m else [part]


def points_of_line(r):
    """The calls that a line of ranges.tsv tells of."""
    for v in values(r["held"]):
        yield r | dict(value=v, verdict="pass", share="0", rule="", why="")
    for text in filter(None, r["left"].split("; ")):
        value, rule, share = re.fullmatch(r"(.*?): (.*), (\S+) of its limit", text).groups()
        yield r | dict(value=value, verdict="fail", share=share, rule=rule, why="")
    if r["refused"]:
        value, why = r["refused"].split(": ", 1)
        yield r | dict(value=value, verdict="raised", why=why)


def points_of(run, earlier):
    """By kernel, axis and value; of two runs, or of one that judged late calls again, the last that judged the call. Of a library whose
    version is another now, or a kernel held to another contract, the earlier run's are not kept."""
    of_run = [dict(zip(POINTS, line.split("\t"))) for line in lines(run + "/points.tsv")]
    now = {p["library"]: p["version"] for p in of_run} | {(p["library"], p["kernel"]): p["contract"] for p in of_run}
    same = lambda r: (now.get(r["library"], r["version"]) == r["version"] and
                      now.get((r["library"], r["kernel"]), r["contract"]) == r["contract"])
    kept = {}
    for p in [p for r in filter(same, earlier) for p in points_of_line(r)] + of_run:
        key = p["library"], p["kernel"], p["axis"], p["value"]
        if p["axis"] not in ("row", "process", "") and (key not in kept or p["verdict"] not in ("late", "unjudged")):
            kept[key] = p
    return kept


def ranges(run, earlier):
    """One line for each kernel and axis with a call that was judged, refused or late."""
    found, touched = collections.defaultdict(list), set()
    for line in lines(run + "/points.tsv"):
        p = dict(zip(POINTS, line.split("\t")))
        touched.add((p["library"], p["kernel"], p["axis"]))
    unjudged = {(r["library"], r["kernel"], r["axis"]): int(r["unjudged"]) for r in earlier}
    for p in points_of(run, earlier).values():
        found[p["library"], p["kernel"], p["axis"]].append(p)
    for (library, kernel, axis), points in sorted(found.items(), key=lambda f: (f[0][0].lower(), f[1][0]["op"], f[0][1:])):
        of = lambda *verdicts: [p for p in points if p["verdict"] in verdicts]
        # A share of a limit that is not below 1, NaN among them, has not held, whatever else is said.
        held = [p for p in of("pass") if float(p["share"] or "nan") <= 1]
        left = [p for p in of("pass", "fail", "undecided") if p not in held]
        raised = of("raised")
        late = of("late", "unjudged")
        if not held and not left and not raised and not late:
            continue
        yield dict(library=library, version=points[0]["version"], kernel=kernel, op=points[0]["op"], contract=points[0]["contract"], axis=axis,
                   judged=len(held) + len(left), held=numbers([p["value"] for p in held]),
                   left="; ".join(f"{p['value']}: {p['rule']}, {p['share']} of its limit" for p in sorted(left, key=lambda p: size(p["value"]))),
                   refused="; ".join(f"{p['value']}: {p['why']}" for p in raised[:1]) + (f" (and {len(raised) - 1} more)" if raised[1:] else ""),
                   unjudged=len(late) if (library, kernel, axis) in touched else unjudged.get((library, kernel, axis), 0))


def write(path, names, found):
    with open(path, "w") as f:
        print(*names, sep="\t", file=f)
        n = 0
        for line in found:
            print(*(clean(line[name]) for name in names), sep="\t", file=f)
            n += 1
    print(f"{path}: {n} lines")


if __name__ == "__main__":
    a = argparse.ArgumentParser()
    a.add_argument("run")
    a.add_argument("--more", action="store_true")
    a.add_argument("--structures")
    a.add_argument("--name", help="of the run, as in results/runs.tsv (default: the day on which it ended)")
    a = a.parse_args()
    name = a.name or time.strftime("%Y-%m-%d", time.gmtime(os.path.getmtime(a.run + "/points.tsv")))
    earlier = read if a.more else lambda name: []
    write(HERE + "/results/rows.tsv", ROWS, list(rows_of(a.run, a.structures, earlier("rows"), name)))
    write(HERE + "/results/ranges.tsv", RANGES, list(ranges(a.run, earlier("ranges"))))
