#!/bin/sh
# Fills the generated blocks of the pages given (all of docs/ when none is): what stands between
#   <!-- begin: etalon ARGUMENT... -->   and   <!-- end -->
# becomes a fenced block with the output of that command, run with the program $ETALON.
# usage: ETALON=PROGRAM docs/generate.sh [--check] [PAGE...]
#   --check   changes nothing; names every block that differs and exits 1
set -uf
check= status=0 nl='
'
[ "${1-}" = --check ] && { check=1; shift; }
[ -x "${ETALON-}" ] || { echo "generate.sh: ETALON must name the program" >&2; exit 2; }
[ $# -gt 0 ] || set -- $(find docs -name '*.md' | sort)

complain() { echo "generate.sh: $*" >&2; status=1; }

# run COMMAND: its output as a fenced block in $block
run()
{
	set -- $1
	shift
	block=$("$ETALON" "$@") || return 1
	block="\`\`\`$nl$(printf '%s\n' "$block" | sed 's/ *$//')$nl\`\`\`$nl"
}

# page FILE: the whole page in $new
page()
{
	command= old= new= number=0
	while IFS= read -r line || [ -n "$line" ]; do
		number=$((number + 1))
		case $line in
		'<!-- begin: etalon '*' -->')
			[ -z "$command" ] || { complain "$1:$number: '$command' has no end"; return 1; }
			command=${line#<!-- begin: } command=${command% -->} old=
			new="$new$line$nl" ;;
		'<!-- end -->')
			[ -n "$command" ] || { complain "$1:$number: an end without a begin"; return 1; }
			run "$command" || { complain "$1:$number: '$command' failed"; return 1; }
			[ -z "$check" ] || [ "$old" = "$block" ] ||
				complain "$1:$number: the output of '$command' is another; make docs"
			new="$new$block$line$nl" command= ;;
		*)
			if [ -n "$command" ]; then old="$old$line$nl"; else new="$new$line$nl"; fi ;;
		esac
	done <"$1"
	[ -z "$command" ] || { complain "$1: '$command' has no end"; return 1; }
}

for file in "$@"; do
	page "$file" || continue
	[ -n "$check" ] && continue
	printf '%s' "$new" | cmp -s - "$file" && continue
	printf '%s' "$new" >"$file.new" && mv "$file.new" "$file" || complain "$file: not written"
done
exit $status
