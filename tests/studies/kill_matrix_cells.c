/* The cells of a matrix that were not named, and those named by an alias. */
#include <stdio.h>
#include <string.h>

#include "kill_matrix.h"

static void cell_line(const struct unit *u, int f)
{
	const struct cell *c = &u->cell[f];

	printf("%-28s %-34s %-4s %-18s %9.3g  %-17s", u->fault[f].name, model_name(&u->model), stores(&u->model), u->kase->name, c->size, fate_name[c->fate]);
	if (c->detected) printf(" %s %.3f ± %.2g%s", c->first, c->coefficient, c->error, c->detected > 1 ? " and others" : "");
	if (c->fate == UNNAMED) printf(" %.100s", c->reason);
	putchar('\n');
}

void print_failed(const struct unit *u, int n)
{
	printf("```\n%-28s %-34s %-4s %-18s %9s\n", "", "model", "to", "case", "size");
	for (int i = 0; i < n; i++)
		for (int f = 0; f < u[i].n_fault; f++)
			if (u[i].cell[f].fate >= WRONG) cell_line(&u[i], f);
	printf("```\n\n");
}

static bool same_alias(const struct unit *u, const struct unit *v, int f)
{
	return u->model.op == v->model.op && v->cell[f].fate == ALIAS && !strcmp(u->cell[f].first, v->cell[f].first);
}

/* A line for a fault of an op and its alias: how many cells, of which cases. */
static void alias_line(const struct unit *u, int n, int i, int f)
{
	int cells = 0;

	for (int j = 0; j < n; j++) {
		if (!same_alias(&u[i], &u[j], f)) continue;
		if (j < i) return;
		cells++;
	}
	printf("%-17s %-28s %-28s %5d ", u[i].model.op->name, u[i].fault[f].name, u[i].cell[f].first, cells);
	for (int j = i; j < n; j++) {
		bool said = !same_alias(&u[i], &u[j], f);
		for (int k = i; k < j && !said; k++) said = same_alias(&u[i], &u[k], f) && u[k].kase == u[j].kase;
		if (!said) printf(" %s", u[j].kase->name);
	}
	putchar('\n');
}

void print_aliases(const struct unit *u, int n)
{
	printf("```\n%-17s %-28s %-28s cells  cases\n", "", "fault", "named as");
	for (int i = 0; i < n; i++)
		for (int f = 0; f < u[i].n_fault; f++)
			if (u[i].cell[f].fate == ALIAS) alias_line(u, n, i, f);
	printf("```\n\n");
}
