# A page from what was measured: awk -f bench/page.awk ROWS.tsv TEMPLATE. Columns of the rows: bench/row.h.
#
# A template (bench/*.page) is the page's words. {FIGURE FORMAT} stands for a figure; lines with @ are for many:
#   @rows TABLE TEXT        TEXT for each row of the table; a FIGURE is then a column
#   @each A B C: TEXT       TEXT for A, B and C, for which each * stands
#   @goal WHAT | at least | FIGURE | LIMIT | FORMAT       a row of goals: LIMIT a figure too; no relation: told beside a goal
#   @work NAME TITLE        from here on, works in this order; NAME_SIZE is one too, SIZE being TITLE's %s
#   @works TABLE TEXT       TEXT for each row of the table, work by work
#   @gains WORK...          how many times as fast as its first kernel each kernel of a work is
# FIGURE: COLUMN@TABLE@ROW@WAY, of the last such row where the end is left out, or A / B; least.COLUMN@TABLE and most;
# COLUMN@best:TABLE+TABLE@ROW, of the fastest of that row.
# FORMAT: printf's, a factor before it perhaps, or s, seconds. A figure that is not there is empty; nan: missing.
BEGIN {
	FS = "\t"
	n = split("table row way ours floor moved unit rival theirs ratio goal error", names, " ")
	for (i = 1; i <= n; i++) column[names[i]] = i
}
FNR == 1 { files++ }
files == 1 && /^#/ { next }
files == 1 {
	rows++
	for (i = 1; i <= n; i++) cell[rows, i] = $i
	last[$1] = last[$1, $2] = exact[$1, $2, $3] = rows
	next
}

function of(id, name) { return cell[id, column[name]] }
function stem(work) { if (!(work in title)) sub(/_[0-9][0-9x]*$/, "", work); return work }
function quotient(a, b) { return a == "" || b == "" || a == "nan" || b == "nan" || b == 0 ? "nan" : a / b }

function extreme(which, name, table,    id, x, best) {
	for (id = 1; id <= rows; id++)
		if (of(id, "table") == table) {
			x = of(id, name) + 0
			if (best == "" || (which == "least" ? x < best : x > best)) best = x
		}
	return best
}

# The fastest of a row in TABLE+TABLE...
function best(tables, row,    id, found) {
	for (id = 1; id <= rows; id++)
		if (of(id, "row") == row && index("+" tables "+", "+" of(id, "table") "+") && of(id, "ours") != "nan")
			if (!found || of(id, "ours") + 0 < of(found, "ours") + 0) found = id
	return found
}

function value(what, id,    part, count, list) {
	if (what ~ /^[0-9.]+$/) return what
	if (split(what, part, " / ") == 2) return quotient(value(part[1], id), value(part[2], id))
	count = split(what, part, "@")
	if (what ~ /^(least|most)\./) return extreme(substr(what, 1, index(what, ".") - 1), substr(part[1], index(part[1], ".") + 1), part[2])
	if (part[2] ~ /^best:/) id = best(substr(part[2], 6), part[3])
	else if (count == 2) id = last[part[2]]
	else if (count == 3) id = last[part[2], part[3]]
	else if (count == 4) id = exact[part[2], part[3], part[4]]
	if (!id) return "nan"
	what = part[1]
	if (what in column) return of(id, what)
	if (what == "share") return 100 * quotient(of(id, "floor"), of(id, "ours"))
	if (what ~ /^error[12]$/) return split(of(id, "error"), list, " ") >= substr(what, 6) + 0 ? list[substr(what, 6)] : "nan"
	if (what == "title") return sprintf(title[stem(of(id, "row"))], substr(of(id, "row"), length(stem(of(id, "row"))) + 2))
	if (what == "amount") return show(of(id, "moved"), of(id, "unit") == "flop" ? "1e-9 %.0f Gflop" : "1e-6 %.1f MB")
	if (what == "errors") return errors(own_errors(id))
	return rival_of(id, what)
}

function own_errors(id,    work, way) {
	work = of(id, "row"); way = of(id, "way")
	if (of(id, "error") != "") return of(id, "error")
	if (("error", work, way) in exact) return of(exact["error", work, way], "error")
	if (("error", stem(work), way) in exact) return of(exact["error", stem(work), way], "error")
	return ("error", stem(work), "") in exact ? of(exact["error", stem(work), ""], "error") : ""
}

function errors(text,    list, count, all, i) {
	count = split(text, list, " ")
	for (i = 1; i <= count && i <= 2; i++) all = all (i > 1 ? ", " : "") show(list[i], "%.1e")
	return all
}

# Beside the last kernel of a work.
function rival_of(id, name,    work, of_rival, all) {
	work = of(id, "row")
	if (!(("rival", work, name) in exact) || last["kernel", work] != id) return ""
	of_rival = exact["rival", work, name]
	all = errors(of(of_rival, "error"))
	return show(of(of_rival, "ours"), "%.2f") (all == "" || of(of_rival, "ours") == "nan" ? "" : " (" all ")")
}

function seconds(x) {
	if (x < 1e-6) return sprintf("%.3g ns", 1e9 * x)
	if (x < 1e-3) return sprintf("%.3g µs", 1e6 * x)
	return x < 1 ? sprintf("%.3g ms", 1e3 * x) : sprintf("%.3g s", x)
}

function show(x, format,    factor) {
	if (x == "" || x == "nan") return x == "" ? "" : "missing"
	if (format == "s") return seconds(x)
	if (match(format, /^[0-9.e-]+ /)) {
		factor = substr(format, 1, RLENGTH - 1)
		return sprintf(substr(format, RLENGTH + 1), x * factor)
	}
	return format == "" ? x : sprintf(format, x)
}

function fill(text, id,    all, token, what, format) {
	while (match(text, /[{][^}]*[}]/)) {
		token = substr(text, RSTART + 1, RLENGTH - 2)
		all = all substr(text, 1, RSTART - 1)
		text = substr(text, RSTART + RLENGTH)
		what = format = token
		sub(/ .*/, "", what)
		if (!sub(/^[^ ]* /, "", format)) format = ""
		all = all show(value(what, id), format)
	}
	return all text
}

function goal(line,    part, reached, limit, met) {
	split(line, part, / *\| */)
	reached = value(part[3]); limit = value(part[4])
	met = reached != "nan" && limit != "nan" && (part[2] == "at least" ? reached + 0 >= limit + 0 : reached + 0 <= limit + 0)
	printf "| %s | %s | %s | %s |\n", fill(part[1]), part[2] == "" ? "" : part[2] " " show(limit, part[5]), show(reached, part[5]),
		part[2] == "" ? "" : met ? "met" : "**not met**"
}

function gains(work,    id, first) {
	for (id = 1; id <= rows; id++)
		if (of(id, "table") == "kernel" && of(id, "row") == work) {
			printf "| %s | %s | %.2f |", first ? "" : value("title", id), of(id, "way"), of(id, "ours")
			print first ? sprintf(" %.2f |", first / of(id, "ours")) : " |"
			if (!first) first = of(id, "ours")
		}
}

# A line of a template, * in it replaced.
function line_of(line,    word, rest, id, w, count, list) {
	word = rest = line
	sub(/ .*/, "", word)
	sub(/^[^ ]* /, "", rest)
	if (word !~ /^@/) print fill(line)
	else if (word == "@goal") goal(rest)
	else if (word == "@work") { w = rest; sub(/ .*/, "", w); sub(/^[^ ]* /, "", rest); works[++n_works] = w; title[w] = rest }
	else if (word == "@gains") { count = split(rest, list, " "); for (w = 1; w <= count; w++) gains(list[w]) }
	else if (word == "@rows" || word == "@works") {
		w = rest; sub(/ .*/, "", w); sub(/^[^ ]* /, "", rest)
		for (count = 1; count <= (word == "@rows" ? 1 : n_works); count++)
			for (id = 1; id <= rows; id++)
				if (of(id, "table") == w && (word == "@rows" || stem(of(id, "row")) == works[count])) print fill(rest, id)
	}
}

# Lines with @each that follow each other and have the same items are one, item by item.
function each(    i, k, count, list, text) {
	count = split(items, list, " ")
	for (i = 1; i <= count; i++)
		for (k = 1; k <= held; k++) { text = hold[k]; gsub(/\*/, list[i], text); line_of(text) }
	held = 0
}
{
	if (sub(/^@each /, "")) {
		if (held && items != substr($0, 1, index($0, ": ") - 1)) each()
		items = substr($0, 1, index($0, ": ") - 1)
		hold[++held] = substr($0, index($0, ": ") + 2)
		next
	}
	if (held) each()
	line_of($0)
}
END { if (held) each() }
