/* Many captures' records as a table, as Markdown for a CI job's summary, and as JUnit XML. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report.h"
#include "compare/print/print.h"

/* What a line shows of a record. Texts are the record's; "" where it has none. */
struct row {
	const char *path, *op, *producer, *contract, *verdict, *replay;
	double worst, rms;              /* over the outputs, in sigma */
	int exit;
	bool judged, warning;           /* warning: undecided, which fails nothing here */
	const json_t *reasons;
};

static const char *text_of(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

/* The largest over the outputs; what is not finite is null in a record. */
static double largest(const json_t *j, const char *rule)
{
	double x, most = 0;
	const json_t *o;
	size_t i;

	json_array_foreach(json_object_get(j, "outputs"), i, o) {
		const json_t *value = json_object_get(json_object_get(json_object_get(o, "rules"), rule), "value");
		x = json_is_number(value) ? json_number_value(value) : INFINITY;
		if (x > most) most = x;
	}
	return most;
}

static struct row row_of(const json_t *captures, size_t i)
{
	const json_t *j = json_array_get(captures, i), *exit = json_object_get(j, "exit");

	return (struct row){ text_of(j, "capture"), text_of(j, "op"), text_of(j, "producer"), text_of(j, "contract"), text_of(j, "verdict"),
		text_of(j, "replay"), largest(j, rule_name[RULE_WORST]), largest(j, rule_name[RULE_RMS]),
		json_is_integer(exit) ? (int)json_integer_value(exit) : EXIT_MACHINE, !json_object_get(j, "error"), json_is_true(json_object_get(j, "warning")), json_object_get(j, "reasons") };
}

/* The file's name without ".safetensors", in text. */
static const char *name_of(const char *path, char text[256])
{
	const char *slash = strrchr(path, '/');

	snprintf(text, 256, "%s", slash ? slash + 1 : path);
	char *end = strstr(text, ".safetensors");
	if (end && !end[strlen(".safetensors")]) *end = 0;
	return text;
}

static void count(const json_t *captures, size_t by_exit[EXIT_MACHINE + 1])
{
	memset(by_exit, 0, (EXIT_MACHINE + 1) * sizeof *by_exit);
	for (size_t i = 0; i < json_array_size(captures); i++) {
		int exit = row_of(captures, i).exit;
		by_exit[exit >= 0 && exit <= EXIT_MACHINE ? exit : EXIT_MACHINE]++;
	}
}

static void totals(FILE *to, const json_t *captures)
{
	size_t k[EXIT_MACHINE + 1];

	count(captures, k);
	fprintf(to, "%zu captures: %zu passed, %zu failed, %zu undecided, %zu unreadable", json_array_size(captures), k[EXIT_PASS], k[EXIT_FAIL],
		k[EXIT_UNDECIDED], k[EXIT_INPUT] + k[EXIT_MACHINE]);
}

/* A column of `width` characters of UTF-8, cut with an ellipsis. */
static void cell(FILE *to, const char *text, size_t width)
{
	size_t n = 0;

	for (const char *p = text; *p; p++) n += (*p & 0xc0) != 0x80;
	size_t keep = n > width ? width - 1 : n, seen = 0;
	for (const char *p = text; *p; p++) {
		if ((*p & 0xc0) != 0x80 && seen++ == keep) break;
		putc(*p, to);
	}
	if (n > width) fputs("…", to);
	fprintf(to, "%*s", n > width ? 0 : (int)(width - n), "");
}

static void reasons(FILE *to, const struct row *r, const char *indent)
{
	for (size_t i = 0; i < json_array_size(r->reasons); i++) {
		const char *text = json_string_value(json_array_get(r->reasons, i));
		fprintf(to, "%s%s\n", indent, text ? text : "");
	}
	fprintf(to, "%sreplay: %s\n", indent, r->replay);
}

/* A figure in the width that a table has. */
static const char *short_text(double x, int digits, char text[RATIO])
{
	if (!(x <= 1e6)) snprintf(text, RATIO, "%s", isnan(x) ? "NaN" : "1e6+");
	else snprintf(text, RATIO, "%.*g", digits, x);
	return text;
}

void report_table(FILE *to, const json_t *captures)
{
	size_t n = json_array_size(captures), width = 8;
	char name[256], worst[RATIO], rms[RATIO];

	for (size_t i = 0; i < n; i++)
		if (strlen(name_of(row_of(captures, i).path, name)) > width) width = strlen(name);
	if (width > 48) width = 48;
	cell(to, "capture", width);
	fputs("  op                producer                        contract       worst σ   rms σ  verdict\n", to);
	for (size_t i = 0; i < n; i++) {
		struct row r = row_of(captures, i);
		cell(to, name_of(r.path, name), width);
		fprintf(to, "  %-16s  ", r.op);
		cell(to, r.producer, 30);
		if (r.judged)
			fprintf(to, "  %-13s  %7s  %6s", r.contract, short_text(r.worst, 4, worst),
				short_text(r.rms, 3, rms));
		else fprintf(to, "  %-13s  %7s  %6s", "-", "-", "-");
		fprintf(to, "  %s\n", r.verdict);
	}
	putc('\n', to);
	for (size_t i = 0; i < n; i++) {
		struct row r = row_of(captures, i);
		if (r.exit == EXIT_PASS) continue;
		fprintf(to, "%s: %s\n", r.path, r.verdict);
		reasons(to, &r, "  ");
	}
	totals(to, captures);
	putc('\n', to);
}

static void escaped(FILE *to, const char *text, const char *special, const char *const *by)
{
	for (; *text; text++) {
		const char *at = strchr(special, *text);
		if (at) fputs(by[at - special], to);
		else putc(*text, to);
	}
}

static void markdown(FILE *to, const char *text)
{
	escaped(to, text, "|<>&`", (const char *const[]){ "\\|", "&lt;", "&gt;", "&amp;", "'" });
}

static void xml(FILE *to, const char *text)
{
	escaped(to, text, "<>&\"", (const char *const[]){ "&lt;", "&gt;", "&amp;", "&quot;" });
}

void report_markdown(FILE *to, const json_t *captures)
{
	static const char *const mark[] = { "✅ pass", "❌ fail", "❌ error", "⚠️ undecided", "❌ error" };
	char name[256], worst[RATIO], rms[RATIO];

	fputs("## etalon\n\n", to);
	totals(to, captures);
	fputs("\n\n| capture | op | producer | contract | worst σ | rms σ | verdict |\n|---|---|---|---|---:|---:|---|\n", to);
	for (size_t i = 0; i < json_array_size(captures); i++) {
		struct row r = row_of(captures, i);
		fputs("| ", to);
		markdown(to, name_of(r.path, name));
		fprintf(to, " | %s | ", r.op);
		markdown(to, r.producer);
		if (r.judged)
			fprintf(to, " | %s | %s | %s", r.contract, short_text(r.worst, 4, worst),
				short_text(r.rms, 3, rms));
		else fputs(" | | | ", to);
		fprintf(to, " | %s |\n", mark[r.exit >= 0 && r.exit <= EXIT_MACHINE ? r.exit : EXIT_MACHINE]);
	}
	for (size_t i = 0; i < json_array_size(captures); i++) {
		struct row r = row_of(captures, i);
		if (r.exit == EXIT_PASS) continue;
		fputs("\n<details open><summary>", to);
		markdown(to, r.path);
		fputs("</summary>\n\n```\n", to);
		reasons(to, &r, "");
		fputs("```\n</details>\n", to);
	}
}

static void junit_failure(FILE *to, const struct row *r)
{
	const char *tag = r->warning ? "skipped" : r->judged ? "failure" : "error";
	char *text = NULL;
	size_t size;
	FILE *m = open_memstream(&text, &size);

	if (m) {
		reasons(m, r, "");
		fclose(m);
	}
	fprintf(to, "    <%s message=\"%s\">", tag, r->verdict);
	for (char *line = text ? strtok(text, "\n") : NULL; line; line = strtok(NULL, "\n")) {
		xml(to, line);
		putc('\n', to);
	}
	fprintf(to, "</%s>\n", tag);
	free(text);
}

void report_junit(FILE *to, const json_t *captures)
{
	size_t k[EXIT_MACHINE + 1], warnings = 0;

	count(captures, k);
	for (size_t i = 0; i < json_array_size(captures); i++) warnings += row_of(captures, i).warning;
	fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"etalon\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\">\n",
		json_array_size(captures), k[EXIT_FAIL] + k[EXIT_UNDECIDED] - warnings, k[EXIT_INPUT] + k[EXIT_MACHINE], warnings);
	for (size_t i = 0; i < json_array_size(captures); i++) {
		struct row r = row_of(captures, i);
		fprintf(to, "  <testcase classname=\"%s\" name=\"", r.op[0] ? r.op : "unreadable");
		xml(to, r.path);
		fputs("\">\n", to);
		if (r.exit != EXIT_PASS) junit_failure(to, &r);
		fputs("  </testcase>\n", to);
	}
	fputs("</testsuite>\n", to);
}
