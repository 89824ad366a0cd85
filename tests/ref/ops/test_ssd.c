#include "tests/ref/ops/recurrences.h"

#define OP "ssd"
#define SIZES(T) "in.x F32 " T ",4,5 ~0,1; in.dt F32 " T ",4 ~0,1; in.A F32 4 =-1.3,-0.2,-4.1,-0.7; in.B F32 " T ",2,6 ~0,1; in.C F32 " T ",2,6 ~0,1"

static real step_of(const struct capture *c, size_t t, size_t h)
{
	real d = in_or(c, "dt", t * 4 + h, 0) + in_or(c, "dt_bias", h, 0);

	if (capture_bool(c, "dt_softplus", false)) d = softplus_of(d);
	return fminl(fmaxl(d, (real)capture_number(c, "dt_min", 0)), (real)capture_number(c, "dt_max", HUGE_VAL));
}

/* Mamba-2's recurrence (arXiv 2405.21060), element by element. */
static void by_hand(const struct capture *c, size_t T, size_t N, real made[MAX_MADE][MOST_MADE])
{
	real *y = made[0], *last = made[1];

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

static const struct recurrence rule = {
	"in.x", by_hand, { { "y", 20, 0 }, { "the state", 0, 120 } }, .equal = 3, .forms = 3, .sites = 2, .n = 4, .sample = {
		{ OP, "{\"dt_softplus\": true}", SIZES("70") "; in.D F32 4 =0.3,-1.1,2.3,0.7; in.dt_bias F32 4 =-2.1,-1.3,-3.3,0.6; in.initial_state F32 1,4,5,6 ~0,0.5" },
		{ OP, "{\"dt_softplus\": true, \"dt_min\": 0.3, \"dt_max\": 0.9}", SIZES("12")
			"; in.D F32 4 =0.3,-1.1,2.3,0.7; in.z F32 12,4,5 ~0,1; in.initial_state F32 3,4,5,6 ~0,0.5; in.cu_seqlens I32 4 =0,7,8,12; in.dt_bias F32 4 =-0.1,0.3,-0.3,0.2" },
		{ OP, "{}", "in.x F32 9,4,5 ~0,1; in.dt F32 9,4 =0.1,0.5,0.02,1.1,0.3; in.A F32 4 =-1.3,-0.2,-4.1,-0.7; in.B F32 9,2,6 ~0,1; in.C F32 9,2,6 ~0,1" },
		{ OP, "{\"dt_softplus\": true}", "in.x F32 70,4,5 ~0,1; in.dt F32 70,4 ~3,1; in.A F32 4 =-9,-20,-3,-5; in.B F32 70,2,6 ~0,1; in.C F32 70,2,6 ~0,1" }
	}
};

int main(void)
{
	const struct CMUnitTest tests[] = { RECURRENCE_TESTS(&rule) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
