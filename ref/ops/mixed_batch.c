/* mixed_batch: the core of gated delta layers over steps that mix decoding, prefilling and speculating requests, whose
 * memory lives in slots of two pools. Every request alone, in order, from its own slot:
 *
 *   c = silu(Σ_w conv_weight_w x_{p-W+1+w});   q | k | v = c;   q, k <- x (Σx² + l2_eps)^-½;   q <- scale q
 *   g = -exp(A_log) softplus(a + dt_bias);   beta = sigmoid(b)
 *   S <- exp(g) S;   u = beta (v - S'k);   S <- S + k u';   o = S'q
 *   y = o (mean o² + norm_eps)^-½ norm_weight silu(z)
 *
 * A piece is one value head h of one layer; it reads key head h / (Hv/Hk). */
#include <math.h>

#include "mixed_batch.h"


static struct head head_of(calc *c, size_t piece)
{
	size_t Hv = c_dim(c, D_HV), Hk = c_dim(c, D_HK), Dk = c_dim(c, D_DK), Dv = c_dim(c, D_DV), W = c_dim(c, D_W);
	size_t l = piece / Hv, h = piece % Hv, hk = h / (Hv / Hk);
	struct head p = {
		.layer = l, .h = h, .channels = 2 * Dk + Dv, .first_of_group = h % (Hv / Hk) == 0,
		.range = { [Q] = { hk * Dk, 0, Dk }, [K] = { (Hk + hk) * Dk, Dk, Dk }, [V] = { 2 * Hk * Dk + h * Dv, 2 * Dk, Dv } },
		.taps = c_mat(c, W, 2 * Dk + Dv), .weight = c_vec(c, Dv), .scale = c_num(c),
		.conv = c_scope(c, op_own("causal_conv1d")), .delta = c_scope(c, op_own("gated_delta_rule")), .norm = c_scope(c, op_own("rmsnorm"))
	};

	for (size_t w = 0; w < W; w++)
		for (const struct range *r = p.range; r < p.range + RANGES; r++)
			c_load(c, c_part(c, c_row(c, p.taps, w), r->at, r->n), IN_CONV, (l * c_dim(c, D_C) + r->channel) * W + w, W);
	c_load(c, p.weight, IN_NORM, l * Dv, 1);
	delta_scale(c, p.scale, c_param(c, P_SCALE), Dk);
	return p;
}

/* c <- silu(Σ_w conv_weight_w x_{p-W+1+w}), x_p becoming one of the last W inputs. */
static void convolve(calc *c, const struct head *p, vec y, struct memory now, size_t token, int64_t position)
{
	size_t at = (token * c_dim(c, D_L) + p->layer) * c_dim(c, D_C), W = c_dim(c, D_W);
	vec x = mixed_input(c, now, position);

	for (const struct range *r = p->range; r < p->range + RANGES; r++)
		c_load(c, c_part(c, x, r->at, r->n), IN_X, at + r->channel, 1);
	c_enter(c, &p->conv);
	for (size_t w = 0; w < W; w++) conv_tap(c, y, c_row(c, p->taps, w), mixed_input(c, now, position + 1 + (int64_t)w));
	conv_activation(c, y, true);
	c_leave(c);
	c_site(c, SITE_CONV_OUT, y);
}

static void normed(calc *c, const struct head *p, vec x, int site)
{
	c_enter(c, &p->delta);
	delta_l2_norm(c, x, c_param(c, P_L2_EPS));
	c_leave(c);
	c_site(c, site, x);
}

/* decay = exp(g) and beta of a token; at: of its a and b. */
static void gates(calc *c, const struct head *p, size_t at, num decay, num beta)
{
	size_t head = p->layer * c_dim(c, D_HV) + p->h;
	num dt_bias = c_num(c), A_log = c_num(c);

	c_load(c, decay, IN_A, at, 1);
	c_load(c, dt_bias, IN_DT_BIAS, head, 1);
	c_load(c, A_log, IN_A_LOG, head, 1);
	c_enter(c, &p->delta);
	delta_softplus(c, decay, dt_bias);
	delta_rate(c, decay, A_log);
	c_leave(c);
	c_site(c, SITE_G, decay);
	c_map(c, decay, FN_EXP, decay);
	c_load(c, beta, IN_B, at, 1);
	c_map(c, beta, FN_SIGMOID, beta);
	c_site(c, SITE_BETA, beta);
}

/* y = o (mean o² + norm_eps)^-½ norm_weight silu(z), in the place of o. */
static void output(calc *c, const struct head *p, size_t at, vec o)
{
	vec z = c_vec(c, o.n);
	num m = c_num(c);

	c_load(c, z, IN_Z, at * o.n, 1);
	c_enter(c, &p->norm);
	rms_mean_square(c, m, o, o.n);
	rms_divide(c, o, m, c_param(c, P_NORM_EPS));
	rms_gate(c, z);
	rms_weigh(c, o, p->weight, z);
	c_leave(c);
	c_store(c, OUT_Y, at * o.n, 1, o);
}

static void token(calc *c, const struct head *p, struct memory now, size_t t, int64_t position)
{
	size_t at = (t * c_dim(c, D_L) + p->layer) * c_dim(c, D_HV) + p->h;
	vec y = c_vec(c, p->channels), u = c_vec(c, now.S.cols), o = c_vec(c, now.S.cols), part[RANGES];
	num decay = c_num(c), beta = c_num(c);

	convolve(c, p, y, now, t, position);
	for (int r = 0; r < RANGES; r++) part[r] = c_part(c, y, p->range[r].at, p->range[r].n);
	normed(c, p, part[Q], SITE_Q);
	normed(c, p, part[K], SITE_K);
	c_mul(c, part[Q], part[Q], p->scale);
	gates(c, p, at, decay, beta);
	c_enter(c, &p->delta);
	delta_step(c, now.S, part[Q], part[K], part[V], decay, beta, u, o);
	c_leave(c);
	output(c, p, at, o);
}

/* Rows first .. last-1 of a step at once: all read their slots before any writes. */
static void rows_at_once(calc *c, const struct head *p, const struct tables *t, const struct memory *pool, size_t first, size_t last)
{
	size_t mark = c_mark(c);
	struct memory *now = c_bytes(c, (last - first + 1) * sizeof *now);

	for (size_t i = first; i < last; i++) {
		if (t->row[i].kind == PADDING || t->row[i].goes_on) continue;
		now[i - first] = mixed_memory(c, p, c_dim(c, D_W));
		mixed_recall(c, pool, &t->row[i], now[i - first]);
	}
	size_t token_mark = c_mark(c);
	struct memory here = { 0 };
	for (const struct row *r = t->row + first; r < t->row + last; r++) {
		if (r->kind == PADDING) continue;
		if (!r->goes_on) here = now[r - t->row - (ptrdiff_t)first];
		for (size_t at = r->first; at < r->last; at++) {
			int64_t position = r->position + (int64_t)(at - r->first);
			token(c, p, here, at, position);
			mixed_keep(c, pool, t, at, position + 1, here);
			c_release(c, token_mark);
		}
	}
	c_release(c, mark);
}

static void piece(calc *c, size_t i)
{
	struct head p = head_of(c, i);
	struct tables t = mixed_tables(c);
	mixed_faults(c, &t);
	struct memory *pool = mixed_pool_load(c, &p, &t);

	for (size_t k = 0; k < t.steps; k++) {
		size_t first = t.step[k], last = t.step[k + 1], decodes = first;
		while (decodes < last && !t.row[decodes].goes_on && (t.row[decodes].kind == DECODE || t.row[decodes].kind == PADDING)) decodes++;
		if (decodes < last && t.row[decodes].goes_on) decodes = first;
		rows_at_once(c, &p, &t, pool, first, decodes);
		rows_at_once(c, &p, &t, pool, decodes, last);
	}
	mixed_pool_store(c, &p, &t, pool);
}

/* C = 2 Hk Dk + Hv Dv binds Hk; where it does not, the check refuses. */
static void derive(struct call *call)
{
	size_t *d = call->dim, values = d[D_HV] * d[D_DV];

	d[D_HK] = d[D_DK] && d[D_C] > values ? (d[D_C] - values) / (2 * d[D_DK]) : 0;
}

static size_t pieces(const struct call *call) { return call->dim[D_L] * call->dim[D_HV]; }

static const struct tensor_spec in[] = {
	[IN_X] = { "x", "T,L,C", 0, "inputs of the convolution, of all steps' tokens; channels in the order q, k, v" },
	[IN_Z] = { "z", "T,L,Hv,Dv", 0, "gate of the output" },
	[IN_A] = { "a", "T,L,Hv", 0, "g = -exp(A_log) softplus(a + dt_bias)" },
	[IN_B] = { "b", "T,L,Hv", 0, "beta = sigmoid(b)" },
	[IN_CONV] = { "conv_weight", "L,C,W", 0, "taps, the newest token's last" },
	[IN_A_LOG] = { "A_log", "L,Hv", 0, "see a" },
	[IN_DT_BIAS] = { "dt_bias", "L,Hv", 0, "see a" },
	[IN_NORM] = { "norm_weight", "L,Dv", 0, "weight of the gated norm" },
	[IN_STATES] = { "state_pool", "P,L,Hv,Dk,Dv", 0, "states before the first step, by slot" },
	[IN_INPUTS] = { "conv_pool", "P,L,C,H", 0, "the convolution's last inputs before the first step, by slot; see conv_layout" },
	[IN_STEPS] = { "steps", "K+1", INTEGER, "step k has rows steps[k] .. steps[k+1]-1" },
	[IN_CU] = { "cu_seqlens", "R+1", INTEGER, "row r has tokens cu_seqlens[r] .. cu_seqlens[r+1]-1" },
	[IN_KINDS] = { "kinds", "R", INTEGER, "0 decode, 1 prefill, 2 speculative, 3 padding" },
	[IN_READ] = { "read_slot", "R", INTEGER, "the memory before a row's first token; -1: zeros" },
	[IN_WRITE] = { "write_slot", "T", INTEGER, "where the memory after a token goes; -1: nowhere" },
	[IN_POSITION] = { "position", "R", INTEGER | OPTIONAL, "of a row's first token in its request; a ring needs it" },
	{ 0 }
};

static const struct tensor_spec out[] = {
	[OUT_Y] = { "y", "T,L,Hv,Dv", 0, "" },
	[OUT_STATES] = { "state_pool", "P,L,Hv,Dk,Dv", 0, "" },
	[OUT_INPUTS] = { "conv_pool", "P,L,C,H", 0, "" },
	{ 0 }
};

static const struct param_spec params[] = {
	[P_L2_EPS] = { "l2_eps", PARAM_REAL, NULL, false, 1e-6, "added to the sum of squares of q and of k" },
	[P_NORM_EPS] = { "norm_eps", PARAM_REAL, NULL, false, 1e-6, "added to the mean square of o" },
	[P_SCALE] = { "scale", PARAM_REAL, NULL, false, NAN, "of q after its norm (Dk^-1/2)" },
	[P_LAYOUT] = { "conv_layout", PARAM_CHOICE, "ring|window", false, LAYOUT_RING,
		"ring: H = W, the input at position p in column p mod W; window: H = W or W-1, oldest first" },
	{ 0 }
};

static const struct site_spec sites[] = {
	[SITE_CONV] = { "conv", "the convolution's sum, before SiLU", 0, 0 },
	[SITE_CONV_OUT] = { "conv_out", "the convolution's output: q, k and v", 0, 0 },
	[SITE_Q] = { "q_norm", "q after its norm", 0, 0 },
	[SITE_K] = { "k_norm", "k after its norm", 0, 0 },
	[SITE_G] = { "g", "the log of the decay", 0, 0 },
	[SITE_BETA] = { "beta", "sigmoid(b)", 0, 0 },
	[SITE_U] = { "u", "beta (v - S'k)", 0, 0 },
	[SITE_STATE] = { "state", "the state after each token", 0, 0 },
	[SITE_POOL] = { "pool", "the state where it is stored in a slot, for later rows too", 0, 0 },
	[SITE_O] = { "o", "S'q, before its norm", 0, 0 },
	[SITE_XHAT] = { "xhat", "the normed o, before its weight", 0, 0 },
	[SITE_WEIGHTED] = { "weighted", "the normed o times its weight, before the gate", 0, 0 },
	[SITE_Y] = { "y", "the output", 0, 1 + OUT_Y },
	{ 0 }
};

#define BF16 { true, FMT_BF16, ROUND_NEAREST_EVEN }
static const struct contract contracts[] = {
	{ "f32", "all in float32", 0, 0, {{ 0 }}, NULL },
	{ "pool_bf16", "all in float32, the state rounded to bf16 where it is stored in a slot", 0, 0, { [SITE_POOL] = BF16 }, NULL },
	{ "scratch_bf16", "the same, and the convolution's output and o rounded to bf16", 0, 0,
		{ [SITE_POOL] = BF16, [SITE_CONV_OUT] = BF16, [SITE_O] = BF16 }, NULL },
	{ 0 }
};

const struct op op_mixed_batch = {
	.name = "mixed_batch", .what = "gated delta layers' core over steps of mixed rows, each request alone from its own slot",
	.dims = { "T", "R", "K", "P", "L", "C", "W", "Hv", "Dk", "Dv", "H", "Hk" },
	.in = in, .out = out, .params = params, .sites = sites, .faults = mixed_fault_specs, .contracts = contracts,
	.forms = { { "rows", piece } }, .check = mixed_check, .pieces = pieces, .derive = derive, .in_slots = true
};
