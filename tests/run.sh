#!/bin/sh
# Runs cmocka programs, as many at a time as there are processors, prints the whole output of those that fail, and one
# line of totals. PROGRAM.passed is when it last passed. usage: run.sh PROGRAM...
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
passed=0 failed=0 skipped=0
export work OMP_NUM_THREADS=${OMP_NUM_THREADS:-1} OPENBLAS_NUM_THREADS=${OPENBLAS_NUM_THREADS:-1}

# The last first: those of structures take longest, and a processor is not to wait for one of them at the end.
printf '%s\n' "$@" | tac | xargs -P "$(getconf _NPROCESSORS_ONLN)" -I{} sh -c '
	begun=$(date +%s)
	"{}" >"$work/$(basename "{}").out" 2>&1
	status=$?
	[ $status -ne 0 ] || touch "{}.passed"
	echo $status $(($(date +%s) - begun)) >"$work/$(basename "{}").status"'
for program in "$@"; do
	out=$work/$(basename "$program").out
	read -r status seconds <"$work/$(basename "$program").status"
	# A test that was announced and did not end (a crash), or a failing exit that no test
	# explains, counts as failed.
	set -- $(awk -v status=$status '
		/^\[==========\] .*Running [0-9]+ test/ { match($0, /Running [0-9]+/); want += substr($0, RSTART + 8, RLENGTH - 8) }
		/^\[  PASSED  \] [0-9]+ test\(s\)/ { ok += $4 }
		/^\[  FAILED  \] .*[0-9]+ test\(s\), listed below/ { match($0, /[0-9]+ test/); bad += substr($0, RSTART, RLENGTH - 5) }
		/^\[  SKIPPED \] .*[0-9]+ test\(s\), listed below/ { match($0, /[0-9]+ test/); skip += substr($0, RSTART, RLENGTH - 5) }
		END {
			if (ok + bad + skip < want) bad = want - ok - skip
			if (status && !bad || !want) bad++
			print ok + 0, bad + 0, skip + 0
		}' "$out")
	[ "$2" -gt 0 ] && { echo "---- $program (exit $status)"; cat "$out"; }
	echo "$program: $1 passed, $2 failed$([ "$3" -gt 0 ] && echo ", $3 skipped"), $seconds s"
	passed=$((passed + $1)) failed=$((failed + $2)) skipped=$((skipped + $3))
done

line="$passed passed, $failed failed"
[ $skipped -gt 0 ] && line="$line, $skipped skipped"
echo "$line"
[ $failed -eq 0 ] && [ $passed -gt 0 ]
