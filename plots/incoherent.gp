# From TABLE, lines of SIZE,ERROR,ERROR TURNED: attention whose q and k are rounded to e4m3, as they are and turned.
#   gnuplot -e "table='incoherent.csv'; picture='p.png'" plots/incoherent.gp
wide = 700; high = 380
load "plots/style.gp"
set xlabel "size of every 16th channel of q and k, the others 1"
set ylabel "relative rms error of o"
set logscale x 2
set yrange [0:0.08]
plot table using 1:2 with linespoints pt 7 lw 2 lc rgb "#c0392b" title "q and k in e4m3", \
	table using 1:3 with linespoints pt 5 lw 2 lc rgb "#2c7fb8" title "turned by a Hadamard matrix with random signs, then in e4m3"
