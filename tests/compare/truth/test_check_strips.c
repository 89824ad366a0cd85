/* A verdict is the same whether a call is looked at whole or strip by strip: sums in another order, and nothing else. */
#include <math.h>
#include <string.h>

#include "compare/attribute/xray_private.h"
#include "compare/verdict/verdict.h"
#include "tests/kernel_model.h"

static bool near(double a, double b) { return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-6 * fmax(fabs(a), fabs(b)) + 1e-12; }

static void expect_outputs(const struct verdict *a, const struct verdict *b)
{
	assert_int_equal(a->n_out, b->n_out);
	for (int i = 0; i < a->n_out; i++) {
		const struct output_verdict *p = &a->out[i], *q = &b->out[i];
		assert_true(p->bit_equal == q->bit_equal && p->not_finite == q->not_finite && p->sample.count == q->sample.count);
		assert_true(p->worst.index == q->worst.index && p->beyond.index == q->beyond.index && near(p->truth_error, q->truth_error));
		for (int r = 0; r < RULE_COUNT; r++)
			if (!near(p->rule[r].value, q->rule[r].value) || !near(p->rule[r].limit, q->rule[r].limit))
				fail_msg("%s: %.17g of %.17g, %.17g of %.17g", rule_name[r], p->rule[r].value, p->rule[r].limit, q->rule[r].value,
					q->rule[r].limit);
	}
}

static void expect_suspects(const struct examination *a, const struct examination *b)
{
	assert_true(a->n == b->n && a->identified == b->identified && near(a->left, b->left) && !strcmp(a->where, b->where));
	assert_true(!strcmp(a->generic.name, b->generic.name) && near(a->generic.value, b->generic.value));
	for (int i = 0; i < a->n; i++) {
		const struct suspect *p = &a->suspect[i], *q = &b->suspect[i];
		if (strcmp(p->name, q->name) || p->state != q->state || !near(p->size, q->size)
			|| (p->state != NOT_IDENTIFIABLE && (!near(p->coefficient, q->coefficient) || !near(p->error, q->error))))
			fail_msg("%s %s: %.17g ± %.17g, size %.17g; %s %s: %.17g ± %.17g, size %.17g", p->name, suspect_name[p->state], p->coefficient,
				p->error, p->size, q->name, suspect_name[q->state], q->coefficient, q->error, q->size);
	}
}

/* Scores and fits around the bare emulation, with a fault beside it. */
struct around { double score, left, tried; struct look look; };

static void around(const struct call *call, struct around *a)
{
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);
	struct error e;
	struct xray x;

	no_error(xray_make(&x, call, NULL, &e), &e);
	x.emulation = p;
	plan_fault(&p, call->op, 0);
	a->look = look_of(&p);
	struct look tried = look_of(&p);
	no_error(xray_refresh(&x) && xray_look(&x, &a->look, 1, LOOK_SIZE | LOOK_FIT) && xray_try(&x, &tried, 1, INFINITY, false), &e);
	a->score = x.score, a->left = xray_left(&x), a->tried = tried.score;
	/* what is asked for scores below some is told those, and of the rest no more than that it is above */
	struct look below = look_of(&p), above = look_of(&p), told = look_of(&p);
	xray_untell(&x);
	no_error(xray_try(&x, &below, 1, tried.score + 1, true) && xray_try(&x, &above, 1, -1e300, false), &e);
	assert_true(below.score == tried.score && above.score == INFINITY);
	const size_t runs = x.runs;
	no_error(xray_look(&x, &told, 1, LOOK_SIZE), &e);
	assert_true(x.runs == runs && told.size == a->look.size && told.overflows == a->look.overflows);
	xray_free(&x);
}

static void expect_around(const struct call *call, size_t most)
{
	struct call cut = *call;
	struct around a, b;

	around(call, &a);
	cut.at_hand = most;
	around(&cut, &b);
	assert_true(near(a.score, b.score) && near(a.left, b.left) && near(a.tried, b.tried) && near(a.look.size, b.look.size));
	assert_true(near(a.look.fit.value, b.look.fit.value) && near(a.look.fit.error, b.look.fit.error));
}

/* c in one piece, and in strips of some `most` elements. */
static void expect_same(const struct capture *c, const char *contract, size_t most, enum outcome outcome)
{
	static struct verdict whole, cut;
	const struct judging how = { .contract = contract }, in_strips = { .contract = contract, .at_hand = most };
	struct call call;
	struct error e;

	no_error(judge(c, &how, &whole, &e) && call_bind(&call, c, true, &e), &e);
	size_t strips = call_strips(&call, most, most);
	no_error(judge(c, &in_strips, &cut, &e), &e);
	print_message("%s in %zu strips: %s\n", c->op, strips, outcome_name[cut.outcome]);
	assert_true(strips > 2);
	assert_int_equal(whole.outcome, outcome);
	assert_int_equal(cut.outcome, outcome);
	assert_int_equal(whole.n_reason, cut.n_reason);
	for (int i = 0; i < cut.n_reason; i++) assert_string_equal(whole.reason[i], cut.reason[i]);
	expect_around(&call, most);
	expect_outputs(&whole, &cut);
	expect_suspects(&whole.x, &cut.x);
}

/* rmsnorm, 64 rows: right, with a fault, and wrong in a way that nobody knows, in every other row. */
static void rows(void **state)
{
	struct test_case k = *case_find("rmsnorm", "plain_f32");
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture c;
	struct error e;

	(void)state;
	k.dims = (const struct case_dim[]){ { "R", 64 }, { "D", 60 }, { 0 } };
	no_error(case_make(&c, &k, 1, true, &e), &e);
	answer_by(&c, &p);
	expect_same(&c, "f32", 500, PASS);
	struct tensor *y = capture_out(&c, "y");
	for (size_t i = 0; i < y->count; i++)
		if (i / 60 % 2) set(y, i, get(y, i) * (1 + (i * 7 % 13 < 6 ? 1e-3 : -1e-3)));
	expect_same(&c, "f32", 500, FAIL);
	plan_fault(&p, op_find("rmsnorm"), op_fault(op_find("rmsnorm"), "eps_wrong"));
	answer_by(&c, &p);
	expect_same(&c, "f32", 500, FAIL);
	capture_free(&c);
}

/* The delta rule, ragged: token by token with a fault, and in chunks that round, which no strip ends with. */
static void heads(void **state)
{
	static const double lengths[] = { 70, 61 };
	struct test_case k = *case_find("gated_delta_rule", "prefill_ragged");
	struct plan p = plan_plain(&arith_f32, 24), chunk = p;
	const struct op *op = op_find("gated_delta_rule");
	struct capture c;
	struct error e;

	(void)state;
	k.dims = (const struct case_dim[]){ { "T", 131 }, { "N", 2 }, { "Hk", 1 }, { "Hv", 1 }, { "Dk", 4 }, { "Dv", 8 }, { 0 } };
	k.lists = (const struct case_list[]){ { "cu_seqlens", lengths, 2 }, { 0 } };
	no_error(case_make(&c, &k, 1, true, &e), &e);
	answer_by(&c, &p);
	expect_same(&c, "f32", 300, PASS);
	plan_fault(&p, op, op_fault(op, "retrieve_before_decay"));
	answer_by(&c, &p);
	expect_same(&c, "f32", 300, FAIL);
	plan_contract(&chunk, contract_of("gated_delta_rule", "bf16_operands"));
	answer_by(&c, &chunk);
	expect_same(&c, "bf16_operands", 300, PASS);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rows), cmocka_unit_test(heads) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
