#include <math.h>
#include <string.h>

#include "tests/witness.h"

#define OP "rmsnorm_fp8_groups"
#define LEN(a) (sizeof(a) / sizeof *(a))

static const struct sample plain = { OP, "{\"weight_offset\": 0}", "in.x F32 4,3,8 ~0.3,2; in.weight F32 3,8 ~1,0.3" };
static const struct sample joined = { OP, "{\"weight_offset\": 1, \"eps\": 1e-5}",
	"in.x F32 3,2,8 ~0,1; in.weight F32 2,8 ~0,0.3; in.residual F32 3,2,8 ~0,2; out.residual_out F32 3,2,8" };
static const struct sample powers = { OP, "{\"weight_offset\": 0, \"power_of_two\": true}", "in.x F32 5,3,8 ~0,1; in.weight F32 3,8 ~1,0.5" };
static const struct sample small = { OP, "{\"weight_offset\": 0}", "in.x F32 4,3,8 ~0,0.001; in.weight F32 3,8 ~0,0.001" };
static const struct sample small_powers = { OP, "{\"weight_offset\": 0, \"power_of_two\": true, \"min_scale\": 7e-6}",
	"in.x F32 4,3,8 ~0,0.001; in.weight F32 3,8 ~0,0.000001" };
static const struct sample *const samples[] = { &plain, &joined, &powers, &small };

/* y s = z = u w / sqrt(mean u^2 + eps), s = max |z| / 448 of the group, in long double; a quotient where the reference has products, and
 * the power of two found by doubling. */
static void equals_the_quotient(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		struct capture c;
		struct outcome r;
		made(&c, samples[k], 21 + k);
		run_in(&r, &c, "dd");
		size_t R = extent(&c, "in.x", 0), G = extent(&c, "in.x", 1), W = extent(&c, "in.x", 2);
		for (size_t row = 0; row < R; row++) {
			long double u[64], squares = 0;
			for (size_t i = 0; i < G * W; i++) {
				u[i] = at(&c, "in.x", row * G * W + i);
				if (k == 1) u[i] += at(&c, "in.residual", row * G * W + i);
				squares += u[i] * u[i];
			}
			long double root = sqrtl(squares / (long double)(G * W) + (k == 1 ? 1e-5 : 1e-6));
			for (size_t g = 0; g < G; g++) {
				long double z[64], largest = 0, s = 1;
				for (size_t i = 0; i < W; i++) {
					z[i] = u[g * W + i] * (at(&c, "in.weight", g * W + i) + (k == 1)) / root;
					largest = fmaxl(largest, fabsl(z[i]));
				}
				long double least = fmaxl(largest / 448, 0x1p-18L);
				while (s >= least) s /= 2;
				while (s < least) s *= 2;
				if (k != 2) s = least;
				size_t at_scale = row * G + g;
				assert_true(fabsl((long double)r.a.hi[1][at_scale] + r.a.lo[1][at_scale] - s) <= 0x1p-58L * s);
				for (size_t i = 0; i < W; i++) {
					size_t e = at_scale * W + i;
					assert_true(fabsl((long double)r.a.hi[0][e] + r.a.lo[0][e] - z[i] / s) <= 0x1p-57L * largest / s);
					if (k == 1) assert_true(r.a.hi[2][e] + r.a.lo[2][e] == (double)u[g * W + i]);
				}
			}
		}
		outcome_free(&r);
		capture_free(&c);
	}
}

/* A row of one group is a row of rmsnorm_fp8. */
static void one_group_is_a_row(void **state)
{
	static const struct sample s = { OP, "{\"weight_offset\": 1}", "in.x F32 5,1,9 ~0,1; in.weight F32 1,9 ~0,0.3" };
	static const struct sample row = { "rmsnorm_fp8", "{\"weight_offset\": 1}", "in.x F32 5,9 ~0,1; in.weight F32 9 ~0,0.3" };
	struct capture a, b;
	struct outcome x, y;

	(void)state;
	made(&a, &s, 6), made(&b, &row, 6);
	run_in(&x, &a, "dd"), run_in(&y, &b, "dd");
	for (size_t i = 0; i < 45; i++) assert_true(fabs(x.a.hi[0][i] - y.a.hi[0][i]) <= 0x1p-50 * 448);
	for (size_t i = 0; i < 5; i++) assert_true(fabs(x.a.hi[1][i] - y.a.hi[1][i]) <= 0x1p-50 * y.a.hi[1][i]);
	outcome_free(&x), outcome_free(&y);
	capture_free(&a), capture_free(&b);
}

static const struct same_as same[] = {
	{ "eps_missing", &joined, "{\"weight_offset\": 1, \"eps\": 0}", NULL, NULL },
	{ "min_scale_missing", &small, "{\"weight_offset\": 0, \"min_scale\": 1e-30}", NULL, NULL },
	{ "plain_weight_for_zero_centred", &joined, "{\"weight_offset\": 0, \"eps\": 1e-5}", NULL, NULL },
};

static void faults(void **state)
{
	struct sample s[] = { plain, joined, powers, small, small_powers };

	(void)state;
	faults_are(same, LEN(same));
	faults_show(s, LEN(s));
}

static void sites(void **state)
{
	(void)state;
	sites_show((struct sample[]){ plain, joined, powers }, 3, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_quotient), cmocka_unit_test(one_group_is_a_row), cmocka_unit_test(faults), cmocka_unit_test(sites),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
