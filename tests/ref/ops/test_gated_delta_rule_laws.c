/* What holds for the gated delta rule in every arithmetic. */
#include <math.h>

#include "tests/ref/ops/gated_delta_rule_samples.h"

static const char *const ariths_in_order[] = { "f32", "f64", "mpfr:128" };

/* 9 tokens of 2 heads: first all, then 4, then 5 from the state that they left. */
static const struct sample whole = { OP, "{\"qk_l2norm\": true}",
	"in.q F32 9,1,3 ~0,1; in.k F32 9,1,3 ~0,1; in.v F32 9,2,4 ~0,1; in.g F32 9,2 ~-0.5,0.2; in.beta F32 9,2 =0.9,0.3,0.7;"
	"in.initial_state F64 1,2,3,4 ~0,1" };
static const struct sample parts[] = {
	{ OP, "{\"qk_l2norm\": true}", "in.q F32 4,1,3; in.k F32 4,1,3; in.v F32 4,2,4; in.g F32 4,2; in.beta F32 4,2; in.initial_state F64 1,2,3,4" },
	{ OP, "{\"qk_l2norm\": true}", "in.q F32 5,1,3; in.k F32 5,1,3; in.v F32 5,2,4; in.g F32 5,2; in.beta F32 5,2; in.initial_state F64 1,2,3,4" },
};

/* The tensors' elements from token t0 on. */
static void cut(struct capture *c, const struct capture *from, size_t t0)
{
	static const char *const names[] = { "in.q", "in.k", "in.v", "in.g", "in.beta" };

	for (size_t k = 0; k < LEN(names); k++)
		for (size_t i = 0, row = count(from, names[k]) / 9; i < count(c, names[k]); i++)
			put(c, names[k], i, at(from, names[k], t0 * row + i));
}

/* mpfr's state is handed on through a double: bits are the same at 53 of them. noisy: 9 tokens of
 * about 20 operations each, 2^-23 an operation. */
static void two_calls_equal_one(void **state)
{
	static const char *const names[] = { "f32", "f64", "mpfr:53", "noisy" };

	(void)state;
	for (size_t k = 0; k < LEN(names); k++) {
		double bound = k == 3 ? 180 * 0x1p-23 : 0;
		struct capture all, c[2];
		struct outcome r, p[2];
		made(&all, &whole, 2);
		run_in(&r, &all, names[k]);
		for (size_t i = 0, t0 = 0; i < 2; t0 = 4, i++) {
			made(&c[i], &parts[i], 2);
			cut(&c[i], &all, t0);
			for (size_t j = 0; j < 24; j++)
				put(&c[i], "in.initial_state", j, i ? p[0].a.hi[OUT_STATE][j] : at(&all, "in.initial_state", j));
			run_in(&p[i], &c[i], names[k]);
			for (size_t j = 0; j < p[i].call.out_count[OUT_O]; j++)
				assert_true(fabs(p[i].a.hi[OUT_O][j] - r.a.hi[OUT_O][t0 * 8 + j]) <= bound);
		}
		for (size_t j = 0; j < 24; j++) assert_true(fabs(p[1].a.hi[OUT_STATE][j] - r.a.hi[OUT_STATE][j]) <= bound);
		for (size_t i = 0; i < 2; i++) {
			outcome_free(&p[i]);
			capture_free(&c[i]);
		}
		outcome_free(&r);
		capture_free(&all);
	}
}

/* beta = 0: the state decays by the product of e^g, element by element, and v does not matter. */
static void no_step_only_decays(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(ariths_in_order); k++) {
		struct capture c;
		struct outcome r;
		made(&c, &whole, 4);
		put_all(&c, "in.beta", 0);
		run_in(&r, &c, ariths_in_order[k]);
		for (size_t h = 0; h < 2; h++) {
			double g = 0;
			for (size_t t = 0; t < 9; t++) g += at(&c, "in.g", t * 2 + h);
			for (size_t j = h * 12; j < (h + 1) * 12; j++) {
				double s = at(&c, "in.initial_state", j) * exp(g);
				/* 9 exponentials and products at 24 bits */
				assert_true(fabs(r.a.hi[OUT_STATE][j] - s) <= fabs(s) * (k ? 0x1p-47 : 0x1p-19));
			}
		}
		outcome_free(&r);
		capture_free(&c);
	}
}

/* The same three sequences in another order. */
static void sequences_do_not_meet(void **state)
{
	static const size_t order[] = { 2, 0, 1 }, length[] = { 2, 3, 4 }, first[] = { 0, 2, 5 };
	static const struct sample three = { OP, "{}",
		"in.q F32 9,1,3 ~0,0.5; in.k F32 9,1,3 ~0,0.5; in.v F32 9,2,4 ~0,1; in.g F32 9,2 ~-0.5,0.2; in.beta F32 9,2 ~0.5,0.2;"
		"in.initial_state F32 3,2,3,4 ~0,1; in.cu_seqlens I64 4 =0,2,5,9" };
	static const char *const names[] = { "in.q", "in.k", "in.v", "in.g", "in.beta" };

	(void)state;
	for (size_t k = 0; k < LEN(ariths_in_order); k++) {
		struct capture a, b;
		struct outcome x, y;
		made(&a, &three, 6);
		made(&b, &three, 6);
		run_in(&x, &a, ariths_in_order[k]);
		for (size_t n = 0, t = 0; n < 3; t += length[order[n]], n++) {
			size_t from = first[order[n]];
			for (size_t m = 0; m < LEN(names); m++)
				for (size_t i = 0, row = count(&a, names[m]) / 9; i < length[order[n]] * row; i++)
					put(&b, names[m], t * row + i, at(&a, names[m], from * row + i));
			for (size_t i = 0; i < 24; i++) put(&b, "in.initial_state", n * 24 + i, at(&a, "in.initial_state", order[n] * 24 + i));
			put(&b, "in.cu_seqlens", n + 1, (double)(t + length[order[n]]));
		}
		run_in(&y, &b, ariths_in_order[k]);
		for (size_t n = 0, t = 0; n < 3; t += length[order[n]], n++) {
			for (size_t i = 0; i < length[order[n]] * 8; i++)
				assert_true(y.a.hi[OUT_O][t * 8 + i] == x.a.hi[OUT_O][first[order[n]] * 8 + i]);
			for (size_t i = 0; i < 24; i++)
				assert_true(y.a.hi[OUT_STATE][n * 24 + i] == x.a.hi[OUT_STATE][order[n] * 24 + i]);
		}
		outcome_free(&x);
		outcome_free(&y);
		capture_free(&a);
		capture_free(&b);
	}
}

/* v and the initial state scaled by -2^3: every operation scales with them, so bits stay. */
static void scales_with_v(void **state)
{
	(void)state;
	for (size_t k = 0; k < LEN(ariths_in_order); k++) {
		struct capture a, b;
		struct outcome x, y;
		made(&a, &whole, 8);
		made(&b, &whole, 8);
		for (size_t i = 0; i < count(&a, "in.v"); i++) put(&b, "in.v", i, -8 * at(&a, "in.v", i));
		for (size_t i = 0; i < 24; i++) put(&b, "in.initial_state", i, -8 * at(&a, "in.initial_state", i));
		run_in(&x, &a, ariths_in_order[k]);
		run_in(&y, &b, ariths_in_order[k]);
		for (size_t i = 0; i < x.call.out_count[OUT_O]; i++) assert_true(y.a.hi[OUT_O][i] == -8 * x.a.hi[OUT_O][i]);
		for (size_t i = 0; i < 24; i++) assert_true(y.a.hi[OUT_STATE][i] == -8 * x.a.hi[OUT_STATE][i]);
		outcome_free(&x);
		outcome_free(&y);
		capture_free(&a);
		capture_free(&b);
	}
}

/* Without an initial state the answers to v, v' and v + v' add up; 9 tokens, 20 operations each. */
static void adds_in_v(void **state)
{
	static const char *const names[] = { "f32", "f64", "mpfr:128", "noisy" };
	static const double unit[] = { 0x1p-24, 0x1p-53, 0x1p-106, 0x1p-23 };

	(void)state;
	for (size_t k = 0; k < LEN(names); k++) {
		struct capture c[3];
		struct outcome r[3];
		for (size_t i = 0; i < 3; i++) {
			made(&c[i], &whole, 12);
			put_all(&c[i], "in.initial_state", 0);
		}
		/* multiples of 2^-8, so that their sum is exact */
		for (size_t i = 0; i < count(&c[0], "in.v"); i++) {
			double x = rint(0x1p8 * at(&c[0], "in.v", i)) * 0x1p-8, y = sin((double)i);
			y = rint(0x1p8 * y) * 0x1p-8;
			put(&c[0], "in.v", i, x);
			put(&c[1], "in.v", i, y);
			put(&c[2], "in.v", i, x + y);
		}
		for (size_t i = 0; i < 3; i++) run_in(&r[i], &c[i], names[k]);
		for (size_t i = 0; i < r[0].call.out_count[OUT_O]; i++) {
			__float128 d = 0;
			for (size_t j = 0; j < 3; j++) {
				__float128 x = r[j].a.hi[OUT_O][i];
				if (r[j].a.lo[OUT_O]) x += r[j].a.lo[OUT_O][i];
				d += j < 2 ? x : -x;
			}
			assert_true(fabs((double)d) <= 4 * 180 * unit[k]);
		}
		for (size_t i = 0; i < 3; i++) {
			outcome_free(&r[i]);
			capture_free(&c[i]);
		}
	}
}

/* Rounded to f64 at a site, where the formula takes the way that has it, the answer in dd is that of the first way, to what a rounding
 * to 53 bits may come to. */
static void ways_are_equal_by_algebra(void **state)
{
	struct capture c;
	int ways = 0;

	(void)state;
	made(&c, &whole, 3);
	for (size_t chunk = 4; chunk <= 16; chunk *= 4) {
		struct plan p = plan_in("dd");
		struct outcome first, other;
		p.form = 1;
		p.chunk = chunk;
		run_plan(&first, &c, &p);
		for (int k = 0; first.call.op->sites[k].name; k++) {
			struct plan q = p;
			q.round[k] = (struct site_rounding){ true, FMT_F64, ROUND_NEAREST_EVEN };
			run_plan(&other, &c, &q);
			double d = distance(&first, &other);
			if (!(d <= 1e-14)) fail_msg("by %s: %g apart", first.call.op->sites[k].name, d);
			ways += d > 0;
			outcome_free(&other);
		}
		outcome_free(&first);
	}
	assert_true(ways >= 20);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_calls_equal_one), cmocka_unit_test(ways_are_equal_by_algebra),
		cmocka_unit_test(no_step_only_decays),
		cmocka_unit_test(sequences_do_not_meet),
		cmocka_unit_test(scales_with_v),
		cmocka_unit_test(adds_in_v),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
