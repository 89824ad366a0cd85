/* rmsnorm: y = x' (mean x'^2 + eps)^-1/2 (offset + weight) silu(gate), x' = x + residual. */
#include "strangers.h"

enum { MEAN_MAGNITUDE = 1, WEIGHT_OF_ROW, NEIGHBOURS_SWAPPED, HALF_WITHOUT_RESIDUAL, FIRST_PART_FOR_ALL, QUICK_GATE,
	WEIGHT_SQUARED, RESIDUAL_TWICE };

static const struct flaw flaws[] = {
	{ "the mean of |x| for the root of the mean square", SIMPLE, "f32", NULL },
	{ "the weight is indexed by the row", DRAWN, NULL, NULL },
	{ "weights of neighbouring elements are swapped", DRAWN, NULL, NULL },
	{ "the upper half of a row is normed without its residual", SIMPLE, NULL, NULL },
	{ "each part of the sum takes the first part's", DRAWN, NULL, NULL },
	{ "the gate's sigmoid is of 1.702 x", SIMPLE, "f32", NULL },
	{ "the weight is applied twice", DRAWN, NULL, NULL },
	{ "the residual is added twice", SIMPLE, NULL, NULL },
	{ 0 }
};

/* Σ x² in so many parts, then theirs; each x² rounded where all is. */
static float sum_of(const struct norm *o, int fault, const float *x, size_t D)
{
	static const float one = 1;
	size_t n = (D + o->blocks - 1) / o->blocks;
	float *x2 = floats(D), sum = 0;

	for (size_t i = 0; o->narrow && i < D; i++) x2[i] = rounded(BF16, x[i] * x[i]);
	for (size_t b = 0; b < o->blocks; b++) {
		size_t from = b * n < D ? b * n : D, to = from + n < D ? from + n : D;
		if (fault == FIRST_PART_FOR_ALL) from = 0, to = n;
		sum += o->narrow ? dot(o->order, 0, x2 + from, 1, &one, 0, to - from) : squares(o->order, x + from, to - from);
	}
	return sum;
}

static enum number narrow(const struct norm *o) { return o->narrow ? BF16 : F32; }

/* (mean x² + eps)^-1/2, of h [D] */
static float inverse_root(const struct norm *o, int fault, const float *h, size_t D, float eps)
{
	size_t mark = floats_mark();
	float m = 0;

	if (fault == MEAN_MAGNITUDE) {
		for (size_t i = 0; i < D; i++) m += fabsf(h[i]) / (float)D;
		m = m * m;
	} else {
		float sum = sum_of(o, fault, h, D);
		m = o->by_reciprocal ? sum * (1 / (float)D) : sum / (float)D;
	}
	m = rounded(narrow(o), rounded(narrow(o), m) + eps);
	floats_release(mark);
	return rounded(narrow(o), o->root == RSQRT ? (float)(1 / sqrt((double)m)) : 1 / sqrtf(m));
}

static float gated(const struct norm *o, int fault, float y, float g)
{
	float s = fault == QUICK_GATE ? sigmoid(1.702f * g) : sigmoid(g);

	if (o->gate_parts) return rounded(narrow(o), y * g) * rounded(narrow(o), s);
	return y * rounded(narrow(o), g * rounded(narrow(o), s));
}

static size_t weight_at(int fault, size_t r, size_t d, size_t D)
{
	if (fault == WEIGHT_OF_ROW) return r % D;
	return fault == NEIGHBOURS_SWAPPED && (d ^ 1) < D ? d ^ 1 : d;
}

static float element(const struct point *p, float x, float rstd, float m, float w)
{
	const struct norm *o = &p->o.norm;
	float y;

	if (o->weight_first && o->xhat == F32 && !o->narrow) y = x * ((o->root == OVER_ROOT ? 1 / m : rstd) * w);
	else y = rounded(o->xhat, o->root == OVER_ROOT && !o->narrow ? x / m : x * rstd) * w;
	if (p->fault == WEIGHT_SQUARED) y *= w;
	return rounded(o->weighted, y);
}

static void run(const struct point *p, struct capture *c)
{
	const struct norm *o = &p->o.norm;
	size_t R = dim_of(c, "x", 0), D = dim_of(c, "x", 1);
	const float *x = input(c, "x"), *w = input(c, "weight"), *residual = input(c, "residual"), *gate = input(c, "gate");
	float eps = (float)capture_number(c, "eps", 1e-6), offset = (float)capture_number(c, "weight_offset", 0);
	float *y = floats(R * D), *sums = floats(R * D), *h = floats(D);

	for (size_t r = 0; r < R; r++) {
		for (size_t d = 0; d < D; d++) {
			float add = residual ? residual[r * D + d] : 0;
			if (p->fault == RESIDUAL_TWICE) add += add;
			sums[r * D + d] = x[r * D + d] + add;
			h[d] = residual ? rounded(o->residual, sums[r * D + d]) : x[r * D + d];
		}
		float rstd = inverse_root(o, p->fault, h, D, eps), m = 1 / rstd;
		for (size_t d = 0; d < D; d++) {
			float weight = rounded(narrow(o), w[weight_at(p->fault, r, d, D)] + offset);
			if (p->fault == HALF_WITHOUT_RESIDUAL && d >= D / 2) h[d] = x[r * D + d];
			y[r * D + d] = element(p, h[d], rstd, m, weight);
			if (gate) y[r * D + d] = gated(o, p->fault, y[r * D + d], gate[r * D + d]);
		}
	}
	output(c, "y", y);
	output(c, "residual_out", sums);
}

enum { MUST_ADD = 1, MUST_GATE = 2, FEW_ROWS = 4 };
static void draw_case(struct point *p, struct dice *d, int wants, bool wide)
{
	struct made *m = &p->made;
	enum dtype type = wide && chance(d, 50) ? DT_F32 : DT_BF16;
	bool offset = chance(d, 50), residual = wants & MUST_ADD || (!(wants & MUST_GATE) && chance(d, 40)),
		gate = wants & MUST_GATE || (!residual && chance(d, 40));

	*m = (struct made){ .note = "" };
	made_params(m, "{\"eps\": 1e-6, \"weight_offset\": %d%s}", offset, gate ? ", \"gate\": \"silu\"" : "");
	made_dim(m, "R", wants & FEW_ROWS ? 12 : between(d, 8, 48));
	made_dim(m, "D", ONE_OF(d, 64, 128, 200, 256, 512, 896, 1000, 1536));
	made_in(m, "x", "R,D", type, DRAW_NORMAL, 0, (double[]){ 1, 0.05, 8 }[pick(d, 3)]);
	made_in(m, "weight", "D", type, DRAW_NORMAL, offset ? 0 : 1, 0.2);
	if (residual) made_in(m, "residual", "R,D", type, DRAW_NORMAL, 0, (double[]){ 1, 4 }[pick(d, 2)]);
	if (gate) made_in(m, "gate", "R,D", type, DRAW_NORMAL, 0, 1.5);
	made_out(m, "y", "R,D", type);
	if (residual) made_out(m, "residual_out", "R,D", type);
	m->note = residual ? "residual" : gate ? "gate" : "";
}

static void draw(struct point *p, struct dice *d)
{
	struct norm *o = &p->o.norm;
	size_t kind = p->number > 0 ? (size_t)p->number % 6 : pick(d, 6);
	static const char *const class[] = { "f32", "xhat in bf16", "weighted in bf16", "residual in bf16", "some in bf16",
		"all in bf16" };

	*o = (struct norm){ .weight_first = chance(d, 30) };
	o->gate_parts = chance(d, 50), o->by_reciprocal = chance(d, 50);
	o->blocks = ONE_OF(d, 1, 2, 4, 8);
	o->root = (enum root)pick(d, 3), o->order = (enum order)pick(d, ORDERS);
	p->class = class[kind];
	if (kind == 1 || kind == 5 || (kind == 4 && chance(d, 50))) o->xhat = BF16;
	if (kind == 2 || kind == 5 || (kind == 4 && chance(d, 50))) o->weighted = BF16;
	if (kind == 3 || kind == 5 || (kind == 4 && chance(d, 50))) o->residual = BF16;
	o->narrow = kind == 5;
	draw_case(p, d, kind == 3 ? MUST_ADD : kind == 2 ? MUST_GATE : 0, kind == 0);
}

static void simple(struct point *p) { p->o.norm = (struct norm){ .blocks = 1, .root = ONE_OVER_ROOT }; }

static void exact(struct point *p)
{
	p->o.norm.residual = p->o.norm.xhat = p->o.norm.weighted = F32;
	p->o.norm.narrow = false;
}

static void suit(struct point *p)
{
	int f = p->fault, wants = f == HALF_WITHOUT_RESIDUAL || f == RESIDUAL_TWICE ? MUST_ADD : f == QUICK_GATE ? MUST_GATE : 0;

	if (f == FIRST_PART_FOR_ALL && p->o.norm.blocks == 1) p->o.norm.blocks = 4;
	draw_case(p, &(struct dice){ p->seed ^ 1 }, wants | FEW_ROWS, p->o.norm.xhat == F32 && !p->o.norm.narrow);
}

static void say_norm(const struct point *p, char *text, size_t size)
{
	const struct norm *o = &p->o.norm;

	if (o->narrow) say(text, size, "every value bf16; ");
	else say(text, size, "%s%s%s", o->residual ? "sum bf16; " : "", o->xhat ? "xhat bf16; " : "",
		o->weighted ? "weighted bf16; " : "");
	say(text, size, "%s; sums %s in %zu parts%s; %s%s", (const char *[]){ "x rsqrt(m)", "x (1/sqrt(m))",
		"x / sqrt(m)" }[o->root], order_name[o->order],
		o->blocks, o->by_reciprocal ? ", times 1/D" : "", o->weight_first ? "x (r w)" : "(x r) w",
		o->gate_parts ? ", (y g) sigmoid(g)" : "");
}

static const char *const f32[] = { "f32", NULL };
const struct family rmsnorm_family = {
	.op = "rmsnorm", .f32 = f32, .points = 28, .small = 2, .flaws = flaws, .draw = draw, .simple = simple, .suit = suit,
	.exact = exact,
	.say = say_norm, .run = run
};
