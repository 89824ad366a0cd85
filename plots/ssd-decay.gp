# e^(G_i - G_j) of neighbours, by one exponential and as e^G_i / e^G_j, whose operands leave float32: what is left after n tokens of A d = -1.
#   gnuplot -e "picture='p.png'" plots/ssd-decay.gp
wide = 700; high = 380
load "plots/style.gp"
set xlabel "-G, the sum of -A d since the chunk's begin"
set ylabel "e^(G_i - G_j), G_i - G_j = -1"
set samples 1201
set yrange [0:0.6]
set key bottom left
step = 2.0 ** -149
f32(x) = x >= 2.0 ** -126 ? x : floor(x / step + 0.5) * step
quotient(x) = f32(exp(-x)) > 0 ? f32(exp(-x - 1)) / f32(exp(-x)) : NaN
plot [80:110] exp(-1) with lines lw 4 lc rgb "#a0d0a0" title "one exponential of the segment's sum", \
	quotient(x) with lines lw 2 lc rgb "#c0392b" title "quotient of two: noise from 87 on, 0 / 0 from 104"
