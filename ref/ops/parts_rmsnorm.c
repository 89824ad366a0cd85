/* What other ops take of rmsnorm. The order is that of its sites and faults in ref/ops/rmsnorm.op. */
#include "ref/ops/parts.h"

enum {
	SITE_RESIDUAL, SITE_SQUARES, SITE_MEAN_SQUARE, SITE_INVERSE, SITE_XHAT, SITE_SCALE, SITE_WEIGHTED, SITE_GATE,
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

/* m <- (m + eps)^-1/2 */
static void inverse_root(calc *c, num m, double epsilon)
{
	num eps = c_num(c);

	c_set(c, eps, c_fault(c, EPS_WRONG) ? c_fault_value(c, EPS_WRONG) : c_fault(c, EPS_MISSING) ? 0 : epsilon);
	if (c_fault(c, EPS_OUTSIDE_ROOT)) {
		c_map(c, m, FN_SQRT, m);
		c_add(c, m, m, eps);
		c_map(c, m, FN_RECIP, m);
	} else {
		c_add(c, m, m, eps);
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

/* w <- offset + w */
static void rms_offset(calc *c, vec w, double offset)
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
