/* The memory of a check is that of a strip, and little for an element more. */
#include "compare/verdict/verdict.h"
#include "tests/counted.h"
#include "tests/kernel_model.h"

/* Bytes that a check of so many tokens has at once, beyond its tensors; at_hand: see struct judging. */
static size_t most_for(size_t tokens, size_t at_hand, size_t *tensors)
{
	struct test_case k = *case_find("gated_delta_rule", "prefill");
	struct case_dim dims[] = { { "T", tokens }, { "N", 1 }, { "Hk", 1 }, { "Hv", 1 }, { "Dk", 8 }, { "Dv", 8 }, { 0 } };
	const struct judging how = { .at_hand = at_hand };
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

/* In strips of so many elements: less than half a byte for one of the tensors (a byte for an element of the outputs, 16 for a row, the
 * largest hundredth of the errors), and 320 bytes for an element of a strip, beside the sums. So many strips that the x-ray keeps no runs. */
static void a_check_is_bounded_by_its_tensors(void **state)
{
	enum { AT_HAND = 1 << 7 };
	size_t least = 0, least_tensors = 0;

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	for (size_t tokens = 2048; tokens <= 4096; tokens *= 2) {
		size_t bytes, used = most_for(tokens, AT_HAND, &bytes);
		print_message("%zu tokens: %zu bytes beside %zu of tensors\n", tokens, used, bytes);
		assert_true(used > bytes / 8 && used <= bytes / 2 + 320 * AT_HAND + (4 << 20));
		if (least) assert_true(used <= least + (bytes - least_tensors) / 2);
		least = used, least_tensors = bytes;
	}
}

/* A call that is looked at in one piece has no more than 2^18 elements, some 32 bytes for one of its tensors, and what the x-ray keeps. */
static void a_small_check_is_whole(void **state)
{
	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	size_t bytes, used = most_for(4096, 0, &bytes);
	print_message("in one piece: %zu bytes beside %zu of tensors\n", used, bytes);
	assert_true(used > bytes && used <= 32 * bytes + (4 << 20) + XRAY_KEPT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_check_is_bounded_by_its_tensors),
		cmocka_unit_test(a_small_check_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
