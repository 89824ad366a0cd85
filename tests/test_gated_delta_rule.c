#include "ref/gated_delta_rule.h"

#include <arb_mat.h>
#include <math.h>

#include "tests/gated_delta_rule_samples.h"

/* ---- the witness ---- */

/* x [Dk,1] of token t, normed if the call says so */
static void ball_key(arb_mat_t x, const struct capture *c, const char *name, size_t row)
{
	slong D = arb_mat_nrows(x);
	arb_t s;

	arb_init(s);
	arb_set_d(s, capture_number(c, "l2_eps", 1e-6));
	for (slong i = 0; i < D; i++) {
		arb_set_d(arb_mat_entry(x, i, 0), at(c, name, row * (size_t)D + (size_t)i));
		arb_addmul(s, arb_mat_entry(x, i, 0), arb_mat_entry(x, i, 0), BALL);
	}
	arb_sqrt(s, s, BALL);
	if (capture_bool(c, "qk_l2norm", false)) arb_mat_scalar_div_arb(x, x, s, BALL);
	arb_clear(s);
}

/* e^g of element i of [T,Hv]: exp(-e^A_log log(1 + e^(a + dt_bias))) */
static void ball_decay(arb_t d, const struct capture *c, size_t i, size_t h)
{
	arb_t x;

	arb_init(x);
	if (!capture_bool(c, "gated", true)) {
		arb_one(d);
	} else if (capture_in(c, "g")) {
		arb_set_d(x, at(c, "in.g", i));
		arb_exp(d, x, BALL);
	} else {
		arb_set_d(x, at(c, "in.a", i));
		arb_set_d(d, at(c, "in.dt_bias", h));
		arb_add(x, x, d, BALL);
		arb_exp(x, x, BALL);
		arb_log1p(x, x, BALL);
		arb_set_d(d, at(c, "in.A_log", h));
		arb_exp(d, d, BALL);
		arb_mul(d, d, x, BALL);
		arb_neg(d, d);
		arb_exp(d, d, BALL);
	}
	arb_clear(x);
}

/* beta of element i: given, or e^b / (e^b + 1) */
static void ball_beta(arb_t beta, const struct capture *c, size_t i)
{
	arb_t x;

	if (capture_in(c, "beta")) {
		arb_set_d(beta, at(c, "in.beta", i));
		return;
	}
	arb_init(x);
	arb_set_d(beta, at(c, "in.b", i));
	arb_exp(beta, beta, BALL);
	arb_add_ui(x, beta, 1, BALL);
	arb_div(beta, beta, x, BALL);
	arb_clear(x);
}

/* S <- (I - beta k k') e^g S + beta k v' by whole matrices; k [Dk,1], v [1,Dv] */
static void ball_step(arb_mat_t S, const arb_mat_t k, const arb_mat_t v, const arb_t decay, const arb_t beta)
{
	slong Dk = arb_mat_nrows(S), Dv = arb_mat_ncols(S);
	arb_mat_t M, P, kt, R;

	arb_mat_init(M, Dk, Dk);
	arb_mat_init(P, Dk, Dk);
	arb_mat_init(kt, 1, Dk);
	arb_mat_init(R, Dk, Dv);
	arb_mat_transpose(kt, k);
	arb_mat_mul(P, k, kt, BALL);
	arb_mat_scalar_mul_arb(P, P, beta, BALL);
	arb_mat_one(M);
	arb_mat_sub(M, M, P, BALL);
	arb_mat_scalar_mul_arb(M, M, decay, BALL);
	arb_mat_mul(R, M, S, BALL);
	arb_mat_mul(S, k, v, BALL);
	arb_mat_scalar_mul_arb(S, S, beta, BALL);
	arb_mat_add(S, S, R, BALL);
	arb_mat_clear(M);
	arb_mat_clear(P);
	arb_mat_clear(kt);
	arb_mat_clear(R);
}

/* One value head of one sequence; o [T,Hv,Dv], S [Dk,Dv] from initial to final. */
static void ball_head(const struct capture *c, span token, size_t h, arb_ptr o, arb_mat_t S)
{
	size_t Hk = extent(c, "in.q", 1), Hv = extent(c, "in.v", 1), Dv = extent(c, "in.v", 2), hk = 0;
	slong Dk = arb_mat_nrows(S);
	arb_mat_t q, k, v, r, qt;
	arb_t decay, beta, scale;

	while ((hk + 1) * Hv <= h * Hk) hk++;
	arb_mat_init(q, Dk, 1);
	arb_mat_init(qt, 1, Dk);
	arb_mat_init(k, Dk, 1);
	arb_mat_init(v, 1, (slong)Dv);
	arb_mat_init(r, 1, (slong)Dv);
	arb_init(decay);
	arb_init(beta);
	arb_init(scale);
	arb_sqrt_ui(scale, (ulong)Dk, BALL);
	arb_inv(scale, scale, BALL);
	if (!isnan(capture_number(c, "scale", (double)NAN))) arb_set_d(scale, capture_number(c, "scale", 0));
	for (size_t t = token.first; t < token.last; t++) {
		ball_key(q, c, "in.q", t * Hk + hk);
		ball_key(k, c, "in.k", t * Hk + hk);
		for (size_t j = 0; j < Dv; j++) arb_set_d(arb_mat_entry(v, 0, j), at(c, "in.v", (t * Hv + h) * Dv + j));
		ball_decay(decay, c, t * Hv + h, h);
		ball_beta(beta, c, t * Hv + h);
		ball_step(S, k, v, decay, beta);
		arb_mat_transpose(qt, q);
		arb_mat_mul(r, qt, S, BALL);
		for (size_t j = 0; j < Dv; j++) arb_mul(o + (t * Hv + h) * Dv + j, arb_mat_entry(r, 0, j), scale, BALL);
	}
	arb_mat_clear(q);
	arb_mat_clear(qt);
	arb_mat_clear(k);
	arb_mat_clear(v);
	arb_mat_clear(r);
	arb_clear(decay);
	arb_clear(beta);
	arb_clear(scale);
}

static void equals_the_matrix_product(void **state)
{
	static const struct sample *const samples[] = { &raw, &overflowing, &many, &plain_rule, &small_keys };

	(void)state;
	for (size_t i = 0; i < LEN(samples); i++) {
		struct capture c;
		struct outcome r;
		made(&c, samples[i], 11);
		run_in(&r, &c, "mpfr:128");
		size_t T = extent(&c, "in.v", 0), Hv = extent(&c, "in.v", 1), Dv = extent(&c, "in.v", 2), Dk = extent(&c, "in.q", 2);
		size_t n = r.call.out_count[OUT_O], m = r.call.out_count[OUT_STATE], N = m / (Hv * Dk * Dv);
		arb_ptr o = _arb_vec_init((slong)n), S = _arb_vec_init((slong)m);
		assert_int_equal(n, T * Hv * Dv);
		for (size_t piece = 0; piece < N * Hv; piece++) {
			size_t first = piece * Dk * Dv;
			arb_mat_t M;
			arb_mat_init(M, (slong)Dk, (slong)Dv);
			for (size_t j = 0; j < Dk * Dv && capture_in(&c, "initial_state"); j++)
				arb_set_d(arb_mat_entry(M, j / Dv, j % Dv), at(&c, "in.initial_state", first + j));
			ball_head(&c, tokens(&c, piece / Hv, T), piece % Hv, o, M);
			for (size_t j = 0; j < Dk * Dv; j++) arb_set(S + first + j, arb_mat_entry(M, j / Dv, j % Dv));
			arb_mat_clear(M);
		}
		assert_balls(&r, OUT_O, o, n, Dv);
		assert_balls(&r, OUT_STATE, S, m, Dk * Dv);
		_arb_vec_clear(o, (slong)n);
		_arb_vec_clear(S, (slong)m);
		outcome_free(&r);
		capture_free(&c);
	}
	flint_cleanup();
}

static void chunks_equal_tokens(void **state)
{
	static const struct sample *const samples[] = { &raw, &overflowing, &many, &plain_rule, &lengthy, &small_keys };
	static const size_t chunks[] = { 16, 32, 64, 1, 7 };

	(void)state;
	for (size_t i = 0; i < LEN(samples); i++) {
		struct capture c;
		struct outcome token, chunk;
		made(&c, samples[i], 5);
		run_in(&token, &c, "mpfr:128");
		for (size_t k = 0; k < LEN(chunks); k++) {
			struct plan p = plan_in("mpfr:128");
			p.form = FORM_CHUNK;
			p.chunk = chunks[k];
			run_plan(&chunk, &c, &p);
			/* 2^-106 each from reading hi + lo; the sums' own errors are below 2^-115. */
			if (!(distance(&token, &chunk) <= 0x1p-104)) fail_msg("sample %zu, chunk %zu: %g", i, chunks[k], distance(&token, &chunk));
			outcome_free(&chunk);
		}
		outcome_free(&token);
		capture_free(&c);
	}
}

/* ---- laws ---- */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_matrix_product),
		cmocka_unit_test(chunks_equal_tokens),
		cmocka_unit_test(two_calls_equal_one),
		cmocka_unit_test(no_step_only_decays),
		cmocka_unit_test(sequences_do_not_meet),
		cmocka_unit_test(scales_with_v),
		cmocka_unit_test(adds_in_v),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
