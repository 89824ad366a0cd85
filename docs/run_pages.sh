#!/bin/sh
# Runs the commands that the pages show, each page in a fresh folder, and compares the output: what
# stands behind "$ " in fenced blocks that begin with it.
# usage: ETALON=PROGRAM docs/run_pages.sh [--write] [PAGE...]
#   --write   puts today's output in the place of what differs
#   PAGE      README.md and all of docs when none is given
# In the folder lie fixtures, the captures of fixtures/captures, build/etalon, and ETALON, which is
# this repository; `etalon` is on the path. In an output a line "…" stands for any lines, and …
# inside a line for any characters: what depends on the machine. A command whose output is not shown
# need only end with 0, 1 or 3. Comments in front of a block:
#   <!-- not run: REASON -->   the next block is not run; it is counted and named
#   <!-- file: NAME -->        the next block is the file NAME
#   <!-- run: COMMAND -->      is run silently, and must succeed
set -u
write=0 status=0 repository=$(pwd) pages=0 commands=0
[ "${1-}" = --write ] && { write=1; shift; }
[ -x "${ETALON-}" ] || { echo "run_pages.sh: ETALON must name the program" >&2; exit 2; }
program=$(realpath "$ETALON")
[ $# -gt 0 ] || set -- README.md $(find docs -name '*.md' | LC_ALL=C sort)
work=$(mktemp -d) || exit 4
trap 'rm -rf "$work"' EXIT
trap 'exit 4' HUP INT TERM
PATH=$work/bin:$PATH
export PATH
mkdir "$work/bin" && ln -s "$program" "$work/bin/etalon" || exit 4

# folder DIR: what a page's commands find there
folder()
{
	mkdir -p "$1/build" && ln -s "$program" "$1/build/etalon" || return
	ln -s "$repository" "$1/ETALON" || return
	ln -s "$repository/fixtures" "$repository"/fixtures/captures/*.safetensors "$1" || return
	[ ! -x "$program-faults" ] || ln -s "$program-faults" "$1/build/etalon-faults"
}

: >"$work/notes"
for page in "$@"; do
	dir=$work/$pages
	folder "$dir" || exit 4
	: >"$work/new"
	LC_ALL=C awk -v page="$page" -v dir="$dir" -v write=$write -v new="$work/new" \
		-v notes="$work/notes" -f docs/run_pages.awk "$page" || status=1
	pages=$((pages + 1)) commands=$((commands + $(cat "$work/notes.count")))
	rm -rf "$dir"
	[ $write = 0 ] || cmp -s "$work/new" "$page" || cp "$work/new" "$page" || exit 4
done
cat "$work/notes"
echo "run_pages: $commands commands on $pages pages; $(grep -c . "$work/notes") blocks not run"
exit $status
