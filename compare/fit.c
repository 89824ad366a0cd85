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

/* g <- G^-1 g with the factor of G; dropped columns get 0. */
static void substitute(const struct equations *q, int p, const bool *keep, double *g)
{
	for (int i = 0; i < p; i++) {
		for (int k = 0; k < i; k++) g[i] -= q->G[i][k] * g[k];
		g[i] = keep[i] ? g[i] / q->G[i][i] : 0;
	}
	for (int i = p; i-- > 0;) {
		for (int k = i + 1; k < p; k++) g[i] -= q->G[k][i] * g[k];
		g[i] = keep[i] ? g[i] / q->G[i][i] : 0;
	}
}

/* c of the normal equations. *q becomes its factor. */
static void solve(struct equations *q, int p, double *c, bool *keep)
{
	factor(q, p, keep);
	for (int i = 0; i < p; i++) c[i] = q->g[i];
	substitute(q, p, keep, c);
}

/* The standard error of c_j if the weights are the inverse variances that they are meant to be. */
static double formal_error(const struct equations *factored, int p, const bool *keep, int j)
{
	double unit[MAX_REGRESSORS] = { 0 };

	unit[j] = 1;
	substitute(factored, p, keep, unit);
	return sqrt(unit[j]);
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

static bool has_direction(const struct equations *q, int p)
{
	for (int j = 0; j < p; j++)
		if (q->G[j][j] > 0) return true;
	return false;
}

double fit(const struct sample *s, const double *y, const double *const *d, int p, struct coefficient *c)
{
	struct equations *block = calloc((size_t)s->blocks + 3, sizeof *block), *all = block + s->blocks, *whole = all + 1, *rest = all + 2;
	double value[MAX_REGRESSORS], other[MAX_REGRESSORS], square[MAX_REGRESSORS] = { 0 }, explained = 0;
	bool keep[MAX_REGRESSORS], also[MAX_REGRESSORS];
	int used = 0;

	for (int j = 0; j < p; j++) c[j] = (struct coefficient){ .error = INFINITY };
	if (!block) return 0;
	accumulate(s, y, d, p, block);
	for (int b = 0; b < s->blocks; b++) add(all, &block[b], p, 1);
	*whole = *all;
	solve(whole, p, value, keep);
	for (int b = 0; b < s->blocks; b++) {
		if (!has_direction(&block[b], p)) continue;
		*rest = *all;
		add(rest, &block[b], p, -1);
		solve(rest, p, other, also);
		used++;
		for (int j = 0; j < p; j++) square[j] += also[j] ? (other[j] - value[j]) * (other[j] - value[j]) : 0;
	}
	for (int j = 0; j < p; j++) {
		double scatter = used > 1 ? sqrt(square[j] * (used - 1) / used) : INFINITY;
		double alone = all->G[j][j] > 0 && all->yy > 0 ? all->g[j] * all->g[j] / (all->G[j][j] * all->yy) : 0;
		c[j] = (struct coefficient){ value[j], keep[j] ? fmax(scatter, formal_error(whole, p, keep, j)) : INFINITY, alone, keep[j] };
		explained += value[j] * all->g[j];
	}
	explained = all->yy > 0 ? explained / all->yy : 0;
	free(block);
	return explained;
}
