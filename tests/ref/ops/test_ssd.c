#include "tests/ref/ops/recurrences.h"

#define OP "ssd"
#define LEN(a) (sizeof (a) / sizeof *(a))
#define SIZES(T) "in.x F32 " T ",4,5 ~0,1; in.dt F32 " T ",4 ~0,1; in.A F32 4 =-1.3,-0.2,-4.1,-0.7; in.B F32 " T ",2,6 ~0,1; in.C F32 " T ",2,6 ~0,1"

static const struct sample samples[] = {
	{ OP, "{\"dt_softplus\": true}", SIZES("70") "; in.D F32 4 =0.3,-1.1,2.3,0.7; in.dt_bias F32 4 =-2.1,-1.3,-3.3,0.6; in.initial_state F32 1,4,5,6 ~0,0.5" },
	{ OP, "{\"dt_softplus\": true, \"dt_min\": 0.3, \"dt_max\": 0.9}", SIZES("12")
		"; in.D F32 4 =0.3,-1.1,2.3,0.7; in.z F32 12,4,5 ~0,1; in.initial_state F32 3,4,5,6 ~0,0.5; in.cu_seqlens I32 4 =0,7,8,12; in.dt_bias F32 4 =-0.1,0.3,-0.3,0.2" },
	{ OP, "{}", "in.x F32 9,4,5 ~0,1; in.dt F32 9,4 =0.1,0.5,0.02,1.1,0.3; in.A F32 4 =-1.3,-0.2,-4.1,-0.7; in.B F32 9,2,6 ~0,1; in.C F32 9,2,6 ~0,1" }
};
static const struct sample strong = { OP, "{\"dt_softplus\": true}",
	"in.x F32 70,4,5 ~0,1; in.dt F32 70,4 ~3,1; in.A F32 4 =-9,-20,-3,-5; in.B F32 70,2,6 ~0,1; in.C F32 70,2,6 ~0,1" };

static real step_of(const struct capture *c, size_t t, size_t h)
{
	real d = in_or(c, "dt", t * 4 + h, 0) + in_or(c, "dt_bias", h, 0);

	if (capture_bool(c, "dt_softplus", false)) d = softplus_of(d);
	return fminl(fmaxl(d, (real)capture_number(c, "dt_min", 0)), (real)capture_number(c, "dt_max", HUGE_VAL));
}

/* Mamba-2's recurrence (arXiv 2405.21060), element by element. */
static void by_hand(const struct capture *c, size_t T, size_t N, real *y, real *last)
{
	for (size_t n = 0; n < N; n++)
		for (size_t i = 0; i < 4 * 5; i++) {
			span of = tokens(c, n, T);
			size_t h = i / 5, g = h / 2;
			real S[6];
			for (size_t s = 0; s < 6; s++) S[s] = in_or(c, "initial_state", (n * 20 + i) * 6 + s, 0);
			for (size_t t = of.first; t < of.last; t++) {
				real d = step_of(c, t, h), x = in_or(c, "x", t * 20 + i, 0), sum = in_or(c, "D", h, 0) * x;
				for (size_t s = 0; s < 6; s++) {
					S[s] = expl(in_or(c, "A", h, 0) * d) * S[s] + d * x * in_or(c, "B", (t * 2 + g) * 6 + s, 0);
					sum += S[s] * in_or(c, "C", (t * 2 + g) * 6 + s, 0);
				}
				real z = in_or(c, "z", t * 20 + i, 0);
				y[t * 20 + i] = given(c, "z") ? sum * z * sigmoid_of(z) : sum;
			}
			for (size_t s = 0; s < 6; s++) last[(n * 20 + i) * 6 + s] = S[s];
		}
}

static void equals_the_recurrence(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		static real y[70 * 20], last[3 * 20 * 6];
		struct capture c;
		struct outcome r;
		made(&c, &samples[k], 5);
		run_in(&r, &c, "dd");
		size_t T = extent(&c, "in.x", 0), N = given(&c, "cu_seqlens") ? count(&c, "in.cu_seqlens") - 1 : 1;
		by_hand(&c, T, N, y, last);
		assert_reals(&r, 0, y, T * 20, "y");
		assert_reals(&r, 1, last, N * 120, "the state");
		outcome_free(&r);
		capture_free(&c);
	}
}

static void chunks_equal_tokens(void **state)
{
	(void)state;
	forms_agree(samples, LEN(samples));
}

static void faults(void **state)
{
	(void)state;
	faults_show((struct sample[]){ samples[0], samples[1], samples[2], strong }, 4);
}

static void sites(void **state)
{
	(void)state;
	sites_show(samples, 2, 32);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_recurrence), cmocka_unit_test(chunks_equal_tokens), cmocka_unit_test(faults), cmocka_unit_test(sites)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
