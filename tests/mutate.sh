#!/bin/sh
# Breaks the rules of the verdict one at a time, as a table says, and demands that a test notices.
# usage: mutate.sh TABLE BUILD, from the repository's root, with CC, CFLAGS, LIBS, OBJECTS, FAULTY and HELPERS as in the
# Makefile and the table's test programs built.
#
# A line of the table: the rule, the file, the text that is there (in one place only), the text that is put
# there instead, and the test program, with tabs between. Lines that begin with # are for people.
# A mutant is killed when a test of the program fails, at which the program stops; one that does not compile, that changes
# nothing, or that runs into the time limit is an error. Exit: 0 when all are killed, and there is one.
# As many parts of the table at a time as there are processors.
table=$1 build=$2 limit=60
if [ -z "$3" ]; then
	parts=$(getconf _NPROCESSORS_ONLN) status=0
	mkdir -p "$build/mutants"
	rm -f "$build"/mutants/*.tsv "$build"/mutants/*.log "$build"/mutants/*.status
	awk -v n="$parts" -v to="$build/mutants/" '!/^#/ && NF { print >(to row++ % n ".tsv") }' "$table" || exit 1
	for i in $(seq 0 $((parts - 1))); do
		part=$build/mutants/$i
		[ ! -s "$part.tsv" ] || { sh "$0" "$part.tsv" "$build" "$i" >"$part.log" 2>&1; echo $? >"$part.status"; } &
	done
	wait
	cat "$build"/mutants/*.log | awk '/^[0-9]+ mutants:/ { all += $1; killed += $3; survived += $5; errors += $7; next } { print }
		END { print all + 0 " mutants: " killed + 0 " killed, " survived + 0 " survived, " errors + 0 " errors" }'
	for part in "$build"/mutants/*.status; do [ "$(cat "$part")" = 0 ] || status=1; done
	exit $status
fi
work=$build/mutants/$3
killed=0 survived=0 errors=0
tab=$(printf '\t')

say() { printf '%-72s %s\n' "$1" "$2"; }

error()
{
	say "$rule" "ERROR: $1"
	errors=$((errors + 1))
}

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

# The object of the mutant, and with it the test program; all other objects are the build's.
compile()
{
	others=$(for o in $(objects); do [ "$o" = "$build/${file%.c}.o" ] || echo "$o"; done)
	# shellcheck disable=SC2086
	$CC $CFLAGS -I. -I"$build" -I"$(dirname "$file")" -c -o "$work/mutant.o" "$work/mutant.c" &&
		$CC $CFLAGS -o "$work/$test" "$(object)" $HELPERS "$work/mutant.o" $others -lcmocka \
			-Wl,--as-needed -lflint-arb -lflint $LIBS
}

try()
{
	change "$file" >"$work/mutant.c" || { error "'$from' is not in $file just once"; return; }
	compile >"$work/log" 2>&1 || { error "does not compile: $(grep -m1 error "$work/log")"; return; }
	CMOCKA_TEST_ABORT=1 timeout $limit "$work/$test" >"$work/log" 2>&1
	status=$?
	if [ $status -eq 124 ]; then error "$test took more than $limit s"
	elif [ $status -eq 0 ]; then say "$rule" "SURVIVED $test"; survived=$((survived + 1))
	elif grep -q '^\[  FAILED  \]\|: error: Failure!' "$work/log"; then say "$rule" "killed by $test"; killed=$((killed + 1))
	else error "$test exits with $status, and no test of it failed"
	fi
}

mkdir -p "$work"
for test in $(awk -F '\t' '!/^#/ && NF { print $5 }' "$table" | sort -u); do
	"$(program)" >"$work/log" 2>&1 || { cat "$work/log"; echo "mutate: $test fails as it is" >&2; exit 1; }
done
while IFS=$tab read -r rule file from to test; do
	case $rule in '' | '#'*) continue ;; esac
	[ "$test" ] && [ "$(object)" ] && [ -f "$file" ] || { error "not a line of five fields, a source and a test"; continue; }
	try
done <"$table"
echo "$((killed + survived + errors)) mutants: $killed killed, $survived survived, $errors errors"
[ $killed -gt 0 ] && [ $survived -eq 0 ] && [ $errors -eq 0 ]
