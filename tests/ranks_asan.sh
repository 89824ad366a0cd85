#!/bin/sh
# Two ranks under the address sanitizer. usage: ranks_asan.sh BUILD, built with MPI=1 and the sanitizers. What Open MPI keeps to its end
# is its own: a leak counts where its stack has a line of ours.
set -u
build=$1 moe=fixtures/models/qwen3_5_moe_tiny
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 LSAN_OPTIONS=exitcode=0 UBSAN_OPTIONS=print_stacktrace=1
bad=0
two() {
	timeout 500 mpirun -q --oversubscribe --bind-to none -n 2 "$@" >"$work/out" 2>"$work/said" || { echo "ranks_asan: $* ended with $?" >&2; bad=1; }
	! grep -E 'ERROR: AddressSanitizer|runtime error' "$work/said" || bad=1
	! grep -E '^ +#[0-9]+ .* (ref|compare|fixtures|gpu|tests)/.*\.c:' "$work/said" || bad=1
	[ -s "$work/out" ] || { echo "ranks_asan: $*: nothing came out" >&2; bad=1; }
}
two $build/rank_answers fixtures/captures/gated_delta_rule.lengths.etalon.safetensors fixtures/captures/attention.ragged_paged.etalon.safetensors $moe
logits="logits --model $moe --got $moe/capture.safetensors:gpu_bf16.logits --ids $moe/capture.safetensors:input_ids --contract torch_bf16 --runs 1 --quick"
two $build/etalon $logits --progress --checkpoint "$work/kept"
two $build/etalon $logits --progress --checkpoint "$work/kept"
two $build/etalon logits --model $moe --plan 16
[ $bad = 0 ] && echo 'ranks_asan: nothing found on two ranks'
exit $bad
