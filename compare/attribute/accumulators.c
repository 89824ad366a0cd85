#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profile.h"
#include "xray_private.h"

/* Where two give the same numbers the first is taken: without products of matrices mma:ARCH is f32_fma. */
static const struct arith *const tried[ACCUMULATORS] = {
	&arith_f64, &arith_f32, &arith_f32_fma, &arith_f32_tree,
	&arith_mma[MMA_VOLTA], &arith_mma[MMA_TURING], &arith_mma[MMA_AMPERE], &arith_mma[MMA_HOPPER],
};

/* Blocks in which an accumulator does better than exact sums, less those in which it does worse, in standard
 * errors of a fair coin's tosses. Single elements are no tosses: one rounding that flips moves many. */
static const double more_than_chance = 3;

const char *accumulator_name(const struct accumulators *a, int i)
{
	return i ? a->arith[i]->name : "exact";
}

/* Elements equal to the kernel's to the bit: of each output, and of each block those beyond exact sums' */
struct equals { size_t output[ACCUMULATORS][MAX_OUT]; int ahead[ACCUMULATORS][MAX_BLOCKS]; };

/* Element by element, in the strip held: 1 where the stream's answer, stored, is the kernel's. */
static bool compare(struct xray *x, struct stream *l, uint8_t *equal)
{
	if (!xray_run(x, l, x->d)) return false;
	for (size_t j = 0; j < x->n; j++) {
		double y = stored_as(out_dtype(x->call, xray_out(x, j)), x->d[j], 0), got = x->got[j];
		equal[j] = y == got || (isnan(y) && isnan(got));
	}
	return true;
}

static bool add_strip(struct xray *x, struct stream *stream, uint8_t *exact, uint8_t *equal, struct equals *sum)
{
	for (int i = 0; i < ACCUMULATORS; i++) {
		uint8_t *of = i ? equal : exact;
		if (!compare(x, &stream[i], of)) return false;
		for (int o = 0; o < MAX_OUT; o++)
			for (size_t j = x->first[o]; j < x->first[o + 1]; j++) sum->output[i][o] += of[j];
		for (size_t j = 0; j < x->n; j++) sum->ahead[i][x->block[j]] += of[j] - exact[j];
	}
	return true;
}

static bool beats_exact(const struct xray *x, const int *ahead)
{
	int wins = 0, losses = 0;

	for (int b = 0; b < x->blocks; b++) {
		wins += ahead[b] > 0;
		losses += ahead[b] < 0;
	}
	return wins - losses > more_than_chance * sqrt(wins + losses);
}

static bool add_all(struct xray *x, struct equals *sum)
{
	struct stream stream[ACCUMULATORS];
	uint8_t *exact = malloc(2 * x->most), *equal = exact + x->most;
	bool ok = exact || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu outputs", x->most);

	for (int i = 0; i < ACCUMULATORS; i++) {
		stream[i] = (struct stream){ .plan = x->emulation };
		stream[i].plan.arith = tried[i];
		stream[i].plan.bits = tried[i]->precision;
	}
	for (size_t s = 0; ok && s < x->strips; s++) ok = xray_refresh_strip(x, s, 0) && add_strip(x, stream, exact, equal, sum);
	for (int i = 0; i < ACCUMULATORS; i++) stream_end(&stream[i]);
	free(exact);
	return ok;
}

bool accumulators_read(struct accumulators *a, struct xray *x)
{
	struct equals sum = { 0 };

	*a = (struct accumulators){ .best = 0 };
	memcpy(a->arith, tried, sizeof tried);
	if (!add_all(x, &sum)) return false;
	for (int i = 0; i < ACCUMULATORS; i++) {
		for (int o = 0; o < MAX_OUT; o++) {
			size_t n = x->call->out_count[o];
			a->output[i][o] = n ? (double)sum.output[i][o] / (double)n : 0;
			a->equal[i] += (double)sum.output[i][o] / (double)x->all;
		}
		if (i && a->equal[i] > a->equal[a->best] && beats_exact(x, sum.ahead[i])) a->best = i;
	}
	return true;
}
