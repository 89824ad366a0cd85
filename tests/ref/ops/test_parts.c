/* Scopes: what an op's part passes and makes inside another op. */
#include <math.h>
#include <string.h>

#include "ref/ops/parts.h"
#include "tests/witness.h"

static const char *const names[] = { "f32", "f64", "mpfr:128", "noisy" };
enum { NAMES = sizeof names / sizeof *names };
static const double odd = 1 + 0x1p-12;          /* not a bf16 number */

static bool rounds(calc *c, const char *op, const char *site)
{
	num x = c_number(c, odd);

	c_site(c, op_site(op_find(op), site), x);
	return c_value(c, x) != odd;
}

/* The plan rounds mixed_batch's y and u: the parts' sites of those names and no other, at any depth. */
static void sites_go_by_name(calc *c)
{
	const struct scope norm = c_scope(c, op_find("rmsnorm")), delta = c_scope(c, op_find("gated_delta_rule"));

	assert_true(rounds(c, "mixed_batch", "y") && rounds(c, "mixed_batch", "u") && !rounds(c, "mixed_batch", "o"));
	c_enter(c, &delta);
	assert_true(rounds(c, "gated_delta_rule", "u") && !rounds(c, "gated_delta_rule", "o") && !rounds(c, "gated_delta_rule", "A_log"));
	c_leave(c);
	c_enter(c, &norm);
	assert_true(rounds(c, "rmsnorm", "y") && !rounds(c, "rmsnorm", "xhat") && !rounds(c, "rmsnorm", "silu_gate"));
	const struct scope inner = c_scope(c, op_find("causal_conv1d"));
	c_enter(c, &inner);
	assert_true(rounds(c, "causal_conv1d", "y") && !rounds(c, "causal_conv1d", "conv"));
	c_leave(c);
	assert_true(rounds(c, "rmsnorm", "y"));
	c_leave(c);
	assert_true(rounds(c, "mixed_batch", "y") && !c->scope);
}

/* The plan rounds conv, which causal_conv1d has: not where it runs inside rmsnorm, which has none. */
static void names_are_those_of_the_next(calc *c)
{
	const struct scope norm = c_scope(c, op_find("rmsnorm")), conv = c_scope(c, op_find("causal_conv1d"));

	c_enter(c, &conv);
	assert_true(rounds(c, "causal_conv1d", "conv"));
	c_leave(c);
	c_enter(c, &norm);
	const struct scope inner = c_scope(c, op_find("causal_conv1d"));
	c_enter(c, &inner);
	assert_true(!rounds(c, "causal_conv1d", "conv"));
	c_leave(c);
	c_leave(c);
}

/* All faults are asked for, and the parts make none: n of them change y, and none does in the scope. */
static void faults_stay_out(calc *c)
{
	const struct scope delta = c_scope(c, op_find("gated_delta_rule"));
	vec x = c_vec(c, 2);

	assert_true(c_fault(c, 0) && c_fault(c, 31));
	for (int inside = 0; inside < 2; inside++) {
		c_set(c, c_part(c, x, 0, 1), 3);
		c_set(c, c_part(c, x, 1, 1), 4);
		if (inside) c_enter(c, &delta);
		assert_true(c_fault(c, 0) == !inside);
		delta_l2_norm(c, x, 0);
		if (inside) c_leave(c);
		double y = c_value(c, c_part(c, x, 0, 1));
		assert_true((fabs(y - 0.6) < 1e-6) == inside);
	}
}

static void scopes(void **state)
{
	static const struct call call = { .in = { NULL } };
	struct call mixed = call;

	(void)state;
	mixed.op = op_find("mixed_batch");
	for (int k = 0; k < NAMES; k++) {
		struct plan p = plan_in(names[k]);
		p.round[op_site(mixed.op, "y")] = p.round[op_site(mixed.op, "u")] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		in_calc(&p, &mixed, NULL, sites_go_by_name);
		p = plan_in(names[k]);
		p.round[op_site(mixed.op, "conv")] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		in_calc(&p, &mixed, NULL, names_are_those_of_the_next);
		p = plan_in(names[k]);
		p.faults = UINT64_MAX;
		in_calc(&p, &mixed, NULL, faults_stay_out);
	}
}

/* Bytes are zero, aligned for any type, and do not touch vectors made before and after. */
static void bytes_between(calc *c)
{
	size_t mark = c_mark(c);

	for (int round = 0; round < 2; round++) {
		vec x = c_vec(c, 3);
		char *b = c_bytes(c, 1001);
		vec y = c_vec(c, 3);
		assert_true((uintptr_t)b % _Alignof(max_align_t) == 0);
		for (int i = 0; i < 1001; i++) assert_int_equal(b[i], 0);
		c_set(c, x, 1);
		c_set(c, y, 2);
		memset(b, 0xff, 1001);
		for (size_t i = 0; i < 3; i++) assert_true(c_value(c, c_part(c, x, i, 1)) == 1 && c_value(c, c_part(c, y, i, 1)) == 2);
		c_release(c, mark);
	}
}

static void bytes(void **state)
{
	(void)state;
	for (int k = 0; k < NAMES; k++) {
		struct plan p = plan_in(names[k]);
		in_calc(&p, NULL, NULL, bytes_between);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(scopes), cmocka_unit_test(bytes) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
