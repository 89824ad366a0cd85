/* qk_norm_rope: heads of q and k normed by 1 + weight, their first rotary_dim dimensions turned; each q's gate split off. */
#include <string.h>

#include "strangers.h"

enum {
	KEYS_OF_NEXT_POSITION = 1, KEY_HEADS_NORMED_TOGETHER, GATE_OF_NEXT_HEAD, WEIGHT_HALVES_SWAPPED, NORM_OF_TURNED_PART,
	STALE_NORM_IN_HEADS,
	SINE_OF_NEXT_PAIR
};

static const struct flaw flaws[] = {
	{ "keys turn by the next token's position", DRAWN, NULL, NULL },
	{ "key heads are normed together", SIMPLE, "f32", NULL },
	{ "each head has the next head's gate", SIMPLE, NULL, NULL },
	{ "the weight's two rotary halves are swapped", DRAWN, NULL, NULL },
	{ "the mean square is of the dimensions that turn", DRAWN, NULL, NULL },
	{ "odd query heads keep the norm of the head before", SIMPLE, "f32", NULL },
	{ "the sine is the next pair's", DRAWN, NULL, NULL },
	{ 0 }
};

struct sizes { size_t T, Hq, Hk, D, rotary; float eps, theta; };

static float mean_square(const struct point *p, const struct sizes *s, const float *x)
{
	size_t n = p->fault == NORM_OF_TURNED_PART ? s->rotary : s->D;

	return squares(p->o.fused.order, x, n) / (float)n;
}

/* y [D] <- x normed by m, weighed and turned. */
static void head(const struct point *p, const struct sizes *s, const float *x, const float *w, float m, const float *co,
	const float *si, float *y)
{
	size_t half = s->rotary / 2;
	float rstd = 1 / sqrtf(m + s->eps);

	for (size_t d = 0; d < s->D; d++) {
		size_t at = p->fault == WEIGHT_HALVES_SWAPPED && d < s->rotary ? (d + half) % s->rotary : d;
		y[d] = rounded(p->o.fused.between, x[d] * rstd * (1 + w[at]));
	}
	for (size_t i = 0; i < half; i++) {
		float a = y[i], b = y[i + half], c = co[i], t = si[p->fault == SINE_OF_NEXT_PAIR ? (i + 1) % half : i];
		y[i] = a * c - b * t;
		y[i + half] = b * c + a * t;
	}
}

static void angles(const struct sizes *s, float position, float *co, float *si)
{
	for (size_t i = 0; i < s->rotary / 2; i++) {
		float angle = position * powf(s->theta, -(float)(2 * i) / (float)s->rotary);
		co[i] = cosf(angle), si[i] = sinf(angle);
	}
}

static void queries(const struct point *p, const struct sizes *s, const float *qg, const float *w, const float *co,
	const float *si, float *q, float *gate)
{
	float m = 0;

	for (size_t h = 0; h < s->Hq; h++) {
		const float *x = qg + h * 2 * s->D;
		size_t of = p->fault == GATE_OF_NEXT_HEAD ? (h + 1) % s->Hq : h;
		if (p->fault != STALE_NORM_IN_HEADS || h % 2 == 0) m = mean_square(p, s, x);
		head(p, s, x, w, m, co, si, q + h * s->D);
		memcpy(gate + h * s->D, qg + of * 2 * s->D + s->D, s->D * sizeof *gate);
	}
}

static void keys(const struct point *p, const struct sizes *s, const float *x, const float *w, const float *co, const float *si,
	float *k)
{
	float all = 0;

	for (size_t h = 0; h < s->Hk; h++) all += mean_square(p, s, x + h * s->D) / (float)s->Hk;
	for (size_t h = 0; h < s->Hk; h++)
		head(p, s, x + h * s->D, w, p->fault == KEY_HEADS_NORMED_TOGETHER ? all : mean_square(p, s, x + h * s->D), co, si,
			k + h * s->D);
}

static void run(const struct point *p, struct capture *c)
{
	struct sizes s = { dim_of(c, "k", 0), dim_of(c, "qg", 1), dim_of(c, "k", 1), dim_of(c, "k", 2),
		(size_t)capture_number(c, "rotary_dim", 0),
		(float)capture_number(c, "eps", 1e-6), (float)capture_number(c, "theta", 0) };
	const float *qg = input(c, "qg"), *x = input(c, "k"), *wq = input(c, "q_weight"), *wk = input(c, "k_weight"),
		*positions = input(c, "positions");
	float *q = floats(s.T * s.Hq * s.D), *gate = floats(s.T * s.Hq * s.D), *k = floats(s.T * s.Hk * s.D),
		*co = floats(s.rotary), *si = floats(s.rotary);

	for (size_t t = 0; t < s.T; t++) {
		size_t at = t * s.Hq * s.D;
		angles(&s, positions[t], co, si);
		queries(p, &s, qg + 2 * at, wq, co, si, q + at, gate + at);
		if (p->fault == KEYS_OF_NEXT_POSITION) angles(&s, positions[(t + 1) % s.T], co, si);
		keys(p, &s, x + t * s.Hk * s.D, wk, co, si, k + t * s.Hk * s.D);
	}
	output(c, "q", q);
	output(c, "k", k);
	output(c, "gate", gate);
}

static void draw(struct point *p, struct dice *d)
{
	struct made *m = &p->made;
	size_t D = ONE_OF(d, 48, 64, 96), rotary = D / 2;
	bool wide = p->number > 0 ? p->number % 2 : chance(d, 50);
	enum dtype type = wide ? DT_F32 : DT_BF16;

	p->o.fused = (struct fused){ (enum order)pick(d, ORDERS), wide ? F32 : BF16 };
	p->class = wide ? "f32" : "weighted in bf16";
	*m = (struct made){ .note = "" };
	made_params(m, "{\"eps\": 1e-6, \"rotary_dim\": %zu, \"theta\": 5e5}", rotary);
	made_dim(m, "T", between(d, 12, 24));
	made_dim(m, "Hq", between(d, 3, 6));
	made_dim(m, "E", 2 * D);
	made_dim(m, "Hk", 2);
	made_dim(m, "D", D);
	made_in(m, "qg", "T,Hq,E", type, DRAW_NORMAL, 0, 1);
	made_in(m, "k", "T,Hk,D", type, DRAW_NORMAL, 0, 1);
	made_in(m, "q_weight", "D", type, DRAW_NORMAL, 0, 0.2);
	made_in(m, "k_weight", "D", type, DRAW_NORMAL, 0, 0.2);
	made_in(m, "positions", "T", DT_I32, DRAW_UNIFORM, 0, 500);
	made_out(m, "q", "T,Hq,D", type);
	made_out(m, "k", "T,Hk,D", type);
	made_out(m, "gate", "T,Hq,D", type);
}

static void simple(struct point *p) { p->o.fused = (struct fused){ LANES, F32 }; }
static void exact(struct point *p) { p->o.fused.between = F32; }
static void suit(struct point *p) { (void)p; }
static void say_fused(const struct point *p, char *text, size_t size)
{
	say(text, size, "weighted %s; sums %s", number_name[p->o.fused.between], order_name[p->o.fused.order]);
}

static const char *const f32[] = { "f32", NULL };
const struct family qk_family = {
	.op = "qk_norm_rope", .f32 = f32, .points = 6, .small = 1, .flaws = flaws, .draw = draw, .simple = simple, .suit = suit,
	.exact = exact,
	.say = say_fused, .run = run
};
