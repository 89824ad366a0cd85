/* The strips of a call, and what is made anew for each. */
#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "xray_private.h"

enum { HEADS = 16, PARTS = 4, FEWEST = 8, SEGMENTS = 16 };

/* A block is a head (the second axis, modulo 16) and a quarter of the longest other leading axis, or, of
 * an output of rank 1 or 2, a 64th of its rows. */
static size_t block_of(size_t j, const size_t *shape, int rank)
{
	size_t index[MAX_RANK], other = rank > 3 && shape[2] > shape[0] ? 2 : 0, most = HEADS * PARTS;

	for (int r = rank; r-- > 0; j /= shape[r]) index[r] = j % shape[r];
	if (rank <= 2) return shape[0] <= most ? index[0] : index[0] * most / shape[0];
	return index[1] % HEADS * PARTS + index[other] * PARTS / shape[other];
}

static_assert(MAX_OUT * SEGMENTS <= MAX_BLOCKS && MAX_BLOCKS <= UINT8_MAX + 1, "a block's number is a byte");

/* All outputs have blocks of their own; one with too few for a jackknife has segments of its elements, and so have all of a call with more
 * outputs than there is room for. */
static void count_blocks(struct xray *x, int i)
{
	size_t shape[MAX_RANK], seen[HEADS * PARTS] = { 0 }, blocks = 0, outputs = 0;
	int rank = call_out_shape(x->call, i, shape);

	for (size_t j = 0; j < x->call->out_count[i]; j++) blocks += !seen[block_of(j, shape, rank)]++;
	for (int o = 0; o < MAX_OUT; o++) outputs += x->call->out_count[o] > 0;
	x->segments[i] = blocks < FEWEST || outputs * HEADS * PARTS > MAX_BLOCKS;
	x->first_block[i] = x->blocks;
	x->blocks += x->segments[i] ? SEGMENTS : HEADS * PARTS;
}

/* Of a strip, which is whole rows: of rank 2 and more each is of one block. */
static void set_blocks(struct xray *x, int i)
{
	size_t shape[MAX_RANK], all = x->call->out_count[i];
	int rank = call_out_shape(x->call, i, shape);
	size_t step = rank > 1 && !x->segments[i] ? x->row[i] : 1;

	for (size_t j = x->first[i]; j < x->first[i + 1]; j += step) {
		size_t at = xray_place(x, i, j), b = x->segments[i] ? at * SEGMENTS / all : block_of(at, shape, rank);
		memset(x->block + j, (int)((size_t)x->first_block[i] + b), step);
	}
}

int xray_out(const struct xray *x, size_t j)
{
	int i = 0;

	while (j >= x->first[i + 1]) i++;
	return i;
}

size_t xray_row(const struct xray *x, int i, size_t j) { return x->first_row[i] + xray_place(x, i, j) / x->row[i]; }

/* The strip with the most elements. */
static size_t largest(const struct xray *x)
{
	size_t most = 0;

	for (size_t s = 0; s < x->strips; s++) {
		struct strip strip = call_strip(x->call, s, x->strips);
		size_t n = 0;
		for (int i = 0; i < MAX_OUT; i++) n += strip.count[i];
		most = n > most ? n : most;
	}
	return most;
}

/* Where what is carried makes two strips as large as half of the call, all of it is looked at in one, if that is so many bytes for an element: nothing
 * is made anew from pass to pass then. Not where the call says how many elements are at hand. */
static size_t strips_of(const struct call *call, size_t bytes)
{
	size_t n = check_strips(call), all = 0;

	for (int i = 0; i < MAX_OUT; i++) all += call->out_count[i];
	return n == 2 && !call->at_hand && all * bytes <= XRAY_KEPT_OF_FEW / 2 ? 1 : n;
}

bool xray_make(struct xray *x, const struct call *call, void (*tick)(const char *, size_t, size_t), struct error *e)
{
	*x = (struct xray){ .call = call, .at = SIZE_MAX, .tick = tick, .patience = UINT64_MAX, .e = e };
	double **vector[] = { &x->got, &x->base, &x->centre, &x->raw, &x->r, &x->shape2, &x->floor2, &x->weight, &x->raw_weight, &x->stored,
		&x->d, &x->trial };
	enum { VECTORS = sizeof vector / sizeof *vector };
	x->strips = strips_of(call, VECTORS * sizeof *x->got + 2 * FLOOR_RUNS * sizeof *x->noise);
	size_t n = x->most = largest(x), rows = 0;

	for (int i = 0; i < MAX_OUT; i++) {
		x->first_element[i] = x->all;
		x->first_row[i] = rows;
		x->all += call->out_count[i];
		x->row[i] = 1;
		if (!call->out_count[i]) continue;
		x->row[i] = out_row(call, i);
		rows += call->out_count[i] / x->row[i];
		count_blocks(x, i);
	}
	x->got = calloc(VECTORS * n, sizeof *x->got);
	x->noise = calloc(2 * FLOOR_RUNS * n, sizeof *x->noise);
	x->block = calloc(n, 1);
	x->reach = calloc(x->all, 1);
	x->row_shape = calloc(2 * rows, sizeof *x->row_shape);
	if (!x->got || !x->noise || !x->block || !x->reach || !x->row_shape) {
		xray_free(x);
		return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%zu outputs", x->all);
	}
	for (size_t i = 1; i < VECTORS; i++) *vector[i] = x->got + i * n;
	x->row_floor = x->row_shape + rows;
	return xray_refresh_strip(x, 0, 0);
}

void xray_free(struct xray *x)
{
	stream_end(&x->of_base);
	stream_end(&x->of_centre);
	for (int k = 0; k < FLOOR_RUNS; k++) stream_end(&x->of_noise[k]);
	free(x->got);
	free(x->noise);
	free(x->block);
	free(x->reach);
	free(x->row_shape);
	free(x->shift);
	free(x->kept_shift);
	for (int i = 0; i < MAX_SITE; i++) free(x->without[i]);
	xray_untell(x);
	xray_forget(x);
	*x = (struct xray){ 0 };
}

static size_t part_end(size_t at, size_t end) { return end - at < WORTH ? end : at + WORTH; }

void xray_copy(double *to, const double *from, size_t n)
{
	#pragma omp parallel for if (n > WORTH)
	for (size_t at = 0; at < n; at += WORTH) memcpy(to + at, from + at, (part_end(at, n) - at) * sizeof *to);
}

void xray_store(const struct xray *x, const double *y, double *stored)
{
	for (int i = 0; i < MAX_OUT; i++) {
		const size_t first = x->first[i], end = x->first[i + 1];
		#pragma omp parallel for if (end - first > WORTH)
		for (size_t at = first; at < end; at += WORTH) {
			size_t n = part_end(at, end) - at;
			if (stored != y) memcpy(stored + at, y + at, n * sizeof *y);
			format_round_all(dtype_info[out_dtype(x->call, i)].format, ROUND_NEAREST_EVEN, stored + at, n);
		}
	}
}

double xray_residual(const struct xray *x, size_t j, double y)
{
	double r = x->got[j] - y;

	return isfinite(r) ? r : isfinite(x->got[j]) == isfinite(y) ? (double)NAN : (double)INFINITY;
}

static void go(struct xray *x, size_t s)
{
	struct strip strip = call_strip(x->call, s, x->strips);

	x->at = s;
	x->have = 0;
	for (int i = 0; i < MAX_OUT; i++) {
		const struct tensor *t = x->call->out[i];
		x->first[i + 1] = x->first[i] + strip.count[i];
		x->offset[i] = strip.first[i];
		if (!strip.count[i]) continue;
		dtype_load(t->dtype, (const char *)t->data + strip.first[i] * dtype_info[t->dtype].size, strip.count[i], x->got + x->first[i]);
		set_blocks(x, i);
	}
	x->n = x->first[MAX_OUT];
	x->raw_noise = x->noise + FLOOR_RUNS * x->n;
}

static bool make_base(struct xray *x)
{
	const uint64_t before = x->work;

	if (!xray_run(x, &x->of_base, x->base)) return false;
	x->run_work = (x->at ? x->run_work : 0) + x->work - before;
	x->base_impossible = x->impossible;
	xray_store(x, x->base, x->stored);
	#pragma omp parallel for if (x->n > WORTH)
	for (size_t j = 0; j < x->n; j++) {
		x->raw[j] = x->got[j] - x->base[j];
		x->r[j] = xray_residual(x, j, x->stored[j]);
	}
	return true;
}

static void make_shape(struct xray *x)
{
	for (int i = 0; i < MAX_OUT; i++) {
		#pragma omp parallel for if (x->first[i + 1] - x->first[i] > WORTH)
		for (size_t j = x->first[i]; j < x->first[i + 1]; j++) {
			uint8_t how = x->reach[x->first_element[i] + xray_place(x, i, j)];
			x->shape2[j] = how == UNREACHED ? 0 : how == BY_ROW ? x->row_shape[xray_row(x, i, j)] : DBL_MIN;
		}
	}
}

static void make_weights(struct xray *x)
{
	for (int i = 0; i < MAX_OUT; i++) {
		#pragma omp parallel for if (x->first[i + 1] - x->first[i] > WORTH)
		for (size_t j = x->first[i]; j < x->first[i + 1]; j++) {
			double v = x->floor2[j] + x->shape2[j] * x->scale[x->block[j]], ulp = xray_ulp(x, i, x->got[j]);
			bool in = xray_takes_part(x, j, x->r[j]);
			x->weight[j] = in ? 1 / v : 0;
			x->raw_weight[j] = in ? 1 / (v + ulp * ulp / 12) : 0;
		}
	}
}

/* By block: elements with floor2, and, where there are weights, squares. */
static void add_held(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum)
{
	const bool weighed = *(const bool *)with;
	struct held_sums *h = (struct held_sums *)sum;

	(void)i;
	for (size_t at = from, n; at < to; at += n) {
		n = xray_in_block(x, at, to);
		if (weighed) h->yy[x->block[at]] += sum_of_squares(x->weight + at, x->r + at, n);
		if (weighed) h->raw_yy[x->block[at]] += sum_of_squares(x->raw_weight + at, x->raw + at, n);
		for (size_t j = at; j < at + n && !weighed; j++) h->reached[x->block[at]] += x->floor2[j] > 0;
	}
}

static void hold(struct xray *x, bool weighed)
{
	struct held_sums h = { .yy = { 0 } };

	for (int i = 0; i < MAX_OUT; i++) xray_add_up(x, i, add_held, &weighed, (double *)&h, sizeof h / sizeof(double));
	if (!weighed) memcpy(x->held.reached, h.reached, sizeof h.reached);
	else memcpy(x->held.yy, h.yy, sizeof h.yy), memcpy(x->held.raw_yy, h.raw_yy, sizeof h.raw_yy);
}

bool xray_refresh_strip(struct xray *x, size_t s, unsigned want)
{
	if (s != x->at) go(x, s);
	if (want & XRAY_WEIGHTS) want |= XRAY_BASE | XRAY_FLOOR;
	if (want & (XRAY_FLOOR | XRAY_NOISE)) want |= XRAY_CENTRE | XRAY_SHAPE;
	if (want & XRAY_CENTRE && !x->moved) want |= XRAY_BASE;
	unsigned make = want & ~x->have;
	if (make & XRAY_BASE && !make_base(x)) return false;
	if (make & XRAY_CENTRE && !x->moved) xray_copy(x->centre, x->base, x->n);
	if (make & XRAY_CENTRE && x->moved && !xray_run(x, &x->of_centre, x->centre)) return false;
	if (make & XRAY_SHAPE) make_shape(x);
	if (make & XRAY_FLOOR) xray_floor_of_strip(x), hold(x, false);
	if (make & XRAY_NOISE && !xray_noise_of_strip(x)) return false;
	if (make & XRAY_WEIGHTS) make_weights(x), hold(x, true);
	x->have |= want;
	return true;
}
