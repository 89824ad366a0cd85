/* Per token of a head: q, k and v, their norms, the gates, and the state's way in and out. */
#include <math.h>

#include "gated_delta_rule.h"

size_t delta_key_head(const calc *c, size_t h, size_t Hv, size_t Hk)
{
	return c_fault(c, HEAD_MAP_TILED) ? h % Hk : h / (Hv / Hk);
}

struct head gdr_head(const calc *c, size_t piece)
{
	size_t Hv = c_dim(c, D_HV), Hk = c_dim(c, D_HK), n = piece / Hv, h = piece % Hv;

	return (struct head){ n, h, delta_key_head(c, h, Hv, Hk), c_sequence(c, IN_CU, D_T, n) };
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

static void load_key(calc *c, const struct head *p, size_t t, vec x, int in)
{
	c_load(c, x, in, (t * c_dim(c, D_HK) + p->hk) * x.n, 1);
	if (c_param(c, P_QK_L2NORM)) delta_key(c, x, in == IN_Q, c_param(c, P_L2_EPS));
}

/* a or b of token t; the fault takes rows [b | a] of a [T,2Hv] tensor for two [T,Hv] ones. */
static void load_gate(calc *c, const struct head *p, size_t t, num x, int in)
{
	size_t Hv = c_dim(c, D_HV), at = t * Hv + p->h;

	if (c_fault(c, BA_LAYOUT_SPLIT) && c_has(c, IN_A) && c_has(c, IN_B)) {
		if (in == IN_A) at += c_dim(c, D_T) * Hv;
		in = at % (2 * Hv) < Hv ? IN_B : IN_A;
		at = at / (2 * Hv) * Hv + at % Hv;
	}
	c_load(c, x, in, at, 1);
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

/* g = -exp(A_log) softplus(a + dt_bias); a is absent for a padding token (t past the end). */
void gdr_decay(calc *c, const struct head *p, size_t t, num g)
{
	num x = c_num(c);

	if (c_has(c, IN_G)) {
		c_load(c, g, IN_G, t * c_dim(c, D_HV) + p->h, 1);
	} else {
		if (t < p->token.last) load_gate(c, p, t, g, IN_A);
		else c_set(c, g, 0);
		c_load(c, x, IN_DT_BIAS, delta_bias_of(c, p->h), 1);
		delta_softplus(c, g, x);
		c_load(c, x, IN_A_LOG, p->h, 1);
		delta_rate(c, g, x);
	}
	delta_log_decay(c, g);
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

void gdr_token(calc *c, const struct head *p, size_t t, vec q, vec k, vec v, num g, num beta)
{
	load_key(c, p, t, q, IN_Q);
	load_key(c, p, t, k, IN_K);
	c_load(c, v, IN_V, gdr_o_at(c, p, t), 1);
	if (c_param(c, P_GATED)) gdr_decay(c, p, t, g);
	if (c_has(c, IN_BETA)) {
		c_load(c, beta, IN_BETA, t * c_dim(c, D_HV) + p->h, 1);
	} else {
		load_gate(c, p, t, beta, IN_B);
		delta_squash(c, beta);
	}
	delta_beta(c, beta);
	delta_skip(c, t, p->token.first, p->token.last, g, beta);
}

void delta_scale(calc *c, num scale, double given, size_t Dk)
{
	c_set(c, scale, isnan(given) ? (double)Dk : given);
	if (isnan(given)) c_map(c, scale, FN_RSQRT, scale);
	if (c_fault(c, SCALE_MISSING)) c_set(c, scale, 1);
	if (c_fault(c, SCALE_TWICE)) c_mul(c, scale, scale, scale);
}

static void gdr_scale(calc *c, num scale)
{
	delta_scale(c, scale, c_param(c, P_SCALE), c_dim(c, c_fault(c, SCALE_FROM_DV) ? D_DV : D_DK));
}

void gdr_times(calc *c, vec x)
{
	if (c_fault(c, NO_ERROR_TERM)) c_set(c, x, 0);
	if (c_fault(c, ERROR_TWICE)) c_add(c, x, x, x);
}

/* The fault: a sequence is padded to whole chunks of 64 tokens, and the pads decay the state, as a
 * token with a = 0 does; where g is given, as the last one does. */
static void gdr_pads(calc *c, const struct head *p, mat S)
{
	size_t T = p->token.last - p->token.first;
	num g = c_num(c);

	if (!c_fault(c, PADS_ADVANCE_STATE) || !c_param(c, P_GATED) || T == 0) return;
	gdr_decay(c, p, p->token.last - c_has(c, IN_G), g);
	c_map(c, g, FN_EXP, g);
	for (size_t t = T; t % 64; t++) c_mul(c, flat(S), flat(S), g);
}

static void gdr_state_in(calc *c, const struct head *p, mat S)
{
	size_t N = c_dim(c, D_N), n = c_fault(c, STALE_INITIAL_STATE) ? (p->n + N - 1) % N : p->n;
	size_t at = (n * c_dim(c, D_HV) + p->h) * S.rows * S.cols;

	if (!c_has(c, IN_STATE) || c_fault(c, INITIAL_STATE_IGNORED)) {
		c_set(c, flat(S), 0);
	} else if (c_fault(c, STATE_TRANSPOSED_IN)) {
		for (size_t i = 0; i < S.rows; i++) c_load(c, c_row(c, S, i), IN_STATE, at + i, S.rows);
	} else {
		c_load(c, flat(S), IN_STATE, at, 1);
	}
}

static void gdr_state_out(calc *c, const struct head *p, mat S)
{
	size_t at = (p->n * c_dim(c, D_HV) + p->h) * S.rows * S.cols;

	c_site(c, SITE_FINAL_STATE, flat(S));
	if (c_fault(c, STATE_TRANSPOSED_OUT)) {
		for (size_t i = 0; i < S.rows; i++) c_store(c, OUT_STATE, at + i, S.rows, c_row(c, S, i));
	} else {
		c_store(c, OUT_STATE, at, 1, flat(S));
	}
}

struct carried gdr_begin(calc *c, const struct head *p, size_t *t)
{
	size_t Dk = c_dim(c, D_DK), Dv = c_dim(c, D_DV);
	vec all = c_vec(c, Dk * Dv + 1);
	struct carried s = { all, { all.at, Dk, Dv }, c_part(c, all, Dk * Dv, 1) };

	if (c_resume(c, all, t)) return s;
	gdr_state_in(c, p, s.S);
	gdr_scale(c, s.scale);
	return s;
}

void gdr_end(calc *c, const struct head *p, const struct carried *s, size_t t)
{
	if (t < p->token.last) {
		c_suspend(c, s->all, t);
		return;
	}
	gdr_pads(c, p, s->S);
	gdr_state_out(c, p, s->S);
}
