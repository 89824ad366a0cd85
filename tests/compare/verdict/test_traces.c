/* Recorded iterations, and amplified noise: clean kernels pass, one bad entry is named, a blow-up fails. */
#include <math.h>
#include <string.h>

#include "tests/judged.h"

/* A model kernel in float32 that rounds to float16 what it stores: it passes, iteration by iteration, though
 * free-running it is far off; and its roundings are read although free-running they cannot be. */
static void clean_iterations_pass(void **state)
{
	struct capture c;

	(void)state;
	model_case(&c, "newton_schulz", "graded_no_restart_f16", "f16");
	struct verdict v = judged(&c, "f16", false);
	if (v.outcome != PASS) fail_msg("%s", v.reason[0]);
	assert_int_equal(v.n_trace, 3);
	const struct trace_entries *Q = trace_of(&v, "Q"), *R = trace_of(&v, "R");
	assert_int_equal(Q->n, 6);
	for (size_t k = 0; k < 6; k++) assert_true(Q->entry[k].sigma <= 1 && R->entry[k].sigma <= 1 && R->entry[k].sigma > 0.1);
	assert_true(Q->entry[0].anchored == 0 && Q->entry[5].free > 100 * Q->entry[5].anchored);
	assert_true(R->entry[5].free > 100 * R->entry[5].anchored);
	assert_true(v.x.profile.amplified < saturated);
	for (int i = 0; i < v.x.profile.n; i++) {
		const struct reading *r = &v.x.profile.reading[i];
		if (r->state == ROUNDED) assert_int_equal(r->format, FMT_F16);
		if (strchr("zqr", v.op->sites[r->site].name[0])) assert_int_equal(r->state, ROUNDED);
	}
	capture_free(&c);
}

/* One entry of R three hundredths larger: it and what was made of the right one fail, no other. */
static void a_bad_entry_is_named(void **state)
{
	struct capture c;

	(void)state;
	model_case(&c, "newton_schulz", "tall_gram_f16", "f16");
	struct tensor *R = capture_out(&c, "R");
	for (size_t i = 0; i < 40 * 40; i++) {
		double x;
		char *at = (char *)R->data + (3 * 1600 + i) * dtype_info[R->dtype].size;
		dtype_load(R->dtype, at, 1, &x);
		x *= 1.03;
		dtype_store(R->dtype, &x, 1, at);
	}
	struct verdict v = judged(&c, "f16", true);
	const struct trace_entries *t = trace_of(&v, "R");
	assert_int_equal(v.outcome, FAIL);
	for (size_t k = 0; k < t->n; k++)
		if ((t->entry[k].sigma > t->limit) != (k == 3 || k == 4)) fail_msg("entry %zu: %g, at most %g", k, t->entry[k].sigma, t->limit);
	bool named = false;
	for (int i = 0; i < v.n_reason; i++) named = named || strstr(v.reason[i], "out.R: entry 3:");
	assert_true(named);
	capture_free(&c);
}

/* What the kernel recorded as infinite or NaN is its fault, although the reference of what follows is not finite either. */
static void a_blow_up_fails(void **state)
{
	static const double bad[] = { INFINITY, NAN };
	static const char *const where[] = { "X", "R", "Q" };

	(void)state;
	for (size_t k = 0; k < 6; k++) {
		struct capture c;
		model_case(&c, "newton_schulz", "batch_f16", "f16");
		struct tensor *t = capture_out(&c, where[k / 2]);
		dtype_store(t->dtype, &bad[k % 2], 1, (char *)t->data + t->count / 2 * dtype_info[t->dtype].size);
		assert_int_equal(judged(&c, "f16", true).outcome, FAIL);
		capture_free(&c);
	}
}

/* A missing restart changes no y in exact arithmetic; recorded, it is named. */
static void a_missing_restart_is_named(void **state)
{
	struct plan p = plan_plain(&arith_f32, 24);
	struct capture c;

	(void)state;
	plan_fault(&p, op_find("newton_schulz"), op_fault(op_find("newton_schulz"), "restart_missing"));
	make_case(&c, "newton_schulz", "odd_gram_f32");
	answer_by(&c, &p);
	struct verdict v = judged(&c, "f32", false);
	assert_int_equal(v.outcome, FAIL);
	assert_non_null(strstr(v.reason[0], "has the fault restart_missing"));
	capture_free(&c);
}

/* A public kernel, free-running: its noise is amplified to the size of its roundings. It passes, and no site is read;
 * a fifth larger it fails. */
static void amplified_noise_is_no_fault(void **state)
{
	struct capture c;
	struct error e;

	(void)state;
	no_error(capture_read(&c, "fixtures/captures/newton_schulz.tall.gram_you.safetensors", &e), &e);
	struct verdict v = judged(&c, NULL, false);
	if (v.outcome != PASS) fail_msg("%s", v.reason[0]);
	assert_string_equal(v.contract->name, "f16");
	assert_true(v.x.profile.amplified > 0.5 && v.n_trace == 0);
	for (int i = 0; i < v.x.profile.n; i++) assert_int_equal(v.x.profile.reading[i].state, UNIDENTIFIABLE);
	assert_int_equal(judged(&c, "f32", true).outcome, FAIL);
	struct tensor *y = capture_out(&c, "y");
	for (size_t i = 0; i < y->count; i++) ((float *)y->data)[i] *= 1.2f;
	assert_int_equal(judged(&c, NULL, false).outcome, FAIL);
	capture_free(&c);
}

/* Records in float16 of an iteration in float32 say nothing of it; nor in float16 of one in bf16, whose range is larger. */
static void records_hold_what_is_iterated(void **state)
{
	static const struct { const char *name, *contract, *says; } rows[] = {
		{ "batch_f16", "f32", "out.Q: recorded in F16, which does not hold what the contract f32 iterates on" },
		{ "batch_f16", "bf16", "out.Q: recorded in F16, which does not hold what the contract bf16 iterates on" },
		{ "square_f16", "lower_f32", "out.X: recorded in F16, which does not hold what the contract lower_f32 iterates on" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct capture c;
		bool said = false;
		model_case(&c, "newton_schulz", rows[i].name, rows[i].contract);
		struct verdict v = judged(&c, rows[i].contract, true);
		assert_int_equal(v.outcome, FAIL);
		for (int k = 0; k < v.n_reason; k++) said = said || !strcmp(v.reason[k], rows[i].says);
		if (!said) fail_msg("%s under %s: %s", rows[i].name, rows[i].contract, v.reason[0]);
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(clean_iterations_pass), cmocka_unit_test(a_bad_entry_is_named), cmocka_unit_test(a_blow_up_fails),
		cmocka_unit_test(a_missing_restart_is_named), cmocka_unit_test(amplified_noise_is_no_fault),
		cmocka_unit_test(records_hold_what_is_iterated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
