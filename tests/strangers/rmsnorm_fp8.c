/* rmsnorm_fp8: z = x' (mean x'^2 + eps)^-1/2 (offset + weight), x' = x + residual; y = z / scale in e4m3, scale = max(max|z| /
 * 448, min_scale). */
#include "strangers.h"

enum { SCALE_OF_TWO_ROWS = 1, LARGEST_OF_FIRST_HALF, TRUNCATED, CUT_AT_240, SCALE_OF_ROW_BEFORE, RESIDUAL_NORMED, POWER_OF_TWO };

static const struct flaw flaws[] = {
	{ "two rows share the larger one's scale", SIMPLE, "f32", NULL },
	{ "the largest of the row's first half", DRAWN, NULL, NULL },
	{ "y is truncated to e4m3", SIMPLE, NULL, "y" },
	{ "y is cut off at 240", DRAWN, NULL, NULL },
	{ "each row's scale is written a row late", SIMPLE, NULL, NULL },
	{ "residual_out is the sum after its norm", DRAWN, NULL, NULL },
	{ "the scale is rounded up to a power of two, and y goes by it", SIMPLE, "f32", NULL },
	{ 0 }
};

/* Towards 0, onto the grid of e4m3: 4 significant bits, spacing 2^-9 at least. */
static float truncated(float x)
{
	int e;

	frexpf(x, &e);
	float ulp = ldexpf(1, e - 4 > -9 ? e - 4 : -9);
	return truncf(x / ulp) * ulp;
}

static float quantised(const struct point *p, float z, float reciprocal)
{
	float y = fminf(fmaxf(z * reciprocal, -448), 448);

	if (p->fault == CUT_AT_240) y = fminf(fmaxf(y, -240), 240);
	return p->fault == TRUNCATED ? truncated(y) : y;
}

/* z [D] of a row; h [D] is its sum with the residual. */
static void norm(const struct point *p, const float *h, const float *w, float eps, float offset, size_t D, float *z)
{
	float rstd = 1 / sqrtf(squares(p->o.fused.order, h, D) / (float)D + eps);

	for (size_t d = 0; d < D; d++) z[d] = rounded(p->o.fused.between, h[d] * rstd * (w[d] + offset));
}

static float largest(const struct point *p, const float *z, size_t D)
{
	size_t n = p->fault == LARGEST_OF_FIRST_HALF ? D / 2 : D;
	float m = 0;

	for (size_t d = 0; d < n; d++) m = fmaxf(m, fabsf(z[d]));
	return m;
}

static void run(const struct point *p, struct capture *c)
{
	size_t R = dim_of(c, "x", 0), D = dim_of(c, "x", 1);
	const float *x = input(c, "x"), *w = input(c, "weight"), *residual = input(c, "residual");
	float eps = (float)capture_number(c, "eps", 1e-6), offset = (float)capture_number(c, "weight_offset", 0),
		least = (float)capture_number(c, "min_scale", 0x1p-18);
	float *h = floats(R * D), *z = floats(R * D), *y = floats(R * D), *m = floats(R), *scale = floats(R);

	for (size_t r = 0; r < R; r++) {
		for (size_t i = r * D; i < r * D + D; i++) h[i] = x[i] + (residual ? residual[i] : 0);
		norm(p, h + r * D, w, eps, offset, D, z + r * D);
		m[r] = largest(p, z + r * D, D);
	}
	for (size_t r = 0; r < R; r++) {
		float most = p->fault == SCALE_OF_TWO_ROWS && (r ^ 1) < R ? fmaxf(m[r], m[r ^ 1]) : m[r],
			own = fmaxf(most / 448, least);
		if (p->fault == POWER_OF_TWO) own = exp2f(ceilf(log2f(own)));
		for (size_t i = r * D; i < r * D + D; i++) {
			y[i] = quantised(p, z[i], 1 / own);
			if (p->fault == RESIDUAL_NORMED) h[i] = z[i];
		}
		scale[p->fault == SCALE_OF_ROW_BEFORE ? (r + 1) % R : r] = own;
	}
	output(c, "y", y);
	output(c, "scale", scale);
	output(c, "residual_out", h);
}

static void draw(struct point *p, struct dice *d)
{
	struct made *m = &p->made;
	bool wide = p->number > 0 ? p->number % 2 : chance(d, 50), residual = p->fault == RESIDUAL_NORMED || chance(d, 40),
		offset = chance(d, 50);
	enum dtype type = wide ? DT_F32 : DT_BF16;

	p->o.fused = (struct fused){ (enum order)pick(d, ORDERS), wide ? F32 : BF16 };
	p->class = wide ? "f32" : "weighted in bf16";
	*m = (struct made){ .note = residual ? "residual" : "" };
	made_params(m, "{\"eps\": 1e-6, \"weight_offset\": %d}", offset);
	made_dim(m, "R", 2 * between(d, 5, 12));
	made_dim(m, "D", ONE_OF(d, 96, 256, 520, 1024));
	made_in(m, "x", "R,D", type, DRAW_NORMAL, 0, 1);
	made_in(m, "weight", "D", type, DRAW_NORMAL, offset ? 0 : 1, 0.2);
	if (residual) made_in(m, "residual", "R,D", type, DRAW_NORMAL, 0, 2);
	made_out(m, "y", "R,D", DT_F8_E4M3);
	made_out(m, "scale", "R", DT_F32);
	if (residual) made_out(m, "residual_out", "R,D", type);
}

static void simple(struct point *p) { p->o.fused = (struct fused){ LANES, F32 }; }
static void exact(struct point *p) { p->o.fused.between = F32; }
static void suit(struct point *p) { (void)p; }
static void say_fused(const struct point *p, char *text, size_t size)
{
	say(text, size, "z %s; sums %s", number_name[p->o.fused.between], order_name[p->o.fused.order]);
}

static const char *const f32[] = { "f32", NULL };
const struct family fp8_family = {
	.op = "rmsnorm_fp8", .f32 = f32, .points = 6, .small = 1, .flaws = flaws, .draw = draw, .simple = simple, .suit = suit,
	.exact = exact,
	.say = say_fused, .run = run
};
