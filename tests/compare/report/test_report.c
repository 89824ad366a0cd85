/* Reports: text, table, Markdown, JUnit and JSON, with names that try to break each. */
#include <math.h>
#include <stdlib.h>

#include <jansson.h>

#include "compare/cli/find.h"
#include "compare/report/report.h"
#include "tests/kernel_model.h"
#include "tests/xml.h"

/* ---- findings ---- */

enum { PASSED, FAILED, UNSURE, UNREADABLE, FINDINGS };

/* A float32 model of the case, written to path; element 5 of y becomes `y5` unless that is 0. */
static void write_capture(const char *path, double y5, double x0)
{
	struct capture c;
	struct error e;

	model_case(&c, "rmsnorm", "gated_128", "f32");
	if (y5 != 0) set(capture_out(&c, "y"), 5, y5);
	if (x0 != 0) set(capture_in(&c, "x"), 0, x0);
	assert_true(meta_set(&c.tensors, "etalon.producer", "a<b>&\"c|`d`\x01\x1b[31m"));
	no_error(tensors_write(&c.tensors, path, &e), &e);
	capture_free(&c);
}

/* A name for each finding; the hostile ones hold what XML, Markdown, JSON, shells and terminals
 * take for their own. */
static const char *const plain[FINDINGS] = { "pass.safetensors", "fail.safetensors", "unsure.safetensors", "absent.safetensors" };
static const char *const hostile[FINDINGS] = {
	"a<b>&\"c|`d`.safetensors", "```\n| x |\x01\x1b[31m'; rm '.safetensors", "\xff\xfe\xc3\x28.safetensors", "]]>\xe2\x82\xac\t\x7f.safetensors"
};

static void find_all(struct finding f[FINDINGS], char path[FINDINGS][512], const char *const names[FINDINGS])
{
	const struct judging how = { .truth = "f64" };
	static const int status[FINDINGS] = { EXIT_PASS, EXIT_FAIL, EXIT_UNDECIDED, EXIT_INPUT };

	for (int i = 0; i < FINDINGS; i++) {
		snprintf(path[i], sizeof path[i], "%s", scratch(names[i]));
		if (i != UNREADABLE) write_capture(path[i], i == FAILED ? 999 : 0, i == UNSURE ? INFINITY : 0);
		assert_int_equal(find(path[i], &how, &f[i]), status[i]);
		assert_int_equal(finding_exit(&f[i]), status[i]);
	}
}

static char *printed(void (*report)(FILE *, const json_t *), const struct finding *f, size_t n)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	json_t *captures = json_array();

	assert_non_null(to);
	for (size_t i = 0; i < n; i++) json_array_append_new(captures, report_json(&f[i]));
	report(to, captures);
	json_decref(captures);
	assert_int_equal(fclose(to), 0);
	return text;
}

static size_t occurrences(const char *text, const char *what)
{
	size_t n = 0;

	for (const char *p = text; (p = strstr(p, what)); p++) n++;
	return n;
}

/* ---- the reader of XML ---- */

static void the_xml_reader_can_say_no(void **state)
{
	static const struct { const char *text; bool good; } rows[] = {
		{ "<a b=\"c\">d<e></e></a>\n", true }, { "<a>&lt;&amp;</a>\n", true }, { "<a>&</a>\n", false }, { "<a><b></a></b>\n", false },
		{ "<a b=\"<\"></a>\n", false }, { "<a b=\"\"\"></a>\n", false }, { "<a>\x01</a>\n", false }, { "<a>\xff</a>\n", false },
		{ "<a>]]></a>\n", false }, { "<a></a>", false }, { "<a>", false }
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char text[128];
		snprintf(text, sizeof text, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n%s", rows[i].text);
		if (well_formed(text) != rows[i].good) fail_msg("row %zu", i);
	}
}

/* ---- the reports ---- */

static void junit(void **state)
{
	struct finding f[FINDINGS];
	char path[FINDINGS][512];

	(void)state;
	for (int h = 0; h < 2; h++) {
		find_all(f, path, h ? hostile : plain);
		char *text = printed(report_junit, f, FINDINGS);
		if (!well_formed(text)) fail_msg("not XML: %s", text);
		assert_non_null(strstr(text, "<testsuite name=\"etalon\" tests=\"4\" failures=\"2\" errors=\"1\" skipped=\"0\">"));
		assert_int_equal(occurrences(text, "<testcase "), 4);
		assert_int_equal(occurrences(text, "<failure "), 2);
		assert_int_equal(occurrences(text, "<error "), 1);
		assert_non_null(strstr(text, "classname=\"rmsnorm\""));
		assert_non_null(strstr(text,
			"<failure message=\"fail: the structure is not identified, and no known "
			"fault explains the error"));
		assert_non_null(strstr(text, "<failure message=\"undecided: in.x: 1 of"));
		if (!h) assert_non_null(strstr(text, "absent.safetensors: cannot open"));
		assert_non_null(strstr(text, "[0,5] is 1000, expected"));
		if (h) assert_non_null(strstr(text, "a&lt;b&gt;&amp;&quot;c|"));
		free(text);
	}
}

/* Every line but those in a fence is a heading, a row of seven cells, or known HTML. */
static void markdown(void **state)
{
	struct finding f[FINDINGS];
	char path[FINDINGS][512];

	(void)state;
	for (int h = 0; h < 2; h++) {
		find_all(f, path, h ? hostile : plain);
		char *text = printed(report_markdown, f, FINDINGS), *save = NULL;
		size_t rows = 0, fences = 0;
		assert_true(clean_text(text));
		assert_non_null(strstr(text, "4 captures: 1 passed, 1 failed, 1 undecided, 1 unreadable"));
		for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
			size_t bars = 0;
			for (char *p = line; *p; p++) bars += *p == '|' && (p == line || p[-1] != '\\');
			fences += !strncmp(line, "```", 3);
			if (fences % 2) continue;
			rows += bars == 8;
			assert_true(bars == 8 || bars == 0);
			assert_true(bars == 0 || (!strchr(line, '<') && !strchr(line, '`')));
			assert_true(line[0] != '<' || !strncmp(line, "<details open><summary>", 23) || !strcmp(line, "</details>"));
		}
		assert_int_equal(rows, 2 + FINDINGS);
		assert_int_equal(fences, 2 * (FINDINGS - 1));
		free(text);
	}
}

static void table(void **state)
{
	struct finding f[FINDINGS];
	char path[FINDINGS][512];

	(void)state;
	for (int h = 0; h < 2; h++) {
		find_all(f, path, h ? hostile : plain);
		char *text = printed(report_table, f, FINDINGS);
		assert_true(clean_text(text));
		assert_int_equal(occurrences(text, "  pass\n"), 1);
		assert_int_equal(occurrences(text, "  fail\n"), 1);
		assert_int_equal(occurrences(text, "  undecided\n"), 1);
		assert_int_equal(occurrences(text, "  error\n"), 1);
		assert_int_equal(occurrences(text, "replay: etalon check "), FINDINGS - 1);
		assert_non_null(strstr(text, "[0,5] is 1000, expected"));
		assert_non_null(strstr(text, "4 captures: 1 passed, 1 failed, 1 undecided, 1 unreadable\n"));
		free(text);
	}
}

static char *checked(const struct finding *f)
{
	char *text = NULL;
	size_t size;
	FILE *to = open_memstream(&text, &size);

	assert_non_null(to);
	report_text(to, f, false);
	assert_int_equal(fclose(to), 0);
	return text;
}

static void text(void **state)
{
	static const char *const last[FINDINGS] = { "PASS under contract f32\n", "FAIL under contract f32\nreplay: ", "UNDECIDED under contract f32\nreplay: ", "" };
	struct finding f[FINDINGS];
	char path[FINDINGS][512];

	(void)state;
	for (int h = 0; h < 2; h++) {
		find_all(f, path, h ? hostile : plain);
		for (int i = 0; i < FINDINGS; i++) {
			char *said = checked(&f[i]);
			assert_true(clean_text(said));
			assert_non_null(strstr(said, last[i]));
			if (i == FAILED) assert_non_null(strstr(said, "[0,5] is 1000, expected"));
			if (i != UNREADABLE) assert_non_null(strstr(said, "f64, checked against f64up"));
			if (i < UNSURE) for (int r = 0; r < RULE_COUNT; r++) assert_non_null(strstr(said, rule_name[r]));
			free(said);
		}
	}
}

/* Through text and back: what a program reads. */
static json_t *reread(const struct finding *f)
{
	json_error_t e;
	json_t *j = report_json(f);
	assert_non_null(j);
	char *said = json_dumps(j, 0);
	assert_non_null(said);
	json_t *back = json_loads(said, JSON_REJECT_DUPLICATES, &e);
	assert_non_null(back);
	json_decref(j);
	free(said);
	return back;
}

static const char *string_of(const json_t *j, const char *key) { return json_string_value(json_object_get(j, key)); }

static void json(void **state)
{
	static const char *const word[FINDINGS] = { "pass", "fail", "undecided", "error" };
	struct finding f[FINDINGS];
	char path[FINDINGS][512];

	(void)state;
	for (int h = 0; h < 2; h++) {
		find_all(f, path, h ? hostile : plain);
		for (int i = 0; i < FINDINGS; i++) {
			json_t *j = reread(&f[i]), *out = json_object_get(j, "outputs"), *y = json_array_get(out, 0);
			assert_string_equal(string_of(j, "verdict"), word[i]);
			assert_int_equal(json_integer_value(json_object_get(j, "exit")), finding_exit(&f[i]));
			if (!h) assert_string_equal(string_of(j, "capture"), path[i]);
			if (i == UNREADABLE) assert_string_equal(string_of(json_object_get(j, "error"), "message"), error_message(E_OPEN));
			else assert_string_equal(string_of(j, "contract"), "f32");
			if (i == PASSED || i == FAILED) {
				json_t *rule = json_object_get(json_object_get(y, "rules"), "rms");
				assert_int_equal(json_integer_value(json_object_get(y, "elements")), 96 * 128);
				assert_true(same_double(json_real_value(json_object_get(rule, "limit")), f[i].verdict.out[0].rule[RULE_RMS].limit));
				assert_string_equal(string_of(json_object_get(y, "worst"), "index"), f[i].verdict.out[0].worst_at);
			}
			assert_int_equal(json_array_size(json_object_get(j, "reasons")), i == UNREADABLE ? 1 : f[i].verdict.n_reason);
			json_decref(j);
		}
	}
}

/* JSON has no infinity. Of two outputs the larger error is shown, whichever comes first. */
static void figures_that_are_no_numbers(void **state)
{
	struct finding f, two = { .judged = true, .verdict = { .n_out = 2 } };

	(void)state;
	write_capture(scratch("infinite"), INFINITY, 0);
	assert_int_equal(find(scratch("infinite"), &(struct judging){ .truth = "f64" }, &f), EXIT_FAIL);
	json_t *j = reread(&f), *rules = json_object_get(json_array_get(json_object_get(j, "outputs"), 0), "rules");
	assert_true(json_is_null(json_object_get(json_object_get(rules, "worst"), "value")));
	json_decref(j);
	for (int i = 0; i < 2; i++) {
		two.verdict.out[i].rule[RULE_RMS].value = 7;
		two.verdict.out[!i].rule[RULE_RMS].value = 5;
		assert_true(finding_value(&two, RULE_RMS) == 7);
	}
	two.verdict.out[0].rule[RULE_RMS].value = NAN;
	assert_true(isnan(finding_value(&two, RULE_RMS)));
}

/* Inputs that are not finite are said, with their place, where the call did not pass. */
static void what_is_no_number_in_an_input_is_said(void **state)
{
	static const struct {
		double x;
		const char *what;
	} rows[] = { { NAN, "NaN" }, { INFINITY, "infinite" }, { -INFINITY, "-infinite" } };
	struct finding f;
	char said[100];

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct capture c;
		struct error e;
		model_case(&c, "rmsnorm", "gated_128", "f32");
		set(capture_in(&c, "x"), 3 * 128 + 7, rows[i].x);
		set(capture_in(&c, "x"), 5 * 128, rows[i].x);
		no_error(tensors_write(&c.tensors, scratch("in"), &e), &e);
		capture_free(&c);
		assert_int_equal(find(scratch("in"), &(struct judging){ .truth = "f64" }, &f),
			EXIT_UNDECIDED);
		snprintf(said, sizeof said,
			"in.x: 2 of 12288 elements are not finite; the first at [3,7] is %s",
			rows[i].what);
		assert_string_equal(f.verdict.reason[0], said);
	}
	write_capture(scratch("fine"), 0, 0);
	assert_int_equal(find(scratch("fine"), &(struct judging){ .truth = "f64" }, &f), EXIT_PASS);
	assert_int_equal(f.verdict.n_reason, 0);
}

/* A name that begins as an option does is a path. */
static void a_replay_holds_no_option(void **state)
{
	struct finding f = {
		.path = "-O.evil.safetensors", .root = "--json", .name = "-a", .baseline = "b"
	};
	char line[300] = "";

	(void)state;
	for (int held = 0; held < 2; held++) {
		if (!held) f.baseline = NULL;
		FILE *to = fmemopen(line, sizeof line, "w");
		assert_non_null(to);
		replay(to, &f);
		fclose(to);
		assert_string_equal(line,
			held ? "etalon gate './--json' --baseline 'b' --only='-a'"
			     : "etalon check './-O.evil.safetensors'");
		f.baseline = "b";
	}
}

/* What a shell makes of the command is the path. */
static void replay_survives_the_shell(void **state)
{
	static const char *const names[] = { "a b", "it's", "$HOME `x` \"y\" \\", "'; exit 9; '" };
	char line[1200], said[800] = "";

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct finding f = { 0 };
		strcpy(f.path, names[i]);
		FILE *to = fmemopen(line, sizeof line, "w");
		assert_non_null(to);
		fputs("etalon() { printf %s \"$2\"; }; ", to);
		replay(to, &f);
		fclose(to);
		FILE *p = popen(line, "r");
		assert_non_null(p);
		said[fread(said, 1, sizeof said - 1, p)] = 0;
		assert_int_equal(pclose(p), 0);
		assert_string_equal(said, names[i]);
	}
}

/* What decided the verdict is asked for again. */
static void replay_asks_for_the_same(void **state)
{
	struct finding f = { .path = "x", .op = "rope", .quick = true, .truth = "f64", .judged = true,
		.verdict = { .required = true, .contract = &(struct contract){ .name = "low" } } };
	char line[200] = "";
	FILE *to = fmemopen(line, sizeof line, "w");

	(void)state;
	assert_non_null(to);
	replay(to, &f);
	fclose(to);
	assert_string_equal(line, "etalon check --require-explained --quick 'x' --contract low --truth f64");
}

static void the_worse_exit_counts(void **state)
{
	static const int order[] = { EXIT_PASS, EXIT_UNDECIDED, EXIT_FAIL, EXIT_INPUT, EXIT_MACHINE };

	(void)state;
	for (int i = 0; i < 5; i++)
		for (int k = 0; k < 5; k++) assert_int_equal(worse_exit(order[i], order[k]), order[i > k ? i : k]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_xml_reader_can_say_no),
		cmocka_unit_test(junit),
		cmocka_unit_test(markdown),
		cmocka_unit_test(table),
		cmocka_unit_test(text),
		cmocka_unit_test(json),
		cmocka_unit_test(figures_that_are_no_numbers),
		cmocka_unit_test(what_is_no_number_in_an_input_is_said),
		cmocka_unit_test(a_replay_holds_no_option),
		cmocka_unit_test(replay_survives_the_shell),
		cmocka_unit_test(replay_asks_for_the_same),
		cmocka_unit_test(the_worse_exit_counts),
	};
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
