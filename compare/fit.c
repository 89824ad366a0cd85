#include <math.h>
#include <stdlib.h>

#include "fit.h"

/* Normal equations: G = Σ w d d', g = Σ w d y, for each block and in all-> */
struct equations { double G[MAX_REGRESSORS][MAX_REGRESSORS], g[MAX_REGRESSORS], yy; };

/* Columns whose own part, after those before are taken out, is less than this share are dropped. */
static const double independent = 1e-9;

/* Cholesky's factor of G in place (lower), and which columns stay. */
static void factor(struct equations *q, int p, bool *keep)
{
	for (int j = 0; j < p; j++) {
		double own = q->G[j][j], d = own;
		for (int k = 0; k < j; k++) d -= q->G[j][k] * q->G[j][k];
		keep[j] = own > 0 && d > independent * own;
		for (int i = j; i < p; i++) {
			double x = q->G[i][j];
			for (int k = 0; k < j; k++) x -= q->G[i][k] * q->G[j][k];
			q->G[i][j] = keep[j] ? (i == j ? sqrt(d) : x / sqrt(d)) : 0;
		}
	}
}

/* c of the normal equations; dropped columns get 0. */
static void solve(struct equations q, int p, double *c, bool *keep)
{
	factor(&q, p, keep);
	for (int i = 0; i < p; i++) {
		c[i] = q.g[i];
		for (int k = 0; k < i; k++) c[i] -= q.G[i][k] * c[k];
		c[i] = keep[i] ? c[i] / q.G[i][i] : 0;
	}
	for (int i = p; i-- > 0;) {
		for (int k = i + 1; k < p; k++) c[i] -= q.G[k][i] * c[k];
		c[i] = keep[i] ? c[i] / q.G[i][i] : 0;
	}
}

static void accumulate(const struct sample *s, const double *y, const double *const *d, int p, struct equations *q)
{
	for (size_t i = 0; i < s->n; i++) {
		struct equations *b = &q[s->block[i]];
		double w = s->weight[i];
		if (!(w > 0)) continue;
		b->yy += w * y[i] * y[i];
		for (int j = 0; j < p; j++) {
			double wd = w * d[j][i];
			if (wd == 0) continue;
			b->g[j] += wd * y[i];
			for (int k = 0; k <= j; k++) b->G[j][k] += wd * d[k][i];
		}
	}
}

static void add(struct equations *to, const struct equations *q, int p, double sign)
{
	for (int j = 0; j < p; j++) {
		to->g[j] += sign * q->g[j];
		for (int k = 0; k <= j; k++) to->G[j][k] += sign * q->G[j][k];
	}
	to->yy += sign * q->yy;
}

double fit(const struct sample *s, const double *y, const double *const *d, int p, struct coefficient *c)
{
	struct equations *block = calloc((size_t)s->blocks + 2, sizeof *block), *all = block + s->blocks, *rest = all + 1;
	double value[MAX_REGRESSORS], other[MAX_REGRESSORS], square[MAX_REGRESSORS] = { 0 }, explained = 0;
	bool keep[MAX_REGRESSORS], also[MAX_REGRESSORS];
	int used = 0;

	for (int j = 0; j < p; j++) c[j] = (struct coefficient){ .error = INFINITY };
	if (!block) return 0;
	accumulate(s, y, d, p, block);
	for (int b = 0; b < s->blocks; b++) add(all, &block[b], p, 1);
	solve(*all, p, value, keep);
	for (int b = 0; b < s->blocks; b++) {
		if (block[b].yy == 0) continue;
		*rest = *all;
		add(rest, &block[b], p, -1);
		solve(*rest, p, other, also);
		used++;
		for (int j = 0; j < p; j++) square[j] += also[j] ? (other[j] - value[j]) * (other[j] - value[j]) : INFINITY;
	}
	for (int j = 0; j < p; j++) {
		double error = used > 1 ? sqrt(square[j] * (used - 1) / used) : INFINITY;
		double alone = all->G[j][j] > 0 && all->yy > 0 ? all->g[j] * all->g[j] / (all->G[j][j] * all->yy) : 0;
		c[j] = (struct coefficient){ value[j], keep[j] ? error : INFINITY, alone, keep[j] };
		explained += value[j] * all->g[j];
	}
	explained = all->yy > 0 ? explained / all->yy : 0;
	free(block);
	return explained;
}
