#include <math.h>
#include <stdlib.h>

#include "expected.h"

enum dtype out_dtype(const struct call *call, int i)
{
	return call->out[i] ? call->out[i]->dtype : DT_F64;
}

double stored_as(enum dtype d, double hi, double lo)
{
	return d == DT_F64 ? hi : format_round(dtype_info[d].format, ROUND_NEAREST_EVEN, round_to_odd(hi, lo), 0);
}

double in_sigma(double got, double hi, double lo, double sigma)
{
	return got == hi && lo == 0 ? 0 : ((got - hi) - lo) / sigma;
}

static bool noisy_run(const struct call *call, const struct plan *model, int seed, struct answer *a, struct error *e)
{
	struct plan p = *model;

	p.arith = &arith_noisy;
	p.bits = arith_noisy.precision;
	p.seed = (uint64_t)seed;
	return ref_run(call, &p, a, e);
}

size_t out_row(const struct call *call, int i)
{
	size_t shape[MAX_RANK];
	int rank = call_out_shape(call, i, shape);

	return shape[rank - 1];
}

/* s2 [n], mean squares of single elements, becomes the upstream error. */
static void pool(double *s2, size_t n, size_t row)
{
	for (size_t r = 0; r < n; r += row) {
		double mean = 0;
		size_t noisy = 0;
		for (size_t i = r; i < r + row; i++) mean += s2[i], noisy += s2[i] > 0;
		mean /= fmax(1, (double)noisy);
		for (size_t i = r; i < r + row; i++) s2[i] = sqrt(s2[i] > 0 ? fmax(s2[i], mean) : 0);
	}
}

static void add_store(struct expected *x, const struct call *call, int i, const struct answer *centre)
{
	enum format f = dtype_info[out_dtype(call, i)].format;

	for (size_t j = 0; j < call->out_count[i]; j++) {
		if (!(x->upstream[i][j] > 0)) continue;
		x->sigma[i][j] = hypot(x->upstream[i][j], format_ulp(f, centre->hi[i][j]) / sqrt(12));
		x->count[i]++;
	}
}

/* Mean and mean square of the error of one noisy run, stored as a kernel would, in sigma. */
static void scatter(const struct expected *x, const struct call *call, int i, const struct answer *centre,
	const struct answer *a, double *mean, double *square)
{
	enum dtype d = out_dtype(call, i);

	*mean = *square = 0;
	for (size_t j = 0; j < call->out_count[i]; j++) {
		double lo = centre->lo[i] ? centre->lo[i][j] : 0, got = stored_as(d, a->hi[i][j], 0);
		if (!(x->sigma[i][j] > 0) || isinf(got)) continue;
		double z = in_sigma(got, centre->hi[i][j], lo, x->sigma[i][j]);
		*mean += z / (double)x->count[i];
		*square += z * z / (double)x->count[i];
	}
}

static bool fresh_runs(struct expected *x, const struct call *call, const struct plan *model, const struct answer *centre,
	struct error *e)
{
	double sum[MAX_OUT] = { 0 }, sum2[MAX_OUT] = { 0 }, bias2[MAX_OUT] = { 0 };
	struct answer a;

	for (int r = 0; r < FRESH_RUNS; r++) {
		if (!noisy_run(call, model, x->runs + r + 1, &a, e)) return false;
		for (int i = 0; i < MAX_OUT; i++) {
			double mean, square;
			if (!x->sigma[i]) continue;
			scatter(x, call, i, centre, &a, &mean, &square);
			sum[i] += square;
			sum2[i] += square * square;
			bias2[i] += mean * mean;
		}
		answer_free(&a);
	}
	for (int i = 0; i < MAX_OUT; i++) {
		double m = sum[i] / FRESH_RUNS, var = (sum2[i] - m * sum[i]) / (FRESH_RUNS - 1), n = (double)x->count[i];
		x->bias[i] = sqrt(bias2[i] / FRESH_RUNS);
		x->freedom[i] = fmax(1, fmin(n, var > 0 ? 2 * m * m / var : n));
	}
	return true;
}

bool expected_make(struct expected *x, const struct call *call, const struct plan *model, const struct answer *centre,
	int runs, struct error *e)
{
	struct answer a;

	*x = (struct expected){ .runs = runs };
	for (int i = 0; i < MAX_OUT; i++)
		if (call->out_count[i] && (!(x->sigma[i] = calloc(call->out_count[i], sizeof(double)))
				|| !(x->upstream[i] = calloc(call->out_count[i], sizeof(double))))) goto no_memory;
	for (int r = 0; r < runs; r++) {
		if (!noisy_run(call, model, r + 1, &a, e)) goto failed;
		for (int i = 0; i < MAX_OUT; i++)
			for (size_t j = 0; j < call->out_count[i]; j++) {
				double d = a.hi[i][j] - centre->hi[i][j] - (centre->lo[i] ? centre->lo[i][j] : 0);
				x->upstream[i][j] += d * d / runs;
			}
		answer_free(&a);
	}
	for (int i = 0; i < MAX_OUT; i++) {
		if (!x->sigma[i]) continue;
		pool(x->upstream[i], call->out_count[i], out_row(call, i));
		add_store(x, call, i, centre);
	}
	if (fresh_runs(x, call, model, centre, e)) return true;
	goto failed;
no_memory:
	error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "the expected error of %zu elements", call->out_count[0]);
failed:
	expected_free(x);
	return false;
}

void expected_free(struct expected *x)
{
	for (int i = 0; i < MAX_OUT; i++) free(x->sigma[i]), free(x->upstream[i]);
	*x = (struct expected){ 0 };
}
