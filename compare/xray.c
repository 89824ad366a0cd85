#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "xray_private.h"

enum { STEPS = 6, HEADS = 16, PARTS = 4, FEWEST = 8, SEGMENTS = 16 };

/* What is done around a run, in element operations of the reference for each output element. */
static const uint64_t overhead = 64;
/* In the score, of an element that is not finite in both, and of one that is finite in one only. */
static const double agree = -20, disagree = 200;

/* A block is a head (the second axis, modulo 16) and a quarter of the longest other leading axis, or, of
 * an output of rank 2, a 64th of its rows. */
static size_t block_of(size_t j, const size_t *shape, int rank)
{
	size_t index[MAX_RANK], other = rank > 3 && shape[2] > shape[0] ? 2 : 0, most = HEADS * PARTS;

	for (int r = rank; r-- > 0; j /= shape[r]) index[r] = j % shape[r];
	if (rank == 2) return shape[0] <= most ? index[0] : index[0] * most / shape[0];
	return index[1] % HEADS * PARTS + index[other] * PARTS / shape[other];
}

/* All outputs have blocks of their own; one with too few for a jackknife has segments of its elements. */
static void set_blocks(struct xray *x, int i)
{
	size_t shape[MAX_RANK], n = x->first[i + 1] - x->first[i], seen[HEADS * PARTS] = { 0 }, blocks = 0;
	int rank = call_out_shape(x->call, i, shape);

	for (size_t j = 0; j < n; j++) blocks += !seen[block_of(j, shape, rank)]++;
	for (size_t j = 0; j < n; j++)
		x->block[x->first[i] + j] = (uint8_t)((size_t)x->blocks + (blocks < FEWEST ? j * SEGMENTS / n : block_of(j, shape, rank)));
	x->blocks += blocks < FEWEST ? SEGMENTS : HEADS * PARTS;
}

/* Each of x [n], output i, becomes the mean over those of its row that are not 0; 0 stays. */
static void pool_rows(const struct xray *x, int i, double *v)
{
	size_t row = out_row(x->call, i);

	for (size_t at = x->first[i]; at < x->first[i + 1]; at += row) {
		double sum = 0;
		size_t n = 0;
		for (size_t j = at; j < at + row; j++) sum += v[j], n += v[j] > 0;
		for (size_t j = at; j < at + row; j++)
			if (v[j] > 0) v[j] = sum / (double)n;
	}
}

bool site_in_form(const struct op *op, int site, int form)
{
	return op->sites[site].form < 0 || op->sites[site].form == form;
}

int site_store(const struct call *call, int site)
{
	int store = call->op->sites[site].store;

	return store && call->out_count[store - 1] ? store : 0;
}

int xray_out(const struct xray *x, size_t j)
{
	int i = 0;

	while (j >= x->first[i + 1]) i++;
	return i;
}

bool is_store(const struct call *call, int site, enum format f)
{
	int store = site_store(call, site);

	return store && format_info[f].precision >= format_info[dtype_info[out_dtype(call, store - 1)].format].precision;
}

static double ulp_at(const struct xray *x, size_t j, double y)
{
	return format_ulp(dtype_info[out_dtype(x->call, xray_out(x, j))].format, y);
}

bool xray_make(struct xray *x, const struct call *call, void (*tick)(const char *, size_t, size_t), struct error *e)
{
	*x = (struct xray){ .call = call, .tick = tick, .e = e };
	double **vector[] = { &x->got, &x->base, &x->raw, &x->r, &x->shape2, &x->floor2, &x->weight, &x->raw_weight, &x->d, &x->trial };
	enum { VECTORS = sizeof vector / sizeof *vector };

	for (int i = 0; i < MAX_OUT; i++) x->first[i + 1] = x->first[i] + call->out_count[i];
	x->n = x->first[MAX_OUT];
	x->got = calloc(VECTORS * x->n, sizeof *x->got);
	x->noise = calloc(2 * FLOOR_RUNS * x->n, sizeof *x->noise);
	x->block = calloc(x->n, 1);
	if (!x->got || !x->noise || !x->block) {
		xray_free(x);
		return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%zu outputs", x->n);
	}
	for (size_t i = 1; i < VECTORS; i++) *vector[i] = x->got + i * x->n;
	x->raw_noise = x->noise + FLOOR_RUNS * x->n;
	for (int i = 0; i < MAX_OUT; i++) {
		if (!call->out_count[i]) continue;
		dtype_load(call->out[i]->dtype, call->out[i]->data, call->out_count[i], x->got + x->first[i]);
		set_blocks(x, i);
	}
	return true;
}

void xray_free(struct xray *x)
{
	free(x->got);
	free(x->noise);
	free(x->block);
	*x = (struct xray){ 0 };
}

bool xray_run(struct xray *x, const struct plan *plan, double *y)
{
	struct plan p = *plan;
	struct answer a;

	if (x->tick) x->tick("x-ray", x->runs, x->runs + 1);
	x->runs++;
	p.stride = x->stride;
	if (!ref_run(x->call, &p, &a, x->e)) return false;
	for (int i = 0; i < MAX_OUT; i++)
		if (a.hi[i]) memcpy(y + x->first[i], a.hi[i], x->call->out_count[i] * sizeof(double));
	x->work += a.work + overhead * x->n;
	answer_free(&a);
	return true;
}

void xray_store(const struct xray *x, const double *y, double *stored)
{
	#pragma omp parallel for
	for (size_t j = 0; j < x->n; j++) stored[j] = stored_as(out_dtype(x->call, xray_out(x, j)), y[j], 0);
}

/* An element may be reached although no single rounding moves it, where the last one has a coarse grid: all
 * of them together do. */
static bool mark_reached(struct xray *x)
{
	struct plan bare = x->replica;

	memset(bare.round, 0, sizeof bare.round);
	if (!xray_direction(x, &bare)) return false;
	for (size_t j = 0; j < x->n; j++)
		if (x->shape2[j] == 0 && x->d[j] != 0) x->shape2[j] = DBL_MIN;
	return true;
}

static bool find_shape(struct xray *x)
{
	memset(x->shape2, 0, x->n * sizeof *x->shape2);
	for (int k = 0; x->call->op->sites[k].name; k++) {
		struct plan p = x->replica;
		if (!site_in_form(x->call->op, k, p.form) || site_store(x->call, k)) continue;
		p.round[k] = p.round[k].on ? (struct site_rounding){ 0 } : (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		if (!xray_direction(x, &p)) return false;
		for (size_t j = 0; j < x->n; j++)
			if (isfinite(x->d[j])) x->shape2[j] += x->d[j] * x->d[j];
	}
	if (!mark_reached(x)) return false;
	for (int i = 0; i < MAX_OUT; i++)
		if (x->call->out_count[i]) pool_rows(x, i, x->shape2);
	return true;
}

bool xray_sample_pieces(struct xray *x, uint64_t most)
{
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);
	uint64_t before = x->work;

	x->stride = 0;
	if (!most || x->call->anchored) return true;    /* iterations are unlike each other */
	if (!xray_run(x, &p, x->base)) return false;
	x->stride = (x->work - before - overhead * x->n + most - 1) / most;
	return true;
}

bool xray_settle(struct xray *x)
{
	return xray_run(x, &x->replica, x->base) && find_shape(x) && xray_floor(x) && xray_rebase(x);
}

bool xray_direction(struct xray *x, const struct plan *p)
{
	if (!xray_run(x, p, x->d)) return false;
	for (size_t j = 0; j < x->n; j++) x->d[j] -= x->base[j];
	return true;
}

/* got - y of element j, y being stored: NAN where neither is finite, INFINITY where one is. */
static double residual(const struct xray *x, size_t j, double y)
{
	double r = x->got[j] - y;

	return isfinite(r) ? r : isfinite(x->got[j]) == isfinite(y) ? (double)NAN : (double)INFINITY;
}

static bool takes_part(const struct xray *x, size_t j, double r)
{
	return x->floor2[j] > 0 && isfinite(r);
}

/* a of each block, from the residuals r [n]; see xray_rebase. */
static void block_scales(const struct xray *x, const double *r, double *a)
{
	double count[MAX_BLOCKS] = { 0 };

	for (int b = 0; b < x->blocks; b++) a[b] = 0;
	for (size_t j = 0; j < x->n; j++) {
		if (!takes_part(x, j, r[j])) continue;
		a[x->block[j]] += fmax(0, r[j] * r[j] - x->floor2[j]) / (x->shape2[j] + x->floor2[j]);
		count[x->block[j]]++;
	}
	for (int b = 0; b < x->blocks; b++) a[b] = count[b] ? fmin(1, a[b] / count[b]) : 0;
}

/* Sums go strip by strip, in order, so that no answer depends on the number of threads. */
enum { STRIP = 1 << 14 };
static size_t strip_end(const struct xray *x, size_t at) { return at + STRIP < x->n ? at + STRIP : x->n; }

/* One step of Fisher's scoring towards the scales under which the residuals r [n] are likeliest, if they
 * are Cauchy's. */
static void robust_scales(const struct xray *x, const double *r, double *a)
{
	double sum[MAX_BLOCKS] = { 0 }, weight[MAX_BLOCKS] = { 0 };

	#pragma omp parallel for ordered schedule(static, 1)
	for (size_t at = 0; at < x->n; at += STRIP) {
		double part[MAX_BLOCKS] = { 0 }, part_weight[MAX_BLOCKS] = { 0 };
		for (size_t j = at; j < strip_end(x, at); j++) {
			if (!takes_part(x, j, r[j])) continue;
			double r2 = r[j] * r[j], s = x->shape2[j], v = x->floor2[j] + s * a[x->block[j]];
			part[x->block[j]] += s * (2 * v / (v + r2) * r2 - x->floor2[j]) / (v * v);
			part_weight[x->block[j]] += s * s / (v * v);
		}
		#pragma omp ordered
		for (int b = 0; b < x->blocks; b++) sum[b] += part[b], weight[b] += part_weight[b];
	}
	for (int b = 0; b < x->blocks; b++) a[b] = weight[b] > 0 ? fmax(0, fmin(1, sum[b] / weight[b])) : 0;
}

/* The score of the residuals r [n], starting from block_scales. */
static double score(const struct xray *x, const double *r, const double *start)
{
	double a[MAX_BLOCKS], sum = 0;

	memcpy(a, start, sizeof a);
	for (int i = 0; i < STEPS; i++) robust_scales(x, r, a);
	#pragma omp parallel for ordered schedule(static, 1)
	for (size_t at = 0; at < x->n; at += STRIP) {
		double part = 0;
		for (size_t j = at; j < strip_end(x, at); j++) {
			double v = x->floor2[j] + x->shape2[j] * a[x->block[j]], ulp = ulp_at(x, j, x->got[j]), w = v + r[j] * r[j];
			if (takes_part(x, j, r[j])) part += log(w / v * (w / (ulp * ulp)));
			else part += isfinite(r[j]) ? 0 : isnan(r[j]) ? agree : disagree;
		}
		#pragma omp ordered
		sum += part;
	}
	return sum;
}

double xray_try(const struct xray *x)
{
	double a[MAX_BLOCKS];

	for (size_t j = 0; j < x->n; j++) x->trial[j] = x->base[j] + x->d[j];
	xray_store(x, x->trial, x->trial);
	#pragma omp parallel for
	for (size_t j = 0; j < x->n; j++) x->trial[j] = residual(x, j, x->trial[j]);
	block_scales(x, x->trial, a);
	return score(x, x->trial, a);
}

bool xray_rebase(struct xray *x)
{
	double a[MAX_BLOCKS];

	if (!xray_run(x, &x->replica, x->base)) return false;
	xray_store(x, x->base, x->r);
	for (size_t j = 0; j < x->n; j++) {
		x->raw[j] = x->got[j] - x->base[j];
		x->r[j] = residual(x, j, x->r[j]);
	}
	block_scales(x, x->r, a);
	x->score = score(x, x->r, a);
	for (size_t j = 0; j < x->n; j++) {
		double v = x->floor2[j] + x->shape2[j] * a[x->block[j]], ulp = ulp_at(x, j, x->got[j]);
		bool in = takes_part(x, j, x->r[j]);
		x->weight[j] = in ? 1 / v : 0;
		x->raw_weight[j] = in ? 1 / (v + ulp * ulp / 12) : 0;
	}
	return true;
}
