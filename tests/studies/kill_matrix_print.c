/* The kill matrix as a page of Markdown on stdout, and as a table for plots/kill-matrix.gp. */
#include <math.h>
#include <string.h>

#include "kill_matrix.h"

/* faint: seen and not caught, its size below FAINT on every case. */
enum { FAINT = 10 };
struct sum { int possible, seen, caught, named, faint, cell[FATES], clean, alarms; };

static bool same_model(const struct model *a, const struct model *b)
{
	return a->op == b->op && a->contract == b->contract && a->structure == b->structure && a->narrow == b->narrow;
}

/* The unit of the model on the case, or NULL. */
static const struct unit *unit_at(const struct unit *u, int n, const struct model *m, const struct test_case *k)
{
	for (int i = 0; i < n; i++)
		if (u[i].kase == k && same_model(&u[i].model, m)) return &u[i];
	return NULL;
}

/* Models and cases of the op in units [n], in their order. */
struct axes { struct model model[16]; const struct test_case *kase[32]; int models, cases; };

static struct axes axes_of(const struct unit *u, int n, const struct op *op)
{
	struct axes a = { .models = 0 };

	for (int i = 0; i < n; i++) {
		bool model = false, kase = false;
		if (u[i].model.op != op) continue;
		for (int j = 0; j < a.models; j++) model = model || same_model(&a.model[j], &u[i].model);
		for (int j = 0; j < a.cases; j++) kase = kase || a.kase[j] == u[i].kase;
		if (!model && u[i].seeds) a.model[a.models++] = u[i].model;
		if (!kase) a.kase[a.cases++] = u[i].kase;
	}
	return a;
}

static const struct unit *first_of(const struct unit *u, int n, const struct op *op)
{
	for (int i = 0; i < n; i++)
		if (u[i].model.op == op) return &u[i];
	return NULL;
}

/* ---- the matrix ---- */

static int width(const struct axes *a, int k)
{
	int name = (int)strlen(a->kase[k]->name);

	return name > a->models ? name : a->models;
}

static void matrix(const struct unit *u, int n, const struct op *op)
{
	const struct unit *first = first_of(u, n, op);
	struct axes a = axes_of(u, n, op);

	printf("### %s\n\n```\nmodels, a letter each:", op->name);
	for (int m = 0; m < a.models; m++) printf("%s %s to %s", m ? "," : "", model_name(&a.model[m]), stores(&a.model[m]));
	printf("\n\n%-30s", "");
	for (int k = 0; k < a.cases; k++) printf("  %-*s", width(&a, k), a.kase[k]->name);
	putchar('\n');
	for (int f = 0; f < first->n_fault; f++) {
		printf("%-30s", first->fault[f].name);
		for (int k = 0; k < a.cases; k++) {
			printf("  ");
			for (int m = 0; m < a.models; m++) {
				const struct unit *at = unit_at(u, n, &a.model[m], a.kase[k]);
				putchar(at ? fate_letter[at->cell[f].fate] : '?');
			}
			for (int w = a.models; w < width(&a, k) && k + 1 < a.cases; w++) putchar(' ');
		}
		putchar('\n');
	}
	printf("```\n\n");
}

/* ---- totals ---- */

/* The share of the caught that must be named. */
static const double enough = 0.97;

static bool is_caught(enum fate f) { return f == RIGHT || f == ALIAS || f == WRONG || f == UNNAMED; }
static bool is_named(enum fate f) { return f == RIGHT || f == ALIAS; }

static struct sum sum_of(const struct unit *u, int n, const struct model *m)
{
	struct sum s = { 0 };
	bool known[4][MAX_PLANTED] = { { false } };
	double size[MAX_PLANTED] = { 0 };

	for (int i = 0; i < n; i++) {
		if (!same_model(&u[i].model, m)) continue;
		s.clean += u[i].clean;
		s.alarms += u[i].alarms;
		for (int f = 0; f < u[i].n_fault; f++) {
			enum fate fate = u[i].cell[f].fate;
			s.cell[fate]++;
			size[f] = fmax(size[f], u[i].cell[f].size);
			known[0][f] |= fate != FOREIGN;
			known[1][f] |= fate > UNSEEN;
			known[2][f] |= is_caught(fate);
			known[3][f] |= is_named(fate);
		}
	}
	for (int f = 0; f < MAX_PLANTED; f++) {
		s.possible += known[0][f];
		s.seen += known[1][f];
		s.caught += known[2][f];
		s.faint += known[1][f] && !known[2][f] && size[f] < FAINT;
		s.named += known[3][f];
	}
	return s;
}

static void add(struct sum *all, const struct sum *s)
{
	all->possible += s->possible;
	all->seen += s->seen;
	all->caught += s->caught;
	all->named += s->named;
	all->faint += s->faint;
	all->clean += s->clean;
	all->alarms += s->alarms;
	for (int f = 0; f < FATES; f++) all->cell[f] += s->cell[f];
}

static int caught_cells(const struct sum *s) { return s->cell[RIGHT] + s->cell[ALIAS] + s->cell[WRONG] + s->cell[UNNAMED]; }

static double share_named(const struct sum *s)
{
	return caught_cells(s) ? (double)(s->cell[RIGHT] + s->cell[ALIAS]) / caught_cells(s) : 1;
}

static void total_line(const char *op, const char *contract, const char *store, const struct sum *s)
{
	printf("%-17s %-34s %-5s %7d %5d %7d %6d  | %6d %6d %6d %6d %6d %6d %8.2f %%  | %6d %7d\n", op, contract, store, s->possible, s->seen,
		s->caught, s->named, caught_cells(s) + s->cell[MISSED], s->cell[RIGHT], s->cell[ALIAS], s->cell[WRONG], s->cell[UNNAMED], s->cell[MISSED],
		100 * share_named(s), s->clean, s->alarms);
}

static struct sum totals(const struct unit *u, int n)
{
	struct sum all = { 0 };

	printf("## Totals\n\n```\n%-17s %-34s %-5s %7s %5s %7s %6s  | %6s %6s %6s %6s %6s %6s %10s  | %6s %7s\n", "model", "", "to", "faults", "seen",
		"caught", "named", "cells", "right", "alias", "wrong", "unnam.", "missed", "named", "clean", "alarms");
	for (size_t o = 0; ops[o]; o++) {
		struct axes a = axes_of(u, n, ops[o]);
		for (int m = 0; m < a.models; m++) {
			struct sum s = sum_of(u, n, &a.model[m]);
			total_line(ops[o]->name, model_name(&a.model[m]), stores(&a.model[m]), &s);
			add(&all, &s);
		}
	}
	total_line("all", "", "", &all);
	printf("```\n\n");
	return all;
}

/* ---- what went otherwise ---- */

static void never_seen(const struct unit *u, int n)
{
	printf("```\n%-17s %-28s %-34s %-5s %s\n", "", "", "model", "to", "largest size");
	for (size_t o = 0; ops[o]; o++) {
		struct axes a = axes_of(u, n, ops[o]);
		const struct unit *first = first_of(u, n, ops[o]);
		for (int m = 0; m < a.models; m++)
			for (int f = 0; f < first->n_fault; f++) {
				double most = -1;
				bool seen = false;
				for (int k = 0; k < a.cases; k++) {
					const struct unit *at = unit_at(u, n, &a.model[m], a.kase[k]);
					const struct cell *c = at ? &at->cell[f] : &(struct cell){ .fate = FOREIGN };
					seen = seen || c->fate > UNSEEN;
					if (c->fate == UNSEEN && c->size > most) most = c->size;
				}
				if (!seen && most >= 0)
					printf("%-17s %-28s %-34s %-5s %.3g\n", ops[o]->name, first->fault[f].name, model_name(&a.model[m]), stores(&a.model[m]), most);
			}
	}
	printf("```\n\n");
}

static void alarms(const struct unit *u, int n)
{
	printf("\n```\n");
	for (int i = 0; i < n; i++)
		if (u[i].alarms) printf("%s %s %s to %s, %d of %d: %s\n", u[i].model.op->name, u[i].kase->name, model_name(&u[i].model),
			stores(&u[i].model), u[i].alarms, u[i].clean, u[i].alarm);
	printf("```\n");
}

static void head(const struct page *page)
{
	bool named = strcmp(page->name, "kill-matrix");

	printf("# The kill matrix%s\n\n"
		"Model kernels are given one fault each, and `etalon check` says what it makes of them. This page is\n"
		"generated; the first command writes it and the picture, the second is a small version for CI.\n\n"
		"```\nmake kill-matrix%s%s\nmake kill-matrix SMALL=1\n```\n\n", named ? ": newer ops" : "", named ? " MATRIX=" : "", named ? page->name : "");
	printf("A **model kernel** is the reference run in float32 that rounds, to nearest, just where its contract lets it.\n"
		"It stores y, o and residual_out in bf16, or everything in float32. A **fault** is a fault of the op's table,\n"
		"or a site rounded to bf16 that the contract does not allow. The faulty model is judged under the model's\n"
		"contract on each of etalon's cases that is not too dear (`etalon list cases` says what each is for).\n\n"
		"The **size** of a fault on a case is the rms of its effect on the outputs, in units of float32's noise around\n"
		"the clean model (docs/x-ray.md). A fault below 1, or one that changes no bit of what is stored, is *not\n"
		"identifiable* there and is not judged. Else the check **catches** it (FAIL) or **misses** it. It is **named right**\n"
		"when the first suspect that the report detects is the fault, and **by an alias** when the answer of the first\n"
		"detected is the fault's within float32's noise (size below 1): on these inputs they are the same number.\n\n"
		"Not here: `mrope_sections_blocked_for_interleaved`, which positions of one dimension cannot show.\n\n"
		"![A row for each fault, a column for each model on each case](%s.png)\n\n", page->name);
}

/* Which commits' programs did how many of the units. */
static void by_commit(const struct unit *u, int n, int wanted)
{
	int done = 0;

	for (int i = 0; i < n; i++) done += u[i].seeds > 0;
	printf("%d of %d units (a model on a case) were run", done, wanted);
	for (int i = 0; i < n; i++) {
		int same = 0;
		bool first = u[i].seeds > 0;
		for (int j = 0; j < n; j++) {
			bool equal = u[j].seeds > 0 && !strcmp(u[j].commit, u[i].commit);
			same += equal;
			first = first && !(equal && j < i);
		}
		if (first) printf("%s %d by the program of commit %s", same < done || i ? "," : ":", same, u[i].commit);
	}
	printf(".\n\n");
}

bool print_matrix(const struct unit *u, int n, const struct page *page)
{
	double cpu = 0;

	for (int i = 0; i < n; i++) cpu += u[i].seconds;
	head(page);
	by_commit(u, n, page->wanted);
	struct sum all = totals(u, n);
	printf("*faults*: possible in that model; *seen*, *caught*, *named*: on one case or more, named right or by an alias. "
		"*cells*: faults judged, on all cases; *named* of them: the share of those caught. *clean*: calls without a fault; *alarms*: those "
		"that did not pass. %d that were seen are faint: below %d on every case, and not caught.\n\nTook %.0f s of processor time.\n\n", all.faint, FAINT, cpu);
	printf("## The matrix\n\n`R` named right, `A` named by an alias, `W` named wrong, `U` caught, not named, `M` missed, `.` not identifiable, "
		"`-` not possible in this model, `?` not run.\n\n");
	for (size_t o = 0; ops[o]; o++)
		if (first_of(u, n, ops[o])) matrix(u, n, ops[o]);
	printf("## Named wrong, not named, missed\n\n");
	print_failed(u, n);
	printf("## Not identifiable on any case\n\n");
	never_seen(u, n);
	printf("## Named by an alias\n\n");
	print_aliases(u, n);
	printf("## False alarms\n\n%d in %d clean calls.\n", all.alarms, all.clean);
	if (all.alarms) alarms(u, n);
	return !all.alarms && all.caught + all.faint == all.seen && all.named >= enough * all.caught;
}

bool write_table(const char *path, const struct unit *u, int n)
{
	FILE *to = fopen(path, "w");

	if (!to) return false;
	fprintf(to, "op\tx\ty\tfate\tsize\tcase\tmodel\tstores\tfault\tfate_name\tfirst\tcoefficient\terror\tleft\tseconds\n");
	for (size_t o = 0; ops[o]; o++) {
		struct axes a = axes_of(u, n, ops[o]);
		for (int k = 0; k < a.cases; k++)
			for (int m = 0; m < a.models; m++) {
				const struct unit *at = unit_at(u, n, &a.model[m], a.kase[k]);
				for (int f = 0; at && f < at->n_fault; f++) {
					const struct cell *c = &at->cell[f];
					fprintf(to, "%s\t%d\t%d\t%d\t%.4g\t%s\t%s\t%s\t%s\t%s\t%s\t%.4g\t%.4g\t%.4g\t%.3f\n", ops[o]->name, k * (a.models + 1) + m, f, c->fate,
						c->size, a.kase[k]->name, model_name(&a.model[m]), stores(&a.model[m]), at->fault[f].name, fate_name[c->fate],
						c->detected ? c->first : "-", c->coefficient, c->error, c->left, c->seconds);
				}
			}
	}
	return fclose(to) == 0;
}
