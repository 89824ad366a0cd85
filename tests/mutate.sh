#!/bin/sh
# Breaks the rules of the verdict one at a time, as a table says, and demands that a test notices.
# usage: mutate.sh TABLE BUILD, from the repository's root, with CC, CFLAGS, LIBS, OBJECTS, FAULTY and HELPERS as in the
# Makefile and the table's test programs built.
#
# A line of the table: the rule, the file, the text that is there (in one place only), the text that is put
# there instead, the test program and, where its other tests take long, the one that is to notice, with tabs between. Lines that begin with # are for people.
# A mutant is killed when a test of the program fails, at which the program stops; one that does not compile, that changes
# nothing, or that runs into a time limit, of processor time or else on the clock, is an error. Exit: 0 when all are killed, and there is one.
# As many rows of the table at a time as there are processors.
table=$1 build=$2 row=$3 limit=60 clock=600
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}" OPENBLAS_NUM_THREADS="${OPENBLAS_NUM_THREADS:-1}"
tab=$(printf '\t')

say() { printf '%-72s %s\n' "$1" "$2" >"$work/said"; }

# The file with $from replaced by $to, which must be there once; exit 3 otherwise.
change()
{
	FROM=$from TO=$to awk '
		BEGIN { from = ENVIRON["FROM"]; to = ENVIRON["TO"]; if (from == "" || from == to) exit 3 }
		{
			for (rest = $0; at = index(rest, from); rest = substr(rest, at + length(from))) n++
			if (at = index($0, from)) $0 = substr($0, 1, at - 1) to substr($0, at + length(from))
			print
		}
		END { exit n == 1 ? 0 : 3 }' "$1"
}

# Tests of faults are linked with the objects that make them.
objects() { case $test in *executor_faults* | *executor_cpu_faults* | *isolate_faults*) echo "$FAULTY" ;; *) echo "$OBJECTS" ;; esac; }
folder() { case $test in *executor_faults* | *executor_cpu_faults* | *isolate_faults*) echo "$build/faults" ;; *) echo "$build" ;; esac; }
object() { find "$(folder)/tests" -name "$test.o"; }
program() { case $test in *executor_faults* | *executor_cpu_faults* | *isolate_faults*) echo "$build/faults/$test" ;; *) echo "$build/tests/$test" ;; esac; }

# The formulas of the build, as text, but the mutant in place of its file.
formulas()
{
	sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' "$work/mutant.c" >"$work/mutant.text"
	awk -v begin="{ \"$file\"," -v text="$work/mutant.text" '
		!inside { print }
		{ path = $0; if (!inside) sub("//", "/", path) }
		path == begin && !inside { inside = 1; while ((getline line < text) > 0) print line }
		inside && /^},/ { inside = 0; print }' "$build/builtin_ops.h" >"$work/builtin_ops.h"
}

# The object of the mutant, and with it the test program, and etalon where the test runs it; all other objects are the build's.
compile()
{
	source=$file unit=$work/mutant.c
	case $file in *.op) formulas && source=ref/formula/op.c unit=$source ;; esac
	others=$(for o in $(objects); do [ "$o" = "$build/${source%.c}.o" ] || echo "$o"; done)
	# shellcheck disable=SC2086
	$CC $CFLAGS -I"$work" -I. -I"$build" -I"$(dirname "$source")" -c -o "$work/mutant.o" "$unit" &&
		$CC $CFLAGS -o "$work/$test" "$(object)" $HELPERS "$work/mutant.o" $others -lcmocka \
			-Wl,--as-needed -lflint-arb -lflint $LIBS || return
	grep -q program_find "$(find tests -name "$test.c")" || return 0
	# shellcheck disable=SC2086
	$CC $CFLAGS -o "$work/etalon" "$build/compare/cli/main.o" "$work/mutant.o" $others $LIBS
}

try()
{
	change "$file" >"$work/mutant.c" || { say "$rule" "ERROR: '$from' is not in $file just once"; return; }
	compile >"$work/log" 2>&1 || { say "$rule" "ERROR: does not compile: $(grep -m1 error "$work/log")"; return; }
	begun=$(date +%s)
	(ulimit -t $limit; CMOCKA_TEST_ABORT=1 ETALON_TEST=${name:-*} ETALON=$work/etalon exec timeout $clock "$work/$test") >"$work/log" 2>&1
	status=$?
	took="$(($(date +%s) - begun)) s"
	if [ $status -eq 124 ]; then say "$rule" "ERROR: $test took more than $clock s"
	elif [ $status -eq 152 ] || [ $status -eq 137 ]; then say "$rule" "ERROR: $test took more than $limit s of a processor"
	elif [ $status -eq 0 ]; then say "$rule" "SURVIVED $test, $took"
	elif grep -q '^\[  FAILED  \]\|: error: Failure!\|^Test failed with exception' "$work/log"; then say "$rule" "killed by $test, $took"
	else say "$rule" "ERROR: $test exits with $status, and no test of it failed"
	fi
}

if [ "$row" ]; then
	work=$build/mutants/$row
	mkdir -p "$work"
	IFS=$tab read -r rule file from to test name <"$work.tsv"
	if [ "$test" ] && [ "$(object)" ] && [ -f "$file" ]; then try
	else say "$rule" "ERROR: not a line of five or six fields, a source and a test"
	fi
	mv "$work/said" "$work.said"
	rm -r "$work"
	exit
fi
rm -rf "$build/mutants"
mkdir -p "$build/mutants"
processors=$(getconf _NPROCESSORS_ONLN)
# What make test has seen pass since it was made, and all that it reads, is not run again.
for test in $(awk -F '\t' '!/^#/ && NF { print $5 }' "$table" | sort -u); do
	[ -f "$(program).passed" ] && [ -z "$(find "$(program)" "$build/etalon" fixtures ref gpu docs tests -newer "$(program).passed" -type f -print -quit)" ] || program
done |
	xargs -P "$processors" -I{} sh -c '"{}" >"$0/$(basename "{}").log" 2>&1 || { cat "$0/$(basename "{}").log"; echo "mutate: {} fails as it is" >&2; exit 1; }' \
		"$build/mutants" || exit 1
rows=$(awk -v to="$build/mutants/" '!/^#/ && NF { file = to sprintf("%03d", ++row) ".tsv"; print >file; close(file) } END { print row + 0 }' "$table")
seq -f %03g "$rows" | xargs -P "$processors" -I{} sh "$0" "$table" "$build" {}
cat "$build"/mutants/*.said
# What a reader of the end alone must see: the rows that were not killed, once more.
cat "$build"/mutants/*.said | grep -v ' killed by '
killed=$(cat "$build"/mutants/*.said | grep -c ' killed by ') survived=$(cat "$build"/mutants/*.said | grep -c ' SURVIVED ')
echo "$rows mutants: $killed killed, $survived survived, $((rows - killed - survived)) errors"
[ "$killed" -gt 0 ] && [ "$killed" -eq "$rows" ]
