/* rmsnorm, per row: x' = x + residual; y = x' (mean x'^2 + eps)^-1/2 (offset + weight) silu(gate). */
#include "parts.h"

enum { D_R, D_D };
enum { IN_X, IN_WEIGHT, IN_RESIDUAL, IN_GATE };
enum { OUT_Y, OUT_RESIDUAL };
enum { P_EPS, P_WEIGHT_OFFSET, P_GATE };
enum {
	SITE_RESIDUAL, SITE_SQUARES, SITE_MEAN_SQUARE, SITE_EPS, SITE_MEAN_EPS, SITE_INVERSE, SITE_XHAT, SITE_SCALE, SITE_WEIGHTED, SITE_GATE,
	SITE_Y
};
enum {
	PLAIN_WEIGHT_FOR_ZERO_CENTRED, ZERO_CENTRED_FOR_PLAIN, OFFSET_TWICE, WEIGHT_PLUS_ONE_IN_BF16, CAST_BEFORE_WEIGHT,
	EPS_OUTSIDE_ROOT, EPS_WRONG, EPS_MISSING, VARIANCE_WITH_STRAY_LANES, SUM_IN_LOW_PRECISION, GATE_BEFORE_NORM,
	GATE_AFTER_ROUNDING, GATE_IS_SIGMOID, GATE_MISSING, RESIDUAL_ROUNDED_FIRST, RESIDUAL_NOT_WRITTEN, NORM_OVER_ALL_HEADS
};

/* s <- Σx², of squares that are rounded */
static void sum_rounded_squares(calc *c, num s, vec x)
{
	vec square = c_vec(c, x.n), one = c_vec(c, x.n);

	c_mul(c, square, x, x);
	c_site(c, SITE_SQUARES, square);
	c_set(c, one, 1);
	c_dot(c, s, square, one);
}

void rms_mean_square(calc *c, num m, vec x, size_t D)
{
	num n = c_num(c);

	if (c_rounding(c, SITE_SQUARES)) sum_rounded_squares(c, m, x);
	else c_dot(c, m, x, x);
	c_set(c, n, (double)D);
	c_div(c, m, m, n);
}

/* Σ over the tile's lanes beyond the row: they hold what follows in memory. */
static void stray_lanes(calc *c, num m, size_t row)
{
	size_t D = c_dim(c, D_D), R = c_dim(c, D_R), tile = 256, at = (row + 1) * D, n = (tile - D % tile) % tile;
	vec x = c_vec(c, n);
	num s = c_num(c);

	if (at + n > R * D) n = R * D - at;
	x = c_part(c, x, 0, n);
	if (!n) return;
	c_load(c, x, IN_X, at, 1);
	rms_mean_square(c, s, x, D);
	c_add(c, m, m, s);
}

/* The mean over two neighbouring rows, as if heads were normed together. */
static void both_heads(calc *c, num m, size_t row)
{
	size_t D = c_dim(c, D_D);
	vec x = c_vec(c, D);
	num s = c_num(c), half = c_num(c);

	if ((row ^ 1) >= c_dim(c, D_R)) return;
	c_load(c, x, IN_X, (row ^ 1) * D, 1);
	rms_mean_square(c, s, x, D);
	c_add(c, m, m, s);
	c_set(c, half, 0.5);
	c_mul(c, m, m, half);
}

/* m <- (m + eps)^-1/2 */
static void inverse_root(calc *c, num m, double epsilon)
{
	num eps = c_num(c);

	c_set(c, eps, c_fault(c, EPS_WRONG) ? 1e-5 : c_fault(c, EPS_MISSING) ? 0 : epsilon);
	c_site(c, SITE_EPS, eps);
	if (c_fault(c, EPS_OUTSIDE_ROOT)) {
		c_map(c, m, FN_SQRT, m);
		c_add(c, m, m, eps);
		c_map(c, m, FN_RECIP, m);
	} else {
		c_add(c, m, m, eps);
		c_site(c, SITE_MEAN_EPS, m);
		c_map(c, m, FN_RSQRT, m);
	}
}

void rms_divide(calc *c, vec x, num m, double eps)
{
	c_site(c, SITE_MEAN_SQUARE, m);
	inverse_root(c, m, eps);
	c_site(c, SITE_INVERSE, m);
	c_mul(c, x, x, m);
	c_site(c, SITE_XHAT, x);
}

void rms_gate(calc *c, vec g)
{
	c_map(c, g, c_fault(c, GATE_IS_SIGMOID) ? FN_SIGMOID : FN_SILU, g);
	c_site(c, SITE_GATE, g);
}

void rms_weigh(calc *c, vec x, vec w, vec gate)
{
	c_mul(c, x, x, w);
	c_site(c, SITE_WEIGHTED, x);
	if (gate.n) c_mul(c, x, x, gate);
	c_site(c, SITE_Y, x);
}

void rms_offset(calc *c, vec w, double offset)
{
	num one = c_num(c);

	if (c_fault(c, PLAIN_WEIGHT_FOR_ZERO_CENTRED)) offset = 0;
	if (c_fault(c, ZERO_CENTRED_FOR_PLAIN)) offset = 1;
	if (c_fault(c, OFFSET_TWICE)) offset *= 2;
	c_set(c, one, offset);
	if (offset != 0) c_add(c, w, w, one);
	c_site(c, SITE_SCALE, w);
}

void rms_begin(calc *c, num m, vec x, vec gate)
{
	if (gate.n && !c_fault(c, GATE_MISSING)) {
		rms_gate(c, gate);
		if (c_fault(c, GATE_BEFORE_NORM)) c_mul(c, x, x, gate);
	}
	rms_mean_square(c, m, x, x.n);
}

void rms_end(calc *c, vec x, vec w, double offset, vec gate)
{
	vec none = { 0 };

	rms_offset(c, w, offset);
	rms_weigh(c, x, w, c_fault(c, GATE_MISSING) || c_fault(c, GATE_BEFORE_NORM) ? none : gate);
}

static void load_x(calc *c, vec x, vec t, size_t row)
{
	c_load(c, x, IN_X, row * x.n, 1);
	if (!c_has(c, IN_RESIDUAL)) return;
	c_load(c, t, IN_RESIDUAL, row * x.n, 1);
	if (c_fault(c, RESIDUAL_NOT_WRITTEN)) c_store(c, OUT_RESIDUAL, row * x.n, 1, t);
	c_add(c, x, x, t);
	if (!c_fault(c, RESIDUAL_NOT_WRITTEN)) c_store(c, OUT_RESIDUAL, row * x.n, 1, x);
	c_site(c, SITE_RESIDUAL, x);
}

static void row(calc *c, size_t r)
{
	size_t D = c_dim(c, D_D);
	vec x = c_vec(c, D), w = c_vec(c, D), gate = { 0 };
	num m = c_num(c);

	load_x(c, x, w, r);
	if (c_has(c, IN_GATE)) {
		gate = c_vec(c, D);
		c_load(c, gate, IN_GATE, r * D, 1);
	}
	rms_begin(c, m, x, gate);
	if (c_fault(c, VARIANCE_WITH_STRAY_LANES)) stray_lanes(c, m, r);
	if (c_fault(c, NORM_OVER_ALL_HEADS)) both_heads(c, m, r);
	rms_divide(c, x, m, c_param(c, P_EPS));
	c_load(c, w, IN_WEIGHT, 0, 1);
	rms_end(c, x, w, c_param(c, P_WEIGHT_OFFSET), gate);
	c_store(c, OUT_Y, r * D, 1, x);
}

static bool check(const struct call *call, struct error *e)
{
	if (!call->in[IN_GATE] == (call->param[P_GATE] != 0))
		return error_set(e, E_MISSING, "in.gate", NO_OFFSET, "expected it exactly when the parameter gate is \"silu\"");
	return true;
}

static size_t pieces(const struct call *call) { return call->dim[D_R]; }

static const struct tensor_spec in[] = {
	[IN_X] = { "x", "R,D", 0, "rows" },
	[IN_WEIGHT] = { "weight", "D", 0, "weight, without the offset" },
	[IN_RESIDUAL] = { "residual", "R,D", OPTIONAL, "added to x before the norm" },
	[IN_GATE] = { "gate", "R,D", OPTIONAL, "the output is multiplied by silu(gate)" },
	{ 0 }
};
static const struct tensor_spec out[] = {
	[OUT_Y] = { "y", "R,D", 0, "" },
	[OUT_RESIDUAL] = { "residual_out", "R,D", 0, "residual" },
	{ 0 }
};
static const struct param_spec params[] = {
	[P_EPS] = { "eps", PARAM_REAL, NULL, false, 1e-6, "added to the mean square" },
	[P_WEIGHT_OFFSET] = { "weight_offset", PARAM_REAL, NULL, true, 0, "1: zero-centred weight, 0: plain" },
	[P_GATE] = { "gate", PARAM_CHOICE, "none|silu", false, 0, "gate on the output" },
	{ 0 }
};
static const struct site_spec sites[] = {
	[SITE_RESIDUAL] = { "residual", "x + residual, before the norm", 0, 0 },
	[SITE_SQUARES] = { "squares", "x^2, before their sum", 0, 0 },
	[SITE_MEAN_SQUARE] = { "mean_square", "mean x^2", 0, 0 },
	[SITE_EPS] = { "eps", "eps", 0, 0 },
	[SITE_MEAN_EPS] = { "mean_eps", "mean x^2 + eps", 0, 0 },
	[SITE_INVERSE] = { "inverse_root", "(mean x^2 + eps)^-1/2", 0, 0 },
	[SITE_XHAT] = { "xhat", "the normed x, before its weight", 0, 0 },
	[SITE_SCALE] = { "scale", "offset + weight", 0, 0 },
	[SITE_WEIGHTED] = { "weighted", "the normed x times its weight, before the gate", 0, 0 },
	[SITE_GATE] = { "silu_gate", "silu(gate)", 0, 0 },
	[SITE_Y] = { "y", "the output", 0, 1 + OUT_Y },
	{ 0 }
};
static const struct fault_spec faults[] = {
	[PLAIN_WEIGHT_FOR_ZERO_CENTRED] = { "plain_weight_for_zero_centred", "w for 1 + w", "", 0, 0, 0, 0 },
	[ZERO_CENTRED_FOR_PLAIN] = { "zero_centred_for_plain", "1 + w for w", "", 0, 0, 0, 0 },
	[OFFSET_TWICE] = { "offset_twice", "2 + w for 1 + w", "mlx-vlm#2114", 0, 0, 0, 0 },
	[WEIGHT_PLUS_ONE_IN_BF16] = { "weight_plus_one_in_bf16", "1 + w rounded to bf16", "lmdeploy#4790", 0, true, SITE_SCALE, FMT_BF16 },
	[CAST_BEFORE_WEIGHT] = { "cast_before_weight", "bf16(xhat) w for bf16(xhat w)", "gemma_pytorch#67", 0, true, SITE_XHAT, FMT_BF16 },
	[EPS_OUTSIDE_ROOT] = { "eps_outside_root", "x / (sqrt(mean x^2) + eps)", "", 0, 0, 0, 0 },
	[EPS_WRONG] = { "eps_wrong", "eps = 1e-5", "", 0, 0, 0, 0 },
	[EPS_MISSING] = { "eps_missing", "eps = 0", "", 0, 0, 0, 0 },
	[VARIANCE_WITH_STRAY_LANES] = { "variance_with_stray_lanes", "the sum runs to the end of a tile of 256", "quack 9310d47", 0, 0, 0, 0 },
	[SUM_IN_LOW_PRECISION] = { "sum_in_low_precision", "mean x^2 rounded to bf16", "", 0, true, SITE_MEAN_SQUARE, FMT_BF16 },
	[GATE_BEFORE_NORM] = { "gate_before_norm", "the norm of x silu(gate)", "", 0, 0, 0, 0 },
	[GATE_AFTER_ROUNDING] = { "gate_after_rounding", "xhat w rounded to bf16 before the gate", "vllm#56244", 0, true, SITE_WEIGHTED, FMT_BF16 },
	[GATE_IS_SIGMOID] = { "gate_is_sigmoid", "sigmoid(gate) for silu(gate)", "", 0, 0, 0, 0 },
	[GATE_MISSING] = { "gate_missing", "the gate is not applied", "", 0, 0, 0, 0 },
	[RESIDUAL_ROUNDED_FIRST] = { "residual_rounded_first", "the norm of bf16(x + residual)", "flashinfer#587", 0, true, SITE_RESIDUAL, FMT_BF16 },
	[RESIDUAL_NOT_WRITTEN] = { "residual_not_written", "residual_out is the old residual", "flashinfer#2385", 0, 0, 0, 0 },
	[NORM_OVER_ALL_HEADS] = { "norm_over_all_heads", "one norm over two neighbouring rows (heads)", "", 0, 0, 0, 0 },
	{ 0 }
};
#define BF16 { true, FMT_BF16, ROUND_NEAREST_EVEN }
static const struct contract contracts[] = {
	{ "f32", "all in float32", 0, 0, {{ 0 }}, NULL },
	{ "residual_bf16", "the sum with the residual rounded to bf16 before the norm", 0, 0, { [SITE_RESIDUAL] = BF16 }, NULL },
	{ "xhat_bf16", "the normed x rounded to bf16 before its weight, and again after it", 0, 0,
		{ [SITE_RESIDUAL] = BF16, [SITE_XHAT] = BF16, [SITE_WEIGHTED] = BF16 }, NULL },
	{ "bf16", "every value rounded to bf16", 0, 0,
		{ [SITE_RESIDUAL] = BF16, [SITE_SQUARES] = BF16, [SITE_MEAN_SQUARE] = BF16, [SITE_EPS] = BF16, [SITE_MEAN_EPS] = BF16,
			[SITE_INVERSE] = BF16, [SITE_XHAT] = BF16, [SITE_SCALE] = BF16, [SITE_WEIGHTED] = BF16, [SITE_GATE] = BF16 }, NULL },
	{ 0 }
};

const struct op op_rmsnorm = {
	.name = "rmsnorm", .what = "y = (x + residual) (mean x^2 + eps)^-1/2 (offset + weight) silu(gate)",
	.dims = { "R", "D" }, .in = in, .out = out, .params = params, .sites = sites, .faults = faults,
	.contracts = contracts, .forms = { { "rows", row } }, .check = check, .pieces = pieces, .cut = &cut_rows
};
