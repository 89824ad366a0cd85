# A GPU's run against the emulation of the same input and the exact recurrence, without and with a restart: spectra
# of R and X by rank, from DIRECTORY/gpu-CASE.csv and emulated-CASE.csv of `etalon eigen --table`.
#   gnuplot -e "directory='build/plots'; picture='p.png'; name='...'; shown='5 8 10'" plots/ns-gpu.gp
wide = 1280; high = 860
load "plots/style.gp"
set termoption enhanced
array colours[3] = ["#2c7fb8", "#e6a000", "#c0392b"]
array cases[2] = ["blow_up_bf16", "restart_5_bf16"]
array titles[2] = ["no restart", "restart before iteration 5"]
# by falling value, after which both columns are in order: they are paired by rank
file(source, i) = "< tail -n +2 " . directory . "/" . source . "-" . cases[i] . ".csv | LC_ALL=C sort -t, -k1,1n -k2,2 -k6,6gr"
rank(x) = int(column(0)) % 128 + 1
at(t, m, k) = ($1 == t && strcol(2) eq m) ? column(k) : NaN
set multiplot layout 2,2 title name font ",15" margins 0.07,0.985,0.12,0.91 spacing 0.07,0.09
small = 1e-3
set nonlinear y via asinh(y / small) inverse small * sinh(y)
set ytics ("-100" -100, "-10" -10, "-1" -1, "-0.1" -0.1, "-0.01" -0.01, "0" 0, "0.01" 0.01, "0.1" 0.1, "1" 1, "10" 10)
set xrange [-1:130]
unset key
do for [m in "R X"] {
	set xlabel m eq "X" ? "rank, the largest first" : ""
	set yrange [m eq "R" ? -300 : -1e-4 : 20]
	do for [i = 1:2] {
		set title (m eq "R" ? "R_t" : "X_t = Q_tX_0") . ", " . titles[i]
		set ylabel i == 1 ? (m eq "R" ? "eigenvalue" : "singular value") : ""
		if (m eq "X" && i == 1) { set key at screen 0.5,0.01 center bottom maxrows 1 samplen 1.5 } else { unset key }
		plot 0 with lines lc rgb "#b0b0b0" lw 1 notitle, \
			for [k = 1:words(shown)] file("gpu", i) using (rank(0)):(at(word(shown, k) + 0, m, 5)) with lines lw 1.5 lc rgb colours[k] \
				title "exact, after " . word(shown, k), \
			for [k = 1:words(shown)] file("emulated", i) using (rank(0)):(at(word(shown, k) + 0, m, 6)) \
				with points pt 6 ps 0.9 lc rgb colours[k] notitle, \
			for [k = 1:words(shown)] file("gpu", i) using (rank(0)):(at(word(shown, k) + 0, m, 6)) \
				with points pt 7 ps 0.4 lc rgb colours[k] notitle, \
			NaN with points pt 6 ps 0.9 lc rgb "black" title "emulated", NaN with points pt 7 ps 0.4 lc rgb "black" title "GPU"
	}
}
unset multiplot
