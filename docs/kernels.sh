#!/bin/sh
# A table of what nvcc gave each kernel, from what ptxas said when it was built (-Xptxas -v).
# usage: docs/kernels.sh PAGE FILE.ptxas...             the page on stdout
#        docs/kernels.sh --check PAGE FILE.ptxas...     names every kernel that spills more than the page says; exit code 1
set -uf
check=
[ "${1-}" = --check ] && { check=1; shift; }
[ $# -gt 1 ] || { echo "kernels.sh: expected a page and files of ptxas" >&2; exit 2; }
page=$1
shift

# file <tab> kernel <tab> registers <tab> shared bytes <tab> stack bytes <tab> spilled bytes stored <tab> loaded
list()
{
	for f in "$@"; do
		[ -r "$f" ] || { echo "kernels.sh: cannot read $f" >&2; return 1; }
		awk -v file="$(basename "$f" .ptxas)" '
			/Compiling entry function/ { split($0, part, "\047"); name = part[2] }
			/bytes stack frame/ { stack = $1; stored = $5; loaded = $9 }
			/Used [0-9]+ registers/ {
				shared = 0
				for (i = 2; i <= NF; i++) if ($i ~ /^smem/) shared = $(i - 2)
				for (i = 1; i <= NF; i++) if ($i == "Used") registers = $(i + 1)
				printf "%s\t%s\t%d\t%d\t%d\t%d\t%d\n", file, name, registers, shared, stack, stored, loaded
			}' "$f"
	done | c++filt -p | sed 's/(bool)1/true/g; s/(bool)0/false/g; s/([a-z_ ]*)\([0-9]\)/\1/g; s/__nv_bfloat16/bf16/g; s/__half/f16/g; s/, /,/g'
}

list "$@" >"${TMPDIR:-/tmp}/kernels.$$" || exit 1
trap 'rm -f "${TMPDIR:-/tmp}/kernels.$$"' EXIT
[ -s "${TMPDIR:-/tmp}/kernels.$$" ] || { echo "kernels.sh: no kernel in $*" >&2; exit 1; }

if [ "$check" ]; then
	awk -F '\t' -v page="$page" '
		BEGIN {
			while ((getline line < page) > 0)
				if (split(line, c, / *\| */) >= 7 && c[2] ~ /^`/) { gsub("`", "", c[2]); known[c[2]] = c[4] "\t" c[5] }
		}
		$6 + $7 {
			split(($2 in known) ? known[$2] : "0\t0", was, "\t")
			if ($6 > was[1] + 0 || $7 > was[2] + 0) {
				printf "kernels.sh: %s: %s spills %d bytes and loads %d; %s says %d and %d\n", $1, $2, $6, $7, page, was[1], was[2]
				bad = 1
			}
		}
		END { exit bad }' "${TMPDIR:-/tmp}/kernels.$$" >&2
	exit
fi

cat <<'TEXT'
# What the compiler gave each kernel
Written by `make kernels` from what ptxas says when the kernels are built (`-Xptxas -v`, sm_90 or sm_90a). Shared memory is what
the kernel declares; what a launch adds stands in the ladder's pages. A kernel that is a template has a line for all its forms.
`make check-kernels`, part of `make test` where nvcc is, fails on a spill that the second table does not have.

| source | kernel | forms | registers | shared memory, bytes | spilled forms |
|---|---|--:|--:|--:|--:|
TEXT
awk -F '\t' '
	function range(low, high) { return low == high ? low "" : low " – " high }
	{
		name = $2; sub(/<.*/, "", name); key = $1 "\t" name
		if (!(key in forms)) { order[++n] = key; least[key] = most[key] = $3; small[key] = large[key] = $4 }
		forms[key]++; spilled[key] += $6 + $7 > 0
		if ($3 < least[key]) least[key] = $3; if ($3 > most[key]) most[key] = $3
		if ($4 < small[key]) small[key] = $4; if ($4 > large[key]) large[key] = $4
	}
	END {
		for (i = 1; i <= n; i++) {
			split(order[i], part, "\t"); key = order[i]
			printf "| `%s` | `%s` | %d | %s | %s | %s |\n", part[1], part[2], forms[key], range(least[key], most[key]),
				range(small[key], large[key]), spilled[key] ? spilled[key] : ""
		}
	}' "${TMPDIR:-/tmp}/kernels.$$"
printf '\n| spilled: form | registers | bytes stored | bytes loaded | source |\n|---|--:|--:|--:|---|\n'
awk -F '\t' '$6 + $7 { n++; printf "| `%s` | %d | %d | %d | `%s` |\n", $2, $3, $6, $7, $1 } END { if (!n) print "| none | | | | |" }' \
	"${TMPDIR:-/tmp}/kernels.$$"
