/* Kernels by lot to whose structure no single change leads: tests/studies/readback.h draws them. */
#include "planted.h"

static void read_back_of(uint64_t draw, const char *op)
{
	struct readback r;

	assert_true(readback(&r, draw, op, 24e9, NULL));
	print_message("%s %llu: %zu candidates, %.2f G operations\n", r.k->name, (unsigned long long)draw, r.found.tries, r.found.work * 1e-9);
	assert_true(r.back);
	readback_free(&r);
}

static void by_two_changes_at_once(void **state)
{
	(void)state;
	read_back_of(2, "newton_schulz");
}

static void by_changes_by_lot(void **state)
{
	(void)state;
	read_back_of(14, "newton_schulz");
}

/* One choice after the other explains all but one part in two thousand of an output. */
static void by_lot_from_what_explains_nearly_all(void **state)
{
	(void)state;
	read_back_of(5024, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_two_changes_at_once), cmocka_unit_test(by_changes_by_lot), cmocka_unit_test(by_lot_from_what_explains_nearly_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
