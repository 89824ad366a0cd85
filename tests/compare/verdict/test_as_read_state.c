/* A state that is carried in bf16, at a place that has no name: the arrangement of products that is read is not the contract's. */
#include "tests/compare/structure/planted.h"
#define step poly_step          /* of both this and the readback's headers */
#define rule verdict_rule
#include "compare/verdict/verdict.h"

static const struct case_tensor in[] = { { "q", "T,Hk,Dk", DT_BF16, DRAW_NORMAL, 0, 0.18 }, { "k", "T,Hk,Dk", DT_BF16, DRAW_NORMAL, 0, 0.18 },
	{ "v", "T,Hv,Dv", DT_BF16, DRAW_NORMAL, 0, 1 }, { "g", "T,Hv", DT_F32, DRAW_UNIFORM, -0.004, 0 }, { "beta", "T,Hv", DT_F32, DRAW_UNIFORM, 0, 0.15 },
	{ "initial_state", "N,Hv,Dk,Dv", DT_F32, DRAW_NORMAL, 0, 1 }, { NULL, NULL, DT_F32, DRAW_NORMAL, 0, 0 } };
static const struct case_tensor out[] = { { "o", "T,Hv,Dv", DT_BF16, DRAW_NORMAL, 0, 0 }, { "final_state", "N,Hv,Dk,Dv", DT_F32, DRAW_NORMAL, 0, 0 },
	{ NULL, NULL, DT_F32, DRAW_NORMAL, 0, 0 } };
static const struct case_dim dims[] = { { "T", 130 }, { "Hk", 1 }, { "Hv", 1 }, { "Dk", 32 }, { "Dv", 16 }, { "N", 1 }, { NULL, 0 } };

/* The contract's first structure, and e^G S in bf16 before what a chunk adds to it. */
static struct candidate with_its_state_in_bf16(struct search *s)
{
	struct plan of = plan_plain(&arith_f32, 24);
	struct candidate c = { .form = 1 };
	int planted = 0;

	plan_structure(&of, contract_of("gated_delta_rule", "bf16_operands"), 0);
	for (int pass = 0; pass < 4; pass++) {
		struct lowered l;
		assert_true(lower_in(s, graph_of(s, &c), &c, NULL, &l));
		c.met = l.met;
		planted = 0;
		for (int i = 0; i < l.met.n; i++) {
			const struct key *k = &s->keys.at[l.met.key[i]];
			if (l.met.site[i] >= 0 && of.round[l.met.site[i]].on) round_as(s, &c, l.met.key[i], &of.round[l.met.site[i]]);
			if (k->what == W_HIGH || k->what == W_LOW) c.config.value[l.met.key[i]] = 1;
			if (k->what == W_INNER && k->carried && l.met.site[i] < 0) c.config.value[l.met.key[i]] = IN_BF16, planted++;
		}
	}
	assert_true(planted > 0);
	return c;
}

static void a_carried_rounding_counts_for_nothing(void **state)
{
	const struct test_case k = { .op = "gated_delta_rule", .name = "planted", .params = "{}", .in = in, .out = out, .dims = dims };
	struct plan plain = plan_plain(&arith_f32, 24);
	struct verdict v;
	struct error e;

	(void)state;
	no_error(case_make(&capture, &k, 3, true, &e), &e);
	answer_by(&capture, &plain);
	struct search *s = begun();
	struct candidate c = with_its_state_in_bf16(s);
	readback_store(s, &c);
	ended(s);
	no_error(judge(&capture, &(struct judging){ .contract = "bf16_operands" }, &v, &e), &e);
	assert_true(v.x.structure.taken && strstr(v.x.structure.formula, "S = bf16(exp"));
	assert_false(v.as_read);
	assert_int_equal(v.outcome, FAIL);
	capture_free(&capture);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_carried_rounding_counts_for_nothing) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
