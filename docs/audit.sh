#!/bin/sh
# Audits the tests of fixtures/audit/tests.tsv and fills the table of the page, and the picture beside it.
# usage: ETALON=PROGRAM docs/audit.sh WORK PAGE PICTURE
#   WORK   a folder: the report of each test, CASE.NUMBER.txt, stays there and is not made again while it is newer than the program and
#          its cases
set -u
work=$1 page=$2 picture=$3 tab=$(printf '\t') tests=fixtures/audit/tests.tsv status=0
[ -x "${ETALON-}" ] || { echo "audit.sh: ETALON must name the program" >&2; exit 2; }
mkdir -p "$work" || exit 4
: >"$work/rows.tsv" || exit 4

# report NAME OP CASE RULE FLAGS: NAME.txt and NAME.rows, whole or not at all
report()
{
	[ "$work/$1.txt" -nt "$ETALON" ] && [ "$work/$1.txt" -nt "fixtures/audit/$2.cases" ] && return
	flags=$5
	[ "$flags" = - ] && flags=
	# shellcheck disable=SC2086
	"$ETALON" audit "$2:$3" --cases "fixtures/audit/$2.cases" --rule "$4" $flags --no-changes --rows "$work/$1.rows" >"$work/$1.new"
	[ $? -le 1 ] && mv "$work/$1.new" "$work/$1.txt"
}

# A row of the table from a report.
row()
{
	awk -v op="$2" -v test="$3" -v where="$4" -v rule="$5" '
		/  passes +fails *$/ { sub(/[( ].*/, "", $1); if (!($1 in seen)) names = names (names == "" ? "" : ", ") $1; seen[$1] = 1 }
		/ change what is stored here$/ { known = $1; effect = $3 }
		/^rule 1 passes / { passed = $4; split($0, x, ", "); split(x[2], y, " "); missed = y[1] }
		/^etalon fails .* here$/ { here = $3 }
		/^correct kernels/ { honest = 1; next }
		honest && /of 5 pass/ { name = $1; n = 0; for (i = 1; i <= NF; i++) if ($i == "of" && $(i + 1) == "5") { n = $(i - 1); break }
			if (n < 5) failed = failed (failed == "" ? "" : ", ") name (n ? " (" 5 - n " of 5)" : "") }
		END { gsub(/;/, "; ", rule); printf "| %s: %s | %s | `%s` | %d | %d | %d | **%d**%s | %s |\n", op, test, where, rule, effect, here, passed,
			missed, names == "" ? "" : ": " names, failed == "" ? "none" : failed }' "$work/$1.txt"
}

printf '%s\n' '| test | where | rule | faults with an effect | etalon fails | the rule passes | of these etalon fails | correct kernels the rule fails |' \
	'|---|---|---|---|---|---|---|---|' >"$work/table.md"
grep -v '^#' "$tests" >"$work/tests.tsv"
while IFS=$tab read -r op case rule flags repository file commit lines test; do
	name=$case.$(printf %s "$rule$flags" | cksum | cut -d' ' -f1)
	report "$name" "$op" "$case" "$rule" "$flags" || { echo "audit.sh: $op:$case failed" >&2; status=1; continue; }
	row "$name" "$op" "$test" "$repository $commit $file: $lines" "$rule" >>"$work/table.md"
	# Faults by name, the worst of its values; a column for each test.
	awk -F '\t' -v column="$test" 'BEGIN { OFS = "\t" } $3 == 0 { sub(/\(.*/, "", $4); if (!($4 in fate)) { name[n++] = $4 }
		if ($6 >= fate[$4]) fate[$4] = $6; op = $1 } END { for (i = 0; i < n; i++) print op, column, name[i], i, fate[name[i]] }' \
		"$work/$name.rows" >>"$work/rows.tsv"
done <"$work/tests.tsv"
awk -F '\t' 'BEGIN { OFS = "\t" } { key = $1 "\t" $2; if (!(key in x)) x[key] = columns[$1]++; print $1, $2, x[key], $3, $4, $5 }' \
	"$work/rows.tsv" >"$work/audit.tsv"
[ $status = 0 ] || exit 1
awk -v table="$work/table.md" '/^<!-- audit -->/ { print; while ((getline line < table) > 0) print line; skip = 1; next }
	/^<!-- end of the audit -->/ { skip = 0 } !skip' "$page" >"$work/page.md" && cp "$work/page.md" "$page" || exit 4
gnuplot -e "table='$work/audit.tsv'; picture='$picture'" plots/audit.gp
