# What a largest singular value slightly above 1 becomes, from DIRECTORY/sigma-SAFETY-LARGEST.csv of
# `etalon eigen --summary`.
#   gnuplot -e "directory='build/plots'; shown='0.99 1 1.01'; picture='p.png'; name='...'" plots/ns-sigma.gp
wide = 1100; high = 500
load "plots/style.gp"
set termoption enhanced
set multiplot layout 1,2 title name font ",15" margins 0.08,0.84,0.12,0.84 spacing 0.09,0
set xlabel "iteration"
set ylabel "|XX' - I|_2"
set logscale y
set format y "10^{%T}"
set yrange [1e-2:1e20]
array colours[6] = ["#2c7fb8", "#31a354", "#e6a000", "#d95f0e", "#c0392b", "#7b3294"]
do for [safety in "1 1.05"] {
	if (safety eq "1") { unset key } else { set key outside right top title "largest singular\nvalue of X_0" }
	set title "Polar Express, safety factor " . safety
	plot for [i = 1:words(shown)] sprintf("%s/sigma-%s-%s.csv", directory, safety, word(shown, i)) using 1:7 skip 1 \
		with linespoints pt 3 + i ps 0.8 lw 2 lc rgb colours[1 + (i - 1) % 6] title word(shown, i)
}
unset multiplot
