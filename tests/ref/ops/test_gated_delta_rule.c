#include <arb_mat.h>
#include <math.h>

#include "tests/ref/ops/gated_delta_rule_samples.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_the_matrix_product),
		cmocka_unit_test(chunks_equal_tokens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
