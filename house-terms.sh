#!/bin/sh
# The field's words for ours, word-exact, in code, reports, pages and file names. usage: house-terms.sh TERM..., from the root of a clean
# checkout; TERM: fault detected identifiable emulation coverage refresh selection stream; all of them when none is given, in that order.
# Rerunnable. Nothing is committed. gpu/ is left alone (hashes of captures), and so are recorded captures and models.
set -eu
[ -f Makefile ] && [ -d compare ] || { echo "house-terms: run it from the root of the checkout" >&2; exit 2; }
[ $# -gt 0 ] || set -- fault detected identifiable emulation coverage refresh selection stream
texts() { git ls-files "$@" | grep -E '\.(c|h|cc|md|py|tsv|sh|gp|op|txt)$|^Makefile$|^\.ci/' | grep -v '^gpu/'; }
tests_of() { texts ref fixtures compare tests bench docs plots README.md Makefile .ci; }
change() { perl -CSD -pi -e "$1" $(if [ $# -gt 1 ]; then shift; printf '%s\n' "$@"; else tests_of; fi); }
renamed() { for f in $(git ls-files | grep -E "/[^/]*$1[^/]*\.(c|h|md)$" | grep -v '^gpu/\|^docs/'); do
	d=${f%/*} b=${f##*/}; git mv "$f" "$d/$(printf %s "$b" | sed "s/$1/$2/")"; done; }
for term; do case $term in
fault)
	change 's/\bmistaken\b/faulty/g; s/makes the mistake/has the fault/g; s/make the mistake/have the fault/g; s/makes a mistake/has a fault/g; s/make a mistake/have a fault/g; s/make this mistake/compute with this fault/g; s/makes mistakes when/has faults when/g; s/"  mistake    %s/"  fault      %s/; s/"  mistake   %s/"  fault     %s/; s/MISTAKE/FAULT/g; s/Mistake/Fault/g; s/mistake/fault/g'
	renamed mistake fault ;;
detected)
	change 's/CONVICTED/DETECTED/g; s/Convicted/Detected/g; s/conviction/detection/g; s/convict/detect/g' ;;
identifiable)
	change 's/\bNOT_VISIBLE\b/UNIDENTIFIABLE/g; s/\bINVISIBLE\b/NOT_IDENTIFIABLE/g; s/\binvisible\b/not_identifiable/g; s/not_visible/not_identifiable/g; s/([Nn])ot visible/$1ot identifiable/g' ;;
emulation)
	change 's/\b([Aa]) replica/$1n emulation/g; s/REPLICA/EMULATION/g; s/Replica/Emulation/g; s/replica/emulation/g'
	renamed replica emulation ;;
coverage)
	change 's/\b(report|find|values|print|layer)_power\b/$1_coverage/g; s/\bpower_tokens\b/coverage_tokens/g; s/layer_work\.power\b/layer_work.coverage/g; s/kept\.power\b/kept.coverage/g;
		s/suspects, power; \} layer_work/suspects, coverage; } layer_work/; s/and power on those that take no more than `power`/and coverage on those that take no more than `coverage`/;
		s/^(\s+)power     (\d+ suspects)/$1coverage  $2/; s/"  power     /"  coverage  /; s/\\npower     %/\\ncoverage  %/; s/\\n  power\\n/\\n  coverage\\n/;
		s/^power     (\d+ faults|\d+ mistakes)/coverage  $1/; s/^  power$/  coverage/; s/\bthe power of the check\b/the coverage of the check/; s/its power is told/its coverage is told/; s/\bPower costs a run\b/Coverage costs a run/'
	for f in compare/isolate_report.c compare/*/isolate_report.c compare/logits_pace.c compare/*/logits_pace.c tests/test_suspects.c tests/*/*/test_suspects.c; do
		[ -f "$f" ] && change 's/static (void|double) power\(/static $1 coverage(/; s/(?<![\w.])power\((?=to, r\)|p, part\))/coverage(/; s/cmocka_unit_test\(power\)/cmocka_unit_test(coverage)/' "$f"; done ;;
refresh)
	change 's/\bxray_settle\b/xray_refresh/g; s/\bxray_hold\b/xray_refresh_strip/g; s/\b(yardstick|sample)_hold\b/$1_refresh/g; s/which is settled/which is refreshed/g;
		s/the settled (replica|emulation)/the refreshed $1/g; s/when it was settled/when it was refreshed/g; s/stays settled/stays refreshed/g; s/that is settled/that is refreshed/g' ;;
selection)
	change 's/\b(replica|emulation)_grow\b/$1_forward/g; s/\b(replica|emulation)_prune\b/$1_backward/g; s/\bgrow_(faults|mistakes|roundings)\b/forward_$1/g; s/\bprune_(site|fault|mistake)\b/backward_$1/g; s#\bcompare/grow\.c#compare/forward.c#g; s#\bcompare/prune\.c#compare/backward.c#g'
	for f in $(git ls-files compare | grep -E '/(grow|prune)\.c$'); do case $f in *grow.c) git mv "$f" "${f%grow.c}forward.c" ;; *) git mv "$f" "${f%prune.c}backward.c" ;; esac; done ;;
stream)
	change 's/\bstruct lane\b/struct stream/g; s/\blane_end\b/stream_end/g'
	of=$(git ls-files ref compare tests | grep -E '/(op\.h|run\.c|strip\.c|calc[a-z_]*\.[ch]|expected\.[ch]|sample\.[ch]|yardstick[a-z_]*\.[ch]|accumulators\.[ch]|earned\.c|forward\.c|backward\.c|grow\.c|prune\.c|joint\.c|profile\.[ch]|xray[a-z_]*\.[ch]|(replica|emulation)[a-z_]*\.[ch]|generic\.c|where\.c|suspects\.[ch]|descend\.c|layer_[a-z]*\.[ch]|logits_model\.[ch]|kill_matrix[a-z_]*\.[ch]|cmd_ref\.c|isolate_values\.c|verdict_under\.c|test_strip\.c|test_check_strips\.c|test_expected\.c|test_sample\.c|mutants\.tsv)$')
	change 's/\bstruct lane\b/struct stream/g; s/\blane_end\b/stream_end/g; s/\blane\b/stream/g; s/\blanes\b/streams/g; s/\b(\w+)_lane\b/$1_stream/g; s/\bsite_lanes\b/site_streams/g; s/\bstruct handed handed\b/struct carry carry/g; s/\bstruct handed\b/struct carry/g; s/->handed\b/->carry/g; s/\.handed\b/.carry/g; s/\bhanded on\b/carried on/g; s/\bhands on\b/carries on/g' $of ;;
*) echo "house-terms: no term $term" >&2; exit 2 ;;
esac; done
