#include "tests/ref/ops/recurrence_tests.h"

#define OP "conv_ssd_norm"
#define LEN(a) (sizeof(a) / sizeof *(a))
enum { H = 4, P = 3, M = 5, W = 4, G = 2, E = H * P + 2 * G * M };
#define SIZES(T) "in.xBC F32 " T ",32 ~0,1; in.z F32 " T ",4,3 ~0,1; in.dt F32 " T ",4 ~0,1; in.conv_weight F32 32,4 ~0,0.5; in.A F32 4 =-1.3,-0.2,-4.1,-0.7; " \
	"in.dt_bias F32 4 =-2.1,-1.3,-3.3,0.6; in.norm_weight F32 12 ~1,0.3"

static real silu_of(real x) { return x * sigmoid_of(x); }

/* Channel e of the convolution at token t of a sequence. */
static real convolved(const struct capture *c, size_t n, span of, size_t t, size_t e)
{
	real sum = in_or(c, "conv_bias", e, 0);

	for (size_t i = 0; i < W; i++) {
		size_t back = W - 1 - i;
		real x = t - of.first >= back ? in_or(c, "xBC", (t - back) * E + e, 0) : in_or(c, "conv_state", (n * E + e) * (W - 1) + (t - of.first) + i, 0);
		sum += x * in_or(c, "conv_weight", e * W + i, 0);
	}
	return silu_of(sum);
}

/* One sequence: the convolution's channels are x of all heads, B of all groups, C of all groups; the norm goes over a group's heads. */
static void sequence(const struct capture *c, size_t n, span of, real *y, real *S)
{
	bool first = capture_bool(c, "norm_before_gate", false);

	for (size_t i = 0; i < H * P * M; i++) S[i] = in_or(c, "initial_state", n * H * P * M + i, 0);
	for (size_t t = of.first; t < of.last; t++) {
		real u[H * P], squares[G] = { 0 };
		for (size_t i = 0; i < H * P; i++) {
			size_t h = i / P, g = h / (H / G);
			real d = softplus_of(in_or(c, "dt", t * H + h, 0) + in_or(c, "dt_bias", h, 0)), x = convolved(c, n, of, t, i);
			u[i] = in_or(c, "D", h, 0) * x;
			for (size_t s = 0; s < M; s++) {
				S[i * M + s] = expl(in_or(c, "A", h, 0) * d) * S[i * M + s] + d * x * convolved(c, n, of, t, H * P + g * M + s);
				u[i] += S[i * M + s] * convolved(c, n, of, t, H * P + (G + g) * M + s);
			}
			if (!first) u[i] *= silu_of(in_or(c, "z", t * H * P + i, 0));
			squares[g] += u[i] * u[i];
		}
		for (size_t i = 0; i < H * P; i++) {
			real out = u[i] / sqrtl(squares[i / (H * P / G)] / (H * P / G) + (real)capture_number(c, "eps", 1e-5)) * in_or(c, "norm_weight", i, 0);
			y[t * H * P + i] = first ? out * silu_of(in_or(c, "z", t * H * P + i, 0)) : out;
		}
	}
}

static void by_hand(const struct capture *c, size_t T, size_t N, real made[MAX_MADE][MOST_MADE])
{
	for (size_t n = 0; n < N; n++) sequence(c, n, tokens(c, n, T), made[0], made[1] + n * H * P * M);
}

static const struct recurrence rule = {
	"in.z", by_hand, { { "y", H * P, 0 }, { "the state", 0, H * P * M } }, .equal = 3, .sites = 2, .n = 3, .sample = {
		{ OP, "{}", SIZES("11") "; in.D F32 4 =0.3,-1.1,2.3,0.7; in.conv_bias F32 32 ~0,0.3; in.initial_state F32 1,4,3,5 ~0,0.5; in.conv_state F32 1,32,3 ~0,1" },
		{ OP, "{\"norm_before_gate\": true, \"eps\": 0.01}", SIZES("12") "; in.initial_state F32 3,4,3,5 ~0,0.5; in.conv_state F32 3,32,3 ~0,1; in.cu_seqlens I32 4 =0,7,8,12" },
		{ OP, "{\"eps\": 0.1}", SIZES("9") "; in.D F32 4 =0.3,-1.1,2.3,0.7; in.initial_state F32 1,4,3,5 ~0,0.5" }
	}
};

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(equals_the_recurrence, AS_STATE(&rule)), cmocka_unit_test_prestate(faults, AS_STATE(&rule)),
		cmocka_unit_test_prestate(sites, AS_STATE(&rule))
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
