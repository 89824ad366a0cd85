#!/bin/sh
# Rows of how long verdicts take: the clock's seconds, and those of all processors together. usage: verdicts.sh ETALON FOLDER PYTHON;
# QUICK=1: the small ones alone. Where there is no PYTHON, which `make engines` makes, whole models are missing.
set -eu
etalon=$1 folder=$2 python=$3
mkdir -p "$folder"
# Processor seconds of all commands in what `times` wrote: not in a pipe, where it would say a subshell's.
spent() { awk 'NR == 2 { split($1 " " $2, t, /[ms ]+/); printf "%.3f", 60 * (t[1] + t[3]) + t[2] + t[4] }' "$1"; }
# verdict ROW GOAL EXIT COMMAND...: one row; another exit code than this ends it all
verdict() {
	row=$1 goal=$2 expected=$3 status=0
	shift 3
	times >"$folder/before"
	begin=$(date +%s.%N)
	"$etalon" "$@" >"$folder/said" 2>&1 || status=$?
	end=$(date +%s.%N)
	times >"$folder/after"
	[ $status = "$expected" ] || { cat "$folder/said" >&2; echo "verdicts.sh: etalon $*: exit $status, expected $expected" >&2; exit 1; }
	awk -v row="$row" -v goal="$goal" -v begin="$begin" -v end="$end" -v a="$(spent "$folder/before")" -v b="$(spent "$folder/after")" \
		'BEGIN { printf "verdicts\t%s\t\t%.3f\t\t\ts\tprocessors\t%.3f\t\t%s\t\n", row, end - begin, b - a, goal }'
}
# answered FILE OP: a call of Qwen3.5-27B's prefill with the reference's answer in float32
answered() {
	"$etalon" inputs --op "$2" --case qwen27b_prefill -o "$1.in" >/dev/null
	"$etalon" ref --op "$2" --arith f32 "$1.in" -o "$1" >/dev/null
	rm "$1.in"
}
captures=fixtures/captures/gated_delta_rule
verdict 'a call of 1.3 MB, its structure known (flash-linear-attention)' 2 0 check $captures.prefill.chunk.safetensors
verdict 'a call of 1.3 MB, its structure unknown (FlashQLA)' 10 0 check $captures.flashqla_256_model.safetensors
"$etalon" ref $captures.prefill.chunk.safetensors --fault retrieve_before_decay -o "$folder/wrong.safetensors" >/dev/null
verdict 'a call of 1.3 MB with a fault' 10 1 check "$folder/wrong.safetensors"
sed 's/^  o\[t, hv\] = read$/  o[t, hv] = (1.02 if t mod 3 == 0 else 1) * read/' ref/ops/gated_delta_rule.op >"$folder/third.op"
"$etalon" ref --op "$folder/third.op" $captures.prefill.recurrent.safetensors -o "$folder/third.safetensors" >/dev/null
verdict 'a call of 1.3 MB that is wrong as no known fault is' 10 1 check "$folder/third.safetensors"
[ "${QUICK-}" ] && exit
op=ref/ops/gated_delta_rule.op
answered "$folder/wide.safetensors" $op
verdict '300 tokens, 48 heads of 128' 30 0 check --op $op "$folder/wide.safetensors"
sed '/^case qwen27b_prefill/s/T = 300\(.*\)\[257, 43\]/T = 4096\1[4053, 43]/' $op >"$folder/long.op"
answered "$folder/long.safetensors" "$folder/long.op"
verdict '4096 tokens, 48 heads of 128' 300 0 check --op "$folder/long.op" "$folder/long.safetensors"
rm -f "$folder"/*.safetensors
model='a dense model of hidden size 1024, 8 layers, 256 tokens'
# judged CUT CONTRACT: a whole engine with its hidden states
judged() { verdict "$model, cut as $1, contract $2" 90 0 logits --model "$folder/big" --got "$folder/$1.safetensors:logits" --contract "$2"; }
if [ -x "$python" ]; then
	"$etalon" invent tests/engines/models/big.json -o "$folder/big" -n 256 -s 4 >/dev/null
	for cut in hf_eager vllm; do
		PYTHONDONTWRITEBYTECODE=1 "$python" tests/engines/dump.py "$folder/big" $cut "$folder/$cut.safetensors"
		judged $cut auto
	done
	judged hf_eager torch_bf16
	rm -r "$folder/big" "$folder"/*.safetensors
fi
verdict "the gate: $(ls fixtures/captures/*.safetensors | wc -l) captures" 45 0 gate fixtures/captures
