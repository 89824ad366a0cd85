#!/bin/sh
# What `make bench` measures, as rows on stdout; columns: bench/row.h. usage: run.sh PROGRAM...
printf '# table\trow\tway\tours\tfloor\tmoved\tunit\trival\ttheirs\tratio\tgoal\terror\n'
model=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | sed 1q)
printf 'device\t%s\t\t%s\n' "${model:-unknown CPU}" "$(nproc)"
for program; do
	"$program" || exit
done
