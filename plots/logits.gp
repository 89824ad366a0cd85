# The pictures of `etalon logits --html`, which runs this script beside its tables: kl.svg, errors.svg, histogram.svg.
#   positions.tsv: position, KL(reference||got), KL(got||reference), rms, max, sigma, flip (0 none, 1 no error, 2 an error or not known)
#   histogram.tsv: from, to, count
set datafile separator "\t"
set datafile missing "nan"
set grid lc rgb "#e0e0e0" lw 1
set border 3 lc rgb "#404040"
set tics nomirror
set format y "%g"
set logscale y
set key outside top center horizontal
set xlabel "position"
at(x) = x > 1e-17 ? x : 1e-17
set xrange [-0.5:*]

set terminal svg size 1000,330 font "sans,12" noenhanced name "kl"
set output "kl.svg"
set ylabel "nats (0 is drawn at 1e-17)"
plot "positions.tsv" using 1:(at($2)) with lines lw 1.5 lc rgb "#2c7fb8" title "KL(reference||got)", \
     "" using 1:(at($3)) with lines lw 1 dt 3 lc rgb "#7fcdbb" title "KL(got||reference)", \
     "" using 1:($7 == 1 ? at($2) : NaN) with points pt 6 lc rgb "#404040" title "first token differs: no error", \
     "" using 1:($7 == 2 ? at($2) : NaN) with points pt 7 lc rgb "#c0392b" title "first token differs"

set terminal svg size 1000,330 font "sans,12" noenhanced name "errors"
set output "errors.svg"
set ylabel "error of a logit"
plot "positions.tsv" using 1:(at($5)) with lines lw 1 lc rgb "#c0392b" title "largest", \
     "" using 1:(at($4)) with lines lw 1.5 lc rgb "#2c7fb8" title "rms", \
     "" using 1:6 with lines lw 1.5 dt 2 lc rgb "#404040" title "expected (sigma)"

set terminal svg size 1000,300 font "sans,12" noenhanced name "histogram"
set output "histogram.svg"
set key off
set xlabel "|error| of a logit"
set ylabel "logits"
set logscale x
set format x "%g"
set autoscale x
set yrange [0.5:*]
set style fill solid 0.8
plot "histogram.tsv" using (sqrt($1*$2)):3:1:2:(0.5):3 with boxxyerror lc rgb "#2c7fb8"
