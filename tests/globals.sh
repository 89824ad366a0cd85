#!/bin/sh
# Fails on a variable of the product's C, outside gpu/, that may change and that tests/globals.txt does not name with a reason, and on
# a name there that is none.
# usage: globals.sh OBJECT..., BUILD/FOLDER/FILE.o, from the repository's root, with BUILD in the environment.
[ $# -gt 0 ] || { echo "globals: no objects" >&2; exit 2; }
for o in "$@"; do
	source=${o#"$BUILD"/}
	# an object (O) in .data or .bss: what only addresses make writable, .data.rel.ro, is const
	objdump -t "$o" | awk -v f="${source%.o}.c" '/ O (\.data|\.data\.rel|\.data\.rel\.local|\.bss|\.tbss|\.tdata|\*COM\*)[ \t]/ { sub(/\.[0-9]+$/, "", $NF); print f, $NF }'
done | grep -v ' \.gomp_critical' | sort -u | awk '
	BEGIN {
		while ((getline line < "tests/globals.txt") > 0) {
			if (line ~ /^#/) continue
			sub(/:.*/, "", line)
			n = split(line, w, " ")
			for (i = 2; i <= n; i++) known[w[1] " " w[i]] = 1
		}
	}
	{ seen[$0] = 1 }
	!($0 in known) { print "globals: " $1 ": " $2 " may change; make it const or local, or name it in tests/globals.txt" > "/dev/stderr"; bad = 1 }
	END {
		for (k in known) if (!(k in seen)) { print "globals: tests/globals.txt: " k " is no variable that may change" > "/dev/stderr"; bad = 1 }
		exit bad
	}'
