# How time grows: table, the file that `bench` writes, and picture.
wide = 1100; high = 300
load 'plots/style.gp'
set datafile separator '\t'
set multiplot layout 1,4
set logscale xy
set key off
set format x '%.0s%c'
set ylabel 'seconds'
titles = 'tokens heads vocabulary cores'
do for [i=0:3] {
	set title word(titles, i + 1)
	plot table index i using 1:2 with linespoints pt 7
	unset ylabel
}
unset multiplot
