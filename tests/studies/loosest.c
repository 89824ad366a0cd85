/* make loosest: what `check --contract auto` says of faults, gains and offsets, and the largest
 * that pass under each contract.
 * usage: loosest [-s] [-c COMMIT] [-d DATE] [-k FILE [-n]] [-b FILE] [OP,...]
 * -s: eight faults of each op on one case. -c, -d: the page says that it is of this commit and day.
 * -k: rows are kept in the file and are not measured again. -n: the page of what is kept.
 * -b: the page says what was in this file of another run. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loosest.h"

struct arguments {
	bool small, kept;
	const char *commit, *date, *keep, *before, *ops;
};

static bool asked(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n])) return true;
	return !list;
}

/* What one thread does: one table of one kernel. */
struct job {
	enum table table;
	struct kernel kernel;
	bool with_auto;
};
enum { MAX_JOB = 1024 };

static int jobs_of(const struct op *op, bool small, struct job *job)
{
	struct kernel list[MAX_KERNEL];
	int n = 0, kernels = kernels_of(op, list);

	for (int i = 0; i < kernels; i++) job[n++] = (struct job){ FAULTS, list[i], true };
	for (int i = 0; i < kernels && !small; i++) job[n++] = (struct job){ GAINS, list[i], true };
	kernels = small ? 0 : kernels_of_contracts(op, list);
	for (int i = 0; i < kernels; i++) job[n++] = (struct job){ GAINS, list[i], false };
	for (int i = 0; i < kernels; i++) job[n++] = (struct job){ LARGEST, list[i], false };
	return n;
}

static bool run(struct rows *rows, const struct job *job, int n, bool small)
{
	bool ok = true;

	#pragma omp parallel for schedule(dynamic)
	for (int i = 0; i < n; i++) {
		struct error e;
		const struct job *j = &job[i];
		bool good = j->table == FAULTS ? fill_faults(rows, &j->kernel, small, &e)
			: j->table == GAINS    ? fill_gains(rows, &j->kernel, j->with_auto, &e)
					       : fill_largest(rows, &j->kernel, &e);
	#pragma omp critical
		{
			ok = ok && good;
			if (!good) {
				const char *op = j->kernel.model.op->name;
				fprintf(stderr, "%s %s: ", op, j->kernel.name);
				error_print(stderr, &e);
				putc('\n', stderr);
			}
		}
	}
	return ok;
}

int main(int argc, char **argv)
{
	static struct job job[MAX_JOB];
	struct arguments a = { .commit = "-", .date = "-" };
	struct rows rows = { .row = NULL }, before = { .row = NULL };
	int n = 0, c;

	while ((c = getopt(argc, argv, "sc:d:k:nb:")) != -1) {
		if (c == 's') a.small = true;
		else if (c == 'c') a.commit = optarg;
		else if (c == 'd') a.date = optarg;
		else if (c == 'k') a.keep = optarg;
		else if (c == 'n') a.kept = true;
		else if (c == 'b') a.before = optarg;
		else return EXIT_INPUT;
	}
	if (optind < argc) a.ops = argv[optind];
	for (size_t o = 0; ops[o]; o++)
		if (asked(a.ops, ops[o]->name)) n += jobs_of(ops[o], a.small, job + n);
	if (!n || (a.keep && !rows_read(&rows, a.keep, true))) return EXIT_INPUT;
	if (a.before && !rows_read(&before, a.before, false)) return EXIT_INPUT;
	if (!a.kept && !run(&rows, job, n, a.small)) return EXIT_MACHINE;
	if (rows.keep && fclose(rows.keep)) return EXIT_INPUT;
	return print_page(&rows, &before, a.commit, a.date) ? EXIT_PASS : EXIT_FAIL;
}
