#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "xray.h"

enum { FLOOR_RUNS = 4, HEADS = 16, PARTS = 4, FEWEST = 8, SEGMENTS = 16 };

/* The variance, in ulp², of an element that no site reaches: it should be equal to the bit. */
static const double exact = 0x1p-6;
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

bool is_store(const struct call *call, int site, enum format f)
{
	int store = call->op->sites[site].store;

	return store && format_info[f].precision >= format_info[dtype_info[out_dtype(call, store - 1)].format].precision;
}

static double ulp_at(const struct xray *x, size_t j, double y)
{
	return format_ulp(dtype_info[out_dtype(x->call, j >= x->first[1])].format, y);
}

bool xray_make(struct xray *x, const struct call *call, void (*tick)(const char *, size_t, size_t), struct error *e)
{
	double **vector[] = { &x->got, &x->base, &x->raw, &x->r, &x->shape2, &x->floor2, &x->weight, &x->raw_weight, &x->d };
	bool ok = true;

	*x = (struct xray){ .call = call, .tick = tick, .e = e };
	for (int i = 0; i < MAX_OUT; i++) x->first[i + 1] = x->first[i] + call->out_count[i];
	x->n = x->first[MAX_OUT];
	for (size_t i = 0; i < sizeof vector / sizeof *vector; i++) ok = (*vector[i] = calloc(x->n, sizeof(double))) && ok;
	if (!(x->block = calloc(x->n, 1)) || !ok) {
		xray_free(x);
		return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%zu outputs", x->n);
	}
	for (int i = 0; i < MAX_OUT; i++) {
		if (!call->out_count[i]) continue;
		dtype_load(call->out[i]->dtype, call->out[i]->data, call->out_count[i], x->got + x->first[i]);
		set_blocks(x, i);
	}
	return true;
}

void xray_free(struct xray *x)
{
	double *vector[] = { x->got, x->base, x->raw, x->r, x->shape2, x->floor2, x->weight, x->raw_weight, x->d };

	for (size_t i = 0; i < sizeof vector / sizeof *vector; i++) free(vector[i]);
	free(x->block);
	*x = (struct xray){ 0 };
}

/* The plan's answer: y [n]. */
static bool run(struct xray *x, const struct plan *p, double *y)
{
	struct answer a;

	if (x->tick) x->tick("x-ray", x->runs, x->runs + 1);
	x->runs++;
	if (!ref_run(x->call, p, &a, x->e)) return false;
	for (int i = 0; i < MAX_OUT; i++)
		if (a.hi[i]) memcpy(y + x->first[i], a.hi[i], x->call->out_count[i] * sizeof(double));
	answer_free(&a);
	return true;
}

/* y [n] rounded to the outputs' dtypes; may be in place. */
static void store(const struct xray *x, const double *y, double *stored)
{
	for (size_t j = 0; j < x->n; j++) stored[j] = stored_as(out_dtype(x->call, j >= x->first[1]), y[j], 0);
}

/* floor2 of output i from its squared errors: the mean over the element's row, and, so that a rounding
 * that tips over once in a thousand elements is expected everywhere, the mean over the block of the
 * squared error in ulp, with one ulp more than was seen. */
static void pool_floor(struct xray *x, int i, const double *y)
{
	enum format f = dtype_info[out_dtype(x->call, i)].format;
	double ulps[MAX_BLOCKS] = { 0 }, count[MAX_BLOCKS] = { 0 };

	for (size_t j = x->first[i]; j < x->first[i + 1]; j++) {
		double ulp = format_ulp(f, y[j]);
		if (!isfinite(x->floor2[j]) || !(x->shape2[j] > 0)) x->floor2[j] = 0;
		ulps[x->block[j]] += x->floor2[j] / (ulp * ulp);
		count[x->block[j]] += x->shape2[j] > 0;
	}
	pool_rows(x, i, x->floor2);
	for (size_t j = x->first[i]; j < x->first[i + 1]; j++) {
		double ulp = format_ulp(f, y[j]);
		if (x->shape2[j] > 0) x->floor2[j] += (ulps[x->block[j]] + 1.0 / FLOOR_RUNS) / count[x->block[j]] * ulp * ulp;
		else x->floor2[j] = exact * ulp * ulp;
	}
}

static bool find_floor(struct xray *x)
{
	double *noisy = malloc(2 * x->n * sizeof *noisy), *centre = noisy + x->n;
	struct plan p = x->replica;
	bool ok = noisy || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu outputs", x->n);

	p.arith = &arith_noisy;
	p.bits = arith_noisy.precision;
	memset(x->floor2, 0, x->n * sizeof *x->floor2);
	if (ok) store(x, x->base, centre);
	for (int k = 0; ok && k < FLOOR_RUNS; k++) {
		p.seed = (uint64_t)k + 1;
		ok = run(x, &p, noisy);
		if (ok) store(x, noisy, noisy);
		for (size_t j = 0; ok && j < x->n; j++) x->floor2[j] += (noisy[j] - centre[j]) * (noisy[j] - centre[j]) / FLOOR_RUNS;
	}
	free(noisy);
	for (int i = 0; ok && i < MAX_OUT; i++)
		if (x->call->out_count[i]) pool_floor(x, i, x->base);
	return ok;
}

static bool find_shape(struct xray *x)
{
	memset(x->shape2, 0, x->n * sizeof *x->shape2);
	for (int k = 0; x->call->op->sites[k].name; k++) {
		struct plan p = x->replica;
		if (!site_in_form(x->call->op, k, p.form) || x->call->op->sites[k].store) continue;
		p.round[k] = p.round[k].on ? (struct site_rounding){ 0 } : (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		if (!xray_direction(x, &p)) return false;
		for (size_t j = 0; j < x->n; j++)
			if (isfinite(x->d[j])) x->shape2[j] += x->d[j] * x->d[j];
	}
	for (int i = 0; i < MAX_OUT; i++)
		if (x->call->out_count[i]) pool_rows(x, i, x->shape2);
	return true;
}

bool xray_settle(struct xray *x)
{
	return run(x, &x->replica, x->base) && find_shape(x) && find_floor(x) && xray_rebase(x);
}

bool xray_direction(struct xray *x, const struct plan *p)
{
	if (!run(x, p, x->d)) return false;
	for (size_t j = 0; j < x->n; j++) x->d[j] -= x->base[j];
	return true;
}

static bool takes_part(const struct xray *x, size_t j)
{
	return x->floor2[j] > 0 && isfinite(x->r[j]);
}

/* a of each block; see xray_rebase. */
static void block_scales(const struct xray *x, double *a)
{
	double count[MAX_BLOCKS] = { 0 };

	for (int b = 0; b < x->blocks; b++) a[b] = 0;
	for (size_t j = 0; j < x->n; j++) {
		if (!takes_part(x, j)) continue;
		a[x->block[j]] += fmax(0, x->r[j] * x->r[j] - x->floor2[j]) / (x->shape2[j] + x->floor2[j]);
		count[x->block[j]]++;
	}
	for (int b = 0; b < x->blocks; b++) a[b] = count[b] ? fmin(1, a[b] / count[b]) : 0;
}

bool xray_rebase(struct xray *x)
{
	double a[MAX_BLOCKS];

	if (!run(x, &x->replica, x->base)) return false;
	store(x, x->base, x->r);
	for (size_t j = 0; j < x->n; j++) {
		bool same = isfinite(x->got[j]) == isfinite(x->r[j]);
		x->raw[j] = x->got[j] - x->base[j];
		x->r[j] = x->got[j] - x->r[j];
		if (!isfinite(x->r[j])) x->r[j] = same ? NAN : INFINITY;
	}
	block_scales(x, a);
	x->score = 0;
	for (size_t j = 0; j < x->n; j++) {
		double v = x->floor2[j] + x->shape2[j] * a[x->block[j]], ulp = ulp_at(x, j, x->got[j]);
		bool in = takes_part(x, j);
		x->weight[j] = in ? 1 / v : 0;
		x->raw_weight[j] = in ? 1 / (v + ulp * ulp / 12) : 0;
		if (in) x->score += log(v / (ulp * ulp)) + x->r[j] * x->r[j] / v;
		else x->score += isfinite(x->r[j]) ? 0 : isnan(x->r[j]) ? agree : disagree;
	}
	return true;
}

struct coefficient xray_fit(const struct xray *x)
{
	struct sample stored = xray_sample(x), raw = stored;
	struct coefficient a, b;
	const double *d = x->d;

	raw.weight = x->raw_weight;
	fit(&stored, x->r, &d, 1, &a);
	fit(&raw, x->raw, &d, 1, &b);
	return fabs(a.value - 1) / a.error < fabs(b.value - 1) / b.error || a.gain > b.gain ? a : b;
}

double xray_size(const struct xray *x)
{
	double sum = 0, n = 0;

	for (size_t j = 0; j < x->n; j++) {
		if (!(x->floor2[j] > 0)) continue;
		n++;
		sum += isfinite(x->d[j]) ? x->d[j] * x->d[j] / x->floor2[j] : 0;
	}
	return n > 0 ? sqrt(sum / n) : 0;
}

int xray_overflows(const struct xray *x)
{
	int any = 0;

	for (size_t j = 0; j < x->n; j++) {
		if (isfinite(x->d[j]) || !isfinite(x->base[j])) continue;
		if (isfinite(x->got[j])) return -1;
		any = 1;
	}
	return any;
}

double xray_left(const struct xray *x)
{
	double sum = 0, n = 0;

	for (size_t j = 0; j < x->n; j++) {
		if (takes_part(x, j)) sum += x->r[j] * x->r[j] / x->floor2[j], n++;
		else if (isinf(x->r[j])) return INFINITY;
	}
	return n > 0 ? sum / n : 0;
}

struct sample xray_sample(const struct xray *x)
{
	return (struct sample){ x->n, x->blocks, x->block, x->weight };
}
