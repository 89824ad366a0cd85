#include "tests/ref/ops/recurrences.h"

#define OP "gdn2"
#define SIZES(T) "in.q F32 " T ",2,6 ~0,1; in.k F32 " T ",2,6 ~0,0.4; in.v F32 " T ",2,5 ~0,1; in.w F32 " T ",2,5 =0.3,0.9,0.5,0.7,0.2,0.4,0.61; " \
	"in.b F32 " T ",2,6 =0.15,0.9,0.45,0.33,0.7"

/* The rule, element by element: each key channel of the state decays, what the decayed state holds for b k is taken from w v, and the
 * difference is written at k. */
static void by_hand(const struct capture *c, size_t T, size_t N, real made[MAX_MADE][MOST_MADE])
{
	real *o = made[0], *last = made[1];

	for (size_t n = 0; n < N; n++)
		for (size_t h = 0; h < 2; h++)
			for (size_t e = 0; e < 5; e++) {
				span of = tokens(c, n, T);
				real S[6];
				for (size_t d = 0; d < 6; d++) S[d] = in_or(c, "initial_state", ((n * 2 + h) * 6 + d) * 5 + e, 0);
				for (size_t t = of.first; t < of.last; t++) {
					size_t i = (t * 2 + h) * 6, j = (t * 2 + h) * 5 + e;
					real u = in_or(c, "w", j, 0) * in_or(c, "v", j, 0), sum = 0;
					for (size_t d = 0; d < 6; d++) {
						S[d] *= expl(in_or(c, "g", i + d, 0));
						u -= S[d] * in_or(c, "b", i + d, 0) * in_or(c, "k", i + d, 0);
					}
					for (size_t d = 0; d < 6; d++) S[d] += u * in_or(c, "k", i + d, 0), sum += S[d] * in_or(c, "q", i + d, 0);
					o[j] = sum * (real)capture_number(c, "scale", 1 / sqrt(6.0));
				}
				for (size_t d = 0; d < 6; d++) last[((n * 2 + h) * 6 + d) * 5 + e] = S[d];
			}
}

static const struct recurrence rule = {
	"in.v", by_hand, { { "o", 10, 0 }, { "the state", 0, 60 } }, .equal = 2, .forms = 2, .sites = 2, .n = 3, .sample = {
		{ OP, "{}", SIZES("70") "; in.g F32 70,2,6 =-0.1,-0.7,-0.02,-1.5,-0.4,-0.3,-0.05; in.initial_state F32 1,2,6,5 ~0,0.5" },
		{ OP, "{\"scale\": 0.7}", SIZES("12") "; in.g F32 12,2,6 =-0.1,-0.7,-0.02,-1.5,-0.4; in.initial_state F32 3,2,6,5 ~0,0.5; in.cu_seqlens I32 4 =0,7,8,12" },
		{ OP, "{}", SIZES("60") "; in.g F32 60,2,6 =-12,-9,-14,-3,-8" }
	}
};

/* With w = beta and b = beta for all channels it is kda. */
static void equal_gates_are_kda(void **state)
{
	static const struct sample kda = { "kda", "{}", "in.q F32 9,2,6 ~0,1; in.k F32 9,2,6 ~0,0.4; in.v F32 9,2,5 ~0,1; in.g F32 9,2,6 =-0.1,-0.7; in.beta F32 9,2 =0.25" };
	static const struct sample both = { OP, "{}", SIZES("9") "; in.g F32 9,2,6 =-0.1,-0.7" };
	struct capture a, b;
	struct outcome x, y;

	(void)state;
	made(&a, &kda, 3);
	made(&b, &both, 3);
	put_all(&b, "in.w", 0.25);
	put_all(&b, "in.b", 0.25);
	run_in(&x, &a, "dd");
	run_in(&y, &b, "dd");
	assert_true(distance(&x, &y) <= 0x1p-98);
	outcome_free(&x), outcome_free(&y);
	capture_free(&a), capture_free(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { RECURRENCE_TESTS(&rule), cmocka_unit_test(equal_gates_are_kda) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
