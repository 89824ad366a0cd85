# How time grows: table, the file that `bench` writes, and picture.
load 'plots/style.gp'
set terminal pngcairo size 1100,300
set output picture
set multiplot layout 1,4
set logscale xy
set key off
set ylabel 'seconds'
set format y '10^{%T}'
titles = 'tokens heads vocabulary cores'
do for [i=0:3] {
	set title word(titles, i + 1)
	plot table index i using 1:2 with linespoints pt 7
	unset ylabel
}
unset multiplot
