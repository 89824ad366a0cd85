/* The inner loops of the wide arithmetics ask for no memory: calls of malloc are counted. */
#include "tests/counted.h"
#include "tests/kernel_model.h"
#include "tests/witness.h"

static size_t operations;

/* After a first round, which may fill caches and the arena, a second. */
static void sums(calc *c)
{
	mat A = c_mat(c, 40, 40), C = c_mat(c, 40, 40);
	vec x = c_vec(c, 40), y = c_vec(c, 40);
	num a = c_num(c);

	c_set(c, flat(A), 0.1);
	c_set(c, x, 1.0 / 3);
	c_set(c, a, 0.3);
	for (int turn = 0; turn < 2; turn++) {
		size_t before = calls;
		uint64_t work = c->work;
		c_gemv_t(c, y, A, x);
		c_ger(c, A, x, y);
		c_gemm(c, C, NN, A, A);
		c_gemm(c, C, TN, A, A);
		c_mul(c, flat(A), flat(A), a);
		c_add(c, flat(A), flat(A), flat(C));
		c_axpy(c, y, a, x);
		c_scan(c, y, x);
		c_dot(c, a, x, y);
		c_map(c, a, FN_RECIP, a);
		operations = (size_t)(c->work - work);
		if (turn) assert_int_equal(calls - before, 0);
	}
}

static void sums_ask_for_no_memory(void **state)
{
	static const char *const specs[] = { "dd", "mpfr:128", "f64" };

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	for (size_t i = 0; i < 3; i++) {
		struct plan p = plan_in(specs[i]);
		in_calc(&p, NULL, NULL, sums);
		assert_true(operations > 100000);
	}
}

static size_t calls_for(size_t tokens, const char *spec)
{
	struct test_case k = *case_find("gated_delta_rule", "prefill");
	struct case_dim dims[] = { { "T", tokens }, { "N", 1 }, { "Hk", 1 }, { "Hv", 1 }, { "Dk", 32 }, { "Dv", 32 }, { 0 } };
	struct capture c;
	struct call call;
	struct outcome r;
	struct error e;

	k.dims = dims;
	no_error(case_make(&c, &k, 1, false, &e) && call_bind(&call, &c, false, &e), &e);
	size_t before = calls;
	run_in(&r, &c, spec);
	size_t n = calls - before;
	outcome_free(&r);
	capture_free(&c);
	return n;
}

/* A token more asks for nothing more in dd. */
static void tokens_ask_for_no_memory(void **state)
{
	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	calls_for(8, "dd");
	size_t few = calls_for(8, "dd"), many = calls_for(64, "dd");
	assert_true(few > 0);
	assert_int_equal(few, many);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_ask_for_no_memory),
		cmocka_unit_test(tokens_ask_for_no_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
