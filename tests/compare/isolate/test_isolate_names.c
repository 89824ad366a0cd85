/* Faults are told by their own answers, each within its own expected error: no less, however small what they change, and no more. */
#include "compare/isolate/isolate_values.h"
#include "tests/kernel_model.h"

static const char *const cases[] = { "steps_f32", "steps_bf16" };

static const struct op *mixed(void) { return op_find("mixed_batch"); }

/* The case as a kernel of float32 and of its contract answers it that has the fault; in pools that held `share` of what the case
 * has there. */
static void kernel_of(struct capture *c, const char *name, int fault, double share)
{
	static const char *const pools[] = { "state_pool", "conv_pool" };
	const char *contract = case_find("mixed_batch", name)->contract;
	struct plan p = plan_plain(&arith_f32, 24);

	make_case(c, "mixed_batch", name);
	for (int i = 0; i < 2; i++) {
		struct tensor *t = (struct tensor *)(uintptr_t)capture_in(c, pools[i]);
		for (size_t j = 0; j < t->count; j++) set(t, j, share * get(t, j));
	}
	if (contract) {
		plan_contract(&p, contract_of("mixed_batch", contract));
		assert_true(meta_set(&c->tensors, "etalon.contract", contract));
		c->contract = meta_get(&c->tensors, "etalon.contract");
	}
	if (fault >= 0) plan_fault(&p, mixed(), fault);
	answer_by(c, &p);
}

static struct named named(const struct capture *c)
{
	struct named n;
	struct error e;

	no_error(values_name(&n, c, &e), &e);
	return n;
}

/* In each case all of the wrong tokens are what the fault makes of them, and the right ones' too. */
static void every_fault_is_named_by_its_answers(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		bool visible[MAX_FAULT] = { false };
		struct capture c;
		struct error e;
		int seen = 0;
		kernel_of(&c, cases[k], -1, 1);
		assert_int_equal(named(&c).wrong, 0);
		no_error(values_coverage(visible, &c, &e), &e);
		capture_free(&c);
		for (int i = 0; mixed()->faults[i].name; i++) {
			kernel_of(&c, cases[k], i, 1);
			struct named n = named(&c);
			capture_free(&c);
			if ((n.wrong > 0) != visible[i]) fail_msg("%s %s: %zu wrong tokens, told as %d", cases[k], mixed()->faults[i].name, n.wrong, visible[i]);
			if (!n.wrong) continue;
			seen++;
			if (n.fault != &mixed()->faults[i] || n.explained != n.wrong || !n.alone)
				fail_msg("%s %s: named %s, %zu of %zu", cases[k], mixed()->faults[i].name, n.fault ? n.fault->name : "none", n.explained, n.wrong);
		}
		assert_int_equal(seen, 13);
	}
}

/* A thousandth of what a slot held changes a thousandth of the answers, and as many tokens are wrong; float32 tells. */
static void a_small_effect_is_seen(void **state)
{
	int fault = op_fault(mixed(), "slot_not_zeroed_on_reuse");
	struct capture c;
	size_t wrong[2];

	(void)state;
	for (int small = 0; small < 2; small++) {
		kernel_of(&c, "steps_f32", fault, small ? 1e-3 : 1);
		struct named n = named(&c);
		capture_free(&c);
		assert_ptr_equal(n.fault, &mixed()->faults[fault]);
		assert_int_equal(n.explained, n.wrong);
		wrong[small] = n.wrong;
	}
	assert_int_equal(wrong[0], wrong[1]);
}

/* One in 256 off is beyond float32's error of any fault. */
static void what_is_near_a_fault_is_not_it(void **state)
{
	int fault = op_fault(mixed(), "read_slot_is_not_write_slot");
	struct capture c;

	(void)state;
	kernel_of(&c, "steps_f32", fault, 1);
	struct tensor *y = capture_out(&c, "y");
	for (size_t i = 0; i < y->count; i++) set(y, i, get(y, i) * (1 + 0x1p-8));
	struct named n = named(&c);
	assert_true(n.wrong > 40 && !n.fault);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_fault_is_named_by_its_answers), cmocka_unit_test(a_small_effect_is_seen),
		cmocka_unit_test(what_is_near_a_fault_is_not_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
