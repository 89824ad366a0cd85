#include <math.h>
#include <stdlib.h>

#include "compare/limits/limits.h"
#include "beside.h"
#include "expected_private.h"
#include "others.h"

/* Are outputs of a strip worth a thread each? */
static bool beside(const struct strip *s)
{
	int large = 0;

	for (int i = 0; i < MAX_OUT; i++) large += s->count[i] > WORTH;
	return large > 1;
}

size_t check_strips(const struct call *call)
{
	return call_strips(call, call->at_hand ? call->at_hand : 1 << 18, call->at_hand ? call->at_hand : 1 << 15);
}

enum dtype out_dtype(const struct call *call, int i)
{
	return call->out[i] ? call->out[i]->dtype : call->op->out[i].flags & INTEGER ? DT_I32 : DT_F64;
}

double stored_as(enum dtype d, double hi, double lo)
{
	return d == DT_F64 ? hi : format_round(dtype_info[d].format, ROUND_NEAREST_EVEN, round_to_odd(hi, lo), 0);
}

double in_sigma(double got, double hi, double lo, double sigma)
{
	return got == hi && lo == 0 ? 0 : ((got - hi) - lo) / sigma;
}

size_t out_row(const struct call *call, int i)
{
	size_t shape[MAX_RANK];
	int rank = call_out_shape(call, i, shape);

	return shape[rank - 1];
}

/* Of output i: which are, of the mean squares in x->upstream. */
static void nearly_exact(struct expected *x, int i, size_t count, const struct answer *centre)
{
	for (size_t j = 0; j < count; j++)
		x->nearly[i][j] = sqrt(x->upstream[i][j]) < 0.5 * format_ulp(FMT_F32, centre->hi[i][j]);
}

void expected_pool(double *s2, size_t n, size_t row)
{
	for (size_t r = 0; r < n; r += row) {
		double mean = 0;
		size_t noisy = 0;
		for (size_t i = r; i < r + row; i++) mean += s2[i], noisy += s2[i] > 0;
		mean /= fmax(1, (double)noisy);
		for (size_t i = r; i < r + row; i++) s2[i] = sqrt(s2[i] > 0 ? fmax(s2[i], mean) : 0);
	}
}

double with_store(double upstream, enum format f, double value) { return hypot(upstream, format_ulp(f, value) / sqrt(12)); }

/* Of output i, `count` elements. */
static void add_store(struct expected *x, const struct call *call, int i, size_t count, const struct answer *centre)
{
	enum format f = dtype_info[out_dtype(call, i)].format;

	for (size_t j = 0; j < count; j++) {
		x->sigma[i][j] = 0;
		if (!(x->upstream[i][j] > 0)) continue;
		x->sigma[i][j] = with_store(x->upstream[i][j], f, centre->hi[i][j]);
		x->count[i]++, x->scattered[i]++;
		if (isinf(x->sigma[i][j])) x->boundless[i]++;
		alike_add(x->alike[i], centre->hi[i][j]);
	}
}

/* The errors of fresh run r, stored as a kernel would, in sigma. */
static void scatter(struct expected *x, const struct call *call, int i, size_t first, size_t count, const struct answer *centre, const struct answer *run, int r)
{
	enum dtype d = out_dtype(call, i);
	struct gain_pass pass = gain_begin(&x->axes[i], &x->gains[i][r * x->axes[i].groups], first);

	for (size_t j = 0; j < count; j++) {
		double lo = centre->lo[i] ? centre->lo[i][j] : 0, got = stored_as(d, run->hi[i][j], 0), s = x->sigma[i][j];
		bool counts = s > 0 && !isinf(s) && isfinite(got);
		double z = counts ? in_sigma(got, centre->hi[i][j], lo, s) : 0;
		x->sum[r][i] += z;
		x->sum2[r][i] += z * z;
		gain_add(&pass, counts, z, centre->hi[i][j] / s);
	}
	gain_end(&pass);
}

static bool names_any(const struct op *op)
{
	bool any = false;

	for (int i = 0; i < MAX_OUT && op->out[i].name; i++) any = any || op->out[i].flags & NAMES;
	return any;
}

static bool begin_gains(struct expected *x, const struct call *call, int i)
{
	x->axes[i] = gain_axes_of(call, i);
	x->gains[i] = calloc((FRESH_RUNS + OTHER_RUNS + 1) * (size_t)x->axes[i].groups, sizeof *x->gains[i]);
	return x->gains[i] != NULL;
}

bool expected_begin(struct expected *x, const struct call *call, const struct plan *model, const size_t room[MAX_OUT],
	int runs, double *const *read, struct error *e)
{
	*x = (struct expected){ .runs = runs, .read = read, .stream = calloc((size_t)runs + FRESH_RUNS + OTHER_RUNS, sizeof *x->stream) };
	x->others = others_of(x, model, names_any(call->op));
	bool ok = x->stream && answer_make(&x->run, room, false);

	for (int i = 0; ok && i < MAX_OUT; i++)
		if (room[i]) ok = (x->sigma[i] = calloc(room[i], sizeof(double))) && (x->upstream[i] = calloc(room[i], sizeof(double)))
			&& (x->nearly[i] = calloc(room[i], 1)) && (x->alike[i] = calloc(1, sizeof *x->alike[i])) && begin_gains(x, call, i);
	for (int r = 0; ok && r < x->others; r++) others_plan(&x->stream[runs + FRESH_RUNS + r].plan, model, x->other[r], r);
	for (int r = 0; ok && r < runs + FRESH_RUNS; r++) {
		struct plan *p = &x->stream[r].plan;
		*p = *model;
		p->arith = &arith_noisy;
		p->bits = p->arith->precision;
		p->seed = p->ties = (uint64_t)r + 1;
		if (p->region && r < runs) plan_draw(p, p->region, p->seed);    /* fresh runs scatter by chance alone, as runs of one structure do */
	}
	if (ok) return true;
	error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "the expected error of %zu elements", call->out_count[0]);
	expected_free(x);
	return false;
}

void expected_named(struct expected *x, const struct call *call, const struct answer *run)
{
	for (int i = 0; i < MAX_OUT && call->op->out[i].name; i++)
		if (call->op->out[i].flags & NAMES && x->names[i].count) members_add(&x->names[i], run->hi[i]);
}

static bool begin_names(struct expected *x, const struct call *call, const struct strip *s, const struct answer *centre, struct error *e)
{
	size_t size = 1;
	bool ok = true;

	for (int k = 0; k < MAX_DIM; k++) size = call->dim[k] > size ? call->dim[k] : size;
	for (int i = 0; i < MAX_OUT && ok && call->op->out[i].name; i++)
		if (call->op->out[i].flags & NAMES) ok = members_begin(&x->names[i], s->count[i], out_row(call, i), size);
	if (ok) expected_named(x, call, centre);
	return ok || error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "the indices of %d runs", x->runs);
}

/* Mean squares of the errors of x->runs runs, added to s2. */
struct squares { struct expected *x; const struct call *call; double *const *s2; const struct strip *s; const struct answer *centre; };
static void add_squares(int r, const struct answer *run, void *with)
{
	const struct squares *q = with;

	(void)r;
	expected_named(q->x, q->call, run);
	for (int i = 0; i < MAX_OUT; i++) {
		#pragma omp parallel for if (q->s->count[i] > WORTH)
		for (size_t j = 0; j < q->s->count[i]; j++) {
			double d = run->hi[i][j] - q->centre->hi[i][j] - (q->centre->lo[i] ? q->centre->lo[i][j] : 0);
			q->s2[i][j] += isnan(d) && isfinite(q->centre->hi[i][j]) ? INFINITY : d * d / q->x->runs;
		}
	}
}

bool expected_spread(struct expected *x, struct stream *stream, double *const s2[MAX_OUT], const struct call *call, const struct strip *s,
	size_t strip, size_t n, const struct answer *centre, struct error *e)
{
	struct squares q = { x, call, s2, s, centre };

	for (int i = 0; i < MAX_OUT; i++)
		for (size_t j = 0; j < s->count[i]; j++) s2[i][j] = 0;
	return run_beside(call, stream, x->runs, strip, n, &x->run, add_squares, &q, e);
}

static bool add_sigma(struct expected *x, const struct call *call, const struct strip *s, size_t strip, size_t n,
	const struct answer *centre, struct error *e)
{
	struct off_by o = { 0 };
	bool ok = begin_names(x, call, s, centre, e) && expected_spread(x, x->stream, x->upstream, call, s, strip, n, centre, e) && off_by_make(&o, x, call, s, strip, n, centre, e);

	x->widened = 0;
	#pragma omp parallel for schedule(dynamic) if (beside(s))
	for (int i = 0; i < MAX_OUT; i++) {
		if (!ok || !s->count[i]) continue;
		nearly_exact(x, i, s->count[i], centre);
		off_by_rows(x, &o, i, s->count[i], out_row(call, i), centre->hi[i]);
		expected_pool(x->upstream[i], s->count[i], out_row(call, i));
		add_store(x, call, i, s->count[i], centre);
		off_by_shift(x, &o, i, s->first[i], s->count[i], centre->hi[i]);
	}
	off_by_free(&o);
	return ok;
}

struct scattering { struct expected *x; const struct call *call; const struct strip *s; const struct answer *centre; };
static void scatter_all(int r, const struct answer *run, void *with)
{
	const struct scattering *t = with;

	expected_named(t->x, t->call, run);
	#pragma omp parallel for schedule(dynamic) if (beside(t->s))
	for (int i = 0; i < MAX_OUT; i++)
		if (t->s->count[i]) scatter(t->x, t->call, i, t->s->first[i], t->s->count[i], t->centre, run, r);
}

bool expected_add(struct expected *x, const struct call *call, size_t strip, size_t n, const struct answer *centre, struct error *e)
{
	struct strip s = call_strip(call, strip, n);

	struct scattering with = { x, call, &s, centre };
	return add_sigma(x, call, &s, strip, n, centre, e)
		&& run_beside(call, x->stream + x->runs, FRESH_RUNS, strip, n, &x->run, scatter_all, &with, e);
}

void expected_end(struct expected *x)
{
	for (int i = 0; i < MAX_OUT; i++) {
		double n = (double)x->scattered[i], sum = 0, sum2 = 0, bias2 = 0;
		for (int r = 0; r < FRESH_RUNS; r++) {
			double mean = n > 0 ? x->sum[r][i] / n : 0, square = n > 0 ? x->sum2[r][i] / n : 0;
			sum += square;
			sum2 += square * square;
			bias2 += mean * mean;
		}
		double m = sum / FRESH_RUNS, var = (sum2 - m * sum) / (FRESH_RUNS - 1), alike = n > 0 ? (x->alike[i]->squares - n) / (n * n) : 0;
		x->bias[i] = hypot(sqrt(bias2 / FRESH_RUNS), sqrt(alike));
		x->shift[i] = others_shift(x, i);
		double own = fmax(1 / fmax(1, n), m > 0 ? var / (2 * m * m) : 0);
		x->freedom[i] = fmax(1, 1 / (own + alike));
		x->equal[i] = alike;
	}
	for (int r = 0; r < x->runs + FRESH_RUNS + x->others; r++) stream_end(&x->stream[r]);
	for (int r = 0; x->everywhere && r < x->runs; r++) stream_end(&x->everywhere[r]);
}

bool expected_sigma(struct expected *x, const struct call *call, const struct plan *model, const struct answer *centre,
	int runs, struct error *e)
{
	struct strip whole = call_strip(call, 0, 1);

	if (!expected_begin(x, call, model, call->out_count, runs, NULL, e)) return false;
	if (add_sigma(x, call, &whole, 0, 1, centre, e)) return true;
	expected_free(x);
	return false;
}

bool expected_make(struct expected *x, const struct call *call, const struct plan *model, const struct answer *centre,
	int runs, struct error *e)
{
	if (!expected_begin(x, call, model, call->out_count, runs, NULL, e)) return false;
	if (!expected_add(x, call, 0, 1, centre, e)) {
		expected_free(x);
		return false;
	}
	expected_end(x);
	return true;
}

void expected_free(struct expected *x)
{
	for (int i = 0; i < MAX_OUT; i++) free(x->sigma[i]), free(x->upstream[i]), free(x->nearly[i]), free(x->alike[i]), free(x->gains[i]), members_free(&x->names[i]);
	for (int r = 0; x->stream && r < x->runs + FRESH_RUNS + x->others; r++) stream_end(&x->stream[r]);
	for (int r = 0; x->everywhere && r < x->runs; r++) stream_end(&x->everywhere[r]);
	free(x->stream);
	free(x->everywhere);
	answer_free(&x->run);
	*x = (struct expected){ 0 };
}
