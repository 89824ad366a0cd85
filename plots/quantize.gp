# What rounding each class of weights alone to FP8 does to the logits; above, of all its weights, below, of a million of them.
#   etalon quantize --model DIR --table quantize.csv
#   gnuplot -e "table='quantize.csv'; picture='quantize.png'; name='a model'" plots/quantize.gp
if (!exists("table")) table = "quantize.csv"
if (!exists("picture")) picture = "quantize.png"
if (!exists("name")) name = "Weights rounded to e4m3"
wide = 1100; high = 900
load "plots/style.gp"
set multiplot
set title name
set logscale y
set format y "%g"
set style fill solid 0.85 noborder
set boxwidth 0.36
set xtics rotate by -50 left font "sans,9"
set grid noxtics
set key outside top center horizontal
set lmargin at screen 0.1
set rmargin at screen 0.9
set xrange [-0.7:*]
kind(s) = s eq "bf16" ? 1 : s eq "fp8" ? 2 : s eq "set bf16" ? 3 : 4
colour(s) = kind(s) == 1 ? 0xc0392b : kind(s) == 2 ? 0x2c7fb8 : kind(s) == 3 ? 0x7b241c : 0x1b4f72
label(s, i) = i == 2 ? s : ""
do for [i=1:2] {
	set tmargin at screen i == 1 ? 0.9 : 0.54
	set bmargin at screen i == 1 ? 0.57 : 0.21
	if (i == 2) { set key off; unset title}
	set ylabel i == 1 ? "mean KL, nats" : "mean KL, nats, per million weights"
	per(e) = i == 1 ? 1 : e / 1e6
	plot table every ::1 using ($0-0.19):($4/per($3)):(colour(strcol(2))):xtic(label(strcol(1), i)) with boxes lc rgb variable fs solid 0.35 noborder notitle, \
	     "" every ::1 using ($0+0.19):($5/per($3)):(colour(strcol(2))) with boxes lc rgb variable notitle, \
	     NaN with boxes lc rgb 0xc0392b title "published in bf16", NaN with boxes lc rgb 0x2c7fb8 title "published in FP8", \
	     NaN with boxes lc rgb "#666666" fs solid 0.35 noborder title "one scale for a matrix", NaN with boxes lc rgb "#666666" title "a scale for each 128 x 128 block"
}
unset multiplot
