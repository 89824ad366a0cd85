#!/bin/sh
# Ranks of MPI. usage: ranks.sh BUILD, where etalon and rank_answers were built with MPI=1
set -u
build=$1
etalon=$build/etalon
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# As root, as CI may be; on fewer processors than ranks. -q: mpirun adds no lines of its own to etalon's.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_WAIT_POLICY=passive
ranks() { n=$1; shift; timeout 300 mpirun -q --oversubscribe --bind-to none -n "$n" "$@"; }
bad=0
fail() { echo "ranks: $*" >&2; bad=1; }
# expect WHAT STATUS LINES: of the last command's exit code $got and what etalon said, $work/said. Open MPI may say more: where one
# reads from a process that has ended, "Read -1".
expect() {
	[ "$got" = "$2" ] || fail "$1: exit code $got, expected $2"
	[ "$(grep -c '^etalon: ' "$work/said")" = "$3" ] || { fail "$1: expected $3 lines, got"; cat "$work/said" >&2; }
}

# ---- the same bits: the largest capture of each op, calls of real widths, whole models; one thread, and two ----
captures=$(for op in $($etalon list ops | sed '1d; s/ .*//; /[.]backward$/d'); do ls -S fixtures/captures/$op.*.safetensors | sed 1q; done)
models='fixtures/models/qwen3_5_dense_tiny fixtures/models/qwen3_5_moe_tiny'
OMP_NUM_THREADS=2 $build/rank_answers $captures $models >"$work/want" || fail "alone: exit code $?"
[ "$(wc -l <"$work/want")" -gt 80 ] || fail "only $(wc -l <"$work/want") answers"
for n in 1 2 3 4; do
	OMP_NUM_THREADS=$((n % 2 + 1)) ranks $n $build/rank_answers $captures $models >"$work/got" || fail "$n ranks: exit code $?"
	cmp "$work/want" "$work/got" && echo "ranks: $n: the same $(wc -l <"$work/got") answers"
	cmp -s "$work/want" "$work/got" || bad=1
done

# ---- reports: of rank 0 alone, to the byte ----
moe=fixtures/models/qwen3_5_moe_tiny
logits="logits --model $moe --got $moe/capture.safetensors:gpu_bf16.logits --ids $moe/capture.safetensors:input_ids --contract torch_bf16 --runs 1 --quick --json"
$etalon $logits >"$work/want"
alone=$?
ranks 3 $etalon $logits >"$work/got"
[ $? = $alone ] && cmp "$work/want" "$work/got" || fail "the report of three ranks is another"
some='fixtures/captures/gated_delta_rule.lengths.etalon.safetensors fixtures/captures/mixed_batch.few_f32.etalon.safetensors'
$etalon check --json $some >"$work/want"
ranks 2 $etalon check --json $some >"$work/got" && cmp "$work/want" "$work/got" || fail "check on two ranks is another"
set -- $captures
$etalon ref "$1" -o "$work/a.safetensors" >/dev/null
ranks 2 $etalon ref "$1" -o "$work/b.safetensors" >/dev/null
cmp "$work/a.safetensors" "$work/b.safetensors" || fail "ref on two ranks is another"

# ---- what is wrong is said once ----
ranks 3 $etalon check "$work/none" >"$work/said" 2>&1; got=$?
expect 'a file that is not there' 2 1
ranks 2 $etalon diff a b >"$work/said" 2>&1; got=$?
expect 'a command for one' 2 1
ranks 2 sh -c '[ $OMPI_COMM_WORLD_RANK = 0 ] || cd /; exec '"$(realpath $etalon)"' check fixtures/captures/rope.full.etalon.safetensors' >"$work/said" 2>&1; got=$?
expect 'a file that one rank lacks' 2 1
grep -q 'rank 1: fixtures' "$work/said" || fail "the rank that lacks a file is not named"

# ---- checkpoints, and ranks that are killed ----
$etalon invent fixtures/models/heads_128.json -n 90 -o "$work/model" >/dev/null
engine=fixtures/models/heads_128.engine.safetensors
long="logits --model $work/model --got $engine:logits --ids $engine:input_ids --truth dd --quick --runs 3 --json"
OMP_NUM_THREADS=1 $etalon $long >"$work/want"
alone=$?
children() { cat /proc/$1/task/*/children; }
kept() { ls "$work/$1" 2>/dev/null | grep -c 'safetensors$'; }
# begin DIR LEAST: starts three ranks, and waits until so many results are kept; $launcher, $ranks: their processes
begin() {
	OMP_NUM_THREADS=1 mpirun -q --oversubscribe --bind-to none -n 3 $etalon $long --checkpoint "$work/$1" >"$work/got" 2>"$work/said" &
	launcher=$!
	while [ "$(kept $1)" -lt $2 ] && kill -0 $launcher 2>/dev/null; do sleep 0.05; done
	guards=$(children $launcher)
	set --
	for g in $guards; do set -- "$@" $(children $g); done
	ranks=$*
	[ $# = 3 ] || fail "expected three ranks, got processes $*"
	last=${ranks##* } first=${ranks%% *}
}
again() {
	before=$(kept $1)
	OMP_NUM_THREADS=1 ranks $2 $etalon $long --progress --checkpoint "$work/$1" >"$work/got" 2>"$work/said"
	[ $? = $alone ] && cmp "$work/want" "$work/got" || fail "after $3: another answer"
	found=$(sed -n 's/.*: \([0-9]*\) results found.*/\1/p' "$work/said")
	[ "${found:-0}" -ge "$before" ] && [ "$before" -gt 0 ] || fail "after $3: $before kept, ${found:-0} found"
	echo "ranks: after $3 on $2 ranks: $found results found, the same answer"
}
begin one 3
kill -9 $last
wait $launcher; got=$?
expect 'kill -9 of a rank' 4 1
cat "$work/said"
again one 2 'kill -9 of a rank'
begin all 8
kill -9 $launcher $guards $ranks
wait $launcher 2>/dev/null
sleep 0.2
for p in $ranks; do [ ! -d /proc/$p ] || grep -q 'State:.*Z' /proc/$p/status || fail "rank $p outlived its end"; done
again all 4 'kill -9 of all'
# ---- ranks that hang: their name, an end where one is asked for, and none where they go on ----
export ETALON_WAIT=4
for silent in last first; do
	begin $silent 3
	kill -STOP $(eval echo \$$silent)
	wait $launcher; got=$?
	expect "a hanging rank, the $silent" 4 2
	grep -q "given up" "$work/said" && grep -q "for rank $([ $silent = last ] && echo 2 || echo 0) on" "$work/said" || fail "the $silent rank that hangs is not named"
	cat "$work/said"
done
export ETALON_WAIT=30
begin pause 3
kill -STOP $last
while [ ! -s "$work/said" ] && kill -0 $launcher 2>/dev/null; do sleep 0.2; done
kill -CONT $last
wait $launcher; got=$?
expect 'a rank that was silent for a while' $alone 1
cmp "$work/want" "$work/got" || fail "after a silent while: another answer"
unset ETALON_WAIT
again last 3 'a rank that hung'
ETALON_WAIT=soon ranks 2 $etalon check none >"$work/said" 2>&1; got=$?
expect 'a wait that is no number' 2 1

$etalon $long --checkpoint "$work/one" >"$work/got" && cmp "$work/want" "$work/got" || fail "a checkpoint of ranks for one process: another answer"
# A damaged result is computed again; another run's folder is refused.
for f in "$work"/one/*.safetensors; do printf x | dd of="$f" bs=1 seek=400 conv=notrunc 2>/dev/null; break; done
$etalon $long --checkpoint "$work/one" >"$work/got" 2>"$work/said"; got=$?
expect 'a damaged result' $alone 1
cmp "$work/want" "$work/got" || fail "a damaged result was taken"
ranks 2 $etalon $logits --checkpoint "$work/one" >"$work/said" 2>&1; got=$?
expect "another run's checkpoint" 2 1
exit $bad
