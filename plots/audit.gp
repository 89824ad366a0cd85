# Faults against rules: a row for each fault of an op, a column for each test or rule.
#   etalon audit ... --rows audit.tsv
#   gnuplot -e "table='audit.tsv'; picture='audit.png'" plots/audit.gp
# table, tab-separated: op, column's name, its number, fault, its number, 0 no effect 1 caught 2 passes
if (!exists("table")) table = "audit.tsv"
if (!exists("picture")) picture = "audit.png"
set datafile separator "\t"
colour(fate) = fate == 0 ? 0xe4e4e4 : fate == 1 ? 0x66a61e : 0xd7301f
most(op, field) = int(system(sprintf("awk -F'\\t' -v op='%s' '$1==op && $%d+1>n {n=$%d+1} END {print n+0}' %s", op, field, field, table)))
lines(op) = sprintf("< awk -F'\\t' -v op='%s' '$1==op' %s", op, table)
list = system(sprintf("awk -F'\\t' '!n[$1]++{print $1}' %s", table))
total = 0
do for [op in list] { total = total + most(op, 5) + 10 }
set style fill solid 1 noborder
set border 0
unset tics
unset key
set terminal png size 1100,int(80 + 17 * total) font "sans,10" noenhanced
set output picture
set multiplot title "What a rule says of a kernel with one known fault" font "sans,13" offset 0,-0.5
high = 80 + 17 * total
do for [i=0:2] {
	word = i == 0 ? "the fault has no effect on these inputs" : i == 1 ? "caught" : "passes"
	set label 10+i word at screen 0.30 + 0.28 * i - (i == 2 ? 0.16 : 0), 1 - 42.0 / high font "sans,10"
	set label 20+i "■" at screen 0.28 + 0.28 * i - (i == 2 ? 0.16 : 0), 1 - 42.0 / high font "sans,16" tc rgb colour(i)
}
top = 1 - 60.0 / high
do for [op in list] {
	rows = most(op, 5)
	body = 17.0 * rows / high
	head = 17.0 * 8.5 / high
	columns = most(op, 3)
	set lmargin at screen 0.30
	set rmargin at screen 0.30 + 0.045 * columns
	set tmargin at screen top - head
	set bmargin at screen top - head - body
	set xrange [-0.5:columns - 0.5]
	set yrange [rows - 0.5:-0.5]
	set label 1 op at screen 0.01, top - head + 17.0 / high font "sans,12"
	plot lines(op) using 3:5:(0.47):(0.44):(colour($6)) with boxxyerror lc rgb variable, \
	     lines(op) using ($3==0?-0.7:NaN):5:4 with labels right font "sans,9", \
	     lines(op) using ($5==0?$3-0.2:NaN):(-0.9):2 with labels left rotate by 32 font "sans,9"
	unset label 1
	top = top - head - body - 17.0 * 1.5 / high
}
unset multiplot
