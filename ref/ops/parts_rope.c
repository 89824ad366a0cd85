/* What other ops take of rope. The order is that of its sites and faults in ref/ops/rope.op. */
#include <math.h>

#include "ref/ops/parts.h"

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
