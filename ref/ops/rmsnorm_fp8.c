/* rmsnorm_fp8, per row: x' = x + residual; z = x' (mean x'^2 + eps)^-1/2 (offset + weight); then z in e4m3 with a scale of
 * its own: scale = max(max|z| / 448, min_scale), y = z / scale. The product y scale is what a reader gets back. */
#include "parts.h"

extern const struct op op_rmsnorm;

enum { D_R, D_D };
enum { IN_X, IN_WEIGHT, IN_RESIDUAL };
enum { OUT_Y, OUT_SCALE, OUT_RESIDUAL };
enum { P_EPS, P_WEIGHT_OFFSET, P_MIN_SCALE };
enum {
	SITE_RESIDUAL, SITE_MEAN_SQUARE, SITE_INVERSE, SITE_XHAT, SITE_WEIGHT, SITE_WEIGHTED, SITE_RECIPROCAL, SITE_SCALE, SITE_Y
};
enum {
	SCALE_DIVIDED_FOR_MULTIPLIED, SCALE_MISSING, SCALE_INVERTED, DOUBLE_ROUNDING, SCALE_ROUNDED_UP, LARGEST_WITHOUT_SIGN,
	LARGEST_OF_X, LARGEST_OVER_240, MIN_SCALE_MISSING, SCALE_IN_BF16, PLAIN_WEIGHT_FOR_ZERO_CENTRED, EPS_MISSING,
	CAST_BEFORE_WEIGHT, ROUNDED_BEFORE_QUANTISATION, RESIDUAL_ROUNDED_FIRST
};

static const double largest_e4m3 = 448;         /* OCP 8-bit floating point, 1.0, table 1: S.1111.110 */

/* m <- max_i x_i: halves against halves. x is overwritten. */
static void largest(calc *c, num m, vec x)
{
	for (size_t n = x.n; n > 1; n -= n / 2) {
		vec low = c_part(c, x, 0, n / 2);
		c_max(c, low, low, c_part(c, x, n - n / 2, n / 2));
	}
	c_copy(c, m, c_part(c, x, 0, 1));
}

/* m <- max_i |x_i| */
static void magnitude(calc *c, num m, vec x)
{
	vec t = c_vec(c, x.n);

	c_map(c, t, FN_NEG, x);
	if (c_fault(c, LARGEST_WITHOUT_SIGN)) c_copy(c, t, x);
	c_max(c, t, t, x);
	largest(c, m, t);
}

static void load_x(calc *c, vec x, vec t, size_t row)
{
	c_load(c, x, IN_X, row * x.n, 1);
	if (!c_has(c, IN_RESIDUAL)) return;
	c_load(c, t, IN_RESIDUAL, row * x.n, 1);
	c_add(c, x, x, t);
	c_store(c, OUT_RESIDUAL, row * x.n, 1, x);
	c_site(c, SITE_RESIDUAL, x);
}

static void norm(calc *c, vec x, vec w)
{
	const struct scope inner = c_scope(c, &op_rmsnorm);
	double offset = c_fault(c, PLAIN_WEIGHT_FOR_ZERO_CENTRED) ? 0 : c_param(c, P_WEIGHT_OFFSET);
	num m = c_num(c);

	c_load(c, w, IN_WEIGHT, 0, 1);
	if (offset != 0) c_add(c, w, w, c_number(c, offset));
	c_site(c, SITE_WEIGHT, w);
	c_enter(c, &inner);
	rms_mean_square(c, m, x, x.n);
	rms_divide(c, x, m, c_param(c, P_EPS));
	c_leave(c);
	c_mul(c, x, x, w);
	c_site(c, SITE_WEIGHTED, x);
}

/* scale <- max(m / 448, min_scale), but for faults */
static void scale_of(calc *c, num scale, num m)
{
	c_div(c, scale, m, c_number(c, c_fault(c, LARGEST_OVER_240) ? 240 : largest_e4m3));
	if (!c_fault(c, MIN_SCALE_MISSING)) c_max(c, scale, scale, c_number(c, c_param(c, P_MIN_SCALE)));
	c_site(c, SITE_SCALE, scale);
}

/* x <- x / scale */
static void quantise(calc *c, vec x, num scale)
{
	num r = c_num(c);

	if (c_fault(c, SCALE_MISSING)) return;
	c_map(c, r, FN_RECIP, scale);
	c_site(c, SITE_RECIPROCAL, r);
	c_mul(c, x, x, c_fault(c, SCALE_DIVIDED_FOR_MULTIPLIED) ? scale : r);
}

/* scale <- the power of two at or above it; y keeps the old one. */
static void rounded_up(calc *c, num scale)
{
	double p = 0x1p-126;

	while (p < c_value(c, scale)) p *= 2;
	c_set(c, scale, p);
}

static void row(calc *c, size_t r)
{
	size_t D = c_dim(c, D_D);
	vec x = c_vec(c, D), w = c_vec(c, D);
	num m = c_num(c), scale = c_num(c);

	load_x(c, x, w, r);
	if (c_fault(c, LARGEST_OF_X)) magnitude(c, m, x);
	norm(c, x, w);
	if (!c_fault(c, LARGEST_OF_X)) magnitude(c, m, x);
	scale_of(c, scale, m);
	quantise(c, x, scale);
	c_site(c, SITE_Y, x);
	if (c_fault(c, SCALE_ROUNDED_UP)) rounded_up(c, scale);
	if (c_fault(c, SCALE_INVERTED)) c_map(c, scale, FN_RECIP, scale);
	c_store(c, OUT_Y, r * D, 1, x);
	c_store(c, OUT_SCALE, r, 1, scale);
}

static bool check(const struct call *call, struct error *e)
{
	double eps = call->param[P_EPS], least = call->param[P_MIN_SCALE];

	if (!(eps >= 0)) return error_set(e, E_PARAM, "eps", NO_OFFSET, "expected 0 or more, got %g", eps);
	if (!(least > 0)) return error_set(e, E_PARAM, "min_scale", NO_OFFSET, "expected a positive number, got %g", least);
	return true;
}

static size_t pieces(const struct call *call) { return call->dim[D_R]; }

static const struct tensor_spec in[] = {
	[IN_X] = { "x", "R,D", 0, "rows" },
	[IN_WEIGHT] = { "weight", "D", 0, "weight, without the offset" },
	[IN_RESIDUAL] = { "residual", "R,D", OPTIONAL, "added to x before the norm" },
	{ 0 }
};
static const struct tensor_spec out[] = {
	[OUT_Y] = { "y", "R,D", 0, "" },
	[OUT_SCALE] = { "scale", "R", 0, "" },
	[OUT_RESIDUAL] = { "residual_out", "R,D", 0, "residual" },
	{ 0 }
};
static const struct param_spec params[] = {
	[P_EPS] = { "eps", PARAM_REAL, NULL, false, 1e-6, "added to the mean square" },
	[P_WEIGHT_OFFSET] = { "weight_offset", PARAM_REAL, NULL, true, 0, "1: zero-centred weight, 0: plain" },
	[P_MIN_SCALE] = { "min_scale", PARAM_REAL, NULL, false, 0x1p-18, "the least scale; a row of zeros has it" },
	{ 0 }
};
static const struct site_spec sites[] = {
	[SITE_RESIDUAL] = { "residual", "x + residual, before the norm", 0, 0 },
	[SITE_MEAN_SQUARE] = { "mean_square", "mean x^2", 0, 0 },
	[SITE_INVERSE] = { "inverse_root", "(mean x^2 + eps)^-1/2", 0, 0 },
	[SITE_XHAT] = { "xhat", "the normed x, before its weight", 0, 0 },
	[SITE_WEIGHT] = { "weight", "offset + weight", 0, 0 },
	[SITE_WEIGHTED] = { "weighted", "z, the normed x times its weight, before it is quantised", 0, 0 },
	[SITE_RECIPROCAL] = { "reciprocal", "1 / scale", 0, 0 },
	[SITE_SCALE] = { "scale", "the scale, which also divides", 0, 1 + OUT_SCALE },
	[SITE_Y] = { "y", "z / scale", 0, 1 + OUT_Y },
	{ 0 }
};
static const struct fault_spec faults[] = {
	[SCALE_DIVIDED_FOR_MULTIPLIED] = { "scale_divided_for_multiplied", "z scale for z / scale", "", 0, 0, 0, 0 },
	[SCALE_MISSING] = { "scale_missing", "y = z; the scale is only written", "transformers#48349", 0, 0, 0, 0 },
	[SCALE_INVERTED] = { "scale_inverted", "1 / scale is written for scale", "", 0, 0, 0, 0 },
	[DOUBLE_ROUNDING] = { "double_rounding", "z / scale rounded to bf16, then to e4m3", "flashinfer#4167",
		0, true, SITE_Y, FMT_BF16 },
	[SCALE_ROUNDED_UP] = { "scale_rounded_up_without_requantising", "scale written as a power of two, y by the old one",
		"transformers#47030", 0, 0, 0, 0 },
	[LARGEST_WITHOUT_SIGN] = { "largest_without_sign", "max z for max |z|", "", 0, 0, 0, 0 },
	[LARGEST_OF_X] = { "largest_of_x", "max |x| for max |z|", "", 0, 0, 0, 0 },
	[LARGEST_OVER_240] = { "largest_over_240", "240, the largest of another e4m3, for 448", "", 0, 0, 0, 0 },
	[MIN_SCALE_MISSING] = { "min_scale_missing", "scale = max|z| / 448, however small", "", 0, 0, 0, 0 },
	[SCALE_IN_BF16] = { "scale_in_bf16", "the scale rounded to bf16", "", 0, true, SITE_SCALE, FMT_BF16 },
	[PLAIN_WEIGHT_FOR_ZERO_CENTRED] = { "plain_weight_for_zero_centred", "w for 1 + w", "", 0, 0, 0, 0 },
	[EPS_MISSING] = { "eps_missing", "eps = 0", "", 0, 0, 0, 0 },
	[CAST_BEFORE_WEIGHT] = { "cast_before_weight", "bf16(xhat) w for xhat w", "gemma_pytorch#67", 0, true, SITE_XHAT, FMT_BF16 },
	[ROUNDED_BEFORE_QUANTISATION] = { "rounded_before_quantisation", "z rounded to bf16", "",
		0, true, SITE_WEIGHTED, FMT_BF16 },
	[RESIDUAL_ROUNDED_FIRST] = { "residual_rounded_first", "the norm of bf16(x + residual)", "flashinfer#587",
		0, true, SITE_RESIDUAL, FMT_BF16 },
	{ 0 }
};
#define BF16 { true, FMT_BF16, ROUND_NEAREST_EVEN }
static const struct contract contracts[] = {
	{ "f32", "all in float32 until the store as e4m3, in one pass", 0, 0, {{ 0 }}, NULL },
	{ "residual_bf16", "the sum with the residual rounded to bf16 before the norm", 0, 0, { [SITE_RESIDUAL] = BF16 }, NULL },
	{ "weighted_bf16", "the same, and the norm's output rounded to bf16, as separate kernels hand it on", 0, 0,
		{ [SITE_RESIDUAL] = BF16, [SITE_WEIGHTED] = BF16 }, NULL },
	{ 0 }
};

const struct op op_rmsnorm_fp8 = {
	.name = "rmsnorm_fp8", .what = "(x + residual) (mean x^2 + eps)^-1/2 (offset + weight) in e4m3, a scale for each row",
	.dims = { "R", "D" }, .in = in, .out = out, .params = params, .sites = sites, .faults = faults,
	.contracts = contracts, .forms = { { "rows", row } }, .check = check, .pieces = pieces
};
