# The commands of one page, run and compared; run_pages.sh says what a page may hold. Variables:
# page, dir: the folder of its commands, write: 0 or 1, new: the page as it would be, notes: blocks
# that are not run.

function complain(line, text)
{
	print "run_pages: " page ":" line ": " text >"/dev/stderr"
	bad = 1
}

function is_elision(s) { return s ~ /^ *…$/ }
function strip(s) { sub(/[ \t]+$/, "", s); return s }

# Does the line match the pattern, whose … is any text?
function line_matches(pattern, s,    part, n, i, at)
{
	if (pattern == s) return 1
	n = split(pattern, part, "…")
	if (n < 2 || substr(s, 1, length(part[1])) != part[1]) return 0
	s = substr(s, length(part[1]) + 1)
	for (i = 2; i < n; i++) {
		at = index(s, part[i])
		if (part[i] != "" && !at) return 0
		s = substr(s, at + length(part[i]))
	}
	return length(s) >= length(part[n]) && substr(s, length(s) - length(part[n]) + 1) == part[n]
}

# Do the lines shown[p..n_shown] match the lines out[o..n_out] of the output? far becomes the
# furthest line shown that was reached.
function matches(p, o,    i)
{
	if (p > far) far = p
	if (p > n_shown) return o > n_out
	if (!is_elision(shown[p]))
		return o <= n_out && line_matches(shown[p], out[o]) && matches(p + 1, o + 1)
	if (p == n_shown) return 1
	for (i = o; i <= n_out + 1; i++)
		if (matches(p + 1, i)) return 1
	return 0
}

# What a line is known by when its numbers change: its first two words without digits.
function key(s,    word)
{
	sub(/^ +/, "", s)
	split(s, word, " +")
	s = word[1] " " word[2]
	gsub(/[0-9.,+-]/, "", s)
	return s
}

# The line with … inside its words where the line shown that has its key has them and fits.
function elided(s,    p, word, old, n, i, at, rest, line)
{
	for (p = 1; p <= n_shown; p++) {
		if (!index(shown[p], "…") || is_elision(shown[p])) continue
		if (key(shown[p]) != key(s)) continue
		n = split(s, word, " +")
		if (split(shown[p], old, " +") != n) continue
		line = ""
		rest = s
		for (i = 1; i <= n; i++) {
			at = index(rest, word[i])
			if (!index(old[i], "…") || !line_matches(old[i], word[i])) old[i] = word[i]
			line = line substr(rest, 1, at - 1) old[i]
			rest = substr(rest, at + length(word[i]))
		}
		return line rest
	}
	return s
}

# The first line of the output behind `last` that the line shown stands for, or n_out + 1.
function counterpart(line, last,    o)
{
	for (o = last + 1; o <= n_out; o++)
		if (line_matches(line, out[o])) return o
	for (o = last + 1; o <= n_out; o++)
		if (key(out[o]) == key(line)) return o
	return o
}

# The output as it is now: with … where the page has it, each line shown becomes its counterpart.
function rewritten(    p, o, now, last, gap, some)
{
	for (p = 1; p <= n_shown; p++) some = some || is_elision(shown[p])
	for (o = 1; o <= n_out && !some; o++) now = now elided(out[o]) "\n"
	if (!some) return now
	last = 0
	for (p = 1; p <= n_shown; p++) {
		if (is_elision(shown[p])) {
			gap = shown[p]
			continue
		}
		o = counterpart(shown[p], last)
		if (o > n_out) {
			complain(block_at, "no line is like '" shown[p] "' now: it was left out")
			continue
		}
		if (o > last + 1) now = now (gap == "" ? "…" : gap) "\n"
		now = now (line_matches(shown[p], out[o]) ? shown[p] : elided(out[o])) "\n"
		last = o
		gap = ""
	}
	return now (last < n_out ? (gap == "" ? "…" : gap) "\n" : "")
}

# Runs it in the page's folder, behind the variables set so far: its status, its lines in out.
function run(command,    status, line)
{
	printf "%s%s\n", variables, command >(dir "/.command")
	close(dir "/.command")
	status = system("cd '" dir "' && sh ./.command >.output 2>&1 </dev/null")
	n_out = 0
	while ((getline line <(dir "/.output")) > 0) out[++n_out] = strip(line)
	close(dir "/.output")
	return status
}

function say_difference(at, command,    i)
{
	complain(at, "the output of '" command "' is another from here on (make docs writes it):")
	for (i = 1; i <= n_out && i < far && line_matches(shown[i], out[i]); i++);
	if (i <= n_shown && is_elision(shown[i]))
		print "  page   " shown[far] >"/dev/stderr"
	else {
		print "  page   " (i > n_shown ? "(nothing)" : shown[i]) >"/dev/stderr"
		print "  output " (i > n_out ? "(nothing)" : out[i]) >"/dev/stderr"
	}
}

# One command and the lines shown behind it: compared; what the page has of it goes into `text`.
function one(at, command, said,    i, status, same)
{
	text = text said
	if (command ~ /^[A-Za-z_]+=[^ ]*$/) {
		variables = variables command "\n"
		return
	}
	commands++
	status = run(command)
	if (!n_shown) {
		if (status > 1 && status != 3)
			complain(at, "'" command "' ended with " status ": " out[n_out])
		return
	}
	far = 0
	same = matches(1, 1)
	if (write && !same) {
		text = text rewritten()
		return
	}
	for (i = 1; i <= n_shown; i++) text = text shown[i] "\n"
	if (!same) say_difference(at, command)
}

function block_runs(    i, at, command, said)
{
	text = ""
	for (i = 1; i <= n_block;) {
		at = block_at + i
		command = substr(block[i], 3)
		said = block[i] "\n"
		while (block[i] ~ /\\$/ && i < n_block) {
			command = command "\n" block[++i]
			said = said block[i] "\n"
		}
		n_shown = 0
		while (++i <= n_block && block[i] !~ /^\$ /) shown[++n_shown] = strip(block[i])
		one(at, command, said)
	}
}

function block_is_file()
{
	system("mkdir -p \"$(dirname '" dir "/" file "')\"")
	printf "%s", text >(dir "/" file)
	close(dir "/" file)
}

function block_done(    i, is_command)
{
	text = ""
	for (i = 1; i <= n_block; i++) {
		text = text block[i] "\n"
		if (block[i] ~ etalon_command) is_command = 1
	}
	if (file != "") block_is_file()
	else if (reason != "") print "not run: " page ":" block_at ": " reason >>notes
	else if (is_command && block[1] ~ /^\$ /) block_runs()
	else if (is_command)
		print "not run: " page ":" block_at ": no line begins with \"$ \"" >>notes
	file = reason = ""
}

# What stands in the comment behind its first n characters.
function comment(n) { return substr($0, n + 1, length($0) - n - length(" -->")) }

BEGIN {
	commands = bad = 0
	etalon_command = "^(\\$ )?([A-Z_]+=[^ ]+ +)?(mpirun .*)?(build/)?etalon(-faults)? [a-z]"
}
/^<!-- begin: etalon / { generated = 1 }
/^<!-- end -->/ { generated = 0 }
!fenced && /^<!-- not run: .* -->$/ { reason = comment(length("<!-- not run: ")) }
!fenced && /^<!-- file: .* -->$/ { file = comment(length("<!-- file: ")) }
!fenced && /^<!-- run: .* -->$/ {
	if (run(comment(length("<!-- run: ")))) complain(NR, "'" $0 "' failed: " out[n_out])
}
/^ *```/ && !generated {
	if (fenced) {
		block_done()
		printf "%s", text >new
	} else {
		n_block = 0
		block_at = NR
	}
	fenced = !fenced
	print >new
	next
}
fenced { block[++n_block] = $0; next }
{ print >new }
END {
	if (fenced) complain(block_at, "the block has no end")
	print commands >(notes ".count")
	exit bad
}
