/* What other ops take of gated_delta_rule. The order is that of its sites and faults in ref/ops/gated_delta_rule.op. */
#include <math.h>

#include "ref/ops/parts.h"

enum { SITE_Q, SITE_K, SITE_A_LOG, SITE_DT_BIAS, SITE_G, SITE_BETA, SITE_U, SITE_STATE, SITE_FINAL_STATE, SITE_O };
enum {
	RETRIEVE_BEFORE_DECAY, READ_BEFORE_UPDATE, NO_ERROR_TERM, ERROR_WITHOUT_BETA, ERROR_TWICE, NO_DECAY,
	DECAY_AS_POSITIVE, DECAY_WITHOUT_A_LOG, DT_BIAS_MISSING, DT_BIAS_FIRST_ELEMENT, SOFTPLUS_OVERFLOW,
	SOFTPLUS_IS_RELU, BETA_IS_TANH, BETA_DOUBLED, L2_EPS_OUTSIDE, L2_CLAMPED, L2_MEAN, L2_MISSING_Q,
	L2_MISSING_K, SCALE_MISSING, SCALE_TWICE, SCALE_FROM_DV, HEAD_MAP_TILED, STATE_TRANSPOSED_IN,
	STATE_TRANSPOSED_OUT, INITIAL_STATE_IGNORED, STALE_INITIAL_STATE, BA_LAYOUT_SPLIT, TOKEN_SKIPPED,
	FIRST_DECAY_SKIPPED
};

size_t delta_key_head(const calc *c, size_t h, size_t Hv, size_t Hk)
{
	return c_fault(c, HEAD_MAP_TILED) ? h % Hk : h / (Hv / Hk);
}

num delta_l2_norm(calc *c, vec x, double l2_eps)
{
	num s = c_num(c), eps = c_num(c), one = c_num(c);

	c_dot(c, s, x, x);
	c_set(c, eps, l2_eps);
	if (c_fault(c, L2_MEAN)) {
		c_set(c, one, (double)x.n);
		c_div(c, s, s, one);
	}
	if (c_fault(c, L2_CLAMPED)) c_max(c, s, s, eps);
	else if (!c_fault(c, L2_EPS_OUTSIDE)) c_add(c, s, s, eps);
	if (c_fault(c, L2_EPS_OUTSIDE)) {
		c_map(c, s, FN_SQRT, s);
		c_add(c, s, s, eps);
		c_map(c, s, FN_RECIP, s);
	} else {
		c_map(c, s, FN_RSQRT, s);
	}
	c_mul(c, x, x, s);
	return s;
}

void delta_key(calc *c, vec x, bool is_q, double l2_eps)
{
	if (c_fault(c, is_q ? L2_MISSING_Q : L2_MISSING_K)) return;
	delta_l2_norm(c, x, l2_eps);
	c_site(c, is_q ? SITE_Q : SITE_K, x);
}

void delta_softplus(calc *c, num x, num dt_bias)
{
	num zero = c_num(c);

	c_site(c, SITE_DT_BIAS, dt_bias);
	if (!c_fault(c, DT_BIAS_MISSING)) c_add(c, x, x, dt_bias);
	if (c_fault(c, SOFTPLUS_OVERFLOW) && c_value(c, x) > 88.7) c_set(c, x, INFINITY);
	else if (c_fault(c, SOFTPLUS_IS_RELU)) c_max(c, x, x, zero);
	else c_map(c, x, FN_SOFTPLUS, x);
}

void delta_rate(calc *c, num g, num A_log)
{
	num rate = c_num(c);

	c_site(c, SITE_A_LOG, A_log);
	c_map(c, rate, FN_EXP, A_log);
	if (!c_fault(c, DECAY_WITHOUT_A_LOG)) c_mul(c, g, g, rate);
	c_map(c, g, FN_NEG, g);
}

size_t delta_bias_of(const calc *c, size_t h) { return c_fault(c, DT_BIAS_FIRST_ELEMENT) ? 0 : h; }

void delta_log_decay(calc *c, num g)
{
	if (c_fault(c, DECAY_AS_POSITIVE)) c_map(c, g, FN_NEG, g);
	if (c_fault(c, NO_DECAY)) c_set(c, g, 0);
	c_site(c, SITE_G, g);
}

/* u = v - S'k is beta = 1, a token that does not write beta = 0, one that does not decay g = 0. */
void delta_skip(calc *c, size_t t, size_t first, size_t last, num g, num beta)
{
	if (c_fault(c, ERROR_WITHOUT_BETA)) c_set(c, beta, 1);
	if (c_fault(c, TOKEN_SKIPPED) && t == (first + last) / 2) c_set(c, beta, 0);
	if (c_fault(c, FIRST_DECAY_SKIPPED) && t == first) c_set(c, g, 0);
}

void delta_squash(calc *c, num beta) { c_map(c, beta, c_fault(c, BETA_IS_TANH) ? FN_TANH : FN_SIGMOID, beta); }

void delta_beta(calc *c, num beta)
{
	num two = c_num(c);

	c_set(c, two, 2);
	if (c_fault(c, BETA_DOUBLED)) c_mul(c, beta, beta, two);
	c_site(c, SITE_BETA, beta);
}

void delta_scale(calc *c, num scale, double given, size_t Dk)
{
	c_set(c, scale, isnan(given) ? (double)Dk : given);
	if (isnan(given)) c_map(c, scale, FN_RSQRT, scale);
	if (c_fault(c, SCALE_MISSING)) c_set(c, scale, 1);
	if (c_fault(c, SCALE_TWICE)) c_mul(c, scale, scale, scale);
}

static void times(calc *c, vec x)
{
	if (c_fault(c, NO_ERROR_TERM)) c_set(c, x, 0);
	if (c_fault(c, ERROR_TWICE)) c_add(c, x, x, x);
}

void delta_step(calc *c, mat S, vec q, vec k, vec v, num decay, num beta, vec u, vec o)
{
	bool early = c_fault(c, RETRIEVE_BEFORE_DECAY), read_early = c_fault(c, READ_BEFORE_UPDATE);

	if (early) c_gemv_t(c, u, S, k);
	if (decay.n) c_mul(c, flat(S), flat(S), decay);         /* S <- exp(g) S     */
	if (!early) c_gemv_t(c, u, S, k);                       /* u <- S'k          */
	if (read_early) c_gemv_t(c, o, S, q);
	times(c, u);
	c_sub(c, u, v, u);
	c_mul(c, u, u, beta);                                   /* u <- beta (v - u) */
	c_site(c, SITE_U, u);
	c_ger(c, S, k, u);                                      /* S <- S + k u'     */
	c_site(c, SITE_STATE, flat(S));
	if (!read_early) c_gemv_t(c, o, S, q);                  /* o <- S'q          */
	c_site(c, SITE_O, o);
}
