/* The tests of an op that is a recurrence of one form: against outputs made by hand, in both forms, with each fault, with roundings. */
#ifndef ETALON_RECURRENCE_TESTS_H
#define ETALON_RECURRENCE_TESTS_H

#include "tests/ref/ops/recurrences.h"

/* An op that is a recurrence, its outputs made by hand: per token or per sequence so many elements. Of the samples the first `equal` are
 * compared, the first `forms` in both forms, all with each fault, the first `sites` with each rounding. */
enum { MAX_MADE = 5, MOST_MADE = 4096 };
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
