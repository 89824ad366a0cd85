# Smallest eigenvalue of R and condition number of Q per iteration, for each choice of one restart, from
# files DIRECTORY/restart-T.csv of `etalon eigen --summary` (T = 0: none).
#   gnuplot -e "directory='build/plots'; shown='0 2 3 4 5 6 7'; picture='p.png'; name='...'" plots/ns-restarts.gp
wide = 1280; high = 560
load "plots/style.gp"
set termoption enhanced
set multiplot layout 1,2 title name font ",15" margins 0.08,0.86,0.12,0.86 spacing 0.09,0
set xlabel "iteration"
set xtics 1
file(t) = directory . "/restart-" . t . ".csv"
label(t) = t == 0 ? "no restart" : "before " . t
set title "smallest eigenvalue of R (exact: above 0)"
set ylabel "eigenvalue"
small = 1e-4
set nonlinear y via asinh(y / small) inverse small * sinh(y)
set ytics ("-10^{9}" -1e9, "-10^{6}" -1e6, "-1000" -1e3, "-10" -10, "-1" -1, "-0.1" -0.1, "-0.01" -0.01, "-0.001" -1e-3, "0" 0)
unset key
set palette defined (0 "#2c7fb8", 0.4 "#31a354", 0.7 "#e6a000", 1 "#c0392b")
unset colorbox
n = words(shown)
plot for [i = 1:n] file(word(shown, i) + 0) using 1:2 skip 1 with linespoints lw (i == 1 ? 3 : 1.8) pt 3 + i ps 0.8 \
	lc palette frac (n > 1 ? (i - 1.0) / (n - 1) : 0)
unset nonlinear y
set logscale y
set ytics auto
set format y "10^{%T}"
set yrange [1:1e8]
set title "condition number of Q"
set ylabel "max|λ| / min|λ|"
set key outside right top title "restart"
plot for [i = 1:n] file(word(shown, i) + 0) using 1:4 skip 1 with linespoints lw (i == 1 ? 3 : 1.8) pt 3 + i ps 0.8 \
	lc palette frac (n > 1 ? (i - 1.0) / (n - 1) : 0) title label(word(shown, i) + 0)
unset multiplot
