#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fit.h"

/* Normal equations, for each block and in all: yy = Σ w y², g = Σ w d y, and G = Σ w d d', of which the lower triangle counts. */
struct equations { double yy, *g, *G; };

/* Behind those of the blocks. */
enum { ALL, WHOLE, REST, BEYOND };
struct fitting { int blocks, p; double *numbers; struct equations of[]; };

/* Columns whose own part, after those before are taken out, is less than this share are dropped. */
static const double independent = 1e-9;

/* Cholesky's factor of G in place (lower), and which columns stay. */
static void factor(struct equations *q, int p, bool *keep)
{
	for (int j = 0; j < p; j++) {
		double own = q->G[j * p + j], d = own;
		for (int k = 0; k < j; k++) d -= q->G[j * p + k] * q->G[j * p + k];
		keep[j] = own > 0 && d > independent * own;
		for (int i = j; i < p; i++) {
			double x = q->G[i * p + j];
			for (int k = 0; k < j; k++) x -= q->G[i * p + k] * q->G[j * p + k];
			q->G[i * p + j] = keep[j] ? (i == j ? sqrt(d) : x / sqrt(d)) : 0;
		}
	}
}

/* g <- G^-1 g with the factor of G; dropped columns get 0. */
static void substitute(const struct equations *q, int p, const bool *keep, double *g)
{
	for (int i = 0; i < p; i++) {
		for (int k = 0; k < i; k++) g[i] -= q->G[i * p + k] * g[k];
		g[i] = keep[i] ? g[i] / q->G[i * p + i] : 0;
	}
	for (int i = p; i-- > 0;) {
		for (int k = i + 1; k < p; k++) g[i] -= q->G[k * p + i] * g[k];
		g[i] = keep[i] ? g[i] / q->G[i * p + i] : 0;
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

struct fitting *fit_begin(int blocks, int p)
{
	size_t n = (size_t)(blocks + BEYOND), each = (size_t)(p * p + p);
	struct fitting *f = malloc(sizeof *f + n * sizeof *f->of);
	double *numbers = calloc(n * each + 1, sizeof *numbers);

	if (!f || !numbers) {
		free(f), free(numbers);
		return NULL;
	}
	*f = (struct fitting){ blocks, p, numbers };
	for (size_t b = 0; b < n; b++) f->of[b] = (struct equations){ 0, numbers + b * each, numbers + b * each + p };
	return f;
}

void fit_add_sums(struct fitting *f, int block, double yy, double dy, double dd)
{
	f->of[block].yy += yy, f->of[block].g[0] += dy, f->of[block].G[0] += dd;
}

/* Of n elements from `at` on, row j of the equations; with the first row, yy. */
static void add_row(struct fitting *f, const struct sample *s, const double *y, const double *const *d, size_t at, size_t n, int j)
{
	int p = f->p;

	for (size_t i = at; i < at + n; i++) {
		struct equations *b = &f->of[s->block[i]];
		double w = s->weight[i], wd = w * d[j][i];
		if (!(w > 0)) continue;
		if (j == 0) b->yy += w * y[i] * y[i];
		if (wd == 0) continue;
		b->g[j] += wd * y[i];
		for (int k = 0; k <= j; k++) b->G[j * p + k] += wd * d[k][i];
	}
}

/* Each thread has rows of the equations of its own, and goes through all elements, as many at a time as its cache holds. */
void fit_add(struct fitting *f, const struct sample *s, const double *y, const double *const *d)
{
	enum { AT_A_TIME = 1 << 10, WORTH = 1 << 12 };

	#pragma omp parallel if (f->p > 1 && s->n > WORTH)
	for (size_t at = 0; at < s->n; at += AT_A_TIME) {
		#pragma omp for schedule(static, 1) nowait
		for (int j = 0; j < f->p; j++) add_row(f, s, y, d, at, s->n - at < AT_A_TIME ? s->n - at : AT_A_TIME, j);
	}
}

static void copy(struct equations *to, const struct equations *q, int p)
{
	to->yy = q->yy;
	memcpy(to->g, q->g, (size_t)p * sizeof *q->g);
	memcpy(to->G, q->G, (size_t)(p * p) * sizeof *q->G);
}

static void add(struct equations *to, const struct equations *q, int p, double sign)
{
	for (int j = 0; j < p; j++) {
		to->g[j] += sign * q->g[j];
		for (int k = 0; k <= j; k++) to->G[j * p + k] += sign * q->G[j * p + k];
	}
	to->yy += sign * q->yy;
}

/* Σ w (y - Σ_j c_j d_j)² of a block. */
static double left(const struct equations *q, int p, const double *c)
{
	double sum = q->yy;

	for (int j = 0; j < p; j++) {
		sum += c[j] * (c[j] * q->G[j * p + j] - 2 * q->g[j]);
		for (int k = 0; k < j; k++) sum += 2 * c[j] * c[k] * q->G[j * p + k];
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
		for (int j = 0; j < p; j++) any = any || block[b].G[j * p + j] > 0;
		if (!any) continue;
		copy(rest, all, p);
		add(rest, &block[b], p, -1);
		solve(rest, p, other, keep);
		for (int j = 0; j < p; j++) {
			k->used[j]++;
			if (keep[j]) k->square[j] += (other[j] - c[j]) * (other[j] - c[j]);
			else k->only[j] = b;
		}
	}
}

/* No residual of this size, were it the same everywhere, moves c by more than formal times its root (Cauchy and Schwarz): of a column that lies
 * in one block, where there is no scatter, the block's; of one that lies nearly all in one, of which the others tell nothing, all of it. */
static double error_of(const struct equations *block, const struct equations *all, const struct jackknife *k, int p, const double *c, int j, double formal)
{
	if (k->only[j] >= 0) return formal * fmax(1, sqrt(left(&block[k->only[j]], p, c)));
	return fmax(formal, fmin(formal * sqrt(left(all, p, c)), sqrt(k->square[j] * (k->used[j] - 1) / k->used[j])));
}

double fit_end(struct fitting *f, struct coefficient *c)
{
	struct equations *block = f->of, *all = block + f->blocks + ALL, *whole = block + f->blocks + WHOLE, *rest = block + f->blocks + REST;
	double value[MAX_REGRESSORS], explained = 0;
	bool keep[MAX_REGRESSORS];
	struct jackknife k;
	int p = f->p;

	for (int b = 0; b < f->blocks; b++) add(all, &block[b], p, 1);
	copy(whole, all, p);
	solve(whole, p, value, keep);
	jackknife(block, f->blocks, all, p, value, rest, &k);
	for (int j = 0; j < p; j++) {
		double own = all->G[j * p + j], alone = own > 0 && all->yy > 0 ? all->g[j] * all->g[j] / (own * all->yy) : 0;
		double error = keep[j] ? error_of(block, all, &k, p, value, j, formal_error(whole, p, keep, j)) : INFINITY;
		c[j] = (struct coefficient){ value[j], error, alone, keep[j] };
		explained += value[j] * all->g[j];
	}
	explained = all->yy > 0 ? explained / all->yy : 0;
	fit_free(f);
	return explained;
}

void fit_free(struct fitting *f)
{
	if (f) free(f->numbers);
	free(f);
}
