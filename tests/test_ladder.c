/* docs/ladder.md's first table and the captures: each kernel has made those that stand beside it, and no other kernel has made any. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "fixtures/capture.h"
#include "tests/helpers.h"

#define FOLDER "fixtures/captures"

enum { MAX_ROWS = 64 };

static struct { char op[64], kernel[96], cases[100]; } row[MAX_ROWS];
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
		cell(line, 2, row[rows].kernel, sizeof row[rows].kernel);
		cell(line, 3, row[rows].cases, sizeof row[rows].cases);
		if (!row[rows].op[0] && rows) strcpy(row[rows].op, row[rows - 1].op);
		rows++;
	}
	fclose(f);
	return 0;
}

/* Of "etalon KERNEL, CUDA 13.0". */
static void kernel_of(const char *path, char *op, char *kernel, size_t size)
{
	struct capture c;
	struct error e;

	if (!capture_read(&c, path, &e)) fail_msg("%s: %s", path, e.detail);
	const char *end = strstr(c.producer, ", CUDA"), *name = strncmp(c.producer, "etalon ", 7) ? c.producer : c.producer + 7;
	snprintf(kernel, size, "%.*s", end && end > name ? (int)(end - name) : (int)strlen(name), name);
	snprintf(op, size, "%s", c.op);
	capture_free(&c);
}

static void every_kernel_has_its_captures(void **state)
{
	(void)state;
	assert_in_range(rows, 10, MAX_ROWS - 1);
	for (int i = 0; i < rows; i++) {
		int n = 0;
		for (char *name = row[i].cases; (name += strspn(name, "`, "))[0]; name += strcspn(name, "`, ")) {
			char path[512], op[96], kernel[96];
			int length = (int)strcspn(name, "`, ");
			snprintf(path, sizeof path, FOLDER "/%.63s.%.*s.etalon.safetensors", row[i].op, length < 99 ? length : 99, name);
			kernel_of(path, op, kernel, sizeof kernel);
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
		char path[512], op[96], kernel[96];
		bool known = false;

		if (!strstr(d->d_name, ".etalon.safetensors")) continue;
		snprintf(path, sizeof path, FOLDER "/%.255s", d->d_name);
		kernel_of(path, op, kernel, sizeof kernel);
		for (int i = 0; i < rows; i++) known = known || (!strcmp(op, row[i].op) && !strcmp(kernel, row[i].kernel));
		if (!known) fail_msg("%s is by %s of %s, which docs/ladder.md lacks", path, kernel, op);
		n++;
	}
	closedir(folder);
	assert_true(n >= rows);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kernel_has_its_captures),
		cmocka_unit_test(every_capture_is_of_a_kernel_of_the_ladder),
	};
	return cmocka_run_group_tests(tests, read_rows, NULL);
}
