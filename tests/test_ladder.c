/* docs/ladder.md's first table and the captures: each kernel has made those that stand beside it, of cases that ask for its rung, and
 * no other kernel has made any. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "fixtures/capture.h"
#include "fixtures/cases.h"
#include "tests/helpers.h"

#define FOLDER "fixtures/captures"

enum { MAX_ROWS = 64 };

static struct { char op[64], rung[4], kernel[96], cases[100]; } row[MAX_ROWS];
static int rows;

/* Cell i of a line of a table, without blanks and backquotes at its ends. */
static void cell(const char *line, int i, char *to, size_t size)
{
	for (; *line && i >= 0; line++) i -= *line == '|';
	size_t n = strcspn(line, "|");
	while (n && (line[0] == ' ' || line[0] == '`')) line++, n--;
	while (n && (line[n - 1] == ' ' || line[n - 1] == '`')) n--;
	snprintf(to, size, "%.*s", (int)n, line);
}

static int read_rows(void **state)
{
	FILE *f = fopen("docs/ladder.md", "r");
	char line[512];

	(void)state;
	if (!f) return 1;
	for (bool inside = false; fgets(line, sizeof line, f) && rows < MAX_ROWS;) {
		if (!inside || line[0] != '|') {
			inside = !strncmp(line, "|---|--:|---|---|---|", 21);
			if (rows && !inside) break;
			continue;
		}
		cell(line, 0, row[rows].op, sizeof row[rows].op);
		cell(line, 1, row[rows].rung, sizeof row[rows].rung);
		cell(line, 2, row[rows].kernel, sizeof row[rows].kernel);
		cell(line, 3, row[rows].cases, sizeof row[rows].cases);
		if (!row[rows].op[0] && rows) strcpy(row[rows].op, row[rows - 1].op);
		rows++;
	}
	fclose(f);
	return 0;
}

/* Of "etalon KERNEL, CUDA 13.0"; rung: "" where the capture has none. */
static void kernel_of(const char *path, char *op, char *rung, char *kernel, size_t size)
{
	struct capture c;
	struct error e;

	if (!capture_read(&c, path, &e)) fail_msg("%s: %s", path, e.detail);
	const char *end = strstr(c.producer, ", CUDA"), *name = strncmp(c.producer, "etalon ", 7) ? c.producer : c.producer + 7;
	snprintf(kernel, size, "%.*s", end && end > name ? (int)(end - name) : (int)strlen(name), name);
	snprintf(op, size, "%s", c.op);
	snprintf(rung, size, "%s", meta_get(&c.tensors, "etalon.rung") ? meta_get(&c.tensors, "etalon.rung") : "");
	capture_free(&c);
}

static void every_kernel_has_its_captures(void **state)
{
	(void)state;
	assert_in_range(rows, 10, MAX_ROWS - 1);
	for (int i = 0; i < rows; i++) {
		int n = 0;
		for (char *name = row[i].cases; (name += strspn(name, "`, "))[0]; name += strcspn(name, "`, ")) {
			char path[512], op[96], rung[96], kernel[96], name_only[100];
			int length = (int)strcspn(name, "`, ");
			snprintf(path, sizeof path, FOLDER "/%.63s.%.*s.etalon.safetensors", row[i].op, length < 99 ? length : 99, name);
			snprintf(name_only, sizeof name_only, "%.*s", length < 99 ? length : 99, name);
			const struct test_case *k = case_find(row[i].op, name_only);
			assert_non_null(k);
			kernel_of(path, op, rung, kernel, sizeof kernel);
			if (strcmp(rung, k->rung ? k->rung : "")) fail_msg("%s is of rung '%s', its case asks for '%s'", path, rung, k->rung);
			if (strcmp(kernel, row[i].kernel)) fail_msg("%s is by %s, the ladder says %s", path, kernel, row[i].kernel);
			n++;
		}
		if (!n) fail_msg("%s %s has no capture", row[i].op, row[i].kernel);
	}
}

static void every_capture_is_of_a_kernel_of_the_ladder(void **state)
{
	DIR *folder = opendir(FOLDER);
	int n = 0;

	(void)state;
	assert_non_null(folder);
	for (struct dirent *d; (d = readdir(folder));) {
		char path[512], op[96], rung[96], kernel[96];
		bool known = false;

		if (!strstr(d->d_name, ".etalon.safetensors")) continue;
		snprintf(path, sizeof path, FOLDER "/%.255s", d->d_name);
		kernel_of(path, op, rung, kernel, sizeof kernel);
		for (int i = 0; i < rows; i++) known = known || (!strcmp(op, row[i].op) && !strcmp(kernel, row[i].kernel));
		if (!known) fail_msg("%s is by %s of %s, which docs/ladder.md lacks", path, kernel, op);
		n++;
	}
	closedir(folder);
	assert_true(n >= rows);
}

/* Is the case among a row's? */
static bool stands_in(const char *cases, const char *name)
{
	for (const char *at = cases; (at += strspn(at, "`, "))[0]; at += strcspn(at, "`, "))
		if (strcspn(at, "`, ") == strlen(name) && !strncmp(at, name, strlen(name))) return true;
	return false;
}

/* A case asks for the rung that the table has it at, or for none; and those that ask for none get one rung of their op, whatever their
 * names are. */
static void a_rung_is_chosen_by_what_the_case_asks_for(void **state)
{
	int asked = 0;

	(void)state;
	for (int i = 0; i < rows; i++) {
		const char *usual = NULL;
		for (int j = 0; j < rows; j++)
			for (const struct test_case *k = test_cases; k->op; k++) {
				if (strcmp(row[i].op, row[j].op) || strcmp(k->op, row[j].op) || !stands_in(row[j].cases, k->name) || !row[j].rung[0]) continue;
				if (k->rung && strcmp(k->rung, row[j].rung)) fail_msg("%s %s asks for rung %s, not %s", k->op, k->name, k->rung, row[j].rung);
				if (!k->rung && usual && strcmp(usual, row[j].rung)) fail_msg("%s %s has rung %s unasked", k->op, k->name, row[j].rung);
				if (!k->rung) usual = row[j].rung;
				asked += k->rung != NULL;
			}
	}
	assert_true(asked > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kernel_has_its_captures),
		cmocka_unit_test(every_capture_is_of_a_kernel_of_the_ladder),
		cmocka_unit_test(a_rung_is_chosen_by_what_the_case_asks_for),
	};
	return cmocka_run_group_tests(tests, read_rows, NULL);
}
