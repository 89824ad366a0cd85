/* Many captures' records as JUnit XML. */
#include <stdlib.h>
#include <string.h>

#include "report_rows.h"

static void xml(FILE *to, const char *text)
{
	escaped(to, text, "<>&\"", (const char *const[]){ "&lt;", "&gt;", "&amp;", "&quot;" });
}

/* The verdict, with what caused it. */
static void failure(FILE *to, const struct row *r)
{
	const char *tag = r->warning ? "skipped"
		: r->judged          ? "failure"
				     : "error",
		   *cause = row_cause(r);
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);

	if (memory) {
		row_reasons(memory, r, "");
		fclose(memory);
	}
	fprintf(to, "    <%s message=\"", tag);
	xml(to, r->verdict);
	fputs(*cause ? ": " : "", to);
	xml(to, cause);
	fputs("\">", to);
	xml(to, text ? text : "");
	fprintf(to, "</%s>\n", tag);
	free(text);
}

void report_junit(FILE *to, const json_t *captures)
{
	size_t k[EXIT_MACHINE + 1], n = json_array_size(captures), warnings = 0;

	rows_count(captures, k);
	for (size_t i = 0; i < n; i++) warnings += row_of(captures, i).warning;
	fprintf(to,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"etalon\" "
		"tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\">\n",
		n, k[EXIT_FAIL] + k[EXIT_UNDECIDED] - warnings, k[EXIT_INPUT] + k[EXIT_MACHINE],
		warnings);
	for (size_t i = 0; i < n; i++) {
		const struct row r = row_of(captures, i);
		fputs("  <testcase classname=\"", to);
		xml(to, *r.op ? r.op : "unreadable");
		fputs("\" name=\"", to);
		xml(to, r.path);
		fputs("\">\n", to);
		if (r.exit != EXIT_PASS) failure(to, &r);
		fputs("  </testcase>\n", to);
	}
	fputs("</testsuite>\n", to);
}
