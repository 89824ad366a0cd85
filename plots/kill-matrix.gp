# The kill matrix: a row for each fault or rounding, a column for each model kernel, in a group for each case.
#   build/kill_matrix -t kill-matrix.tsv
#   gnuplot -e "table='kill-matrix.tsv'; picture='kill-matrix.png'" plots/kill-matrix.gp
if (!exists("table")) table = "kill-matrix.tsv"
if (!exists("picture")) picture = "kill-matrix.png"
set datafile separator "\t"

# Named right: darker where the effect is larger, from 1 to a million times float32's noise.
shade(s) = (x = s > 0 ? log10(s) / 6 : 0, x < 0 ? 0 : x > 1 ? 1 : x)
green(s) = 65536 * int(190 - 180 * shade(s)) + 256 * int(228 - 130 * shade(s)) + int(180 - 140 * shade(s))
colour(fate, size) = fate == 1 ? 0xe4e4e4 : fate == 2 ? green(size) : fate == 3 ? 0x41b6c4 : fate == 4 ? 0xff7f00 : fate == 5 ? 0x984ea3 : 0xe41a1c

# The lines of an op that meet a condition.
lines(op, condition) = sprintf("< awk -F'\t' '$1==\"%s\" && %s' %s", op, condition, table)
rows(op) = int(system(sprintf("awk -F'\t' '$1==\"%s\" && $3>n {n=$3} END {print n+1}' %s", op, table)))

set style fill solid 1 noborder
set border 0
unset tics
unset key
list = system(sprintf("awk -F'\\t' 'NR>1&&!n[$1]++{print $1}' %s", table))
total = 0
do for [op in list] { total = total + rows(op) + 3.5 }
set terminal png size 1400,int(120 + 17 * total) font "sans,10" noenhanced
set output picture
set multiplot title "Model kernels with one fault each: what the check says of it" font "sans,13" offset 0,-0.5
do for [i=1:6] {
	word = word("named_right,_darker_where_the_effect_is_larger by_an_alias named_wrong caught,_not_named missed not_identifiable", i)
	set label 10+i system("echo ".word." | tr _ ' '") at screen 0.05 + (i > 1 ? 0.2 : 0) + 0.125 * (i - 1), 0.978 font "sans,10"
	c = colour(i == 6 ? 1 : i + 1, 1e4)
	set label 20+i "■" at screen 0.035 + (i > 1 ? 0.2 : 0) + 0.125 * (i - 1), 0.978 font "sans,16" tc rgb c
}
top = 0.96
do for [op in list] {
	height = 0.9 * (rows(op) + 2) / total
	pad = 0.9 * 1.5 / total
	set lmargin at screen 0.2
	set rmargin at screen 0.97
	set tmargin at screen top - 0.25 * pad
	set bmargin at screen top - 0.25 * pad - height
	set yrange [rows(op) - 0.5:-2.5]
	set label 1 op at screen 0.01, top - 0.25 * pad - 0.3 * pad font "sans,12"
	plot lines(op, "$4>0") using 2:3:(0.5):(0.46):(colour($4, $5)) with boxxyerror lc rgb variable, \
	     lines(op, "$2==0") using (-1):3:9 with labels right font "sans,9", \
	     lines(op, "$3==0 && $6!=was[0] && (was[0]=$6)") using ($2-0.5):(-0.8):6 with labels left rotate by 14 font "sans,9"
	unset label 1
	top = top - height - pad
}
unset multiplot
