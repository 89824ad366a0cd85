"""Fills the tables of docs/referee.md from results/*.tsv: python -m referee.page [--check]. Needs nothing but Python."""
import os
import sys

from .table import read

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "../../docs/referee.md")


def cell(text):
    """Text that Markdown leaves alone."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*") or "–"


def table(heads, lines):
    return "\n".join(["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|", *("| " + " | ".join(map(cell, x)) + " |" for x in lines)])


def rows():
    return table(("library", "kernel", "op", "inputs", "contract", "verdict", "worst σ", "rms σ", "of its limit", "largest error",
                  "structure", "explained", "run"),
                 [(f"{r['library']} {r['version']}", r["kernel"], r["op"], r["inputs"], r["contract"], r["verdict"], r["worst"], r["rms"],
                   r["share"], r["relative"], f"{r['form']}; {r['rounds']}", r["explained"], r["run"]) for r in read("rows")])


def runs():
    """Of each run how many rows the table has of it, and of how many libraries. A row of a run that runs.tsv lacks is an error."""
    of_run, known = {}, {r["run"]: r for r in read("runs")}
    for r in read("rows"):
        of_run.setdefault(r["run"], []).append(r)
    if set(of_run) - set(known):
        raise SystemExit(f"results/runs.tsv: no line for the runs {sorted(set(of_run) - set(known))}")
    return table(("run", "of", "etalon", "rows", "kernels", "libraries", "what it was"),
                 [(n, k["day"], k["etalon"], *(str(len({f(r) for r in of_run.get(n, ())})) for f in (
                     lambda r: (r["library"], r["kernel"], r["inputs"]), lambda r: (r["library"], r["kernel"]), lambda r: r["library"])), k["what"])
                  for n, k in known.items()])


def counts():
    all, found = read("rows"), read("ranges")
    of_verdict = lambda v: sum(r["verdict"] == v for r in all)
    judged = sum(int(r["judged"]) for r in found)
    of = lambda name: len({r[name] for r in all})
    return (f"{len(all)} rows: {len({(r['library'], r['kernel']) for r in all})} kernels of {of('library')} libraries, {of('op')} ops; "
            f"{of_verdict('pass')} pass, {of_verdict('fail')} fail, {len(all) - of_verdict('pass') - of_verdict('fail')} unsettled. In the sweeps {judged} more calls were judged, "
            f"{sum(int(r['unjudged']) for r in found)} were not.")


def formulas():
    """Of each kernel the first row whose formula was found."""
    seen, out = set(), []
    for r in read("rows"):
        if r["structure"] and (r["library"], r["kernel"]) not in seen:
            seen.add((r["library"], r["kernel"]))
            out += [f"{r['library']} {r['version']}, {r['kernel']} ({r['inputs']})", *("    " + x for x in r["structure"].split("; ")), ""]
    return "```\n" + "\n".join(out[:-1]) + "\n```"


def note(notes, r, value):
    """Whose and why, of a value at which a kernel left its contract; "unknown" where nobody wrote it down."""
    for n in notes:
        if all(n[k] in ("*", v) for k, v in (("library", r["library"]), ("op", r["op"]), ("axis", r["axis"]), ("value", value))):
            return f"{n['whose']}: {n['why']}"
    return "unknown"


def held(r):
    """Of many values that all held, each judged, the first and the last; results/ranges.tsv has them one by one."""
    all = r["held"].split(", ")
    if len(all) < 6 or r["left"] or r["unjudged"] != "0":
        return r["held"]
    return f"all {r['judged']}" + (f", {all[0]} to {all[-1]}" if all[0][-1].isdigit() and all[0].split("-")[-1].isdigit() and " " not in all[0] else "")


def ranges():
    notes, lines = read("notes"), []
    for r in read("ranges"):
        of_note = {}
        for x in filter(None, r["left"].split("; ")):
            of_note.setdefault(note(notes, r, x.split(": ")[0]), []).append(x)
        left = [f"{'; '.join(values)} ({why})" for why, values in of_note.items()]
        lines.append((f"{r['library']} {r['version']}", r["kernel"], r["op"], r["axis"], r["judged"], held(r), "; ".join(left), r["refused"],
                      r["unjudged"]))
    return table(("library", "kernel", "op", "over", "judged", "within its contract at", "outside it at (whose: why)", "refused", "not judged"),
                 lines)


BLOCKS = dict(rows=rows, counts=counts, runs=runs, formulas=formulas, ranges=ranges)


def fill(text):
    """The page with its blocks made anew; an error where one is missing."""
    for name, make in BLOCKS.items():
        begin, end = f"<!-- referee: {name} -->\n", f"<!-- /referee: {name} -->"
        if text.count(begin) != 1 or text.count(end) != 1:
            raise SystemExit(f"docs/referee.md: expected one block '{name}'")
        head, rest = text.split(begin)
        text = head + begin + make() + "\n" + end + rest.split(end)[1]
    return text


def main(check):
    with open(PAGE) as f:
        old = f.read()
    new = fill(old)
    if check and new != old:
        raise SystemExit("docs/referee.md: not what results/*.tsv say; make referee-page")
    if not check:
        with open(PAGE, "w") as f:
            f.write(new)


if __name__ == "__main__":
    main("--check" in sys.argv[1:])
