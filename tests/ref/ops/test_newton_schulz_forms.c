/* Iterations as they are recorded, and the two forms of products [s,s]: full, and lower triangles mirrored. */
#include <string.h>

#include "tests/ref/ops/newton_schulz_samples.h"

/* By algorithm. */
static const struct sample samples[] = {
	{ OP, WITH("standard", ""), "in.x F32 12,20 ~0,1; out.X F64 5,12,20" },
	{ OP, WITH("gram_naive", ""), "in.x F32 20,12 ~0,1; " TRACED("12", "20") },
	{ OP, WITH("gram", ""), "in.x F32 12,20 ~0,1; " TRACED("12", "20") },
};
enum { S = 12 };

static void run_under(struct outcome *r, const struct capture *c, const char *arith, const char *contract)
{
	struct plan p = plan_in(arith);

	plan_contract(&p, &op_find(OP)->contracts[op_contract(op_find(OP), contract)]);
	run_plan(r, c, &p);
}

/* ---- recorded iterations ---- */
static const char *const outs[] = { "out.y", "out.X", "out.R", "out.Q" };

static void keep(struct capture *c, const struct outcome *r)
{
	for (size_t o = 0; o < LEN(outs); o++)
		for (size_t i = 0; i < r->call.out_count[o]; i++) put(c, outs[o], i, r->a.hi[o][i]);
}

static void run_anchored(struct outcome *r, const struct capture *c)
{
	struct plan p = plan_in("f64");
	struct error e;

	memset(r, 0, sizeof *r);
	if (!call_bind(&r->call, c, true, &e) || !ref_run(&r->call, &p, &r->a, &e)) error_print(stderr, &e), fail();
	assert_true(r->call.anchored);
}

/* From its own record each iteration goes on as it did; from a changed entry, only what is made of that entry changes. */
static void iterations_are_independent(void **state)
{
	static const struct sample recorded = { OP, WITH("gram", ""), "in.x F32 5,7 ~0,1; out.y F64 5,7; " TRACED("5", "7") };
	enum { AT = 3 };        /* behind the restart before iteration 2 */
	struct capture c;
	struct outcome own, from, changed;

	(void)state;
	made(&c, &recorded, 9);
	run_in(&own, &c, "f64");
	keep(&c, &own);
	run_anchored(&from, &c);
	assert_true(distance(&own, &from) < 1e-13);
	put(&c, "out.R", AT * 25 + 7, 1 + at(&c, "out.R", AT * 25 + 7));
	run_anchored(&changed, &c);
	for (size_t t = 0; t <= K; t++) {
		assert_true(!memcmp(from.a.hi[OUT_R] + t * 25, changed.a.hi[OUT_R] + t * 25, 25 * sizeof(double)) == (t != AT + 1));
		assert_true(!memcmp(from.a.hi[OUT_Q] + t * 25, changed.a.hi[OUT_Q] + t * 25, 25 * sizeof(double)) == (t != AT + 1));
		assert_memory_equal(from.a.hi[OUT_X] + t * 35, changed.a.hi[OUT_X] + t * 35, 35 * sizeof(double));
	}
	assert_memory_equal(from.a.hi[OUT_Y], changed.a.hi[OUT_Y], 35 * sizeof(double));
	outcome_free(&changed);
	put(&c, "out.Q", K * 25 + 7, 1 + at(&c, "out.Q", K * 25 + 7));
	run_anchored(&changed, &c);
	assert_true(distance_of(&from, &changed, OUT_Y) > 1e-3);
	outcome_free(&changed);
	outcome_free(&from);
	outcome_free(&own);
	capture_free(&c);
}

/* Under a contract of low precision every recorded matrix, and y, is one of that type. */
static void contracts_round_what_is_stored(void **state)
{
	static const struct { const char *contract; enum format f; } rows[] = { { "f16", FMT_F16 }, { "lower_f16", FMT_F16 },
		{ "bf16", FMT_BF16 }, { "lower_bf16", FMT_BF16 }, { "bf16_input", FMT_BF16 }, { "lower_bf16_input", FMT_BF16 } };

	(void)state;
	for (size_t k = 0; k < LEN(samples) * LEN(rows); k++) {
		struct capture c;
		struct outcome r;
		made(&c, &samples[k / LEN(rows)], 4);
		run_under(&r, &c, "f64", rows[k % LEN(rows)].contract);
		for (size_t o = 0; o < LEN(outs); o++)
			for (size_t i = 0; i < r.call.out_count[o]; i++)
				assert_true(r.a.hi[o][i] == format_round(rows[k % LEN(rows)].f, ROUND_NEAREST_EVEN, r.a.hi[o][i], 0));
		outcome_free(&r);
		capture_free(&c);
	}
}

/* ---- full and lower ---- */

/* The number of elements of R and Q that are not what their mirror is, to the bit. */
static size_t unsymmetric(const struct outcome *r)
{
	size_t n = 0;

	for (int o = OUT_R; o <= OUT_Q; o++)
		for (size_t i = 0; i < r->call.out_count[o]; i++) {
			size_t first = i / (S * S) * S * S, row = i / S % S, col = i % S;
			n += r->a.hi[o][i] != r->a.hi[o][first + col * S + row];
		}
	return n;
}

/* Lower: always. Full: with roundings, where Z and what it is multiplied with no longer commute, for most. */
static void lower_products_are_symmetric(void **state)
{
	static const char *const names[] = { "f32", "f64", "mpfr:128" }, *const contracts[] = { "lower_f32", "lower_f16", "lower_bf16" };

	(void)state;
	for (size_t k = 1; k < LEN(samples); k++)
		for (size_t i = 0; i < LEN(names) * LEN(contracts); i++) {
			struct capture c;
			struct outcome lower, full;
			made(&c, &samples[k], 6);
			run_under(&lower, &c, names[i % LEN(names)], contracts[i / LEN(names)]);
			run_under(&full, &c, "f32", "f16");
			assert_true(lower.call.out_count[OUT_Q] == (K + 1) * S * S);
			assert_int_equal(unsymmetric(&lower), 0);
			assert_true(unsymmetric(&full) > 2 * K * S * S / 3);
			outcome_free(&lower);
			outcome_free(&full);
			capture_free(&c);
		}
}

/* One algorithm in exact arithmetic; in float16 Gram iterations differ by more than its unit, 2^-11, and the standard one,
 * whose A is symmetric to the bit, by nothing. */
static void full_is_lower_but_for_roundings(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(samples); k++) {
		struct capture c;
		struct outcome full, lower;
		made(&c, &samples[k], 7);
		run_under(&full, &c, "mpfr:128", "f32");
		run_under(&lower, &c, "mpfr:128", "lower_f32");
		assert_true(distance(&full, &lower) < 0x1p-110);
		outcome_free(&full);
		outcome_free(&lower);
		run_under(&full, &c, "f32", "f16");
		run_under(&lower, &c, "f32", "lower_f16");
		if (k == 0) assert_true(same_outcome(&full, &lower));
		else assert_true(distance_of(&full, &lower, OUT_Q) > 0x1p-11);
		outcome_free(&full);
		outcome_free(&lower);
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(iterations_are_independent), cmocka_unit_test(contracts_round_what_is_stored),
		cmocka_unit_test(lower_products_are_symmetric), cmocka_unit_test(full_is_lower_but_for_roundings),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
