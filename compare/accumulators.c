#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "accumulators.h"

/* Where two give the same numbers the first is taken: without products of matrices mma:ARCH is f32_fma. */
static const struct arith *const tried[ACCUMULATORS] = {
	&arith_f64, &arith_f32, &arith_f32_fma, &arith_f32_tree,
	&arith_mma[MMA_VOLTA], &arith_mma[MMA_TURING], &arith_mma[MMA_AMPERE], &arith_mma[MMA_HOPPER],
};

/* Blocks in which an accumulator does better than exact sums, less those in which it does worse, in standard
 * errors of a fair coin's tosses. Single elements are no tosses: one rounding that tips over moves many. */
static const double more_than_chance = 3;

const char *accumulator_name(const struct accumulators *a, int i)
{
	return i ? a->arith[i]->name : "exact";
}

/* Element by element: 1 where the plan's answer in this arithmetic, stored, is the kernel's. */
static bool run(struct xray *x, const struct arith *arith, uint8_t *equal)
{
	struct plan p = x->replica;
	struct answer a;

	p.arith = arith;
	p.bits = arith->precision;
	if (x->tick) x->tick("x-ray", x->runs, x->runs + 1);
	x->runs++;
	if (!ref_run(x->call, &p, &a, x->e)) return false;
	for (int o = 0; o < MAX_OUT; o++)
		for (size_t j = 0; j < x->call->out_count[o]; j++) {
			double y = stored_as(out_dtype(x->call, o), a.hi[o][j], 0), got = x->got[x->first[o] + j];
			equal[x->first[o] + j] = y == got || (isnan(y) && isnan(got));
		}
	answer_free(&a);
	return true;
}

static bool beats_exact(const struct xray *x, const uint8_t *equal, const uint8_t *exact)
{
	int ahead[MAX_BLOCKS] = { 0 }, wins = 0, losses = 0;

	for (size_t j = 0; j < x->n; j++) ahead[x->block[j]] += equal[j] - exact[j];
	for (int b = 0; b < x->blocks; b++) {
		wins += ahead[b] > 0;
		losses += ahead[b] < 0;
	}
	return wins - losses > more_than_chance * sqrt(wins + losses);
}

bool accumulators_read(struct accumulators *a, struct xray *x)
{
	uint8_t *exact = malloc(2 * x->n), *equal = exact + x->n;
	bool ok = exact || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu outputs", x->n);

	*a = (struct accumulators){ .best = 0 };
	memcpy(a->arith, tried, sizeof tried);
	for (int i = 0; ok && i < ACCUMULATORS; i++) {
		if (!(ok = run(x, tried[i], i ? equal : exact))) break;
		for (int o = 0; o < MAX_OUT; o++) {
			size_t same = 0, n = x->call->out_count[o];
			for (size_t j = x->first[o]; j < x->first[o + 1]; j++) same += i ? equal[j] : exact[j];
			a->output[i][o] = n ? (double)same / (double)n : 0;
			a->equal[i] += (double)same / (double)x->n;
		}
		if (i && a->equal[i] > a->equal[a->best] && beats_exact(x, equal, exact)) a->best = i;
	}
	free(exact);
	return ok;
}
