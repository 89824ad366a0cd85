/* qk_norm_rope: what stands between the q and k projections and attention, per token. Each head of q and k is normed by a
 * zero-centred weight, then its first rotary_dim dimensions turn; the gate that lies beside each head of q is split off.
 *
 *   x <- x (mean x^2 + eps)^-1/2 (1 + weight);   (x_i, x_{i + rotary_dim/2}) turns by position theta^(-2i/rotary_dim)
 */
#include <math.h>

#include "parts.h"


enum { D_T, D_HQ, D_E, D_HK, D_D };
enum { IN_QG, IN_K, IN_Q_WEIGHT, IN_K_WEIGHT, IN_POSITIONS };
enum { OUT_Q, OUT_K, OUT_GATE };
enum { P_EPS, P_ROTARY_DIM, P_THETA };
enum {
	SITE_MEAN_SQUARE, SITE_INVERSE, SITE_XHAT, SITE_SCALE, SITE_WEIGHTED,
	SITE_POSITIONS, SITE_INV_FREQ, SITE_ANGLE, SITE_COS_SIN, SITE_X1_COS, SITE_X2_SIN, SITE_X2_COS, SITE_X1_SIN,
	SITE_Q, SITE_K, SITE_GATE
};
enum {
	GATE_AND_QUERY_SWAPPED, GATES_AFTER_ALL_HEADS, NORM_OVER_THE_GATE, WEIGHTS_SWAPPED, PLAIN_WEIGHT_FOR_ZERO_CENTRED,
	WEIGHT_PLUS_ONE_IN_BF16, CAST_BEFORE_WEIGHT, EPS_MISSING, EPS_WRONG, K_NOT_NORMED, TURNED_BEFORE_WEIGHT, ROTATES_ALL_DIMS,
	ROTATES_THE_TAIL, EXPONENT_OVER_HEAD_DIM, INTERLEAVED_FOR_HALF, THETA_1E4, POSITIONS_IN_BF16, ANGLE_IN_BF16, DECODE_POSITION_OFF,
	TURNS_BACKWARDS, K_NOT_TURNED, GATE_IS_SIGMOID
};

/* What the heads of a token share. */
struct token { vec co, si; struct rope_pairs pairs; struct scope norm, rope; };
/* Where a head is read, and what lies beside it. */
struct head { int in, weight; size_t at, beside; };

static struct token token_of(calc *c, size_t t)
{
	size_t D = c_dim(c, D_D), rotary = (size_t)c_param(c, P_ROTARY_DIM);
	struct token k = { .norm = c_scope(c, op_own("rmsnorm")), .rope = c_scope(c, op_own("rope")) };
	num position = c_num(c);

	if (c_fault(c, DECODE_POSITION_OFF)) c_set(c, position, (double)t);
	else c_load(c, position, IN_POSITIONS, t, 1);
	double theta = c_param(c, P_THETA);
	c_enter(c, &k.rope);
	k.pairs = rope_pairs(c, D, rotary, false);
	k.co = c_vec(c, k.pairs.n);
	k.si = c_vec(c, k.pairs.n);
	rope_cos_sin(c, k.co, k.si, position, D, rotary, theta);
	c_leave(c);
	return k;
}

/* w <- 1 + weight */
static void load_scale(calc *c, vec w, int in)
{
	bool plain = c_fault(c, PLAIN_WEIGHT_FOR_ZERO_CENTRED);

	if (c_fault(c, WEIGHTS_SWAPPED)) in = in == IN_Q_WEIGHT ? IN_K_WEIGHT : IN_Q_WEIGHT;
	c_load(c, w, in, 0, 1);
	if (!plain) c_add(c, w, w, c_number(c, 1));
	c_site(c, SITE_SCALE, w);
}

static void norm(calc *c, const struct token *k, vec x, struct head h)
{
	num m = c_num(c), beside = c_num(c);
	bool over_gate = c_fault(c, NORM_OVER_THE_GATE) && h.in == IN_QG;
	vec g = c_vec(c, x.n);

	if (over_gate) c_load(c, g, IN_QG, h.beside, 1);
	c_enter(c, &k->norm);
	rms_mean_square(c, m, x, x.n);
	if (over_gate) {
		rms_mean_square(c, beside, g, x.n);
		c_add(c, m, m, beside);
		c_mul(c, m, m, c_number(c, 0.5));
	}
	rms_divide(c, x, m, c_param(c, P_EPS));
	c_leave(c);
}

static void turn(calc *c, const struct token *k, vec x)
{
	const struct rope_pairs *p = &k->pairs;
	vec x1 = c_vec(c, p->n), x2 = c_vec(c, p->n), y1 = c_vec(c, p->n), y2 = c_vec(c, p->n);

	for (size_t i = 0; i < p->n; i++) {
		c_copy(c, c_part(c, x1, i, 1), c_part(c, x, p->first + i * p->step, 1));
		c_copy(c, c_part(c, x2, i, 1), c_part(c, x, p->first + i * p->step + p->apart, 1));
	}
	c_enter(c, &k->rope);
	rope_turn(c, y1, y2, x1, x2, k->co, k->si);
	c_leave(c);
	for (size_t i = 0; i < p->n; i++) {
		c_copy(c, c_part(c, x, p->first + i * p->step, 1), c_part(c, y1, i, 1));
		c_copy(c, c_part(c, x, p->first + i * p->step + p->apart, 1), c_part(c, y2, i, 1));
	}
}

static void head(calc *c, const struct token *k, vec x, struct head h)
{
	vec w = c_vec(c, x.n), none = { 0 };
	bool is_k = h.in == IN_K, early = c_fault(c, TURNED_BEFORE_WEIGHT), still = is_k && c_fault(c, K_NOT_TURNED);

	c_load(c, x, h.in, h.at, 1);
	if (!(is_k && c_fault(c, K_NOT_NORMED))) {
		norm(c, k, x, h);
		load_scale(c, w, h.weight);
		if (early) turn(c, k, x);
		c_enter(c, &k->norm);
		rms_weigh(c, x, w, none);               /* x <- x (mean x^2 + eps)^-1/2 (1 + weight) */
		c_leave(c);
	}
	if (!early && !still) turn(c, k, x);
}

static void query(calc *c, const struct token *k, vec x, size_t t, size_t h)
{
	size_t D = x.n, Hq = c_dim(c, D_HQ), mark = c_mark(c), at = (t * Hq + h) * 2 * D, beside = at + D, to = (t * Hq + h) * D;
	vec gate = c_vec(c, D);

	if (c_fault(c, GATES_AFTER_ALL_HEADS)) at = t * Hq * 2 * D + h * D, beside = at + Hq * D;
	if (c_fault(c, GATE_AND_QUERY_SWAPPED)) {
		size_t swap = at;
		at = beside, beside = swap;
	}
	head(c, k, x, (struct head){ IN_QG, IN_Q_WEIGHT, at, beside });
	c_site(c, SITE_Q, x);
	c_store(c, OUT_Q, to, 1, x);
	c_load(c, gate, IN_QG, beside, 1);
	if (c_fault(c, GATE_IS_SIGMOID)) c_map(c, gate, FN_SIGMOID, gate);
	c_site(c, SITE_GATE, gate);
	c_store(c, OUT_GATE, to, 1, gate);
	c_release(c, mark);
}

static void token(calc *c, size_t t)
{
	struct token k = token_of(c, t);
	size_t D = c_dim(c, D_D), Hk = c_dim(c, D_HK);
	vec x = c_vec(c, D);

	for (size_t h = 0; h < c_dim(c, D_HQ); h++) query(c, &k, x, t, h);
	for (size_t h = 0; h < Hk; h++) {
		size_t at = (t * Hk + h) * D, mark = c_mark(c);
		head(c, &k, x, (struct head){ IN_K, IN_K_WEIGHT, at, at });
		c_site(c, SITE_K, x);
		c_store(c, OUT_K, at, 1, x);
		c_release(c, mark);
	}
}

static bool check(const struct call *call, struct error *e)
{
	double r = call->param[P_ROTARY_DIM], theta = call->param[P_THETA], eps = call->param[P_EPS];
	size_t D = call->dim[D_D], E = call->dim[D_E];

	if (E != 2 * D) return error_set(e, E_DIM, "in.qg", NO_OFFSET, "expected rows of 2 D = %zu, got %zu", 2 * D, E);
	if (!(r >= 2 && r <= (double)D && fmod(r, 2) == 0))
		return error_set(e, E_PARAM, "rotary_dim", NO_OFFSET, "expected an even number from 2 to D = %zu, got %g", D, r);
	if (!(theta > 0)) return error_set(e, E_PARAM, "theta", NO_OFFSET, "expected a positive number, got %g", theta);
	if (!(eps >= 0)) return error_set(e, E_PARAM, "eps", NO_OFFSET, "expected 0 or more, got %g", eps);
	return true;
}

static size_t pieces(const struct call *call) { return call->dim[D_T]; }

static const struct tensor_spec in[] = {
	[IN_QG] = { "qg", "T,Hq,E", 0, "E = 2 D: each head's query, then its gate" },
	[IN_K] = { "k", "T,Hk,D", 0, "keys" },
	[IN_Q_WEIGHT] = { "q_weight", "D", 0, "zero-centred weight of the queries' norm" },
	[IN_K_WEIGHT] = { "k_weight", "D", 0, "zero-centred weight of the keys' norm" },
	[IN_POSITIONS] = { "positions", "T", INTEGER, "of each token in its sequence" },
	{ 0 }
};
static const struct tensor_spec out[] = {
	[OUT_Q] = { "q", "T,Hq,D", 0, "" }, [OUT_K] = { "k", "T,Hk,D", 0, "" },
	[OUT_GATE] = { "gate", "T,Hq,D", 0, "" }, { 0 }
};
static const struct param_spec params[] = {
	[P_EPS] = { "eps", PARAM_REAL, NULL, false, 1e-6, "added to the mean square" },
	[P_ROTARY_DIM] = { "rotary_dim", PARAM_REAL, NULL, true, 0, "dimensions that turn, paired by halves" },
	[P_THETA] = { "theta", PARAM_REAL, NULL, true, 0, "base of the frequencies" },
	{ 0 }
};
static const struct site_spec sites[] = {
	[SITE_MEAN_SQUARE] = { "mean_square", "mean x^2", 0, 0 },
	[SITE_INVERSE] = { "inverse_root", "(mean x^2 + eps)^-1/2", 0, 0 },
	[SITE_XHAT] = { "xhat", "the normed head, before its weight", 0, 0 },
	[SITE_SCALE] = { "scale", "1 + weight", 0, 0 },
	[SITE_WEIGHTED] = { "weighted", "the normed head times its weight, before it turns", 0, 0 },
	[SITE_POSITIONS] = { "positions", "the position", 0, 0 },
	[SITE_INV_FREQ] = { "inv_freq", "theta^(-2i/rotary_dim)", 0, 0 },
	[SITE_ANGLE] = { "angle", "position times frequency", 0, 0 },
	[SITE_COS_SIN] = { "cos_sin", "cosine and sine", 0, 0 },
	[SITE_X1_COS] = { "x1_cos", "x1 cos, before the sum y1", 0, 0 },
	[SITE_X2_SIN] = { "x2_sin", "x2 sin, before the sum y1", 0, 0 },
	[SITE_X2_COS] = { "x2_cos", "x2 cos, before the sum y2", 0, 0 },
	[SITE_X1_SIN] = { "x1_sin", "x1 sin, before the sum y2", 0, 0 },
	[SITE_Q] = { "q", "the queries", 0, 1 + OUT_Q },
	[SITE_K] = { "k", "the keys", 0, 1 + OUT_K },
	[SITE_GATE] = { "gate", "the gate", 0, 1 + OUT_GATE },
	{ 0 }
};
static const struct fault_spec faults[] = {
	[GATE_AND_QUERY_SWAPPED] = { "gate_and_query_swapped", "gate | query for query | gate, in each head", "", 0, 0, 0, 0 },
	[GATES_AFTER_ALL_HEADS] = { "gates_after_all_heads", "all heads' queries, then all heads' gates", "", 0, 0, 0, 0 },
	[NORM_OVER_THE_GATE] = { "norm_over_the_gate", "the mean square of a query and its gate together", "", 0, 0, 0, 0 },
	[WEIGHTS_SWAPPED] = { "weights_swapped", "q_weight for k, k_weight for q", "", 0, 0, 0, 0 },
	[PLAIN_WEIGHT_FOR_ZERO_CENTRED] = { "plain_weight_for_zero_centred", "w for 1 + w", "", 0, 0, 0, 0 },
	[WEIGHT_PLUS_ONE_IN_BF16] = { "weight_plus_one_in_bf16", "1 + w rounded to bf16", "lmdeploy#4790",
		0, true, SITE_SCALE, FMT_BF16 },
	[CAST_BEFORE_WEIGHT] = { "cast_before_weight", "bf16(xhat) w for bf16(xhat w)", "gemma_pytorch#67",
		0, true, SITE_XHAT, FMT_BF16 },
	[EPS_MISSING] = { "eps_missing", "eps = 0", "", 0, 0, 0, 0 },
	[EPS_WRONG] = { "eps_wrong", "eps = 1e-5", "", 0, 0, 0, 0 },
	[K_NOT_NORMED] = { "k_not_normed", "keys only turn", "", 0, 0, 0, 0 },
	[TURNED_BEFORE_WEIGHT] = { "turned_before_weight", "the weight multiplies what has turned", "", 0, 0, 0, 0 },
	[ROTATES_ALL_DIMS] = { "rotates_all_dims", "all D dimensions turn", "maxtext#4764", 0, 0, 0, 0 },
	[ROTATES_THE_TAIL] = { "rotates_the_tail", "the last rotary_dim dimensions turn", "", 0, 0, 0, 0 },
	[EXPONENT_OVER_HEAD_DIM] = { "exponent_over_head_dim", "theta^(-2i/D) for theta^(-2i/rotary_dim)", "pie#603", 0, 0, 0, 0 },
	[INTERLEAVED_FOR_HALF] = { "interleaved_for_half", "neighbours are paired", "", 0, 0, 0, 0 },
	[THETA_1E4] = { "theta_1e4", "theta = 1e4", "", 0, 0, 0, 0 },
	[POSITIONS_IN_BF16] = { "positions_in_bf16", "the position rounded to bf16", "", 0, true, SITE_POSITIONS, FMT_BF16 },
	[ANGLE_IN_BF16] = { "angle_in_bf16", "the angle rounded to bf16", "candle#3520", 0, true, SITE_ANGLE, FMT_BF16 },
	[DECODE_POSITION_OFF] = { "decode_position_off", "the token's index in the call for its position", "", 0, 0, 0, 0 },
	[TURNS_BACKWARDS] = { "turns_backwards", "the sine's sign flipped", "", 0, 0, 0, 0 },
	[K_NOT_TURNED] = { "k_not_turned", "keys are only normed", "", 0, 0, 0, 0 },
	[GATE_IS_SIGMOID] = { "gate_is_sigmoid", "sigmoid(gate) for gate, which attention's output will meet", "", 0, 0, 0, 0 },
	{ 0 }
};
#define BF16 { true, FMT_BF16, ROUND_NEAREST_EVEN }
static const struct contract contracts[] = {
	{ "f32", "all in float32, in one pass", 0, 0, {{ 0 }}, NULL },
	{ "weighted_bf16", "the normed heads rounded to bf16 before they turn, as separate kernels hand them on", 0, 0,
		{ [SITE_WEIGHTED] = BF16 }, NULL },
	{ "bf16", "the same, and cosine, sine and each product rounded to bf16", 0, 0,
		{ [SITE_WEIGHTED] = BF16, [SITE_COS_SIN] = BF16, [SITE_X1_COS] = BF16, [SITE_X2_SIN] = BF16, [SITE_X2_COS] = BF16,
			[SITE_X1_SIN] = BF16 }, NULL },
	{ 0 }
};

const struct op op_qk_norm_rope = {
	.name = "qk_norm_rope", .what = "heads of q and k normed and partly turned, each q's gate split off",
	.dims = { "T", "Hq", "E", "Hk", "D" }, .in = in, .out = out, .params = params, .sites = sites, .faults = faults,
	.contracts = contracts, .forms = { { "heads", token } }, .check = check, .pieces = pieces, .cut = &cut_rows
};
