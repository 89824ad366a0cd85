# A bar for each site of a profile: 1 is rounded, 0 is not.
#   etalon profile CAPTURE --table profile.tsv
#   gnuplot -e "table='profile.tsv'; picture='profile.png'" plots/profile.gp
if (!exists("table")) table = "profile.tsv"
if (!exists("picture")) picture = "profile.png"
if (!exists("name")) name = "Which intermediates the kernel rounds"
set terminal pngcairo size 1000,560 font "sans,11" noenhanced
set output picture
set datafile separator "\t"
set title name
set ylabel "coefficient"
set yrange [-0.25:1.25]
set ytics 0,0.25,1
set grid y
set xtics rotate by -40 left
set style fill solid 0.8
set boxwidth 0.7
set key top right
set rmargin 14
rounded(s) = s eq "rounded"
plot table every ::1 using 0:(rounded(strcol(5)) ? $3 : NaN):xtic(strcol(1)." ".strcol(2)) with boxes lc rgb "#c0392b" title "rounded", \
     table every ::1 using 0:(strcol(5) eq "not rounded" ? $3 : NaN) with boxes lc rgb "#2c7fb8" title "not rounded", \
     table every ::1 using 0:(strcol(5) eq "not identifiable" ? 0.02 : NaN) with boxes lc rgb "#bbbbbb" title "not identifiable", \
     table every ::1 using 0:(strcol(5) ne "not identifiable" ? $3 : NaN):4 with yerrorbars ps 0 lc rgb "black" notitle
