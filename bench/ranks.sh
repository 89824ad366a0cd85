#!/bin/sh
# Rows of ranks against threads: a layer of each kind at the width of 27B in dd, by `logits --plan`, which measures few tokens.
# usage: ranks.sh ETALON FOLDER, etalon built with MPI=1; QUICK=1: a small model, which says nothing of speed
set -eu
etalon=$1 folder=$2 cores=$(nproc)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mkdir -p "$folder"
if [ "${QUICK-}" ]; then cp fixtures/models/heads_128.json "$folder/config"
else sed 's/"vocab_size": [0-9]*/"vocab_size": 2048/' fixtures/models/wide_dense.json >"$folder/config"
fi
[ -f "$folder/model/model.safetensors.index.json" ] || [ -f "$folder/model/model.safetensors" ] || "$etalon" invent "$folder/config" --layers 4 -n 16 -o "$folder/model" >/dev/null
# seconds RANKS THREADS: of the layers in dd. Where ranks fill the machine each has a processor of its own: moved about while they wait for
# each other, 16 took 6.9 s for 5.6. One process keeps its threads where the system puts them.
seconds() {
	bind='--oversubscribe --bind-to none'
	[ "$1" != "$cores" ] || bind='--use-hwthread-cpus --bind-to hwthread'
	OMP_NUM_THREADS=$2 OPENBLAS_NUM_THREADS=1 mpirun -q $bind -n "$1" "$etalon" logits --model "$folder/model" --plan 64 \
		--truth dd --runs 1 --json | sed -n '/"run": "exact"/,/"logits"/s/.*"layers": \([0-9.e+-]*\).*/\1/p'
}
middle() { sort -g | sed -n 2p; }
# From the most on. Turns of a row alternate and share its moment; of the row with a goal the medians of three are taken.
n=1
while [ $((n * 2)) -le "$cores" ]; do n=$((n * 2)); done
while [ $n -ge 1 ]; do
	one=$(seconds 1 $n)
	if [ $n = 1 ]; then many=$one; else many=$(seconds $n 1); fi
	if [ $n = "$cores" ]; then
		many2=$(seconds $n 1) one2=$(seconds 1 $n) one3=$(seconds 1 $n) many3=$(seconds $n 1)
		one=$(printf '%s\n' $one $one2 $one3 | middle) many=$(printf '%s\n' $many $many2 $many3 | middle)
	fi
	printf 'ranks\t%s\t\t%s\t\t\ts\t%s threads\t%s\t%s\t%s\t\n' "$n" "$many" "$n" "$one" "$(awk "BEGIN { print $one / $many }")" "$([ $n = "$cores" ] && echo 0.9)"
	n=$((n / 2))
done
