/* make kill-matrix: every fault and every forbidden rounding in every model kernel on every case that is
 * not too large, judged; and clean calls. usage: kill_matrix [-s] [-t TABLE.tsv] [-p PAGE] [-c COMMIT] [-r ROUNDS] [-k FILE [-n]] [OP,... [CASE [FAULT]]]
 * -s: a small version of it. -p: the page says that this is its name. -r: as many cases of each model. -k: what is done is kept in the file, with the commit, and not done again by the next run. -n: only what is kept there. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kill_matrix.h"

/* In the units of case_cost. Dearer cases are left out; cheap ones have more clean calls. The small version has the cheapest
 * only, stored in bf16, and no iterations. */
static const double most = 8.5e5, cheap = 3e5, small = 2.2e5;
enum { SEEDS = 5, CHEAP_SEEDS = 10 };

enum { SMALL_CASES = 3 };        /* of an op, in the small version */
struct arguments { bool small, kept; int rounds; const char *table, *page, *keep, *commit, *op, *kase, *fault; };

static int faults(const struct op *op, const char *only, struct fault *list)
{
	int n = faults_of(op, list), kept = 0;

	for (int i = 0; i < n; i++)
		if (!only || !strcmp(list[i].name, only)) list[kept++] = list[i];
	return kept;
}

static bool wanted(const struct test_case *k, const struct op *op, const struct arguments *a)
{
	if (strcmp(k->op, op->name) || k->large) return false;
	return a->kase ? !strcmp(k->name, a->kase) : case_cost(k) <= (a->small ? small : most);
}

/* In round r each model has the case r places after its own first: a run that is cut has every model, and all cases, in about equal parts. */
static void deal(struct unit *unit, int cases, int model)
{
	for (int i = 0; i < cases; i++) unit[i].round = (i + model) % cases;
}

/* All units of an op; returns how many. */
static int units_of(const struct op *op, const struct arguments *a, struct unit *unit)
{
	struct fault *list = calloc(MAX_PLANTED, sizeof *list);
	int n = 0, models = 0, n_fault = list ? faults(op, a->fault, list) : 0;

	for (const struct contract *k = op->contracts; k->name; k++)
		for (int i = 0; i < 2 * contract_structures(k); i++) {
			const struct model model = { op, k, i / 2, i % 2 == 0 };
			int cases = 0, first = n;
			for (const struct test_case *t = op->cases ? op->cases : test_cases; t->op; t++) {
				int seeds = !model_fits(&model, t) ? 0 : a->small || a->fault || op->iterates ? 1 : case_cost(t) < cheap ? CHEAP_SEEDS : SEEDS;
				if (!wanted(t, op, a) || (op->iterates ? model.narrow || a->small : a->small && !model.narrow)) continue;
				if (a->small && ++cases > SMALL_CASES) break;
				unit[n++] = (struct unit){ .model = model, .kase = t, .seeds = seeds, .n_fault = n_fault,
					.fault = list, .cell = calloc((size_t)n_fault, sizeof(struct cell)), .commit = a->commit };
			}
			deal(unit + first, n - first, models++);
		}
	return n;
}

static int in_rounds(struct unit *unit, int n, int rounds)
{
	int kept = 0;

	for (int i = 0; i < n; i++)
		if (unit[i].round < rounds) unit[kept++] = unit[i];
	return kept;
}

/* Round by round, in case the run is cut; in a round dear ones first, so that threads end together. */
static int sooner(const void *a, const void *b)
{
	const struct unit *x = *(const struct unit *const *)a, *y = *(const struct unit *const *)b;
	double p = case_cost(x->kase) * (1 + 4 * x->model.contract->form), q = case_cost(y->kase) * (1 + 4 * y->model.contract->form);

	return x->round != y->round ? x->round - y->round : (p < q) - (p > q);
}

enum { MAX_UNIT = 4096 };

/* Adds what a part came to; the unit is kept when it was the last. */
static void add_part(struct unit *u, const struct unit *part, FILE *keep)
{
	if (part->alarms && !u->alarms) memcpy(u->alarm, part->alarm, sizeof u->alarm);
	u->clean += part->clean;
	u->alarms += part->alarms;
	u->seconds += part->seconds;
	if (++u->parts == PARTS && keep) unit_keep(keep, u);
}

static bool run(struct unit *unit, int n, FILE *keep)
{
	struct unit *order[MAX_UNIT];
	bool ok = true, shown = isatty(2);
	int done = 0, left = 0;

	for (int i = 0; i < n; i++)
		if (!unit[i].parts) order[left++] = &unit[i];
	qsort(order, (size_t)left, sizeof *order, sooner);
	#pragma omp parallel for schedule(dynamic)
	for (int i = 0; i < left * PARTS; i++) {
		struct unit *u = order[i / PARTS], part = { .model = u->model, .kase = u->kase, .seeds = u->seeds, .n_fault = u->n_fault,
			.fault = u->fault, .cell = u->cell };
		struct error e;
		bool good = unit_run(&part, i % PARTS, &e);
		#pragma omp critical
		{
			ok = ok && good;
			if (good) add_part(u, &part, keep);
			else error_print(stderr, &e), putc('\n', stderr);
			if (shown) fprintf(stderr, "\r%d of %d: %s %s   ", ++done, left * PARTS, u->model.op->name, u->kase->name);
		}
	}
	if (shown) fputs("\r\033[K", stderr);
	return ok;
}

static int only_done(struct unit *unit, int n)
{
	int done = 0;

	for (int i = 0; i < n; i++)
		if (unit[i].parts) unit[done++] = unit[i];
	return done;
}

/* Units whose model can run the case. */
static int possible(const struct unit *unit, int n)
{
	int count = 0;

	for (int i = 0; i < n; i++) count += unit[i].seeds > 0;
	return count;
}

/* Is the op one of those asked for, all where none is? */
static bool asked(const char *list, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = list; at; at = strchr(at, ','), at += at != NULL)
		if (!strncmp(at, name, n) && (at[n] == ',' || !at[n])) return true;
	return !list;
}

int main(int argc, char **argv)
{
	static struct unit unit[MAX_UNIT];
	struct arguments a = { .commit = "-", .page = "kill-matrix" };
	int n = 0, c;

	while ((c = getopt(argc, argv, "st:p:c:r:k:n")) != -1) {
		if (c == 's') a.small = true;
		else if (c == 't') a.table = optarg;
		else if (c == 'p') a.page = optarg;
		else if (c == 'c') a.commit = optarg;
		else if (c == 'r') a.rounds = atoi(optarg);
		else if (c == 'k') a.keep = optarg;
		else if (c == 'n') a.kept = true;
		else return EXIT_INPUT;
	}
	if (optind < argc) a.op = argv[optind++];
	if (optind < argc) a.kase = argv[optind++];
	if (optind < argc) a.fault = argv[optind++];
	for (size_t o = 0; ops[o]; o++)
		if (asked(a.op, ops[o]->name)) n += units_of(ops[o], &a, unit + n);
	if (a.rounds) n = in_rounds(unit, n, a.rounds);
	if (a.keep) units_kept(a.keep, unit, n);
	FILE *keep = a.keep ? fopen(a.keep, "a") : NULL;
	if (a.keep && (!keep || setvbuf(keep, NULL, _IOFBF, 1 << 16))) return EXIT_INPUT;        /* a unit in one piece */
	const struct page page = { a.page, possible(unit, n) };
	if (a.kept) n = only_done(unit, n);
	bool ok = run(unit, n, keep);
	if (keep && fclose(keep)) return EXIT_INPUT;
	if (!ok) return EXIT_MACHINE;
	if (a.table && !write_table(a.table, unit, n)) return EXIT_INPUT;
	return print_matrix(unit, n, &page) ? EXIT_PASS : EXIT_FAIL;
}
