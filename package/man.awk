# A man page from --help of the program or, with -v command=NAME, of a command; -v version=V.
function text(s) { gsub(/\\/, "\\e", s); gsub(/-/, "\\-", s); sub(/^\./, "\\\\\\&.", s); return s }
function name() { return command ? "etalon-" command : "etalon" }
function heading(s) { if (s != at) print ".SH " s; at = s }
BEGIN {
	printf ".TH %s 1 \"\" \"etalon %s\" \"etalon\"\n", toupper(text(name())), version
	printf ".SH NAME\n%s \\- %s\n.SH SYNOPSIS\n", text(name()), command ? text(what) : "tells whether a GPU kernel computes what it should"
}
/^ *(Usage:|usage:|or:)/ { sub(/^ *[Uu]sage: /, ""); sub(/^ *or: /, ""); print ".B " text($0) "\n.br"; next }
/^$/ { if (at == "DESCRIPTION") print ".PP"; next }
/^  +-/ {                                                # an option, and what it does, maybe on lines of their own
	heading("OPTIONS")
	sub(/^ +/, "")
	where = match($0, /   +/)
	option = where ? substr($0, 1, where - 1) : $0
	print ".TP\n.B " text(option)
	if (where) { rest = substr($0, where); sub(/^ +/, "", rest); print text(rest) }
	next
}
/^  [a-z]+ / && !command {                               # a command, its arguments, from column 36 on what it does
	heading("COMMANDS")
	call = substr($0, 3, 33)
	sub(/ +$/, "", call)
	gsub(/  +/, " ", call)
	print ".TP\n.B " text(call) "\n" text(substr($0, 36))
	next
}
at == "OPTIONS" && /^    / { sub(/^ +/, ""); print text($0); next }
{ heading(at == "OPTIONS" || at == "COMMANDS" ? "NOTES" : at ? at : "DESCRIPTION"); sub(/^ +/, ""); print text($0) }
END {
	print ".SH EXIT STATUS\n0 pass, 1 fail, 2 bad usage or bad input, 3 undecided, 4 the machine failed."
	print ".SH SEE ALSO\n" (command ? ".BR etalon (1)" : "etalon COMMAND \\-\\-help")
}
