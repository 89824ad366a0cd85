/* Linear attention: q | k | v = silu(conv(W_qkv x)), the gated delta rule per value head, its gated norm, W_out. */
#include <math.h>

#include "model_private.h"


struct mixer { field qkv, z, a, b, o; };

/* The channels of a head, in the order q, k, v: where they stand among all, and in the head's own rows. */
enum { Q, K, V, RANGES };
struct range { size_t channel, at, n; };
struct head {
	size_t h;
	bool first_of_group;
	struct range range[RANGES];
	mat inputs, taps;                       /* [W-1+T,channels] with what came before; [W,channels] */
	mat S;
	num scale, A_log, dt_bias;
	vec weight;
	struct scope conv, delta, norm;
};

static void ranges(calc *c, struct head *p, size_t hk)
{
	size_t Hv = c_dim(c, D_HV), Hk = c_dim(c, D_HK), Dk = c_dim(c, D_DK), Dv = c_dim(c, D_DV), group = Hv / Hk;

	p->range[Q] = (struct range){ hk * Dk, 0, Dk };
	p->range[K] = (struct range){ (Hk + hk) * Dk, Dk, Dk };
	p->range[V] = (struct range){ 2 * Hk * Dk + p->h * Dv, 2 * Dk, Dv };
	if (!c_fault(c, QKV_BY_GROUP)) return;
	size_t at = p->h / group * (2 * Dk + group * Dv);
	p->range[Q].channel = at;
	p->range[K].channel = at + Dk;
	p->range[V].channel = at + 2 * Dk + p->h % group * Dv;
}

static void load_channels(calc *c, struct head *p, const struct mixer *x)
{
	size_t W = c_dim(c, D_W), T = x->qkv.rows;

	for (const struct range *r = p->range; r < p->range + RANGES; r++) {
		for (size_t w = 0; w < W; w++) {
			vec tap = c_part(c, c_row(c, p->taps, w), r->at, r->n);
			c_enter(c, &p->conv);
			size_t from = conv_tap_of(c, W, w);
			c_leave(c);
			c_load(c, tap, IN_CONV, r->channel * W + from, W);
		}
		for (size_t j = 0; c_has(c, IN_HISTORY) && j < W - 1; j++)
			c_load(c, c_part(c, c_row(c, p->inputs, j), r->at, r->n), IN_HISTORY, r->channel * (W - 1) + j, W - 1);
		for (size_t t = 0; t < T; t++)
			c_get(c, c_part(c, c_row(c, p->inputs, W - 1 + t), r->at, r->n), x->qkv, t * x->qkv.cols + r->channel, 1);
	}
}

static struct head head_of(calc *c, const struct mixer *x, size_t h)
{
	size_t Hv = c_dim(c, D_HV), Hk = c_dim(c, D_HK), Dk = c_dim(c, D_DK), Dv = c_dim(c, D_DV), W = c_dim(c, D_W);
	struct head p = {
		.h = h, .first_of_group = h % (Hv / Hk) == 0,
		.conv = c_scope_at(c, op_own("causal_conv1d"), "conv"), .delta = c_scope_at(c, op_own("gated_delta_rule"), "delta"),
		.norm = c_scope_at(c, op_own("rmsnorm"), "norm"),
		.inputs = c_mat(c, W - 1 + x->qkv.rows, 2 * Dk + Dv), .taps = c_mat(c, W, 2 * Dk + Dv), .S = c_mat(c, Dk, Dv),
		.scale = c_num(c), .A_log = c_num(c), .dt_bias = c_num(c), .weight = c_vec(c, Dv)
	};

	c_enter(c, &p.delta);
	size_t hk = delta_key_head(c, h, Hv, Hk), bias = delta_bias_of(c, h);
	delta_scale(c, p.scale, NAN, Dk);
	c_leave(c);
	ranges(c, &p, hk);
	load_channels(c, &p, x);
	if (c_has(c, IN_STATE)) c_load(c, flat(p.S), IN_STATE, h * Dk * Dv, 1);
	c_load(c, p.A_log, IN_A_LOG, h, 1);
	c_load(c, p.dt_bias, IN_DT_BIAS, bias, 1);
	c_load(c, p.weight, IN_NORM, 0, 1);
	return p;
}

static void convolve(calc *c, const struct head *p, vec y, size_t t)
{
	size_t W = p->taps.rows;

	c_enter(c, &p->conv);
	for (size_t w = 0; w < W; w++) {
		size_t at = t + w + conv_ahead(c);
		if (at < p->inputs.rows) conv_tap(c, y, c_row(c, p->taps, w), c_row(c, p->inputs, at));
	}
	conv_activation(c, y, true);
	c_leave(c);
	c_site(c, SITE_CONV_OUT, y);
}

/* decay = exp(g) and beta of token t. */
static void gates(calc *c, const struct head *p, const struct mixer *x, size_t t, num decay, num beta)
{
	bool swapped = c_fault(c, A_B_SWAPPED);
	num bias = c_num(c), A_log = c_num(c);

	c_get(c, decay, swapped ? x->b : x->a, t * x->a.cols + p->h, 1);
	c_get(c, beta, swapped ? x->a : x->b, t * x->a.cols + p->h, 1);
	c_copy(c, bias, p->dt_bias);
	c_copy(c, A_log, p->A_log);
	c_enter(c, &p->delta);
	delta_softplus(c, decay, bias);
	delta_rate(c, decay, A_log);
	delta_log_decay(c, decay);
	delta_squash(c, beta);
	delta_beta(c, beta);
	delta_skip(c, t, 0, x->a.rows, decay, beta);
	c_leave(c);
	c_map(c, decay, FN_EXP, decay);
}

/* o <- o (mean o² + eps)^-½ weight silu(z); it stands in x->o. */
static void norm_head(calc *c, const struct head *p, const struct mixer *x, size_t t)
{
	size_t Dv = p->weight.n, at = t * x->o.cols + p->h * Dv;
	vec o = c_vec(c, Dv), z = c_vec(c, Dv), w = c_vec(c, Dv);
	num m = c_num(c);

	c_get(c, o, x->o, at, 1);
	c_get(c, z, x->z, at, 1);
	c_copy(c, w, p->weight);
	c_enter(c, &p->norm);
	rms_begin(c, m, o, z);
	rms_divide(c, o, m, c_param(c, P_EPS));
	rms_end(c, o, w, 0, z);
	c_leave(c);
	c_put(c, x->o, at, 1, o);
}

static void token(calc *c, const struct head *p, const struct mixer *x, size_t t)
{
	size_t Dv = p->S.cols;
	vec y = c_vec(c, p->inputs.cols), u = c_vec(c, Dv), o = c_vec(c, Dv), part[RANGES];
	num decay = c_num(c), beta = c_num(c);

	convolve(c, p, y, t);
	for (int r = 0; r < RANGES; r++) part[r] = c_part(c, y, p->range[r].at, p->range[r].n);
	gates(c, p, x, t, decay, beta);
	c_enter(c, &p->delta);
	delta_key(c, part[Q], true, 1e-6);
	delta_key(c, part[K], false, 1e-6);
	c_mul(c, part[Q], part[Q], p->scale);
	delta_step(c, p->S, part[Q], part[K], part[V], decay, beta, u, o);
	c_leave(c);
	c_put(c, x->o, t * x->o.cols + p->h * Dv, 1, o);
}

static void keep(calc *c, const struct head *p)
{
	size_t W = p->taps.rows, T = p->inputs.rows - (W - 1);

	c_store(c, OUT_STATE, p->h * p->S.rows * p->S.cols, 1, flat(p->S));
	for (size_t j = 0; j < W - 1; j++)
		for (int r = p->first_of_group ? Q : V; r < RANGES; r++)
			c_store(c, OUT_HISTORY, p->range[r].channel * (W - 1) + j, W - 1,
				c_part(c, c_row(c, p->inputs, T + j), p->range[r].at, p->range[r].n));
}

static void head_part(calc *c, size_t h, void *with)
{
	const struct mixer *x = with;
	struct head p = head_of(c, x, h);
	size_t mark = c_mark(c);

	for (size_t t = 0; t < x->qkv.rows; t++) {
		token(c, &p, x, t);
		if (!c_fault(c, LINEAR_NORM_OVER_HEADS)) norm_head(c, &p, x, t);
		c_release(c, mark);
	}
	keep(c, &p);
}

/* The fault: one norm over all heads of a token. */
static void norm_tokens(calc *c, size_t first, size_t n, void *with)
{
	const struct mixer *x = with;
	size_t Z = x->o.cols, Dv = c_dim(c, D_DV);
	vec o = c_vec(c, Z), z = c_vec(c, Z), w = c_vec(c, Z);
	num m = c_num(c);
	struct scope norm = c_scope_at(c, op_own("rmsnorm"), "norm");
	size_t mark = c_mark(c);

	for (size_t t = first; t < first + n; t++) {
		c_get(c, o, x->o, t * Z, 1);
		c_get(c, z, x->z, t * Z, 1);
		for (size_t at = 0; at < Z; at += Dv) c_load(c, c_part(c, w, at, Dv), IN_NORM, 0, 1);
		c_enter(c, &norm);
		rms_begin(c, m, o, z);
		rms_divide(c, o, m, c_param(c, P_EPS));
		rms_end(c, o, w, 0, z);
		c_leave(c);
		c_put(c, x->o, t * Z, 1, o);
		c_release(c, mark);
	}
}

field linear_mixer(calc *c, field x)
{
	size_t Hv = c_dim(c, D_HV);
	struct mixer m = {
		layer_project(c, x, IN_QKV, 0, c_dim(c, D_C), SITE_QKV), layer_project(c, x, IN_Z, 0, c_dim(c, D_Z), SITE_Z),
		layer_project(c, x, IN_A, 0, Hv, SITE_A), layer_project(c, x, IN_B, 0, Hv, SITE_B), c_field(c, x.rows, c_dim(c, D_Z))
	};

	c_stage(c, Hv, head_part, &m);
	if (c_fault(c, LINEAR_NORM_OVER_HEADS)) layer_rows(c, x.rows, norm_tokens, &m);
	return layer_project(c, m.o, IN_OUT, 0, x.cols, SITE_MIXED);
}
