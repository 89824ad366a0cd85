/* What the score would be with a direction added. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "xray_private.h"

/* trial: what is left, stored, with the look's direction; of as many looks as there is room for, of the whole call. */
struct trials { double *of_call; size_t most; };

static bool try_of_strip(struct xray *x, struct look *l, double *trial)
{
	if (!xray_direction(x, &l->stream)) return false;
	l->impossible = l->impossible || x->impossible;
	for (size_t j = 0; j < x->n; j++) trial[j] = x->base[j] + x->d[j];
	xray_store(x, trial, trial);
	#pragma omp parallel for
	for (size_t j = 0; j < x->n; j++) trial[j] = xray_residual(x, j, trial[j]);
	return true;
}

/* One pass of the scores of n looks; a trial that is there is not made again. */
static bool try_pass(struct xray *x, struct look *list, struct scoring *s, size_t n, const struct trials *t)
{
	bool made = t->most && s->pass > 0;

	for (size_t at = 0, first = 0; at < x->strips; at++, first += x->n) {
		if (!xray_refresh_strip(x, at, XRAY_BASE | XRAY_FLOOR)) return false;
		for (size_t i = 0; i < n; i++) {
			double *trial = t->most ? t->of_call + i * x->all + first : x->trial;
			if (!made && !try_of_strip(x, &list[i], trial)) return false;
			scoring_add(x, &s[i], trial);
		}
	}
	for (size_t i = 0; i < n; i++) scoring_pass(x, &s[i]);
	return true;
}

enum { TRIALS = 256 << 20 };
static struct trials trials_of(const struct xray *x, size_t n)
{
	size_t most = x->all ? TRIALS / sizeof(double) / x->all : 0;

	if (most > n) most = n;
	if (most > at_once(x)) most = at_once(x);
	double *room = most ? malloc(most * x->all * sizeof *room) : NULL;
	return (struct trials){ room, room ? most : 0 };
}

bool xray_try(struct xray *x, struct look *list, size_t n)
{
	struct trials t = trials_of(x, n);
	size_t most = t.most ? t.most : at_once(x);
	struct scoring *s = malloc(most * sizeof *s);
	bool ok = s || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu scores", n);

	for (size_t from = 0, m; ok && from < n; from += m) {
		m = n - from < most ? n - from : most;
		memset(s, 0, m * sizeof *s);
		while (ok && s->pass < SCORE_PASSES) ok = try_pass(x, list + from, s, m, &t);
		for (size_t i = 0; i < m; i++) list[from + i].score = list[from + i].impossible ? INFINITY : s[i].score, stream_end(&list[from + i].stream);
	}
	free(s);
	free(t.of_call);
	return ok;
}
