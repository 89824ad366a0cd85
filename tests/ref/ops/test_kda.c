#include "tests/ref/ops/recurrences.h"

#define OP "kda"
#define SIZES(T) "in.q F32 " T ",2,6 ~0,1; in.k F32 " T ",2,6 ~0,1; in.v F32 " T ",4,5 ~0,1; in.beta F32 " T ",4 =0.3,0.9,0.5,0.7,0.2"
#define GIVEN(T) SIZES(T) "; in.g F32 " T ",4,6 =-0.1,-0.7,-0.02,-1.5,-0.4,-0.3,-0.05"
#define INSIDE(T) SIZES(T) "; in.a F32 " T ",4,6 ~0,1; in.A_log F32 4 =0.53,-1.1,0.97,0.07; in.dt_bias F32 4,6 ~-1,1"

/* The log of the decay at token t, head h, channel d. */
static real decay(const struct capture *c, size_t t, size_t h, size_t d)
{
	size_t i = (t * 4 + h) * 6 + d;
	real bound = capture_number(c, "lower_bound", 0);

	if (given(c, "g")) return in_or(c, "g", i, 0);
	real x = in_or(c, "a", i, 0) + in_or(c, "dt_bias", h * 6 + d, 0), rate = expl(in_or(c, "A_log", h, 0));
	return bound < 0 ? bound * sigmoid_of(rate * x) : -rate * softplus_of(x);
}

static void head(const struct capture *c, real x[6], const char *name, size_t t, size_t h)
{
	real s = 0;
	bool norm = capture_bool(c, "qk_l2norm", false);

	for (size_t d = 0; d < 6; d++) x[d] = in_or(c, name, (t * 2 + h) * 6 + d, 0), s += x[d] * x[d];
	for (size_t d = 0; norm && d < 6; d++) x[d] /= sqrtl(s + (real)capture_number(c, "l2_eps", 1e-6));
}

/* The recurrence of Kimi Delta Attention (arXiv 2510.26692), element by element: each key channel of the state decays, what the
 * decayed state holds for the key is taken from the value, and beta of the difference is written. */
static void by_hand(const struct capture *c, size_t T, size_t N, real made[MAX_MADE][MOST_MADE])
{
	real *o = made[0], *last = made[1];

	for (size_t n = 0; n < N; n++)
		for (size_t h = 0; h < 4; h++) {
			span of = tokens(c, n, T);
			real S[6][5], q[6], k[6];
			for (size_t d = 0; d < 6; d++)
				for (size_t e = 0; e < 5; e++) S[d][e] = in_or(c, "initial_state", ((n * 4 + h) * 6 + d) * 5 + e, 0);
			for (size_t t = of.first; t < of.last; t++) {
				head(c, q, "q", t, h / 2);
				head(c, k, "k", t, h / 2);
				for (size_t e = 0; e < 5; e++) {
					real held = 0, sum = 0;
					for (size_t d = 0; d < 6; d++) S[d][e] *= expl(decay(c, t, h, d)), held += S[d][e] * k[d];
					for (size_t d = 0; d < 6; d++) {
						S[d][e] += in_or(c, "beta", t * 4 + h, 0) * (in_or(c, "v", (t * 4 + h) * 5 + e, 0) - held) * k[d];
						sum += S[d][e] * q[d];
					}
					o[(t * 4 + h) * 5 + e] = sum * (real)capture_number(c, "scale", 1 / sqrt(6.0));
				}
			}
			for (size_t d = 0; d < 6; d++)
				for (size_t e = 0; e < 5; e++) last[((n * 4 + h) * 6 + d) * 5 + e] = S[d][e];
		}
}

static const struct recurrence rule = {
	"in.v", by_hand, { { "o", 20, 0 }, { "the state", 0, 120 } }, .equal = 4, .forms = 4, .sites = 3, .n = 6, .sample = {
		{ OP, "{}", GIVEN("70") "; in.initial_state F32 1,4,6,5 ~0,0.5" },
		{ OP, "{\"qk_l2norm\": true, \"l2_eps\": 0.1}", GIVEN("12") "; in.initial_state F32 3,4,6,5 ~0,0.5; in.cu_seqlens I32 4 =0,7,8,12" },
		{ OP, "{\"qk_l2norm\": true, \"scale\": 0.7}", INSIDE("11") },
		{ OP, "{\"gate\": \"bounded\", \"lower_bound\": -0.6}", INSIDE("9") },
		{ OP, "{}", SIZES("9") "; in.a F32 9,4,6 =95,3,70,99; in.A_log F32 4 =-6,-6,-7,-6; in.dt_bias F32 4,6 =0.1,0.2" },
		{ OP, "{}", SIZES("60") "; in.g F32 60,4,6 =-12,-9,-14,-3,-8" }
	}
};

int main(void)
{
	const struct CMUnitTest tests[] = { RECURRENCE_TESTS(&rule) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
