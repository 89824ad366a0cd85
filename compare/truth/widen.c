/* Noise where float32 is exact, too: see expected.h. */
#include <math.h>
#include <stdlib.h>

#include "compare/limits/limits.h"
#include "expected_private.h"
#include "others.h"

/* s2 [count] of output i, of runs that are noisy everywhere. The row's mean of the nearly exact is that of them alone. */
static void widen_nearly(struct expected *x, int i, size_t count, size_t row, const double *s2, double *own)
{
	for (size_t j = 0; j < count; j++) own[j] = x->nearly[i][j] ? s2[j] : 0;
	expected_pool(own, count, row);
	for (size_t j = 0; j < count; j++) {
		if (!(own[j] > 0)) continue;
		if (isinf(own[j])) {            /* as add_store has it: nothing is held against it, and nothing decided */
			x->boundless[i] += !isinf(x->sigma[i][j]);
			x->sigma[i][j] = INFINITY;
			continue;
		}
		x->upstream[i][j] = fmax(x->upstream[i][j], own[j]);
		x->count[i] -= x->sigma[i][j] > 0;
		x->sigma[i][j] = 0;
	}
}

/* The others, a row at a time. */
static void widen_rows(struct expected *x, const struct call *call, int i, size_t count, double *s2, const struct answer *centre)
{
	enum format f = dtype_info[out_dtype(call, i)].format;
	size_t row = out_row(call, i);

	for (size_t r = 0; r < count; r += row) {
		double noise = 0, all = 0;
		for (size_t j = r; j < r + row; j++) {
			s2[j] = x->sigma[i][j] > 0 ? s2[j] : 0;
			noise += x->sigma[i][j] > 0 ? x->upstream[i][j] * x->upstream[i][j] : 0;
			all += s2[j];
		}
		if (!(all > loose * noise) || !isfinite(all)) continue;
		expected_pool(s2 + r, row, row);
		for (size_t j = r; j < r + row; j++) {
			if (!(s2[j] > 0)) continue;
			x->upstream[i][j] = fmax(x->upstream[i][j], s2[j]);
			x->sigma[i][j] = with_store(x->upstream[i][j], f, centre->hi[i][j]);
		}
	}
}

static bool begin_everywhere(struct expected *x)
{
	if (!x->everywhere && !(x->everywhere = calloc((size_t)x->runs, sizeof *x->everywhere))) return false;
	for (int r = 0; r < x->runs; r++) {
		if (x->everywhere[r].plan.arith) continue;
		x->everywhere[r].plan = x->stream[r].plan;
		x->everywhere[r].plan.arith = &arith_noisy_all;
		x->everywhere[r].plan.random = false;
		others_widest(&x->everywhere[r].plan, r);
	}
	return true;
}

bool expected_widen(struct expected *x, const struct call *call, size_t strip, size_t n, unsigned outputs, const struct answer *centre,
	struct error *e)
{
	struct strip s = call_strip(call, strip, n);
	double *s2[MAX_OUT] = { NULL }, *own[MAX_OUT] = { NULL };
	bool ok = begin_everywhere(x);

	outputs &= ~x->widened;
	if (!outputs) return true;
	for (int i = 0; ok && i < MAX_OUT; i++)
		ok = !s.count[i] || ((s2[i] = calloc(s.count[i], sizeof(double))) && (own[i] = calloc(s.count[i], sizeof(double))));
	if (!ok) error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "the expected error of %zu elements", call->out_count[0]);
	ok = ok && expected_spread(x, x->everywhere, s2, call, &s, strip, n, centre, e);
	for (int i = 0; i < MAX_OUT; i++) {
		if (ok && s.count[i] && outputs >> i & 1) {
			widen_nearly(x, i, s.count[i], out_row(call, i), s2[i], own[i]);
			widen_rows(x, call, i, s.count[i], s2[i], centre);
		}
		free(s2[i]), free(own[i]);
	}
	x->widened |= ok ? outputs : 0;
	return ok;
}
