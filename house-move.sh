#!/bin/sh
# Moves the files of etalon into the folders of the design, and makes includes, the Makefile, scripts and pages follow.
# usage: house-move.sh, from the root of a clean checkout (or: house-move.sh --dry-run). Nothing is committed.
# Files that are not there are no error; files that no rule knows stay where they are and are named at the end.
# Run again on what was moved already, it does nothing.
set -eu
[ -f Makefile ] && [ -d compare ] || { echo "house-move: run it from the root of the checkout" >&2; exit 2; }
[ "${1-}" = --dry-run ] || [ -z "$(git status --porcelain)" ] || { echo "house-move: the checkout is not clean" >&2; exit 2; }
exec python3 - "$@" <<'PY'
import os, re, subprocess, sys

dry = '--dry-run' in sys.argv
git = lambda *a: subprocess.check_output(('git',) + a, text=True).split('\n')
files = [f for f in git('ls-files') if f]
tracked = set(files)
SOURCE = re.compile(r'\.(c|h|cu|cuh|cc)$')

# (folder of today, names, folder of tomorrow); the first that fits counts.
rules = []
def rule(old, new, names):
    rules.append((old, re.compile(r'(?:%s)' % names.replace(' ', '|')), new))

C = r'\.[ch]'
rule('fixtures', 'fixtures/cases', r'case_table.*\.[ch] cases\.[ch] random\.h')
rule('fixtures', 'fixtures/io', r'bits\.h capture\.[ch] dtype\.[ch] error\.[ch] file\.[ch] folder\.[ch] npy\.[ch] '
     r'safetensors.*\.[ch] tensor\.[ch] wide\.h model_config\.[ch] f16.*\.[ch] drawn\.[ch]')
rule('ref', 'ref/arith', r'arith.*\.[ch] dd.*\.[ch] warp_scan\.h calc_private\.h calc_arena\.[ch]')
rule('ref', 'ref/call', r'call.*\.[ch] calc.*\.[ch] contract\.[ch] op\.h run\.[ch] strip\.[ch] plan.*\.[ch]')
rule('ref', 'ref/eigen', r'iterate\.[ch] polynomials\.[ch] restarts\.[ch] spectrum.*\.[ch]')
rule('ref', 'ref/model', r'model.*\.[ch]')
rule('ref', 'ref/ops', r'op\.c parts\.h causal_conv1d.*\.[ch] gated_.*\.[ch] mixed_batch.*\.[ch] muon_.*\.[ch] newton_schulz.*\.[ch] '
     r'qk_norm.*\.[ch] rmsnorm.*\.[ch] rope.*\.[ch] .*\.op')
rule('gpu', 'gpu/device', r'device\.cuh hopper\.cuh mma\.cuh tile\.cuh')
rule('gpu', 'gpu/host', r'backend\.[ch] cuda\.cu cuda\.cuh cublas\.cuh plugin.*\.[ch] sources.*\.[ch]')
rule('gpu', 'gpu/executor', r'executor.* mixed_batch.* guarded.*')
rule('gpu', 'gpu/engine', r'model.* engine.* no_cuda\.c')
rule('gpu', 'gpu/kernels', r'.*\.cuh? ')
rule('compare', 'bench', r'bench.* timed\.cuh rival.*')
rule('compare', 'compare/print', r'print\.[ch]')
rule('compare', 'compare/truth', r'expected\.[ch] sample\.[ch] yardstick.*\.[ch]')
rule('compare', 'compare/diff', r'elementwise\.[ch] scan_?[a-z0-9]*\.[ch] load\.h')
rule('compare', 'compare/eigen', r'eigen.*\.[ch]')
rule('compare', 'compare/attribute', r'accumulators\.[ch] descend.*\.[ch] earned\.[ch] fit\.[ch] generic\.[ch] grow\.[ch] joint\.[ch] '
     r'forward\.[ch] backward\.[ch] profile\.[ch] prune\.[ch] replica.*\.[ch] emulation.*\.[ch] suspects\.[ch] where\.[ch] xray.*\.[ch]')
rule('compare', 'compare/verdict', r'verdict.*\.[ch] figures\.[ch] traces\.[ch] quantile\.[ch]')
rule('compare', 'compare/report', r'report.*\.[ch] finding\.[ch] baseline\.[ch]')
rule('compare', 'compare/layers', r'layer_.*\.[ch] model_.*\.[ch]')
rule('compare', 'compare/cli', r'isolate_captures\.[ch] cli\.[ch] cmd_.*\.[ch] main\.c machine\.[ch] record_.*\.[ch] find\.[ch]')
rule('compare', 'ref/model', r'invent\.[ch]')
rule('compare', 'compare/logits', r'kl_.*\.[ch] logit.*\.[ch] quantize.*\.[ch]')
rule('compare', 'compare/isolate', r'isolate.*\.[ch] scenario.*\.[ch]')
T = r'test_%s\.c'
def tests(new, names, also=''):
    rule('tests', new, r'test_(?:%s)\.c' % names.replace(' ', '|') + (' ' + also if also else ''))
rule('tests', 'tests', r'run\.sh mutate\.sh mutants\.tsv arrows\..* helpers\.[ch] counted\.h judged\.h kernel_model\.h model\.h '
     r'model_bed\.h model_folder\.h folder_copy\.h program\.h witness.*\.[ch] xml\.h')
rule('tests', 'tests/studies', r'false_alarms\.c kill_matrix.* model_(?:mistakes|faults)\.c pairs\.c readback\.[ch] mma_record\.cu')
rule('tests', 'tests/fixtures', r'fuzz.*\.[ch]')
tests('tests/fixtures', r'capture dtype error file npy round safetensors tensor ladder folder cases')
tests('tests/ref/arith', r'arith.* dd_form', r'dd_units\.h mma_hopper\.safetensors')
tests('tests/ref/call', r'allocations calc calc_field call run strip')
tests('tests/ref/eigen', r'restarts singular spectrum')
tests('tests/ref/model', r'model model_load invent')
tests('tests/gpu', r'executor.* guarded_buffer mixed_batch_play model_engine', r'executor_.*\.h plugin_.*\.c')
tests('tests/compare/attribute', r'accumulators fit profile muon_step_suspects mixed_batch_suspects suspects xray_shapes rules_xray '
      r'variants invented_.*', r'invented\.h')
tests('tests/ref/ops', r'causal_conv1d gated_.* mixed_batch mixed_batch_(?:mistakes|faults) muon_step newton_schulz newton_schulz_.* parts '
      r'qk_norm_rope rmsnorm rmsnorm_fp8 rope', r'gated_delta_rule_samples\.h mixed_batch_samples\.h newton_schulz_samples\.h')
tests('tests/compare/truth', r'expected sample memory check_strips')
tests('tests/compare/verdict', r'verdict verdict_.* figures quantile rules traces')
tests('tests/compare/report', r'report baseline')
tests('tests/compare/diff', r'elementwise')
tests('tests/compare/layers', r'layer_.* model_reading')
tests('tests/compare/logits', r'kl logit_row logits logits_.* quantize', r'logits_made\.h')
tests('tests/compare/eigen', r'eigen.*')
tests('tests/compare/isolate', r'isolate.* scenario')
tests('tests/compare/cli', r'cli.*')

# Names that two files have.
rename = {
    'gpu/model.h': 'engine.h', 'gpu/model_config.c': 'engine_sizes.c', 'gpu/mixed_batch.h': 'mixed_batch_play.h',
    'tests/model.h': 'kernel_model.h', 'tests/model_folder.h': 'folder_copy.h',
}
stay = {'fixtures/README.md'}

move, unknown = {}, []
for f in files:
    old, name = os.path.split(f)
    if old not in ('fixtures', 'ref', 'gpu', 'compare', 'tests') or f in stay: continue
    for top, names, new in rules:
        if top == old and names.fullmatch(name): break
    else:
        unknown.append(f)
        continue
    to = new + '/' + rename.get(f, name)
    if to != f: move[f] = to

after = [move.get(f, f) for f in files]
assert len(set(after)) == len(after), 'two files of one name'
place = lambda f: move.get(f, f)

def resolve(f, inc):
    near = os.path.normpath(os.path.join(os.path.dirname(f), inc))
    return near if near in tracked else inc if inc in tracked else None

def includes(f, text):
    def one(m):
        to = resolve(f, m.group(2))
        if not to: return m.group(0)
        new = place(to)
        short = '/' not in m.group(2) and os.path.dirname(new) == os.path.dirname(place(f))
        return m.group(1) + '"' + (os.path.basename(new) if short else new) + '"'
    return re.sub(r'^(\s*#\s*include\s+)"([^"]+)"', one, text, flags=re.M)

# Paths in comments, strings, scripts and pages.
paths = re.compile(r'(?<![\w/.-])(%s)(?!\w|\.\w)' % '|'.join(re.escape(p) for p in sorted(move, key=len, reverse=True))) if move else None
# Patterns of paths, and the op of docs/adding-an-op.md.
spoken = [
    (r'(?<![\w/])ref/l2norm\.c', 'ref/ops/l2norm.c'), (r'(?<![\w/])gpu/l2norm\.cu', 'gpu/kernels/l2norm.cu'),
    (r'(?<![\w/])tests/test_l2norm\.c', 'tests/ref/ops/test_l2norm.c'), (r'(?<![\w/])gpu/OP\.cu', 'gpu/kernels/OP.cu'),
    (r'(?<![\w/])gpu/OP_\*\.c', 'gpu/executor/OP_*.c'), (r'(?<![\w/])gpu/\*\.cuh', 'gpu/*/*.cuh'), (r'(?<![\w/])tests/mma_hopper\.safetensors', 'tests/ref/arith/mma_hopper.safetensors'),
    (r'(?<![\w/])compare/bench_\*', 'bench/bench_*'), (r'(?<![\w/])compare/rivals', 'bench/rivals'), (r'(?<![\w/])gpu/NAME\.cu', 'gpu/kernels/NAME.cu'),
]

def rewrite(f, text):
    if SOURCE.search(f): text = includes(f, text)
    if paths: text = paths.sub(lambda m: place(m.group(1)), text)
    for a, b in spoken: text = re.sub(a, b, text)
    if f.startswith('docs/'):
        text = text.replace('#include "op.h"', '#include "ref/call/op.h"')
    return text

print('%d files move' % len(move))
count = {}
for f in after: count[os.path.dirname(f)] = count.get(os.path.dirname(f), 0) + 1
for d in sorted(count): print('%4d  %s' % (count[d], d or '.'))
for f in unknown: print('left where it is, no rule knows it: ' + f)

# Arrows between folders, as they will be.
arrows = {}
for f in files:
    if not SOURCE.search(f): continue
    text = open(f, encoding='utf-8').read()
    for inc in re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M):
        to = resolve(f, inc)
        if not to: continue
        a, b = os.path.dirname(place(f)), os.path.dirname(place(to))
        if a != b: arrows.setdefault(a, {}).setdefault(b, []).append((place(f), place(to)))
if dry:
    for a in sorted(arrows):
        if not a.startswith('tests'): print(a, '->', ' '.join('%s(%d)' % (b, len(l)) for b, l in sorted(arrows[a].items())))
    sys.exit()
if not move:
    print('nothing to do')
    sys.exit()

texts = {}
for f in files:
    if os.path.islink(f): continue
    if f.startswith(('fixtures/captures/', 'fixtures/models/')): continue
    try: text = open(f, encoding='utf-8', newline='').read()
    except UnicodeDecodeError: continue
    new = rewrite(f, text)
    if new != text: texts[f] = new
for f, text in texts.items(): open(f, 'w', encoding='utf-8', newline='').write(text)
for f, to in sorted(move.items()):
    os.makedirs(os.path.dirname(to), exist_ok=True)
    subprocess.check_call(['git', 'mv', f, to])

# The table that tests/arrows.sh reads.
if os.path.exists('tests/arrows.sh'):
    open('tests/arrows.txt', 'w').write('''\
# Which folder may include headers of which others. A folder stands below all that it includes, so there is no circle.
fixtures/io:
fixtures/cases: fixtures/io
ref/arith: fixtures/*
ref/eigen: fixtures/* ref/arith
ref/call: fixtures/* ref/arith
ref/formula: fixtures/* ref/arith ref/call
ref/ops: fixtures/* ref/arith ref/eigen ref/call ref/formula
ref/model: fixtures/* ref/arith ref/call ref/formula ref/ops
gpu/device: fixtures/*
gpu/host: fixtures/* gpu/device
gpu/kernels: fixtures/* gpu/device gpu/host
gpu/executor: fixtures/* gpu/device gpu/host gpu/kernels
gpu/engine: fixtures/* gpu/device gpu/host gpu/kernels gpu/executor
compare/print: fixtures/*
compare/truth: fixtures/* ref/*
compare/diff: fixtures/* ref/*
compare/eigen: fixtures/* ref/* compare/print
compare/attribute: fixtures/* ref/* compare/truth
compare/verdict: fixtures/* ref/* compare/truth compare/eigen compare/attribute
compare/report: fixtures/* ref/* compare/print compare/truth compare/eigen compare/attribute compare/verdict
compare/layers: fixtures/* ref/* compare/print compare/truth compare/attribute compare/verdict
compare/logits: fixtures/* ref/* compare/print compare/truth compare/diff compare/attribute compare/verdict compare/layers
compare/isolate: fixtures/* ref/* compare/print compare/truth compare/attribute compare/verdict gpu/executor
compare/cli: fixtures/* ref/* compare/* gpu/*
bench: fixtures/* ref/* compare/* gpu/*
''')

# The Makefile finds sources by their names; what is left are folders.
make = open('Makefile').read()
for a, b in [
    ('$(filter gpu/%,$(call named,model%))', '$(filter gpu/engine/%,$(SOURCES))'),
    ('MOST := 200', 'MOST := 35'),
]:
    if a not in make: print('Makefile: not found, look at it by hand: ' + a)
    make = make.replace(a, b)
open('Makefile', 'w').write(make)
subprocess.check_call(['git', 'add', '-A'])
print('moved; `git status` shows it, nothing is committed')
PY
