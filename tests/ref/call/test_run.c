#include <fenv.h>

#include "tests/witness.h"

#include <omp.h>

#define LEN(a) (sizeof(a) / sizeof *(a))

static const struct sample rows = { "rmsnorm", "{\"weight_offset\": 1, \"gate\": \"silu\"}",
	"in.x F32 23,40 ~0,1; in.weight F32 40 ~0,1; in.gate F32 23,40 ~0,1" };

static void seeds(void **state)
{
	struct capture c;
	struct plan p = plan_in("noisy");
	struct outcome a, b, other;

	(void)state;
	made(&c, &rows, 1);
	p.seed = 5;
	run_plan(&a, &c, &p);
	run_plan(&b, &c, &p);
	p.seed = 6;
	run_plan(&other, &c, &p);
	assert_true(same_outcome(&a, &b));
	size_t changed = 0;
	for (size_t i = 0; i < 920; i++) changed += a.a.hi[0][i] != other.a.hi[0][i];
	assert_true(changed > 460 && distance(&a, &other) < 100 * 0x1p-23);
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&other);
	capture_free(&c);
}

static void threads_do_not_matter(void **state)
{
	static const char *const specs[] = { "f32", "f32_tree", "mma:hopper", "f64", "f64up", "dd", "mpfr:128", "noisy" };
	struct capture c;

	(void)state;
	made(&c, &rows, 1);
	for (size_t k = 0; k < LEN(specs); k++) {
		struct outcome one, two;
		omp_set_num_threads(1);
		run_in(&one, &c, specs[k]);
		omp_set_num_threads(2);
		run_in(&two, &c, specs[k]);
		omp_set_num_threads(1);
		assert_true(same_outcome(&one, &two) && one.a.work == two.a.work);
		outcome_free(&one);
		outcome_free(&two);
	}
	capture_free(&c);
}

/* The rounding direction holds in the run, and is to nearest after it. */
static void up_is_above(void **state)
{
	static const struct sample positive = { "causal_conv1d", "{}", "in.x F64 40,3 =1.1,0.3,7.7,0.01,2.3; in.weight F64 3,5 =0.1,1.7,0.7" };
	struct capture c;
	struct outcome near, up;
	size_t above = 0;

	(void)state;
	made(&c, &positive, 1);
	run_in(&near, &c, "f64");
	run_in(&up, &c, "f64up");
	for (size_t i = 0; i < 120; i++) {
		assert_true(up.a.hi[0][i] >= near.a.hi[0][i] && up.a.hi[0][i] <= near.a.hi[0][i] * (1 + 12 * 0x1p-52));
		above += up.a.hi[0][i] > near.a.hi[0][i];
	}
	assert_true(above > 60);
	assert_int_equal(fegetround(), FE_TONEAREST);
	outcome_free(&near);
	outcome_free(&up);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(seeds),
		cmocka_unit_test(threads_do_not_matter),
		cmocka_unit_test(up_is_above),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
