#include "tests/ref/ops/recurrences.h"

#define OP "gdn2"
#define LEN(a) (sizeof (a) / sizeof *(a))
#define SIZES(T) "in.q F32 " T ",2,6 ~0,1; in.k F32 " T ",2,6 ~0,0.4; in.v F32 " T ",2,5 ~0,1; in.w F32 " T ",2,5 =0.3,0.9,0.5,0.7,0.2,0.4,0.61; " \
	"in.b F32 " T ",2,6 =0.15,0.9,0.45,0.33,0.7"

static const struct sample samples[] = {
	{ OP, "{}", SIZES("70") "; in.g F32 70,2,6 =-0.1,-0.7,-0.02,-1.5,-0.4,-0.3,-0.05; in.initial_state F32 1,2,6,5 ~0,0.5" },
	{ OP, "{\"scale\": 0.7}", SIZES("12") "; in.g F32 12,2,6 =-0.1,-0.7,-0.02,-1.5,-0.4; in.initial_state F32 3,2,6,5 ~0,0.5; in.cu_seqlens I32 4 =0,7,8,12" }
};
static const struct sample strong = { OP, "{}", SIZES("60") "; in.g F32 60,2,6 =-12,-9,-14,-3,-8" };

/* The rule, element by element: each key channel of the state decays, what the decayed state holds for b k is taken from w v, and the
 * difference is written at k. */
static void by_hand(const struct capture *c, size_t T, size_t N, real *o, real *last)
{
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

static void equals_the_recurrence(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		static real o[70 * 2 * 5], last[3 * 2 * 6 * 5];
		struct capture c;
		struct outcome r;
		made(&c, &samples[k], 5);
		run_in(&r, &c, "dd");
		size_t T = extent(&c, "in.v", 0), N = given(&c, "cu_seqlens") ? count(&c, "in.cu_seqlens") - 1 : 1;
		by_hand(&c, T, N, o, last);
		assert_reals(&r, 0, o, T * 10, "o");
		assert_reals(&r, 1, last, N * 60, "the state");
		outcome_free(&r);
		capture_free(&c);
	}
}

static void chunks_equal_tokens(void **state)
{
	(void)state;
	forms_agree(samples, LEN(samples));
}

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

static void faults(void **state)
{
	(void)state;
	faults_show((struct sample[]){ samples[0], samples[1], strong }, 3);
}

static void sites(void **state)
{
	(void)state;
	sites_show(samples, 2, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_recurrence), cmocka_unit_test(chunks_equal_tokens), cmocka_unit_test(equal_gates_are_kda),
		cmocka_unit_test(faults), cmocka_unit_test(sites)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
