#include <math.h>
#include <string.h>

#include "tests/witness.h"

#define OP "gated_product"
#define LEN(a) (sizeof(a) / sizeof *(a))

static const struct sample each = { OP, "{}", "in.x F32 4,7 ~0,1; in.gate F32 4,7 ~0,3" };
static const struct sample one = { OP, "{}", "in.x F32 4,7 ~0,1; in.gate BF16 4,1 =-40,0,1e-3,30; in.addend F32 4,7 ~0,1" };
static const struct sample product = { OP, "{}",
	"in.x F32 5,6 ~0,1; in.hidden F32 5,9 ~0,1; in.gate_weight F32 9 ~0,0.5; in.addend F32 5,6 ~0,1" };
static const struct sample *const samples[] = { &each, &one, &product };

/* y = addend + x / (1 + e^-g): a quotient where the reference has a product. */
static void equals_the_quotient(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		struct capture c;
		struct outcome r;
		made(&c, samples[k], 51);
		run_in(&r, &c, "mpfr:128");
		size_t n = count(&c, "in.x"), D = extent(&c, "in.x", 1);
		arb_ptr y = _arb_vec_init((slong)n);
		arb_t g, t;
		arb_init(g), arb_init(t);
		for (size_t i = 0; i < n; i++) {
			arb_zero(g);
			if (k == 0) arb_set_d(g, -at(&c, "in.gate", i));
			if (k == 1) arb_set_d(g, -at(&c, "in.gate", i / D));
			for (size_t j = 0; k == 2 && j < 9; j++) {
				arb_set_d(t, at(&c, "in.gate_weight", j));
				arb_set_d(y + i, at(&c, "in.hidden", i / D * 9 + j));
				arb_submul(g, t, y + i, BALL);
			}
			arb_exp(g, g, BALL);
			arb_add_ui(g, g, 1, BALL);
			arb_set_d(y + i, at(&c, "in.x", i));
			arb_div(y + i, y + i, g, BALL);
			if (k > 0) arb_set_d(t, at(&c, "in.addend", i));
			if (k > 0) arb_add(y + i, y + i, t, BALL);
		}
		assert_balls(&r, 0, y, n, D);
		arb_clear(g), arb_clear(t);
		_arb_vec_clear(y, (slong)n);
		outcome_free(&r);
		capture_free(&c);
	}
	flint_cleanup();
}

/* Zero gates halve, exactly and in every arithmetic but noisy. */
static void zero_gates_halve(void **state)
{
	static const char *const names[] = { "f32", "f64", "mpfr:128" };

	(void)state;
	for (size_t k = 0; k < LEN(names); k++) {
		struct capture c;
		struct outcome r;
		made(&c, &each, 2);
		put_all(&c, "in.gate", 0);
		run_in(&r, &c, names[k]);
		for (size_t i = 0; i < 28; i++) assert_true(r.a.hi[0][i] == 0.5 * at(&c, "in.x", i));
		outcome_free(&r);
		capture_free(&c);
	}
}

/* ---- faults and sites ---- */
static void rows_moved(struct capture *c)
{
	double first = at(c, "in.gate", 0);

	for (size_t i = 0; i < 3; i++) put(c, "in.gate", i, at(c, "in.gate", i + 1));
	put(c, "in.gate", 3, first);
}

static void nothing_added(struct capture *c) { put_all(c, "in.addend", 0); }

static const struct same_as same[] = {
	{ "gate_of_next_row", &one, NULL, rows_moved, NULL },
	{ "addend_missing", &product, NULL, nothing_added, NULL },
};

/* x and addend weigh in as the fault says: y = a x + b addend, a and b of g in double. */
static void weights_go_wrong(void **state)
{
	static const char *const names[] = { "gate_is_silu", "sigmoid_missing", "gate_missing", "addend_gated" };
	struct capture c;

	(void)state;
	made(&c, &one, 4);
	for (size_t k = 0; k < LEN(names); k++) {
		struct plan p = plan_in("f64");
		struct outcome r;
		plan_fault(&p, op_find(OP), op_fault(op_find(OP), names[k]));
		run_plan(&r, &c, &p);
		for (size_t i = 0; i < 28; i++) {
			double g = at(&c, "in.gate", i / 7), s = 1 / (1 + exp(-g)), x = at(&c, "in.x", i), z = at(&c, "in.addend", i);
			const double y[] = { g * s * x + z, g * x + z, x + z, s * (x + z) };
			assert_true(fabs(r.a.hi[0][i] - y[k]) <= 0x1p-46 * (1 + fabs(g)));
		}
		outcome_free(&r);
	}
	capture_free(&c);
}

static void faults(void **state)
{
	(void)state;
	faults_are(same, LEN(same));
	faults_show((struct sample[]){ each, one, product }, 3);
}

static void sites(void **state)
{
	static const struct rounded_as r[] = { { "y", &each, "out.y" }, { "gate", &each, "in.gate" } };

	(void)state;
	sites_show((struct sample[]){ each, one, product }, 3, 0);
	sites_are(r, LEN(r));
}

static void refusals(void **state)
{
	static const struct { struct sample s; const char *said; } bad[] = {
		{ { OP, "{}", "in.x F32 2,4" }, "gated_product.op:9: expected either gate or hidden" },
		{ { OP, "{}", "in.x F32 2,4; in.gate F32 2,3" }, "gated_product.op:10: expected 1 or D gates in a row" },
		{ { OP, "{}", "in.x F32 2,4; in.hidden F32 2,3" }, "gated_product.op:8: expected hidden and gate_weight together" },
		{ { OP, "{}", "in.x F32 2,4; in.gate_weight F32 3" }, "gated_product.op:8: expected hidden and gate_weight together" },
		{ { OP, "{}", "in.x F32 2,4; in.gate F32 2,4; in.hidden F32 2,3; in.gate_weight F32 3" }, "gated_product.op:9: expected either gate or hidden" },
	};

	(void)state;
	for (size_t k = 0; k < LEN(bad); k++) {
		struct capture c;
		struct call call;
		struct error e = { 0 };
		made(&c, &bad[k].s, 1);
		assert_false(call_bind(&call, &c, false, &e));
		assert_int_equal(e.code, E_VALUE);
		assert_non_null(strstr(e.detail, bad[k].said));
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_quotient), cmocka_unit_test(zero_gates_halve), cmocka_unit_test(weights_go_wrong),
		cmocka_unit_test(faults), cmocka_unit_test(sites), cmocka_unit_test(refusals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
