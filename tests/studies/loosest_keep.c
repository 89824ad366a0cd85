/* Rows of the study, in a file of tab-separated lines: a run that is cut goes on where it ended. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "loosest.h"

double processor_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void copy(char to[MAX_NAME], const char *from)
{
	snprintf(to, MAX_NAME, "%.*s", MAX_NAME - 1, from);
}

struct row row_named(
	enum table t, const char *op, const char *kernel, const char *what, const char *kase)
{
	struct row row = { .table = t, .own_outcome = NOT_ASKED, .chosen_outcome = NOT_ASKED };

	copy(row.op, op);
	copy(row.kernel, kernel);
	copy(row.what, what);
	copy(row.kase, kase);
	copy(row.own, "-");
	copy(row.chosen, "-");
	return row;
}

static void keep(FILE *to, const struct row *r)
{
	fprintf(to, "%d\t%s\t%s\t%s\t%s\t%.17g\t%s\t%d\t%s\t%d\t%.17g\t%.3f\n", (int)r->table,
		r->op, r->kernel, r->what, r->kase, r->size, r->own, r->own_outcome, r->chosen,
		r->chosen_outcome, r->value, r->seconds);
	fflush(to);
}

static void say(const struct row *r)
{
	static const char *const table[] = { "fault", "gain", "largest" };

	fprintf(stderr, "%-8s %-18s %-28s %-30s own %-10s auto %-10s %-16s %8.3g %6.2f s\n",
		table[r->table], r->op, r->kernel, r->what,
		r->own_outcome < 0 ? "-" : outcome_name[r->own_outcome],
		r->chosen_outcome < 0 ? "-" : outcome_name[r->chosen_outcome], r->chosen, r->value,
		r->seconds);
}

const struct row *row_find(const struct rows *r, const struct row *like)
{
	for (int i = 0; i < r->n; i++) {
		const struct row *x = &r->row[i];
		if (x->table == like->table && !strcmp(x->op, like->op)
			&& !strcmp(x->kernel, like->kernel) && !strcmp(x->what, like->what))
			return x;
	}
	return NULL;
}

static bool append(struct rows *r, const struct row *row)
{
	if (r->n == r->room) {
		int room = r->room ? 2 * r->room : 1024;
		struct row *more = realloc(r->row, (size_t)room * sizeof *more);
		if (!more) return false;
		r->row = more;
		r->room = room;
	}
	r->row[r->n++] = *row;
	return true;
}

bool row_is_done(const struct rows *r, const struct row *row)
{
	bool done;

	#pragma omp critical(rows)
	done = row_find(r, row) != NULL;
	return done;
}

bool row_add(struct rows *r, struct row *row, double start, struct error *e)
{
	bool ok;

	row->seconds = processor_seconds() - start;
	#pragma omp critical(rows)
	{
		ok = append(r, row);
		if (ok && r->keep) keep(r->keep, row);
		if (ok) say(row);
	}
	return ok || error_set(e, E_MEMORY, row->op, NO_OFFSET, "a row");
}

enum { WORDS = 12, MAX_LINE = 1024 };

static int words(char *line, char *word[WORDS])
{
	int n = 0;

	line[strcspn(line, "\n")] = 0;
	for (char *at = line; at && n < WORDS; n++) {
		word[n] = at;
		at = strchr(at, '\t');
		if (at) *at++ = 0;
	}
	return n;
}

bool rows_read(struct rows *r, const char *path, bool keep)
{
	char line[MAX_LINE], *w[WORDS];
	FILE *from = fopen(path, "r");
	bool ok = true;

	while (ok && from && fgets(line, sizeof line, from)) {
		struct row row;
		if (!strchr(line, '\n') || words(line, w) != WORDS) continue;
		row = (struct row){ .table = (enum table)atoi(w[0]),
			.size = strtod(w[5], NULL),
			.own_outcome = atoi(w[7]),
			.chosen_outcome = atoi(w[9]),
			.value = strtod(w[10], NULL),
			.seconds = strtod(w[11], NULL) };
		copy(row.op, w[1]);
		copy(row.kernel, w[2]);
		copy(row.what, w[3]);
		copy(row.kase, w[4]);
		copy(row.own, w[6]);
		copy(row.chosen, w[8]);
		ok = append(r, &row);
	}
	if (from) fclose(from);
	return ok && (keep ? (r->keep = fopen(path, "a")) != NULL : from != NULL);
}

static int op_order(const struct row *r)
{
	int i = 0;

	while (ops[i] && strcmp(ops[i]->name, r->op)) i++;
	return i;
}

/* Contracts as the op has them, then what is none. */
static int kernel_order(const struct row *r)
{
	const struct op *op = op_find(r->op);
	int at = op ? op_contract(op, r->kernel) : -1;

	return at >= 0 ? at : INT_MAX;
}

static int in_order(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	int p = op_order(x), q = op_order(y), k = kernel_order(x), l = kernel_order(y);

	if (p != q) return p < q ? -1 : 1;
	if (x->table != y->table) return x->table < y->table ? -1 : 1;
	if (k != l) return k < l ? -1 : 1;
	k = strcmp(x->kernel, y->kernel);
	return k ? k : strcmp(x->what, y->what);
}

void rows_sort(struct rows *r)
{
	if (r->n) qsort(r->row, (size_t)r->n, sizeof *r->row, in_order);
}
