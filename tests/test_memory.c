/* The memory of a check grows with its tensors and with nothing else. */
#include "compare/verdict.h"
#include "tests/counted.h"
#include "tests/model.h"

/* Bytes that a check of so many tokens has at once, beyond its tensors. */
static size_t most_for(size_t tokens, size_t *tensors)
{
	struct test_case k = *case_find("gated_delta_rule", "prefill");
	struct case_dim dims[] = { { "T", tokens }, { "N", 1 }, { "Hk", 1 }, { "Hv", 1 }, { "Dk", 8 }, { "Dv", 8 }, { 0 } };
	const struct judging how = { 0 };
	struct capture c;
	struct verdict v;
	struct error e;

	k.dims = dims;
	no_error(case_make(&c, &k, 1, true, &e), &e);
	struct plan p = plan_plain(&arith_f32, 24);
	answer_by(&c, &p);
	*tensors = 0;
	for (size_t i = 0; i < c.tensors.n; i++) *tensors += c.tensors.item[i].bytes;
	size_t before = live;
	most = live;
	no_error(judge(&c, &how, &v, &e), &e);
	assert_int_equal(v.outcome, PASS);
	size_t used = most - before;
	capture_free(&c);
	return used;
}

/* Nothing grows but with the tensors: 32 bytes for one of theirs (the answers in three arithmetics, what is expected of each
 * element, directions of roundings), and 4 MB. */
static void a_check_is_bounded_by_its_tensors(void **state)
{
	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	for (size_t tokens = 64; tokens <= 4096; tokens *= 8) {
		size_t bytes, used = most_for(tokens, &bytes);
		print_message("%zu tokens: %zu bytes beside %zu of tensors\n", tokens, used, bytes);
		assert_true(used > bytes && used <= 32 * bytes + (4 << 20));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_check_is_bounded_by_its_tensors) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
