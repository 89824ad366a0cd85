#include <math.h>
#include <stdlib.h>

#include "fit.h"

/* Normal equations: G = Σ w d d', g = Σ w d y, for each block and in all. */
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

/* Σ w (y - Σ_j c_j d_j)² of a block. */
static double left(const struct equations *q, int p, const double *c)
{
	double sum = q->yy;

	for (int j = 0; j < p; j++) {
		sum += c[j] * (c[j] * q->G[j][j] - 2 * q->g[j]);
		for (int k = 0; k < j; k++) sum += 2 * c[j] * c[k] * q->G[j][k];
	}
	return fmax(0, sum);
}

/* What leaving out one block in turn says of c: squared deviations [p], the number of blocks in them,
 * and the block without which a column is not determined, or -1. */
struct jackknife { double square[MAX_REGRESSORS]; int used[MAX_REGRESSORS], only[MAX_REGRESSORS]; };

static void jackknife(const struct equations *block, int blocks, const struct equations *all, int p, const double *c,
	struct equations *rest, struct jackknife *k)
{
	double other[MAX_REGRESSORS];
	bool keep[MAX_REGRESSORS];

	for (int j = 0; j < p; j++) k->square[j] = 0, k->used[j] = 0, k->only[j] = -1;
	for (int b = 0; b < blocks; b++) {
		bool any = false;
		for (int j = 0; j < p; j++) any = any || block[b].G[j][j] > 0;
		if (!any) continue;
		*rest = *all;
		add(rest, &block[b], p, -1);
		solve(rest, p, other, keep);
		for (int j = 0; j < p; j++) {
			k->used[j]++;
			if (keep[j]) k->square[j] += (other[j] - c[j]) * (other[j] - c[j]);
			else k->only[j] = b;
		}
	}
}

/* Where all of a column is in one block there is no scatter, but no residual of the block's size, were
 * it the same everywhere, could move c by more than formal times its root (Cauchy and Schwarz). */
static double error_of(const struct equations *block, const struct jackknife *k, int p, const double *c, int j, double formal)
{
	if (k->only[j] >= 0) return formal * fmax(1, sqrt(left(&block[k->only[j]], p, c)));
	return fmax(formal, sqrt(k->square[j] * (k->used[j] - 1) / k->used[j]));
}

double fit(const struct sample *s, const double *y, const double *const *d, int p, struct coefficient *c)
{
	struct equations *block = calloc((size_t)s->blocks + 3, sizeof *block), *all = block + s->blocks, *whole = all + 1, *rest = all + 2;
	double value[MAX_REGRESSORS], explained = 0;
	bool keep[MAX_REGRESSORS];
	struct jackknife k;

	for (int j = 0; j < p; j++) c[j] = (struct coefficient){ .error = INFINITY };
	if (!block) return 0;
	accumulate(s, y, d, p, block);
	for (int b = 0; b < s->blocks; b++) add(all, &block[b], p, 1);
	*whole = *all;
	solve(whole, p, value, keep);
	jackknife(block, s->blocks, all, p, value, rest, &k);
	for (int j = 0; j < p; j++) {
		double alone = all->G[j][j] > 0 && all->yy > 0 ? all->g[j] * all->g[j] / (all->G[j][j] * all->yy) : 0;
		double error = keep[j] ? error_of(block, &k, p, value, j, formal_error(whole, p, keep, j)) : INFINITY;
		c[j] = (struct coefficient){ value[j], error, alone, keep[j] };
		explained += value[j] * all->g[j];
	}
	explained = all->yy > 0 ? explained / all->yy : 0;
	free(block);
	return explained;
}
