#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "xray.h"

enum { FLOOR_RUNS = 4, HEADS = 16, PARTS = 4 };

/* A block is a head (the second axis, modulo 16) and a quarter of the longest other leading axis; an
 * output of rank 2 has 64 parts of its rows. All outputs have blocks of their own. */
static void set_blocks(struct xray *x, int i)
{
	size_t shape[MAX_RANK], row = 1, other = 0;
	int rank = call_out_shape(x->call, i, shape), base = x->blocks, blocks = 0;

	for (int r = 1; r < rank; r++) row *= shape[r];
	if (rank > 3 && shape[2] > shape[0]) other = 2;
	for (size_t j = 0; j < x->first[i + 1] - x->first[i]; j++) {
		size_t at = j, index[MAX_RANK];
		for (int r = rank; r-- > 0; at /= shape[r]) index[r] = at % shape[r];
		size_t b = rank == 2 ? index[0] * (HEADS * PARTS) / (shape[0] < HEADS * PARTS ? HEADS * PARTS : shape[0])
			: index[1] % HEADS * PARTS + index[other] * PARTS / shape[other];
		if (rank == 2 && shape[0] < HEADS * PARTS) b = index[0];
		x->block[x->first[i] + j] = (uint8_t)(base + (int)b);
		if ((int)b + 1 > blocks) blocks = (int)b + 1;
	}
	x->blocks += blocks;
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

bool xray_make(struct xray *x, const struct call *call, struct error *e)
{
	*x = (struct xray){ .call = call };
	for (int i = 0; i < MAX_OUT; i++) x->first[i + 1] = x->first[i] + call->out_count[i];
	x->n = x->first[MAX_OUT];
	x->got = calloc(x->n, sizeof(double));
	x->floor2 = calloc(x->n, sizeof(double));
	x->shape2 = calloc(x->n, sizeof(double));
	x->weight = calloc(x->n, sizeof(double));
	x->block = calloc(x->n, 1);
	if (!x->got || !x->floor2 || !x->shape2 || !x->weight || !x->block) {
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
	}
}

bool xray_floor(struct xray *x, const struct plan *model, const double *y, struct error *e)
{
	double *noisy = malloc(2 * x->n * sizeof *noisy), *centre = noisy + x->n;
	struct plan p = *model;
	bool ok = noisy != NULL || error_set(e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu outputs", x->n);

	p.arith = &arith_noisy;
	p.bits = arith_noisy.precision;
	memset(x->floor2, 0, x->n * sizeof *x->floor2);
	if (ok) xray_store(x, y, centre);
	for (int r = 0; ok && r < FLOOR_RUNS; r++) {
		p.seed = (uint64_t)r + 1;
		ok = xray_run(x, &p, noisy, e);
		if (ok) xray_store(x, noisy, noisy);
		for (size_t j = 0; ok && j < x->n; j++) x->floor2[j] += (noisy[j] - centre[j]) * (noisy[j] - centre[j]) / FLOOR_RUNS;
	}
	free(noisy);
	for (int i = 0; ok && i < MAX_OUT; i++)
		if (x->call->out_count[i]) pool_floor(x, i, y);
	for (size_t j = 0; ok && j < x->n; j++)
		if (!isfinite(x->got[j]) || !isfinite(y[j])) x->floor2[j] = 0;
	return ok;
}

bool xray_shape(struct xray *x, const struct plan *base, const double *y, struct error *e)
{
	double *d = malloc(x->n * sizeof *d);
	bool ok = d != NULL || error_set(e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu outputs", x->n);

	memset(x->shape2, 0, x->n * sizeof *x->shape2);
	for (int k = 0; ok && x->call->op->sites[k].name; k++) {
		struct plan p = *base;
		if (!site_in_form(x->call->op, k, p.form) || x->call->op->sites[k].store) continue;
		p.round[k].on = !p.round[k].on;
		if (!base->round[k].on) p.round[k] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		ok = xray_run(x, &p, d, e);
		for (size_t j = 0; ok && j < x->n; j++)
			if (isfinite(d[j] - y[j])) x->shape2[j] += (d[j] - y[j]) * (d[j] - y[j]);
	}
	free(d);
	for (int i = 0; ok && i < MAX_OUT; i++)
		if (x->call->out_count[i]) pool_rows(x, i, x->shape2);
	return ok;
}

void xray_free(struct xray *x)
{
	free(x->got);
	free(x->floor2);
	free(x->shape2);
	free(x->weight);
	free(x->block);
	*x = (struct xray){ 0 };
}

bool xray_run(const struct xray *x, const struct plan *p, double *y, struct error *e)
{
	struct answer a;

	if (!ref_run(x->call, p, &a, e)) return false;
	for (int i = 0; i < MAX_OUT; i++)
		if (a.hi[i]) memcpy(y + x->first[i], a.hi[i], x->call->out_count[i] * sizeof(double));
	answer_free(&a);
	return true;
}

void xray_store(const struct xray *x, const double *y, double *stored)
{
	for (int i = 0; i < MAX_OUT; i++)
		for (size_t j = x->first[i]; j < x->first[i + 1]; j++) stored[j] = stored_as(out_dtype(x->call, i), y[j], 0);
}

double xray_weigh(struct xray *x, const double *r)
{
	double square[MAX_BLOCKS] = { 0 }, count[MAX_BLOCKS] = { 0 }, total = 0;

	for (size_t i = 0; i < x->n; i++) {
		if (!(x->floor2[i] > 0) || !isfinite(r[i])) continue;
		square[x->block[i]] += fmax(0, r[i] * r[i] - x->floor2[i]) / (x->shape2[i] + x->floor2[i]);
		count[x->block[i]]++;
	}
	for (size_t i = 0; i < x->n; i++) {
		int b = x->block[i];
		double v = x->floor2[i] + x->shape2[i] * (count[b] ? fmin(1, square[b] / count[b]) : 0);
		bool in = x->floor2[i] > 0 && isfinite(r[i]);
		x->weight[i] = in ? 1 / v : 0;
		if (in) total += log(v) + r[i] * r[i] / v;
	}
	return total;
}

struct sample xray_sample(const struct xray *x)
{
	return (struct sample){ x->n, x->blocks, x->block, x->weight };
}
