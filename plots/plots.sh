#!/bin/sh
# All pictures of docs/newton-schulz.md, docs/quantize.md and docs/ops: tables by `etalon eigen` and `etalon quantize`, pictures by gnuplot.
# usage: ETALON=PROGRAM plots/plots.sh WORK DOCS [CAPTURES]      tables and SVG go to WORK, PNG and GIF to DOCS
# The GPU's runs are read from CAPTURES (fixtures/captures).
set -eu
work=$1 docs=$2 captures=${3:-fixtures/captures}
mkdir -p "$work/ops"
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# eigen NAME OPTION...: WORK/NAME.csv, and the summary beside it
eigen()
{
	name=$1
	shift
	"$ETALON" eigen --table "$work/$name.csv" --summary "$work/$name-summary.csv" "$@" >"$work/$name.txt"
}
# picture SCRIPT NAME VARIABLES: a PNG and an SVG
picture()
{
	gnuplot -e "kind='png'; picture='$work/$2.png'; $3" "plots/$1.gp"
	cp "$work/$2.png" "$docs/$2.png"
	gnuplot -e "kind='svg'; picture='$work/$2.svg'; $3" "plots/$1.gp"
}

matrix='--n 128 --m 512 --spectrum exp --decades 10 --coefficients quintic'
naive="$matrix --algorithm gram_naive"
{
	eigen f64 $naive --iterate f64
	eigen bf16 $naive --iterate bf16
	eigen r0 $naive --iterate f64 --round-r0 bf16
	eigen restart $naive --iterate bf16 --restarts 5
} &
tables=$!
# summary FILE OPTION...
summary() { "$ETALON" eigen --summary "$@" >/dev/null; }
for t in 2 3 4 5 6 7 8; do summary "$work/restart-$t.csv" $naive --iterate bf16 --restarts $t; done
summary "$work/restart-0.csv" $naive --iterate bf16
shown='0.99 1 1.01 1.02 1.05 1.1'
for safety in 1 1.05; do
	for largest in $shown; do
		summary "$work/sigma-$safety-$largest.csv" --n 64 --m 128 --spectrum linear --largest $largest \
			--algorithm standard --iterate f32 --coefficients polar_express --safety $safety --iterations 6
	done
done
wait $tables

is='bf16 naive Gram, 128 x 512, quintic x 10'
picture ns-spectra ns-f64 "table='$work/f64.csv'; name='float64: naive Gram, 128 x 512, quintic x 10'; dense=1; shown='0 3 6 10'" &
picture ns-spectra ns-bf16 "table='$work/bf16.csv'; name='$is: the blow-up'; shown='0 5 7 8 9'"
wait $!
picture ns-spectra ns-bf16-zero "table='$work/bf16.csv'; name='$is: around zero'; shown='0 1 2 3'; zoom=0.012" &
picture ns-spectra ns-r0 "table='$work/r0.csv'; name='float64 but for one bf16 rounding of R_0: naive Gram, quintic x 10'; shown='0 5 7 8 9'"
wait $!
picture ns-spectra ns-restart "table='$work/restart.csv'; name='$is, restarted before iteration 5'; dense=1; shown='0 5 6 8 10'" &
picture ns-drift ns-drift "left='$work/bf16-summary.csv'; right='$work/restart-summary.csv'; left_name='no restart'; right_name='restart before 5'; name='$is: eigenvector drift'"
wait $!
picture ns-restarts ns-restarts "directory='$work'; shown='0 2 3 4 5 6 7 8'; name='$is: one restart'" &
picture ns-sigma ns-sigma "directory='$work'; shown='$shown'; name='float32 standard form, 64 x 128: a singular value slightly above 1'"
wait $!
gnuplot -e "kind='gif'; picture='$work/ns-blow-up.gif'; table='$work/bf16.csv'; name='$is'; shown='0 4 6 8 9'" plots/ns-spectra.gp
cp "$work/ns-blow-up.gif" "$docs/"

# The GPU's run, recorded iteration by iteration, beside the emulation of the same input.
gpu_runs()
{
	for case in blow_up_bf16 restart_5_bf16; do
		capture=$captures/newton_schulz.$case.etalon.safetensors
		[ -f "$capture" ] || { echo "plots: no $capture: ns-gpu is not drawn" >&2; return 1; }
		eigen gpu-$case "$capture"
		grep -q '; as recorded$' "$work/gpu-$case.txt" || { echo "plots: no traces in $capture: ns-gpu is not drawn" >&2; return 1; }
		eigen emulated-$case --case $case
	done
}
if gpu_runs; then
	picture ns-gpu ns-gpu "directory='$work'; name='Gram iteration in bf16 on a GPU, 128 x 512, quintic x 10'; shown='5 8 10'"
fi

# What each class of weights loses in FP8.
for m in dense moe; do
	model=fixtures/models/qwen3_5_${m}_tiny
	"$ETALON" quantize --model $model --ids $model/capture.safetensors:input_ids --table "$work/quantize-$m.csv" >"$work/quantize-$m.txt"
	gnuplot -e "table='$work/quantize-$m.csv'; picture='$docs/quantize-$m.png'; name='$m: one class of weights rounded to e4m3'" plots/quantize.gp
done

# incoherent SIZE TURNED: the relative rms error of attention whose q and k are rounded to e4m3, every 16th channel of them SIZE
incoherent()
{
	file=$work/incoherent
	{
		cat plots/incoherent.op
		echo "case at: T = 64, S = 256, D = 64, turned = $2, q = f32 normal(0, 1), k = f32 normal(0, 1), v = f32 normal(0, 1)," \
			"size = f32 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, $1], sign = f32 [1, -1, -1, 1, 1, 1, -1, 1, -1, -1, -1, 1, -1], o = f32"
	} >"$file.op"
	"$ETALON" inputs incoherent --op "$file.op" --case at -o "$file-in.safetensors" >/dev/null
	"$ETALON" ref "$file-in.safetensors" --op "$file.op" -o "$file-a.safetensors" >/dev/null
	"$ETALON" ref "$file-in.safetensors" --op "$file.op" --round q8=e4m3 --round k8=e4m3 -o "$file-b.safetensors" >/dev/null
	"$ETALON" diff "$file-a.safetensors" "$file-b.safetensors" | awk '$1 == "out.o" { print $9; exit }'
}
for size in 1 2 4 8 16 32 64; do echo "$size,$(incoherent $size false),$(incoherent $size true)"; done >"$work/incoherent.csv"
picture incoherent ops/attention-incoherent "table='$work/incoherent.csv'"
picture attention-exp2 ops/attention-exp2 ""
picture ssd-decay ops/ssd-decay ""
