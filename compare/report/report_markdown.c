/* Many captures' records as Markdown, for a CI job's summary. */
#include <stdlib.h>
#include <string.h>

#include "report_rows.h"

/* GitHub shows a summary of at most 1 MiB, and drops a larger one whole. */
enum { MOST = 1000000 };

/* A field: nothing in it is Markdown's or HTML's. */
static void put_field(FILE *to, const char *text)
{
	escaped(to, text, "|<>&`\\*_~[](){}#+-!:.@$^=\"'",
		(const char *const[]){ "\\|", "&lt;", "&gt;", "&amp;", "&#96;", "\\\\", "\\*",
			"\\_", "\\~", "\\[", "\\]", "\\(", "\\)", "\\{", "\\}", "\\#", "\\+", "\\-",
			"\\!", "\\:", "\\.", "&#64;", "\\$", "\\^", "\\=", "\\\"", "\\'" });
}

static void html(FILE *to, const char *text)
{
	escaped(to, text, "<>&\"|`",
		(const char *const[]){ "&lt;", "&gt;", "&amp;", "&quot;", "&#124;", "&#96;" });
}

static void row(FILE *to, const struct row *r, bool by_name)
{
	static const char *const mark[] = { "✅ pass", "❌ fail", "❌ error", "⚠️ undecided",
		"❌ error" };
	char worst[FIGURE], rms[FIGURE], *title = row_title(r, by_name);

	fputs("| ", to);
	put_field(to, title ? title : r->path);
	fputs(" | ", to);
	put_field(to, r->op);
	fputs(" | ", to);
	put_field(to, r->producer);
	fputs(" | ", to);
	put_field(to, r->contract);
	if (r->judged && r->figures)
		fprintf(to, " | %s | %s", short_text(r->worst, 4, worst),
			short_text(r->rms, 3, rms));
	else fputs(" | | ", to);
	fprintf(to, " | %s |\n", mark[r->exit]);
	free(title);
}

/* The lines stand behind four spaces, behind which no fence ends. */
static void details(FILE *to, const struct row *r)
{
	fputs("\n<details open><summary>", to);
	html(to, r->path);
	fputs("</summary>\n\n```\n", to);
	row_reasons(to, r, "    ");
	fputs("```\n</details>\n", to);
}

/* Is there room for what was written into memory? Then it is taken. */
static bool add(FILE *to, size_t *used, char *text, size_t size)
{
	bool fits = text && *used + size <= MOST;

	if (fits) {
		fwrite(text, 1, size, to);
		*used += size;
	}
	free(text);
	return fits;
}

static bool add_row(FILE *to, size_t *used, const struct row *r, bool by_name, bool table)
{
	char *text = NULL;
	size_t size;
	FILE *memory = open_memstream(&text, &size);

	if (!memory) return false;
	if (table) row(memory, r, by_name);
	else details(memory, r);
	fclose(memory);
	return add(to, used, text, size);
}

void report_markdown(FILE *to, const json_t *captures)
{
	bool by_name = names_differ(captures);
	size_t used = 1000, n = json_array_size(captures), lines = 0, told = 0, to_tell = 0;

	fputs("## etalon\n\n", to);
	rows_totals(to, captures);
	fputs("\n\n| capture | op | producer | contract | worst σ | rms σ | verdict "
	      "|\n|---|---|---|---|---:|---:|---|\n",
		to);
	for (size_t i = 0; i < n; i++) {
		const struct row r = row_of(captures, i);
		lines += add_row(to, &used, &r, by_name, true);
	}
	for (size_t i = 0; i < n; i++) {
		const struct row r = row_of(captures, i);
		if (r.exit == EXIT_PASS) continue;
		to_tell++;
		told += add_row(to, &used, &r, by_name, false);
	}
	if (lines < n || told < to_tell)
		fprintf(to,
			"\nThis page has room for %zu of %zu captures and the reasons of %zu of "
			"%zu; the table and JUnit have all.\n",
			lines, n, told, to_tell);
}
