/* Units that are done, in a file: a line for the unit and a line for each of its cells, tab separated. A matrix that
 * takes longer than a machine is lent is made in several runs. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "kill_matrix.h"

static void keep_cell(FILE *to, const struct fault *f, const struct cell *c)
{
	fprintf(to, "cell\t%s\t%d\t%.17g\t%d\t%s\t%.17g\t%.17g\t%.17g\t%.3f\t%s\n", f->name, (int)c->fate, c->size, c->detected, c->detected ? c->first : "-",
		c->coefficient, c->error, c->left, c->seconds, c->reason);
}

void unit_keep(FILE *to, const struct unit *u)
{
	fprintf(to, "unit\t%s\t%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t%.3f\t%s\t%s\n", u->model.op->name, u->model.contract->name, u->model.structure, u->model.narrow,
		u->kase->name, u->n_fault, u->seeds, u->clean, u->alarms, u->seconds, u->commit ? u->commit : "-", u->alarm);
	for (int f = 0; f < u->n_fault; f++) keep_cell(to, &u->fault[f], &u->cell[f]);
	fflush(to);
}

enum { MAX_WORD = 16, MAX_LINE = 1024 };

/* The line's words; returns how many, 0 at the file's end. */
static int words(FILE *from, char *line, char *word[MAX_WORD])
{
	int n = 0;

	if (!fgets(line, MAX_LINE, from)) return 0;
	line[strcspn(line, "\n")] = 0;
	for (char *at = line; at && n < MAX_WORD; n++) {
		word[n] = at;
		at = strchr(at, '\t');
		if (at) *at++ = 0;
	}
	return n;
}

static struct unit *unit_of(struct unit *u, int n, char *const word[MAX_WORD])
{
	for (int i = 0; i < n; i++)
		if (!strcmp(u[i].model.op->name, word[1]) && !strcmp(u[i].model.contract->name, word[2]) && u[i].model.structure == atoi(word[3])
			&& u[i].model.narrow == atoi(word[4]) && !strcmp(u[i].kase->name, word[5]) && u[i].n_fault == atoi(word[6]) && u[i].seeds == atoi(word[7]))
			return &u[i];
	return NULL;
}

static bool read_cell(FILE *from, const struct fault *f, struct cell *c)
{
	char line[MAX_LINE], *word[MAX_WORD];

	if (words(from, line, word) != 11 || strcmp(word[0], "cell") || strcmp(word[1], f->name)) return false;
	*c = (struct cell){ .fate = (enum fate)atoi(word[2]), .size = strtod(word[3], NULL), .detected = atoi(word[4]), .coefficient = strtod(word[6], NULL),
		.error = strtod(word[7], NULL), .left = strtod(word[8], NULL), .seconds = strtod(word[9], NULL) };
	snprintf(c->first, sizeof c->first, "%s", word[5]);
	snprintf(c->reason, sizeof c->reason, "%s", word[10]);
	return true;
}

int units_kept(const char *path, struct unit *u, int n)
{
	char line[MAX_LINE], *word[MAX_WORD];
	FILE *from = fopen(path, "r");
	int done = 0;

	if (!from) return 0;
	for (int k; (k = words(from, line, word)) > 0;) {
		struct unit *at = k == 13 && !strcmp(word[0], "unit") ? unit_of(u, n, word) : NULL;
		if (!at || at->parts) continue;
		at->clean = atoi(word[8]);
		at->alarms = atoi(word[9]);
		at->seconds = strtod(word[10], NULL);
		at->commit = strdup(word[11]);
		snprintf(at->alarm, sizeof at->alarm, "%s", word[12]);
		at->parts = PARTS;
		for (int f = 0; f < at->n_fault && at->parts; f++)
			if (!read_cell(from, &at->fault[f], &at->cell[f])) at->parts = 0;
		done += at->parts > 0;
	}
	fclose(from);
	return done;
}
