/* Recurrences written out in long double, and what holds for every op with a form token by token and one in chunks. */
#ifndef ETALON_RECURRENCES_H
#define ETALON_RECURRENCES_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/witness.h"

typedef long double real;
enum { MAX_WIDTH = 32 };        /* of a state's sides */

static inline bool given(const struct capture *c, const char *name) { return capture_in(c, name) != NULL; }

/* Element i of an input, `absent` where there is none. */
static inline real in_or(const struct capture *c, const char *name, size_t i, real absent)
{
	char full[64] = "in.";

	return given(c, name) ? (real)at(c, strcat(full, name), i) : absent;
}

static inline real softplus_of(real x) { return x > 40 ? x + expl(-x) : log1pl(expl(x)); }
static inline real sigmoid_of(real x) { return 1 / (1 + expl(-x)); }

static inline bool is_known(const struct op *op, int fault) { return fault < 0 || op->faults[fault].form < 0; }

/* Output i of the run is y [n]: within 2^-52 of the largest, which sums in long double keep, of a few hundred terms. */
static inline void assert_reals(const struct outcome *r, int i, const real *y, size_t n, const char *what)
{
	real most = 0, worst = 0;

	for (size_t k = 0; k < n; k++) most = fmaxl(most, fabsl(y[k]));
	for (size_t k = 0; k < n; k++) {
		real d = fabsl((real)r->a.hi[i][k] + (real)r->a.lo[i][k] - y[k]);
		worst = d > worst || isnan(d) ? d : worst;
	}
	assert_true(most > 0);
	if (!(worst <= 0x1p-52L * most)) fail_msg("%s, output %d: %Lg of %Lg", what, i, worst, most);
}

/* Without a fault, and under each that both forms know, chunks of any length give what tokens give. */
static inline void forms_agree(const struct sample *s, size_t n)
{
	static const size_t lengths[] = { 16, 64, 5 };
	const struct op *op = op_find(s->op);

	for (size_t k = 0; k < n; k++) {
		struct capture c;
		made(&c, &s[k], 31);
		for (int m = -1; m < 0 || op->faults[m].name; m++)
			for (size_t l = 0; is_known(op, m) && l < (m < 0 ? 3u : 1u); l++) {
				struct plan token = plan_in("dd"), chunk = plan_in("dd");
				struct outcome a, b;
				if (m >= 0) plan_fault(&token, op, m), plan_fault(&chunk, op, m);
				token.form = 0;
				chunk.form = 1;
				chunk.chunk = lengths[l];
				run_plan(&a, &c, &token);
				run_plan(&b, &c, &chunk);
				double d = distance(&a, &b);
				if (!(d <= 0x1p-96)) fail_msg("sample %zu, %s, chunks of %zu: %g apart", k, m < 0 ? "no fault" : op->faults[m].name, lengths[l], d);
				outcome_free(&a);
				outcome_free(&b);
			}
		capture_free(&c);
	}
}

/* An op that is a recurrence, its outputs made by hand: per token or per sequence so many elements. Of the samples the first `equal` are
 * compared, the first `forms` in both forms, all with each fault, the first `sites` with each rounding. */
enum { MAX_MADE = 3, MOST_MADE = 4096 };
struct recurrence {
	const char *tokens;             /* an input whose first axis they are */
	void (*by_hand)(const struct capture *c, size_t T, size_t N, real made[MAX_MADE][MOST_MADE]);
	struct { const char *what; size_t token, sequence; } out[MAX_MADE];
	size_t equal, forms, sites, n;
	struct sample sample[6];
};

static inline void equals_the_recurrence(void **state)
{
	static real made_by_hand[MAX_MADE][MOST_MADE];
	const struct recurrence *w = *state;

	for (size_t k = 0; k < w->equal; k++) {
		struct capture c;
		struct outcome r;
		made(&c, &w->sample[k], 5);
		run_in(&r, &c, "dd");
		size_t T = extent(&c, w->tokens, 0), N = given(&c, "cu_seqlens") ? count(&c, "in.cu_seqlens") - 1 : 1;
		w->by_hand(&c, T, N, made_by_hand);
		for (int i = 0; i < MAX_MADE && w->out[i].what; i++) {
			size_t n = T * w->out[i].token + N * w->out[i].sequence;
			assert_true(n <= MOST_MADE);
			assert_reals(&r, i, made_by_hand[i], n, w->out[i].what);
		}
		outcome_free(&r);
		capture_free(&c);
	}
}

static inline void chunks_equal_tokens(void **state)
{
	const struct recurrence *w = *state;

	forms_agree(w->sample, w->forms);
}

static inline void faults(void **state)
{
	const struct recurrence *w = *state;

	faults_show(w->sample, w->n);
}

static inline void sites(void **state)
{
	const struct recurrence *w = *state;

	sites_show(w->sample, w->sites, 32);
}

#define AS_STATE(w) ((void *)(uintptr_t)(w))
#define RECURRENCE_TESTS(w) \
	cmocka_unit_test_prestate(equals_the_recurrence, AS_STATE(w)), cmocka_unit_test_prestate(chunks_equal_tokens, AS_STATE(w)), \
	cmocka_unit_test_prestate(faults, AS_STATE(w)), cmocka_unit_test_prestate(sites, AS_STATE(w))

#endif
