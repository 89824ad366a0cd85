#include "tests/ref/ops/recurrence_tests.h"

#define OP "mamba3_mimo"
#define LEN(a) (sizeof(a) / sizeof *(a))
enum { H = 2, R = 3, DK = 8, DV = 5, A = 3 };
#define STEPS(T) "in.v F32 " T ",2,5 ~0,1; in.adt F32 " T ",2 =-0.1,-0.7,-0.02,-1.5,-0.4; in.dt F32 " T ",2 =0.1,0.7,0.32,0.5,0.4,0.21,0.9; " \
	"in.trap F32 " T ",2 ~0,1; in.angles F32 " T ",2,3 ~0,1"
#define SIZES(T) STEPS(T) "; in.q F32 " T ",3,1,8 ~0,1; in.k F32 " T ",3,1,8 ~0,1; in.q_bias F32 2,3,8 ~1,0.3; in.k_bias F32 2,3,8 ~1,0.3; " \
	"in.mimo_v F32 2,3,5 ~0.3,0.5; in.mimo_o F32 2,3,5 ~0.3,0.5"
#define HANDED(N) "; in.initial_state F32 " N ",2,5,8 ~0,0.5; in.initial_angle F32 " N ",2,3 =0.3,5.1,2.2,4; in.initial_k F32 " N ",2,3,8 ~0,1; in.initial_v F32 " N ",2,5 ~0,1"
#define GATED(T) "; in.D F32 2 =0.3,-1.1; in.z F32 " T ",2,5 ~0,1; in.mimo_z F32 2,3,5 ~1,0.5"

struct by_hand { real *y, *angle, *state, *k, *v; };

/* A turn is 2 pi in double, as in the formula. */
static real less_turns(real x) { return x - floorl(x / 6.283185307179586L) * (real)6.283185307179586; }

/* Element d of row r of q or k, with its bias, turned: of complex numbers times e^(i theta) the real part or the imaginary one. */
static real turned(const struct capture *c, const char *name, const char *bias, size_t t, size_t h, size_t r, size_t d, const real theta[A])
{
	size_t at = (t * R + r) * DK, of = (h * R + r) * DK, low = d - d % 2;
	real a = in_or(c, name, at + low, 0) + in_or(c, bias, of + low, 0), b = in_or(c, name, at + low + 1, 0) + in_or(c, bias, of + low + 1, 0);
	real angle = d < 2 * A ? less_turns(theta[d / 2]) : 0;

	return d % 2 ? b * cosl(angle) + a * sinl(angle) : a * cosl(angle) - b * sinl(angle);
}

/* An element of y and of the state by its sums over ranks, from what the repository's own reference does step by step. */
static void head(const struct capture *c, size_t n, size_t h, span of, struct by_hand *x)
{
	real theta[A], *k = x->k + (n * H + h) * R * DK, *v = x->v + (n * H + h) * DV, *S = x->state + (n * H + h) * DV * DK;
	size_t m = n * H + h;

	for (size_t i = 0; i < R * DK; i++) k[i] = in_or(c, "initial_k", m * R * DK + i, 0);
	for (size_t i = 0; i < DV; i++) v[i] = in_or(c, "initial_v", m * DV + i, 0);
	for (size_t i = 0; i < DV * DK; i++) S[i] = in_or(c, "initial_state", m * DV * DK + i, 0);
	for (size_t p = 0; p < A; p++) theta[p] = in_or(c, "initial_angle", m * A + p, 0);
	for (size_t t = of.first; t < of.last; t++) {
		real dt = in_or(c, "dt", t * H + h, 0), alpha = expl(in_or(c, "adt", t * H + h, 0)), l = sigmoid_of(in_or(c, "trap", t * H + h, 0)), now[R * DK];
		for (size_t p = 0; p < A; p++) theta[p] += (real)3.141592653589793 * tanhl(in_or(c, "angles", (t * H + h) * A + p, 0)) * dt;
		for (size_t i = 0; i < R * DK; i++) now[i] = turned(c, "k", "k_bias", t, h, i / DK, i % DK, theta);
		for (size_t e = 0; e < DV; e++) {
			real given_v = in_or(c, "v", (t * H + h) * DV + e, 0), z = in_or(c, "z", (t * H + h) * DV + e, 0), y = 0;
			for (size_t d = 0; d < DK; d++) {
				S[e * DK + d] *= alpha;
				for (size_t r = 0; r < R; r++)
					S[e * DK + d] += in_or(c, "mimo_v", (h * R + r) * DV + e, 0) * dt * ((1 - l) * alpha * v[e] * k[r * DK + d] + l * given_v * now[r * DK + d]);
			}
			for (size_t r = 0; r < R; r++) {
				size_t at = (h * R + r) * DV + e;
				real sum = in_or(c, "D", h, 0) * in_or(c, "mimo_v", at, 0) * given_v, open = z * in_or(c, "mimo_z", at, 0);
				for (size_t d = 0; d < DK; d++) sum += S[e * DK + d] * turned(c, "q", "q_bias", t, h, r, d, theta);
				y += in_or(c, "mimo_o", at, 0) * (given(c, "z") ? sum * open * sigmoid_of(open) : sum);
			}
			x->y[(t * H + h) * DV + e] = y;
			v[e] = given_v;
		}
		memcpy(k, now, sizeof now);
	}
	for (size_t p = 0; p < A; p++) x->angle[m * A + p] = less_turns(theta[p]);
}

static void by_hand(const struct capture *c, size_t T, size_t N, real made[MAX_MADE][MOST_MADE])
{
	struct by_hand x = { made[0], made[1], made[2], made[3], made[4] };

	for (size_t n = 0; n < N; n++)
		for (size_t h = 0; h < H; h++) head(c, n, h, tokens(c, n, T), &x);
}

/* The last sample has two key heads, each read by two. */
static const struct recurrence rule = {
	"in.v", by_hand, { { "y", H * DV, 0 }, { "the angle", 0, H * A }, { "the state", 0, H * DV * DK }, { "the keys", 0, H * R * DK }, { "the value", 0, H * DV } },
	.equal = 3, .forms = 4, .sites = 2, .n = 4, .sample = {
		{ OP, "{}", SIZES("70") GATED("70") "; out.final_k F32 1,2,3,8; out.final_v F32 1,2,5" HANDED("1") },
		{ OP, "{}", SIZES("12") GATED("12") "; in.cu_seqlens I32 4 =0,7,8,12; out.final_k F32 3,2,3,8; out.final_v F32 3,2,5" HANDED("3") },
		{ OP, "{}", SIZES("9") "; out.final_k F32 1,2,3,8; out.final_v F32 1,2,5" },
		{ OP, "{}", "in.q F32 9,2,2,8 ~0,1; in.k F32 9,2,2,8 ~0,1; in.v F32 9,4,5 ~0,1; in.adt F32 9,4 =-0.1,-0.7; in.dt F32 9,4 =0.1,0.7,0.32; "
	"in.trap F32 9,4 ~0,1; in.q_bias F32 4,2,8 ~1,0.3; in.k_bias F32 4,2,8 ~1,0.3; in.angles F32 9,4,3 ~0,1; in.mimo_v F32 4,2,5 ~0.3,0.5; in.mimo_o F32 4,2,5 ~0.3,0.5; "
	"in.mimo_z F32 4,2,5 ~1,0.5; in.z F32 9,4,5 ~0,1; in.D F32 4 =0.3,-1.1,2,0.7" }
	}
};

/* Of rank 1 with projections of 1 it is mamba3, to the reference's own error. */
static void rank_one_is_mamba3(void **state)
{
	static const char common[] = STEPS("9") "; in.D F32 2 =0.3,-1.1; in.z F32 9,2,5 ~0,1";
	struct capture ranked, plain;
	struct outcome a, b;
	char text[2][2048];

	(void)state;
	snprintf(text[0], sizeof text[0], "%s; in.q F32 9,1,1,8 ~0,1; in.k F32 9,1,1,8 ~0,1; in.q_bias F32 2,1,8 ~1,0.3; in.k_bias F32 2,1,8 ~1,0.3; "
		"in.mimo_v F32 2,1,5 =1; in.mimo_z F32 2,1,5 =1; in.mimo_o F32 2,1,5 =1", common);
	snprintf(text[1], sizeof text[1], "%s; in.q F32 9,1,8 ~0,1; in.k F32 9,1,8 ~0,1; in.q_bias F32 2,8 ~1,0.3; in.k_bias F32 2,8 ~1,0.3", common);
	made(&ranked, &(struct sample){ OP, "{}", text[0] }, 3);
	made(&plain, &(struct sample){ "mamba3", "{}", text[1] }, 3);
	static const char *const same[] = { "q", "k", "v", "adt", "dt", "trap", "angles", "q_bias", "k_bias", "D", "z" };
	for (size_t i = 0; i < LEN(same); i++) {
		char name[32];
		snprintf(name, sizeof name, "in.%s", same[i]);
		for (size_t k = 0; k < count(&plain, name); k++) put(&ranked, name, k, at(&plain, name, k));
	}
	run_in(&a, &ranked, "dd");
	run_in(&b, &plain, "dd");
	for (int i = 0; i < 3; i++)
		for (size_t k = 0; k < a.call.out_count[i]; k++) assert_true(fabs(a.a.hi[i][k] - b.a.hi[i][k]) <= 0x1p-90);
	outcome_free(&a), outcome_free(&b);
	capture_free(&ranked), capture_free(&plain);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECURRENCE_TESTS(&rule), cmocka_unit_test(rank_one_is_mamba3)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
