/* What derivatives must hold in every arithmetic and on any number of threads, their sites and faults, and what has none. */
#include <omp.h>

#include "ref/grad/grad.h"
#include "tests/ref/grad/backward_calls.h"

/* In every arithmetic, as far as it goes. */
static void arithmetics_agree(void **state)
{
	static const struct { const char *name; double close; } all[] = {
		{ "mpfr:200", 1e-27 }, { "f64", 1e-12 }, { "f64up", 1e-12 }, { "f32", 1e-3 }, { "f32_fma", 1e-3 }, { "f32_tree", 1e-3 }, { "noisy", 1e-3 },
		{ "mma:hopper", 1e-2 }
	};

	(void)state;
	for (size_t i = 0; i < CALLS; i++) {
		char back[64], text[TEXT];
		struct capture c;
		struct outcome dd, r;
		snprintf(back, sizeof back, "%s.backward", calls[i].op);
		text_of(text, &calls[i], calls[i].usual);
		make(&c, back, calls[i].params, text);
		run_in(&dd, &c, "dd");
		for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
			run_in(&r, &c, all[k].name);
			double d = distance(&dd, &r);
			if (!(d <= all[k].close)) fail_msg("%s in %s: %g", back, all[k].name, d);
			outcome_free(&r);
		}
		outcome_free(&dd);
		capture_free(&c);
	}
}

/* Sums over pieces have an order of their own. */
static void threads_do_not_matter(void **state)
{
	static const char *const in[] = { "dd", "f32", "noisy" };

	(void)state;
	for (size_t i = 0; i < CALLS; i++)
		for (size_t k = 0; k < 3; k++) {
			char back[64], text[TEXT];
			struct capture c;
			struct outcome one, more;
			snprintf(back, sizeof back, "%s.backward", calls[i].op);
			text_of(text, &calls[i], calls[i].usual);
			make(&c, back, calls[i].params, text);
			run_in(&one, &c, in[k]);
			omp_set_num_threads(3);
			run_in(&more, &c, in[k]);
			omp_set_num_threads(1);
			assert_true(same_outcome(&one, &more));
			outcome_free(&one);
			outcome_free(&more);
			capture_free(&c);
		}
}

/* Ties of a largest element share its gradient. */
static void ties_share(void **state)
{
	struct capture c;
	struct outcome r;

	(void)state;
	made(&c, &(struct sample){ "cross_entropy.backward", "{}", "in.x F64 1,4 =1,2,2,0; in.target I32 1 =0; in.dlogsumexp F64 1 =1" }, 1);
	run_in(&r, &c, "f64");
	double sum = 2 * exp(2) + exp(1) + 1, e[] = { exp(1) / sum, exp(2) / sum, exp(2) / sum, 1 / sum };
	for (int i = 0; i < 4; i++) assert_true(fabs(r.a.hi[0][i] - e[i]) < 1e-15);
	outcome_free(&r);
	capture_free(&c);
}

/* Sites are rounded on the way forward and on the way back; faults are those of the formula. */
static void sites_and_faults(void **state)
{
	static const char text[] = "in.x F32 9,5 ~0,1; in.weight F32 5 ~1,0.3; in.gate F32 9,5 ~0,1; in.dy F32 9,5 ~0,1";
	static const char *const params = "{\"weight_offset\": 0, \"gate\": \"silu\"}";
	const struct op *op = op_find("rmsnorm.backward");
	struct capture c;
	struct outcome plain, r;

	(void)state;
	assert_ptr_equal(op, op_find("rmsnorm_backward"));
	assert_ptr_equal(grad_of(op), op_find("rmsnorm"));
	assert_int_equal(op_site(op, "y"), -1);
	assert_int_equal(op->sites[op_site(op, "dweight")].store, 2);
	assert_int_equal(op_fault(op, "variance_with_stray_lanes"), -1);
	made(&c, &(struct sample){ "rmsnorm.backward", params, text }, 1);
	run_in(&plain, &c, "dd");
	for (int i = 0; op->sites[i].name; i++) {
		struct plan p = plan_in("dd");
		p.round[i] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		run_plan(&r, &c, &p);
		bool there = strstr("dresidual_inside dresidual dscale residual_out dresidual_out", op->sites[i].name) == NULL;
		if (there && !(distance(&plain, &r) > 1e-6)) fail_msg("%s rounds nothing", op->sites[i].name);
		outcome_free(&r);
	}
	const struct op *ns = op_find("newton_schulz.backward");
	int inside = op_site(ns, "dx_inside");
	assert_true(inside >= 0 && !ns->sites[inside].store && ns->sites[op_site(ns, "dx")].store);
	assert_true(ns->contracts[op_contract(ns, "f16")].site[inside].on && !ns->contracts[op_contract(ns, "f32")].site[inside].on);
	assert_int_equal(op_site(op_find("gated_delta_rule.backward"), "dg_inside"), -1);
	struct plan p = plan_in("dd");
	plan_fault(&p, op, op_fault(op, "zero_centred_for_plain"));
	run_plan(&r, &c, &p);
	assert_true(distance(&plain, &r) > 0.1);
	outcome_free(&r);
	outcome_free(&plain);
	capture_free(&c);
}

static void what_has_no_derivative_is_an_error(void **state)
{
	static const struct { const char *text, *at, *said; } none[] = {
		{ "op none\nin x [R]\nout y [R]\ns = max(x)\np = power_of_two(s)\ny[:] = x / p\n", "none.op:5:1", "power_of_two has none" },
		{ "op none\nin x [R]\nout y [R]\ny[:] = x + memory(x, 0, R)\n", "none.op:4:1", "memory has none" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
		struct error e;
		struct capture c;
		struct call call;
		struct formula *f = formula_of_text("none.op", none[i].text, strlen(none[i].text), &e);
		if (!f) fail_msg("%s: %s", e.file, e.detail);
		const struct op *back = grad_make(formula_op(f));
		op_add(formula_op(f));
		made(&c, &(struct sample){ "none.backward", "{}", "in.x F32 5; in.dy F32 5" }, 1);
		assert_false(call_bind(&call, &c, false, &e));
		assert_string_equal(e.file, none[i].at);
		assert_non_null(strstr(e.detail, none[i].said));
		grad_end(back);
		capture_free(&c);
	}
}

static void gradients_are_asked_for_what_is_there(void **state)
{
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	made(&c, &(struct sample){ "rmsnorm.backward", "{\"weight_offset\": 0}", "in.x F32 5,2; in.weight F32 2" }, 1);
	assert_false(call_bind(&call, &c, false, &e));
	assert_non_null(strstr(e.detail, "expected the gradient of an output"));
	capture_free(&c);
	made(&c, &(struct sample){ "rmsnorm.backward", "{\"weight_offset\": 0}", "in.x F32 5,2; in.weight F32 2; in.dresidual_out F32 5,2" }, 1);
	assert_false(call_bind(&call, &c, false, &e));
	assert_non_null(strstr(e.detail, "only with in.residual"));
	capture_free(&c);
	assert_null(op_find("rmsnorm.backward.backward"));
	assert_null(op_find("rope2.backward"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arithmetics_agree), cmocka_unit_test(threads_do_not_matter), cmocka_unit_test(ties_share), cmocka_unit_test(sites_and_faults),
		cmocka_unit_test(what_has_no_derivative_is_an_error), cmocka_unit_test(gradients_are_asked_for_what_is_there)
	};

	return cmocka_run_group_tests(tests, load, NULL);
}
