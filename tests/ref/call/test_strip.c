/* Strips of a call are what the call is, to the bit, wherever it is cut. */
#include <stdlib.h>
#include <string.h>

#include "tests/kernel_model.h"
#include "tests/witness.h"

static bool same_bits(const double *a, const double *b, size_t n) { return !memcmp(a, b, n * sizeof *a); }

/* Every strip of n, in order, against the whole answer; every element of it is in one strip. */
static void expect_strips(const struct call *call, const struct plan *p, size_t n)
{
	struct stream l = { .plan = *p };
	struct answer whole, part;
	struct error e;
	size_t seen[MAX_OUT] = { 0 };

	no_error(ref_run(call, p, &whole, &e), &e);
	assert_true(answer_make(&part, call->out_count, p->arith->wide));
	for (size_t i = 0; i < n; i++) {
		struct strip s = call_strip(call, i, n);
		no_error(ref_strip(call, &l, i, n, &part, &e), &e);
		for (int o = 0; o < MAX_OUT; o++) {
			if (!call->out_count[o]) continue;
			assert_int_equal(s.first[o], seen[o]);
			seen[o] += s.count[o];
			if (!same_bits(part.hi[o], whole.hi[o] + s.first[o], s.count[o])
				|| (p->arith->wide && !same_bits(part.lo[o], whole.lo[o] + s.first[o], s.count[o])))
				fail_msg("%s in %s, form %d, chunks of %zu: strip %zu of %zu differs in %s", call->op->name, p->arith->name, p->form,
					p->chunk, i, n, call->op->out[o].name);
		}
	}
	for (int o = 0; o < MAX_OUT; o++) assert_int_equal(seen[o], call->out_count[o]);
	size_t before = n / 2;
	no_error(ref_strip(call, &l, before, n, &part, &e), &e);        /* back, by beginning anew */
	for (int o = 0; o < MAX_OUT; o++) {
		struct strip s = call_strip(call, before, n);
		if (call->out_count[o]) assert_true(same_bits(part.hi[o], whole.hi[o] + s.first[o], s.count[o]));
	}
	stream_end(&l);
	answer_free(&part);
	answer_free(&whole);
}

/* In each form, by each kind of arithmetic, with roundings that draw from the random stream. */
static void expect_case(const struct test_case *k)
{
	static const char *const specs[] = { "f64", "dd", "mpfr:128", "noisy", "f32_tree" };
	struct capture c;
	struct call call;
	struct error e;

	no_error(case_make(&c, k, 1, false, &e) && call_bind(&call, &c, false, &e), &e);
	for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
		for (const struct contract *contract = call.op->contracts; contract->name; contract++) {
			struct plan p = plan_in(specs[i]);
			plan_contract(&p, contract);
			p.random = p.arith == &arith_noisy;
			p.seed = 3;
			for (size_t n = 1; n <= 7 && n <= call.dim[0]; n += 3) expect_strips(&call, &p, n);
			if (call.op->forms[p.form].chunked) break;
		}
	capture_free(&c);
}

static void strips_are_the_whole(void **state)
{
	static const char *const of[] = { "rope", "rmsnorm", "qk_norm_rope", "gated_product" };

	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		const struct test_case *k = test_cases;
		while (strcmp(k->op, of[i]) || k->large) k++;
		expect_case(k);
	}
}

/* Sequences that end within a strip, at its end, and with no token at all; chunks that do not end where it does. */
static void a_head_goes_on_from_strip_to_strip(void **state)
{
	static const double lengths[][4] = { { 40, 0, 90, 1 }, { 27, 0, 26, 78 }, { 0, 66, 65, 0 }, { 131, 0, 0, 0 } };

	(void)state;
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		struct test_case k = *case_find("gated_delta_rule", "prefill_ragged");
		struct case_dim dims[] = { { "T", 131 }, { "N", 4 }, { "Hk", 1 }, { "Hv", 2 }, { "Dk", 4 }, { "Dv", 3 }, { 0 } };
		k.dims = dims;
		k.lists = (const struct case_list[]){ { "cu_seqlens", lengths[i], 4 }, { 0 } };
		struct capture c;
		struct call call;
		struct error e;
		no_error(case_make(&c, &k, 1, false, &e) && call_bind(&call, &c, false, &e), &e);
		for (const char *const *spec = (const char *const[]){ "f64", "dd", "mpfr:128", "noisy", "f32", NULL }; *spec; spec++)
			for (size_t chunk = 0; chunk <= 48; chunk += 24) {
				struct plan p = plan_in(*spec);
				p.form = chunk > 0;
				p.chunk = chunk;
				p.seed = 5;
				p.random = p.arith == &arith_noisy;
				if (p.random) p.round[0] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
				for (size_t n = 1; n <= 13; n += 4) expect_strips(&call, &p, n);
			}
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strips_are_the_whole),
		cmocka_unit_test(a_head_goes_on_from_strip_to_strip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
