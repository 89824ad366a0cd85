#!/bin/sh
# Reads the #include lines of all sources and fails on an arrow between folders that tests/arrows.txt does not have, on a line of
# that table that points down, on a folder that it lacks, and on one with more than MOST files.
# usage: arrows.sh [MOST], from the repository's root. tests/ may include anything.
most=${1:-40}

find fixtures ref gpu compare bench -name '*.[ch]' -o -name '*.c[cu]' -o -name '*.cuh' -o -name '*.op' 2>/dev/null | sort |
awk -v most="$most" '
	function say(text) { print "arrows: " text > "/dev/stderr"; bad = 1 }
	function folder_of(path) { sub(/\/[^\/]*$/, "", path); return path }
	# A word of the table for a folder: itself, or all in one ("ref/*" is ref too).
	function allows(from, to,    i) {
		for (i = 1; i <= words[from]; i++)
			if (word[from, i] == to || (word[from, i] ~ /\/\*$/ && index(to "/", substr(word[from, i], 1, length(word[from, i]) - 1)) == 1))
				return 1
		return 0
	}
	BEGIN {
		table = "tests/arrows.txt"
		while ((getline line < table) > 0) {
			if (line ~ /^#/ || line !~ /:/) continue
			from = line; sub(/:.*/, "", from); sub(/^[^:]*:/, "", line)
			words[from] = split(line, w, " ")
			for (i = 1; i <= words[from]; i++) {
				word[from, i] = w[i]
				if (w[i] !~ /\/\*$/ && !(w[i] in known)) say(table ": " from " may include " w[i] ", which does not stand above it")
			}
			known[from] = ++lines
		}
		if (!lines) say(table ": no folder")
	}
	{ file[++n] = $0; exists[$0] = 1; count[folder_of($0)]++ }
	END {
		for (k = 1; k <= n; k++) {
			from = folder_of(file[k]); number = 0
			if (!(from in known) && !told[from]++) say(from ": a folder that " table " lacks")
			while ((getline line < file[k]) > 0) {
				number++
				if (line !~ /^[ \t]*#[ \t]*include[ \t]+"/) continue
				split(line, part, "\"")
				if ((from "/" part[2]) in exists || !(part[2] in exists)) continue
				to = folder_of(part[2]); arrow[from, to]++
				if (from == to || !(from in known)) continue
				if (!allows(from, to)) say(file[k] ":" number ": " from " may not include " part[2])
				else if (known[to] >= known[from]) say(file[k] ":" number ": " part[2] " stands below " from)
			}
			close(file[k])
		}
		for (f in count) if (count[f] > most) say(f ": " count[f] " files, more than " most)
		exit bad
	}'
