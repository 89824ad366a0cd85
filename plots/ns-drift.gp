# How far R, Q and X are from diagonal in the singular vectors of X_0, from two files of `etalon eigen --summary`.
#   gnuplot -e "left='a.csv'; right='b.csv'; left_name='...'; right_name='...'; picture='p.png'; name='...'" plots/ns-drift.gp
wide = 1100; high = 480
load "plots/style.gp"
set multiplot layout 1,2 title name font ",15" margins 0.08,0.985,0.2,0.84 spacing 0.09,0
set logscale y
set yrange [1e-4:2]
set format y "10^{%T}"
set termoption enhanced
set xlabel "iteration"
set ylabel "|off-diagonal| / |matrix|"
set key top left
do for [side in "left right"] {
	file = value(side)
	set title value(side . "_name")
	plot file using 1:8 skip 1 with linespoints pt 7 lw 2 lc rgb "#2c7fb8" title "U'R_tU", \
		file using 1:9 skip 1 with linespoints pt 5 lw 2 lc rgb "#e6a000" title "U'Q_tU", \
		file using 1:10 skip 1 with linespoints pt 9 ps 1.2 lw 2 lc rgb "#c0392b" title "U'X_tV"
}
unset multiplot
