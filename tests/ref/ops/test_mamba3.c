#include "tests/ref/ops/recurrences.h"

#define OP "mamba3"
enum { H = 2, DK = 8, DV = 5, A = 3 };
#define SIZES(T) "in.q F32 " T ",1,8 ~0,1; in.k F32 " T ",1,8 ~0,1; in.v F32 " T ",2,5 ~0,1; in.adt F32 " T ",2 =-0.1,-0.7,-0.02,-1.5,-0.4; " \
	"in.dt F32 " T ",2 =0.1,0.7,0.32,0.5,0.4,0.21,0.9; in.trap F32 " T ",2 ~0,1; in.q_bias F32 2,8 ~1,0.3; in.k_bias F32 2,8 ~1,0.3; in.angles F32 " T ",2,3 ~0,1"
#define HANDED(N) "; in.initial_state F32 " N ",2,5,8 ~0,0.5; in.initial_angle F32 " N ",2,3 =0.3,5.1,2.2,4; in.initial_k F32 " N ",2,8 ~0,1; in.initial_v F32 " N ",2,5 ~0,1"

/* A turn is 2 pi in double, as in the formula. */
static real less_turns(real x) { return x - floorl(x / 6.283185307179586L) * (real)6.283185307179586; }

/* x, with its bias, its first 2 A dimensions turned as neighbouring pairs: complex numbers times e^(i theta). */
static void turn(const struct capture *c, real x[DK], const char *name, const char *bias, size_t t, size_t h, const real theta[A])
{
	for (size_t d = 0; d < DK; d++) x[d] = in_or(c, name, t * DK + d, 0) + in_or(c, bias, h * DK + d, 0);
	for (size_t p = 0; p < A; p++) {
		real a = x[2 * p], b = x[2 * p + 1];
		x[2 * p] = a * cosl(less_turns(theta[p])) - b * sinl(less_turns(theta[p]));
		x[2 * p + 1] = b * cosl(less_turns(theta[p])) + a * sinl(less_turns(theta[p]));
	}
}

/* The exponential-trapezoidal step: what the token before wrote weighs (1 - l) dt e^adt more, this one's outer product l dt. */
static void head(const struct capture *c, size_t n, size_t h, span of, real *y, real *angle, real *last)
{
	real S[DV][DK], theta[A], q[DK], k[DK], k_1[DK], v_1[DV];
	size_t m = n * H + h;

	for (size_t e = 0; e < DV; e++) {
		v_1[e] = in_or(c, "initial_v", m * DV + e, 0);
		for (size_t d = 0; d < DK; d++) S[e][d] = in_or(c, "initial_state", (m * DV + e) * DK + d, 0);
	}
	for (size_t d = 0; d < DK; d++) k_1[d] = in_or(c, "initial_k", m * DK + d, 0);
	for (size_t p = 0; p < A; p++) theta[p] = in_or(c, "initial_angle", m * A + p, 0);
	for (size_t t = of.first; t < of.last; t++) {
		real dt = in_or(c, "dt", t * H + h, 0), alpha = expl(in_or(c, "adt", t * H + h, 0)), l = sigmoid_of(in_or(c, "trap", t * H + h, 0));
		for (size_t p = 0; p < A; p++) theta[p] += (real)3.141592653589793 * tanhl(in_or(c, "angles", (t * H + h) * A + p, 0)) * dt;
		turn(c, q, "q", "q_bias", t, h, theta);
		turn(c, k, "k", "k_bias", t, h, theta);
		for (size_t e = 0; e < DV; e++) {
			real v = in_or(c, "v", (t * H + h) * DV + e, 0), z = in_or(c, "z", (t * H + h) * DV + e, 0), sum = in_or(c, "D", h, 0) * v;
			for (size_t d = 0; d < DK; d++) {
				S[e][d] = alpha * S[e][d] + (1 - l) * dt * alpha * v_1[e] * k_1[d] + l * dt * v * k[d];
				sum += S[e][d] * q[d];
			}
			v_1[e] = v;
			y[(t * H + h) * DV + e] = given(c, "z") ? sum * z * sigmoid_of(z) : sum;
		}
		memcpy(k_1, k, sizeof k);
	}
	for (size_t p = 0; p < A; p++) angle[m * A + p] = less_turns(theta[p]);
	memcpy(last + m * DV * DK, S, sizeof S);
}

static void by_hand(const struct capture *c, size_t T, size_t N, real made[MAX_MADE][MOST_MADE])
{
	for (size_t n = 0; n < N; n++)
		for (size_t h = 0; h < H; h++) head(c, n, h, tokens(c, n, T), made[0], made[1], made[2]);
}

/* The last one has two key heads, each read by two. */
static const struct recurrence rule = {
	"in.v", by_hand, { { "y", H * DV, 0 }, { "the angle", 0, H * A }, { "the state", 0, H * DV * DK } }, .equal = 3, .forms = 4, .sites = 2, .n = 4, .sample = {
		{ OP, "{}", SIZES("70") "; in.D F32 2 =0.3,-1.1; out.final_k F32 1,2,8; out.final_v F32 1,2,5" HANDED("1") },
		{ OP, "{}", SIZES("12") "; in.D F32 2 =0.3,-1.1; in.z F32 12,2,5 ~0,1; in.cu_seqlens I32 4 =0,7,8,12" HANDED("3") },
		{ OP, "{}", SIZES("9") },
		{ OP, "{}", "in.q F32 9,2,8 ~0,1; in.k F32 9,2,8 ~0,1; in.v F32 9,4,5 ~0,1; in.adt F32 9,4 =-0.1,-0.7; "
			"in.dt F32 9,4 =0.1,0.7,0.32; in.trap F32 9,4 ~0,1; in.q_bias F32 4,8 ~1,0.3; in.k_bias F32 4,8 ~1,0.3; in.angles F32 9,4,3 ~0,1; in.z F32 9,4,5 ~0,1; "
			"in.D F32 4 =0.3,-1.1,2,0.7" }
	}
};

int main(void)
{
	const struct CMUnitTest tests[] = { RECURRENCE_TESTS(&rule) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
