/* Many findings as a table, as Markdown for a CI job's summary, and as JUnit XML. */
#include <stdlib.h>
#include <string.h>

#include "report.h"

/* The file's name without ".safetensors", in text. */
static const char *name_of(const char *path, char text[256])
{
	const char *slash = strrchr(path, '/');

	snprintf(text, 256, "%s", slash ? slash + 1 : path);
	char *end = strstr(text, ".safetensors");
	if (end && !end[strlen(".safetensors")]) *end = 0;
	return text;
}

static void count(const struct finding *f, size_t n, size_t by_exit[EXIT_MACHINE + 1])
{
	memset(by_exit, 0, (EXIT_MACHINE + 1) * sizeof *by_exit);
	for (size_t i = 0; i < n; i++) by_exit[finding_exit(&f[i])]++;
}

static void totals(FILE *to, const struct finding *f, size_t n)
{
	size_t k[EXIT_MACHINE + 1];

	count(f, n, k);
	fprintf(to, "%zu captures: %zu passed, %zu failed, %zu undecided, %zu unreadable", n, k[EXIT_PASS], k[EXIT_FAIL],
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

static void reasons(FILE *to, const struct finding *f, const char *indent)
{
	if (f->judged) for (int i = 0; i < f->verdict.n_reason; i++) fprintf(to, "%s%s\n", indent, f->verdict.reason[i]);
	else {
		fputs(indent, to);
		error_print(to, &f->error);
		putc('\n', to);
	}
	fprintf(to, "%sreplay: ", indent);
	replay(to, f);
	putc('\n', to);
}

void report_table(FILE *to, const struct finding *f, size_t n)
{
	char name[256];
	size_t width = 8;

	for (size_t i = 0; i < n; i++)
		if (strlen(name_of(f[i].path, name)) > width) width = strlen(name);
	if (width > 48) width = 48;
	cell(to, "capture", width);
	fputs("  op                producer                        contract       worst σ   rms σ  verdict\n", to);
	for (size_t i = 0; i < n; i++) {
		cell(to, name_of(f[i].path, name), width);
		fprintf(to, "  %-16s  ", f[i].op);
		cell(to, f[i].producer, 30);
		if (f[i].judged) fprintf(to, "  %-13s  %7.4g  %6.3g", f[i].verdict.contract->name, finding_value(&f[i], RULE_WORST), finding_value(&f[i], RULE_RMS));
		else fprintf(to, "  %-13s  %7s  %6s", "-", "-", "-");
		fprintf(to, "  %s\n", finding_word(&f[i]));
	}
	putc('\n', to);
	for (size_t i = 0; i < n; i++) {
		if (finding_exit(&f[i]) == EXIT_PASS) continue;
		fprintf(to, "%s: %s\n", f[i].path, finding_word(&f[i]));
		reasons(to, &f[i], "  ");
	}
	totals(to, f, n);
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

void report_markdown(FILE *to, const struct finding *f, size_t n)
{
	static const char *const mark[] = { "✅ pass", "❌ fail", "❌ error", "⚠️ undecided", "❌ error" };

	char name[256];

	fputs("## etalon\n\n", to);
	totals(to, f, n);
	fputs("\n\n| capture | op | producer | contract | worst σ | rms σ | verdict |\n|---|---|---|---|---:|---:|---|\n", to);
	for (size_t i = 0; i < n; i++) {
		fputs("| ", to);
		markdown(to, name_of(f[i].path, name));
		fprintf(to, " | %s | ", f[i].op);
		markdown(to, f[i].producer);
		if (f[i].judged) fprintf(to, " | %s | %.4g | %.3g", f[i].verdict.contract->name, finding_value(&f[i], RULE_WORST), finding_value(&f[i], RULE_RMS));
		else fputs(" | | | ", to);
		fprintf(to, " | %s |\n", mark[finding_exit(&f[i])]);
	}
	for (size_t i = 0; i < n; i++) {
		if (finding_exit(&f[i]) == EXIT_PASS) continue;
		fputs("\n<details open><summary>", to);
		markdown(to, f[i].path);
		fputs("</summary>\n\n```\n", to);
		reasons(to, &f[i], "");
		fputs("```\n</details>\n", to);
	}
}

void report_junit(FILE *to, const struct finding *f, size_t n)
{
	size_t k[EXIT_MACHINE + 1];

	count(f, n, k);
	fprintf(to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"etalon\" tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n", n,
		k[EXIT_FAIL] + k[EXIT_UNDECIDED], k[EXIT_INPUT] + k[EXIT_MACHINE]);
	for (size_t i = 0; i < n; i++) {
		fprintf(to, "  <testcase classname=\"%s\" name=\"", f[i].op[0] ? f[i].op : "unreadable");
		xml(to, f[i].path);
		fputs("\">\n", to);
		if (finding_exit(&f[i]) != EXIT_PASS) {
			char *text = NULL;
			size_t size;
			FILE *m = open_memstream(&text, &size);
			if (m) {
				reasons(m, &f[i], "");
				fclose(m);
			}
			const char *tag = f[i].judged ? "failure" : "error";
			fprintf(to, "    <%s message=\"%s\">", tag, finding_word(&f[i]));
			for (char *line = text ? strtok(text, "\n") : NULL; line; line = strtok(NULL, "\n")) {
				xml(to, line);
				putc('\n', to);
			}
			fprintf(to, "</%s>\n", tag);
			free(text);
		}
		fputs("  </testcase>\n", to);
	}
	fputs("</testsuite>\n", to);
}
