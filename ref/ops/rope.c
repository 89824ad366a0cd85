/* rope, per token and head: pairs (x1, x2) of the first rotary_dim dimensions are turned by
 * angle_i = position theta^(-2i/rotary_dim): y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin. Half: x2
 * stands rotary_dim/2 after x1; interleaved: next to it. The other dimensions are copied. */
#include <math.h>

#include "parts.h"

enum { D_T, D_H, D_D };
enum { IN_X, IN_POSITIONS };
enum { OUT_Y };
enum { P_ROTARY_DIM, P_THETA, P_LAYOUT };
enum { LAYOUT_HALF, LAYOUT_INTERLEAVED };
enum { SITE_POSITIONS, SITE_INV_FREQ, SITE_ANGLE, SITE_COS_SIN, SITE_X1_COS, SITE_X2_SIN, SITE_X2_COS, SITE_X1_SIN, SITE_Y };
enum {
	EXPONENT_OVER_HEAD_DIM, PAIRS_HALF_HEAD_DIM, ROTATES_ALL_DIMS, ROTATES_THE_TAIL, INTERLEAVED_FOR_HALF,
	HALF_FOR_INTERLEAVED, THETA_1E4, THETA_1E6, POSITIONS_IN_BF16, INV_FREQ_IN_BF16, ANGLE_IN_BF16,
	NO_RANGE_REDUCTION, DECODE_POSITION_OFF, TURNS_BACKWARDS
};

struct rope_pairs rope_pairs(const calc *c, size_t D, size_t rotary, bool interleaved)
{
	if (c_fault(c, ROTATES_ALL_DIMS)) rotary = D / 2 * 2;
	struct rope_pairs p = { .n = rotary / 2, .first = c_fault(c, ROTATES_THE_TAIL) ? D - rotary : 0 };

	if (c_fault(c, INTERLEAVED_FOR_HALF)) interleaved = true;
	if (c_fault(c, HALF_FOR_INTERLEAVED)) interleaved = false;
	p.step = interleaved ? 2 : 1;
	p.apart = interleaved ? 1 : p.n;
	if (c_fault(c, PAIRS_HALF_HEAD_DIM) && !interleaved && D / 2 >= p.n && p.first + D / 2 + p.n <= D) p.apart = D / 2;
	return p;
}

/* theta^(-2i/rotary) for i < n */
static void inv_freq(calc *c, vec f, size_t D, size_t rotary, double given)
{
	double theta = c_fault(c, THETA_1E4) ? 1e4 : c_fault(c, THETA_1E6) ? 1e6 : given;
	double over = (double)(c_fault(c, EXPONENT_OVER_HEAD_DIM) ? D : c_fault(c, ROTATES_ALL_DIMS) ? 2 * f.n : rotary);
	num n = c_num(c);
	vec base = c_vec(c, f.n);

	for (size_t i = 0; i < f.n; i++) c_set(c, c_part(c, f, i, 1), 2 * (double)i);
	c_set(c, n, over);
	c_div(c, f, f, n);
	c_set(c, base, theta);
	c_pow(c, f, base, f);
	c_map(c, f, FN_RECIP, f);
	c_site(c, SITE_INV_FREQ, f);
}

/* sin.approx takes whole turns: the angle over 2 pi, in float32, loses what range reduction keeps. */
static void turns_in_f32(calc *c, vec angle)
{
	for (size_t i = 0; i < angle.n; i++) {
		num a = c_part(c, angle, i, 1);
		double turns = (float)(c_value(c, a) * 0.15915494309189535);
		c_set(c, a, (turns - rint(turns)) * 6.283185307179586);
	}
}

void rope_cos_sin(calc *c, vec co, vec si, num position, size_t D, size_t rotary, double theta)
{
	vec angle = c_vec(c, co.n), f = c_vec(c, co.n);

	c_site(c, SITE_POSITIONS, position);
	inv_freq(c, f, D, rotary, theta);
	c_mul(c, angle, f, position);
	c_site(c, SITE_ANGLE, angle);
	if (c_fault(c, NO_RANGE_REDUCTION)) turns_in_f32(c, angle);
	if (c_fault(c, TURNS_BACKWARDS)) c_map(c, angle, FN_NEG, angle);
	c_map(c, co, FN_COS, angle);
	c_map(c, si, FN_SIN, angle);
	c_site(c, SITE_COS_SIN, co);
	c_site(c, SITE_COS_SIN, si);
}

/* y <- x a, rounded at its site */
static void product(calc *c, vec y, vec x, vec a, int site)
{
	c_mul(c, y, x, a);
	c_site(c, site, y);
}

void rope_turn(calc *c, vec y1, vec y2, vec x1, vec x2, vec co, vec si)
{
	vec z = c_vec(c, x1.n);

	product(c, y1, x1, co, SITE_X1_COS);
	product(c, z, x2, si, SITE_X2_SIN);
	c_sub(c, y1, y1, z);            /* y1 = x1 cos - x2 sin */
	product(c, y2, x2, co, SITE_X2_COS);
	product(c, z, x1, si, SITE_X1_SIN);
	c_add(c, y2, y2, z);            /* y2 = x2 cos + x1 sin */
	c_site(c, SITE_Y, y1);
	c_site(c, SITE_Y, y2);
}

static void token(calc *c, size_t t)
{
	size_t D = c_dim(c, D_D), H = c_dim(c, D_H), rotary = (size_t)c_param(c, P_ROTARY_DIM);
	struct rope_pairs p = rope_pairs(c, D, rotary, c_param(c, P_LAYOUT) == LAYOUT_INTERLEAVED);
	vec x1 = c_vec(c, p.n), x2 = c_vec(c, p.n), y1 = c_vec(c, p.n), y2 = c_vec(c, p.n);
	vec co = c_vec(c, p.n), si = c_vec(c, p.n), row = c_vec(c, D);

	num position = c_num(c);
	if (c_fault(c, DECODE_POSITION_OFF)) c_set(c, position, (double)t);
	else c_load(c, position, IN_POSITIONS, t, 1);
	rope_cos_sin(c, co, si, position, D, rotary, c_param(c, P_THETA));
	size_t mark = c_mark(c);
	for (size_t h = 0; h < H; h++) {
		size_t at = (t * H + h) * D, at1 = at + p.first, at2 = at1 + p.apart;
		c_load(c, row, IN_X, at, 1);
		c_load(c, x1, IN_X, at1, p.step);
		c_load(c, x2, IN_X, at2, p.step);
		rope_turn(c, y1, y2, x1, x2, co, si);
		c_store(c, OUT_Y, at, 1, row);
		c_store(c, OUT_Y, at1, p.step, y1);
		c_store(c, OUT_Y, at2, p.step, y2);
		c_release(c, mark);
	}
}

static bool check(const struct call *call, struct error *e)
{
	double r = call->param[P_ROTARY_DIM], theta = call->param[P_THETA];

	if (!(r >= 2 && r <= (double)call->dim[D_D] && fmod(r, 2) == 0))
		return error_set(e, E_PARAM, "rotary_dim", NO_OFFSET, "expected an even number from 2 to D = %zu, got %g", call->dim[D_D], r);
	if (!(theta > 0)) return error_set(e, E_PARAM, "theta", NO_OFFSET, "expected a positive number, got %g", theta);
	return true;
}

static size_t pieces(const struct call *call) { return call->dim[D_T]; }

static const struct tensor_spec in[] = {
	[IN_X] = { "x", "T,H,D", 0, "queries or keys" },
	[IN_POSITIONS] = { "positions", "T", INTEGER, "of each token in its sequence" },
	{ 0 }
};
static const struct tensor_spec out[] = { [OUT_Y] = { "y", "T,H,D", 0, "" }, { 0 } };
static const struct param_spec params[] = {
	[P_ROTARY_DIM] = { "rotary_dim", PARAM_REAL, NULL, true, 0, "dimensions that turn" },
	[P_THETA] = { "theta", PARAM_REAL, NULL, true, 0, "base of the frequencies" },
	[P_LAYOUT] = { "layout", PARAM_CHOICE, "half|interleaved", false, LAYOUT_HALF, "how dimensions are paired" },
	{ 0 }
};
static const struct site_spec sites[] = {
	[SITE_POSITIONS] = { "positions", "the position", 0, 0 },
	[SITE_INV_FREQ] = { "inv_freq", "theta^(-2i/rotary_dim)", 0, 0 },
	[SITE_ANGLE] = { "angle", "position times frequency", 0, 0 },
	[SITE_COS_SIN] = { "cos_sin", "cosine and sine", 0, 0 },
	[SITE_X1_COS] = { "x1_cos", "x1 cos, before the sum y1", 0, 0 },
	[SITE_X2_SIN] = { "x2_sin", "x2 sin, before the sum y1", 0, 0 },
	[SITE_X2_COS] = { "x2_cos", "x2 cos, before the sum y2", 0, 0 },
	[SITE_X1_SIN] = { "x1_sin", "x1 sin, before the sum y2", 0, 0 },
	[SITE_Y] = { "y", "the rotated output", 0, 1 + OUT_Y },
	{ 0 }
};
static const struct fault_spec faults[] = {
	[EXPONENT_OVER_HEAD_DIM] = { "exponent_over_head_dim", "theta^(-2i/D) for theta^(-2i/rotary_dim)", "pie#603", 0, 0, 0, 0 },
	[PAIRS_HALF_HEAD_DIM] = { "pairs_half_head_dim", "pairs (i, i + D/2) for (i, i + rotary_dim/2)", "pie#603", 0, 0, 0, 0 },
	[ROTATES_ALL_DIMS] = { "rotates_all_dims", "all D dimensions turn", "maxtext#4764", 0, 0, 0, 0 },
	[ROTATES_THE_TAIL] = { "rotates_the_tail", "the last rotary_dim dimensions turn", "", 0, 0, 0, 0 },
	[INTERLEAVED_FOR_HALF] = { "interleaved_for_half", "neighbours are paired", "", 0, 0, 0, 0 },
	[HALF_FOR_INTERLEAVED] = { "half_for_interleaved", "halves are paired", "", 0, 0, 0, 0 },
	[THETA_1E4] = { "theta_1e4", "theta = 1e4", "", 0, 0, 0, 0 },
	[THETA_1E6] = { "theta_1e6", "theta = 1e6", "", 0, 0, 0, 0 },
	[POSITIONS_IN_BF16] = { "positions_in_bf16", "the position rounded to bf16", "", 0, true, SITE_POSITIONS, FMT_BF16 },
	[INV_FREQ_IN_BF16] = { "inv_freq_in_bf16", "the frequencies rounded to bf16", "", 0, true, SITE_INV_FREQ, FMT_BF16 },
	[ANGLE_IN_BF16] = { "angle_in_bf16", "the angle rounded to bf16", "candle#3520", 0, true, SITE_ANGLE, FMT_BF16 },
	[NO_RANGE_REDUCTION] = { "no_range_reduction", "sin and cos of float32 turns, as fast-math has it", "imp#1325", 0, 0, 0, 0 },
	[DECODE_POSITION_OFF] = { "decode_position_off", "the token's index in the call for its position", "", 0, 0, 0, 0 },
	[TURNS_BACKWARDS] = { "turns_backwards", "the sine's sign flipped", "", 0, 0, 0, 0 },
	{ 0 }
};
#define BF16 { true, FMT_BF16, ROUND_NEAREST_EVEN }
static const struct contract contracts[] = {
	{ "f32", "all in float32", 0, 0, {{ 0 }}, NULL },
	{ "cos_sin_bf16", "cosine and sine rounded to bf16", 0, 0, { [SITE_COS_SIN] = BF16 }, NULL },
	{ "bf16", "cosine, sine and each product rounded to bf16", 0, 0,
		{ [SITE_COS_SIN] = BF16, [SITE_X1_COS] = BF16, [SITE_X2_SIN] = BF16, [SITE_X2_COS] = BF16, [SITE_X1_SIN] = BF16 }, NULL },
	{ 0 }
};

const struct op op_rope = {
	.name = "rope", .what = "pairs of dimensions turned by position theta^(-2i/rotary_dim)",
	.dims = { "T", "H", "D" }, .in = in, .out = out, .params = params, .sites = sites, .faults = faults,
	.contracts = contracts, .forms = { { "pairs", token } }, .check = check, .pieces = pieces, .cut = &cut_rows
};
