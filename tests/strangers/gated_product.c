/* gated_product: y = sigmoid(g) x + addend, g given or the product of hidden and gate_weight. */
#include "strangers.h"

enum { GATE_BY_TANH = 1, ADDEND_OF_NEXT_ROW, SHORT_PRODUCT, GATED_TWICE, GATE_TURNED_ROUND, ADDEND_SUBTRACTED, GATE_OF_NEIGHBOUR,
	FIRST_GATES_REPEATED };

static const struct flaw flaws[] = {
	{ "the gate is (1 + tanh(g)) / 2", SIMPLE, "f32", NULL },
	{ "the addend is the next row's", DRAWN, NULL, NULL },
	{ "the product leaves the last 16 of the hidden state out", DRAWN, NULL, NULL },
	{ "x is gated twice", SIMPLE, NULL, NULL },
	{ "the gate is 1 - sigmoid(g)", DRAWN, NULL, NULL },
	{ "the addend is subtracted", SIMPLE, "f32", NULL },
	{ "neighbouring elements' gates are swapped", SIMPLE, NULL, NULL },
	{ "the gates of a row's first 32 elements serve all", DRAWN, NULL, NULL },
	{ 0 }
};

struct inputs { const float *x, *gate, *hidden, *weight, *addend; size_t R, D, G, E; };

static float gate_at(const struct point *p, const struct inputs *in, size_t r, size_t d)
{
	if (p->fault == GATE_OF_NEIGHBOUR && (d ^ 1) < in->D) d ^= 1;
	if (p->fault == FIRST_GATES_REPEATED) d %= 32;
	if (in->gate) return in->gate[r * in->G + (in->G == 1 ? 0 : d)];
	return dot(p->o.fused.order, 0, in->hidden + r * in->E, 1, in->weight, 1, p->fault == SHORT_PRODUCT ? in->E - 16 : in->E);
}

static float element(const struct point *p, const struct inputs *in, size_t r, size_t d)
{
	float g = gate_at(p, in, r, d), s = p->fault == GATE_BY_TANH ? (1 + tanhf(g)) / 2 : sigmoid(g), y = in->x[r * in->D + d];

	if (p->fault == GATE_TURNED_ROUND) s = 1 - s;
	y *= p->fault == GATED_TWICE ? s * s : s;
	if (!in->addend) return y;
	float add = in->addend[(p->fault == ADDEND_OF_NEXT_ROW ? (r + 1) % in->R : r) * in->D + d];
	return rounded(p->o.fused.between, y) + (p->fault == ADDEND_SUBTRACTED ? -add : add);
}

static void run(const struct point *p, struct capture *c)
{
	struct inputs in = { input(c, "x"), input(c, "gate"), input(c, "hidden"), input(c, "gate_weight"), input(c, "addend"),
		dim_of(c, "x", 0), dim_of(c, "x", 1), dim_of(c, "gate", 1), dim_of(c, "hidden", 1) };
	float *y = floats(in.R * in.D);

	for (size_t i = 0; i < in.R * in.D; i++) y[i] = element(p, &in, i / in.D, i % in.D);
	output(c, "y", y);
}

static void draw(struct point *p, struct dice *d)
{
	struct made *m = &p->made;
	int f = p->fault;
	bool wide = p->number > 0 ? p->number % 2 : chance(d, 50), hidden = f == SHORT_PRODUCT
		|| (f != GATE_OF_NEIGHBOUR && f != FIRST_GATES_REPEATED && chance(d, 50));
	bool added = !wide || f == ADDEND_OF_NEXT_ROW || f == ADDEND_SUBTRACTED || chance(d, 50);
	enum dtype type = wide ? DT_F32 : DT_BF16;

	p->o.fused = (struct fused){ (enum order)pick(d, ORDERS), wide ? F32 : BF16 };
	p->class = wide ? "f32" : "product in bf16";
	*m = (struct made){ .note = added ? "addend" : "" };
	made_params(m, "{}");
	made_dim(m, "R", between(d, 8, 20));
	made_dim(m, "D", ONE_OF(d, 96, 200, 512));
	if (hidden) made_dim(m, "E", 64);
	else made_dim(m, "G", made_size(m, "D"));
	made_in(m, "x", "R,D", type, DRAW_NORMAL, 0, 1);
	if (!hidden) made_in(m, "gate", "R,G", type, DRAW_NORMAL, 0, 2);
	if (hidden) made_in(m, "hidden", "R,E", type, DRAW_NORMAL, 0, 1);
	if (hidden) made_in(m, "gate_weight", "E", type, DRAW_NORMAL, 0, 0.2);
	if (added) made_in(m, "addend", "R,D", type, DRAW_NORMAL, 0, 1);
	made_out(m, "y", "R,D", type);
}

static void simple(struct point *p) { p->o.fused = (struct fused){ LANES, F32 }; }
static void exact(struct point *p) { p->o.fused.between = F32; }
static void suit(struct point *p) { (void)p; }
static void say_fused(const struct point *p, char *text, size_t size)
{
	say(text, size, "product %s; sums %s", number_name[p->o.fused.between], order_name[p->o.fused.order]);
}

static const char *const f32[] = { "f32", NULL };
const struct family product_family = {
	.op = "gated_product", .f32 = f32, .points = 6, .small = 1, .flaws = flaws, .draw = draw, .simple = simple, .suit = suit,
	.exact = exact,
	.say = say_fused, .run = run
};
