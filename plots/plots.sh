#!/bin/sh
# All pictures of docs/newton-schulz.md and docs/quantize.md: tables by `etalon eigen` and `etalon quantize`, pictures by gnuplot.
# usage: ETALON=PROGRAM plots/plots.sh WORK DOCS [CAPTURES]      tables and SVG go to WORK, PNG and GIF to DOCS
# The GPU's runs are read from CAPTURES (fixtures/captures).
set -eu
work=$1 docs=$2 captures=${3:-fixtures/captures}
mkdir -p "$work"
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
	cp "$work/$2.png" "$docs/"
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
gnuplot -e "kind='gif'; picture='$work/ns-blow-up.gif'; table='$work/bf16.csv'; name='$is'; shown='0 1 2 3 4 5 6 7 8 9'" plots/ns-spectra.gp
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
