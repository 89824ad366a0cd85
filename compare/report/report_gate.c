/* Many captures' records as a table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report_rows.h"

/* Characters of UTF-8, not bytes. */
static size_t length(const char *text)
{
	size_t n = 0;

	for (; *text; text++) n += (*text & 0xc0) != 0x80;
	return n;
}

/* A column of `width` characters, cut with an ellipsis where it is to be. */
static void cell(FILE *to, const char *text, size_t width, bool cut)
{
	size_t n = length(text), keep = cut && n > width ? width - 1 : n, seen = 0;

	for (const char *p = text; *p; p++) {
		if ((*p & 0xc0) != 0x80 && seen++ == keep) break;
		putc(*p, to);
	}
	if (keep < n) fputs("…", to);
	fprintf(to, "%*s", n > width ? 0 : (int)(width - n), "");
}

const char *short_text(double x, int digits, char text[FIGURE])
{
	if (!(x <= 1e6)) snprintf(text, FIGURE, "%s", isnan(x) ? "NaN" : "1e6+");
	else snprintf(text, FIGURE, "%.*g", digits, x);
	return text;
}

static void line(FILE *to, const struct row *r, const char *title, size_t width)
{
	char worst[FIGURE], rms[FIGURE];

	/* Never cut: it says which capture it is. */
	cell(to, title, width, false);
	fputs("  ", to);
	cell(to, r->op, 16, true);
	fputs("  ", to);
	cell(to, r->producer, 30, true);
	fputs("  ", to);
	cell(to, r->judged ? r->contract : "-", 13, true);
	if (r->judged && r->figures)
		fprintf(to, "  %7s  %6s", short_text(r->worst, 4, worst),
			short_text(r->rms, 3, rms));
	else fprintf(to, "  %7s  %6s", "-", "-");
	fprintf(to, "  %s\n", r->verdict);
}

void report_table(FILE *to, const json_t *captures)
{
	size_t n = json_array_size(captures), width = 8;
	bool by_name = names_differ(captures);
	char **title = calloc(n ? n : 1, sizeof *title);

	for (size_t i = 0; title && i < n; i++) {
		const struct row r = row_of(captures, i);
		title[i] = row_title(&r, by_name);
		if (title[i] && length(title[i]) > width) width = length(title[i]);
	}
	if (width > 48) width = 48;
	cell(to, "capture", width, false);
	fputs("  op                producer                        contract       worst σ   rms σ  verdict\n", to);
	for (size_t i = 0; i < n; i++) {
		const struct row r = row_of(captures, i);
		line(to, &r, title && title[i] ? title[i] : r.path, width);
		if (title) free(title[i]);
	}
	free(title);
	putc('\n', to);
	for (size_t i = 0; i < n; i++) {
		const struct row r = row_of(captures, i);
		if (r.exit == EXIT_PASS) continue;
		fprintf(to, "%s: %s\n", r.path, r.verdict);
		row_reasons(to, &r, "  ");
	}
	rows_totals(to, captures);
	putc('\n', to);
}
