# FlashAttention-4's polynomial of degree 3 for 2^x, x in [0,1), beside half an ulp of bf16, to which P is rounded after it.
# Coefficients: Dao-AILab/flash-attention, flash_attn/cute/utils.py.
#   gnuplot -e "picture='p.png'" plots/attention-exp2.gp
wide = 700; high = 380
load "plots/style.gp"
p(x) = 1 + x * (0.695146143436431884765625 + x * (0.227564394474029541015625 + x * 0.077119089663028717041015625))
set xlabel "fractional part of the exponent"
set ylabel "relative error"
set logscale y
set format y "%.0e"
set yrange [1e-8:1e-2]
set samples 400
set key at graph 0.98, 0.42
plot [0:1] abs(p(x) / 2 ** x - 1) with lines lw 2 lc rgb "#2c7fb8" title "polynomial of degree 3", \
	2.0 ** -9 / 2 ** x with lines lw 2 lc rgb "#c0392b" title "P in bf16, at most", 2.0 ** -24 / 2 ** x with lines lw 2 lc rgb "#31a354" title "float32, at most"
