# How time grows: table, the rows that `make bench` writes (bench/row.h), and picture.
wide = 1100; high = 300
load 'plots/style.gp'
set datafile separator '\t'
set multiplot layout 1,4
set logscale xy
set key off
set format x '%.0s%c'
set ylabel 'seconds'
titles = 'tokens heads vocabulary cores'
do for [i=1:4] {
	set title word(titles, i)
	plot sprintf("<awk -F'\t' '$1 == \"%s\" { print $2 \"\t\" $4 }' %s", word(titles, i), table) using 1:2 with linespoints pt 7
	unset ylabel
}
unset multiplot
