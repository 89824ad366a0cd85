# Spectra of R, Q and X against the singular values of X_0, from `etalon eigen --table`: points are what was
# observed, lines the exact recurrence.
#   gnuplot -e "table='t.csv'; picture='p.png'; name='...'; shown='0 5 7 8'" plots/ns-spectra.gp
# shown: which iterations; zoom: half the height of a linear axis around 0 (absent: asinh), without Q; dense: more
# tics, for small ranges; kind='gif': a frame for each iteration that is shown.
wide = 1380; high = 520
load "plots/style.gp"
if (!exists("name")) name = table
if (!exists("shown")) shown = "0 5 7 8"
array colours[5] = ["#2c7fb8", "#31a354", "#e6a000", "#c0392b", "#7b3294"]
set logscale x
set format x "10^{%T}"
set termoption enhanced
set xlabel "singular value of X_0"
set key below maxrows 3 samplen 1.2 width -1 font ",11"
small = 1e-3
if (exists("zoom")) {
	set yrange [-zoom:zoom]
	set format y "%g"
} else {
	set nonlinear y via asinh(y / small) inverse small * sinh(y)
	set ytics ("0" 0)
	decades = "0.01 1 100 10^{4} 10^{6} 10^{8} 10^{10} 10^{12} 10^{16} 10^{20} 10^{24}" . (exists("dense") ? " 0.1 10 1000" : "")
	do for [d in decades] {
		v = d[1:3] eq "10^" ? 10 ** (d[5:strlen(d) - 1] + 0) : d + 0
		set ytics add ("-" . d -v, d v)
	}
}
matrices = exists("zoom") ? "R X" : "R Q X"
# columns: iteration, matrix, index, sigma, exact, observed
at(t, m, k) = ($1 == t && strcol(2) eq m) ? column(k) : NaN
colour(i) = colours[1 + (kind eq "gif" ? 3 : i - 1) % 5]
frames = kind eq "gif" ? words(shown) : 1
do for [f = 1:frames] {
	if (kind eq "gif") { list = word(shown, f); heading = name . ", after iteration " . list } else { list = shown; heading = name }
	set multiplot layout 1,words(matrices) title heading font ",15" margins 0.072,0.985,0.24,0.86 spacing 0.075,0
	do for [m in matrices] {
		set title m eq "R" ? "R_t = X_tX_t', the Gram matrix" : \
			m eq "Q" ? "Q_t, what multiplies X_0" : "X_t = Q_tX_0, the answer so far"
		set ylabel m eq "X" ? "singular value" : "eigenvalue"
		if (kind eq "gif") { set yrange [m eq "R" ? -1e7 : m eq "Q" ? -1e5 : 0 : m eq "X" ? 1e5 : 1e7] }
		plot (m eq "R" || kind eq "gif" || exists("zoom") ? 0 : NaN) with lines lc rgb "#b0b0b0" lw 1 notitle, \
			for [i = 1:words(list)] table using (at(word(list, i) + 0, m, 4)):(at(word(list, i) + 0, m, 5)) \
				with lines lw 1.5 lc rgb colour(i) title i == 1 ? "exact (lines)" : "", \
			for [i = 1:words(list)] table using (at(word(list, i) + 0, m, 4)):(at(word(list, i) + 0, m, 6)) \
				with points pt 7 ps (kind eq "gif" ? 0.8 : 0.45) lc rgb colour(i) title "after " . word(list, i)
	}
	unset multiplot
}
