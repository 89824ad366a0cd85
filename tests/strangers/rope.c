/* rope: pairs of the first rotary_dim dimensions turn by position theta^(-2i/rotary_dim). */
#include "strangers.h"

enum {
	HALF_POSITIONS = 1, FREQUENCY_FROM_ONE, SINE_OF_NEIGHBOUR, COSINE_FOR_SINE, LAST_HEAD_STILL, TABLE_TOO_SHORT,
	TAIL_OF_FIRST_HEAD,
	WRITTEN_AS_NEIGHBOURS, SCALED_TABLE
};

static const struct flaw flaws[] = {
	{ "positions are halved", DRAWN, NULL, NULL },
	{ "frequencies are counted from 1", SIMPLE, "f32", NULL },
	{ "the sine is the neighbouring pair's", DRAWN, NULL, NULL },
	{ "the second half is x2 cos + x1 cos", SIMPLE, NULL, NULL },
	{ "the last head is copied", DRAWN, NULL, NULL },
	{ "positions beyond a table of 1000 take its last row", SIMPLE, NULL, NULL },
	{ "what does not turn is copied from the first head", SIMPLE, "f32", NULL },
	{ "read as halves, written as neighbours", DRAWN, NULL, NULL },
	{ "cosine and sine are 1.0693 times too large", DRAWN, NULL, NULL },
	{ 0 }
};

static float frequency(const struct turn *o, float theta, size_t i, size_t rotary)
{
	float x = (float)(2 * i) / (float)rotary;

	switch (o->frequency) {
	case POWER: return powf(theta, -x);
	case RECIPROCAL_POWER: return 1 / powf(theta, x);
	case EXP2_LOG2: return exp2f(-x * log2f(theta));
	default: return expf(-x * logf(theta));
	}
}

/* Of pair i at a position. */
static void table(const struct point *p, float theta, size_t i, size_t rotary, float position, float *co, float *si)
{
	const struct turn *o = &p->o.turn;
	size_t of = p->fault == FREQUENCY_FROM_ONE ? i + 1 : i;

	if (p->fault == HALF_POSITIONS) position /= 2;
	if (p->fault == TABLE_TOO_SHORT) position = fminf(position, 999);
	if (o->wide) {
		double angle = (double)position * pow((double)theta, -2.0 * (double)of / (double)rotary);
		*co = (float)cos(angle), *si = (float)sin(angle);
	} else {
		float angle = position * frequency(o, theta, of, rotary);
		*co = cosf(angle), *si = sinf(angle);
	}
	if (p->fault == SCALED_TABLE) *co *= 1.0693f, *si *= 1.0693f;
	*co = rounded(o->table, *co), *si = rounded(o->table, *si);
}

/* a c + b s */
static float turned_by(const struct turn *o, float a, float c, float b, float s)
{
	double first = (double)a * (double)c, second = (double)b * (double)s;

	switch (o->sum) {
	case FUSED_COS: return (float)(first + (double)rounded(o->value, (float)second));
	case FUSED_SIN: return (float)((double)rounded(o->value, (float)first) + second);
	default: return rounded(o->value, a * c) + rounded(o->value, b * s);
	}
}

static void turn_row(const struct point *p, const float *x, float *y, size_t rotary, bool neighbours, const float *co,
	const float *si)
{
	for (size_t i = 0; i < rotary / 2; i++) {
		size_t a = neighbours ? 2 * i : i, b = neighbours ? 2 * i + 1 : i + rotary / 2;
		float c = co[i], s = si[p->fault == SINE_OF_NEIGHBOUR && (i ^ 1) < rotary / 2 ? i ^ 1 : i];
		float first = turned_by(&p->o.turn, x[a], c, -x[b], s),
			second = turned_by(&p->o.turn, x[b], c, x[a], p->fault == COSINE_FOR_SINE ? c : s);
		if (p->fault == WRITTEN_AS_NEIGHBOURS) a = neighbours ? i : 2 * i, b = neighbours ? i + rotary / 2 : 2 * i + 1;
		y[a] = first;
		y[b] = second;
	}
}

static void run(const struct point *p, struct capture *c)
{
	size_t T = dim_of(c, "x", 0), H = dim_of(c, "x", 1), D = dim_of(c, "x", 2),
		rotary = (size_t)capture_number(c, "rotary_dim", 0);
	bool neighbours = capture_string(c, "layout", "half")[0] == 'i';
	float theta = (float)capture_number(c, "theta", 0), *co = floats(rotary), *si = floats(rotary);
	const float *x = input(c, "x"), *positions = input(c, "positions");
	float *y = floats_of(x, T * H * D);

	for (size_t t = 0; t < T; t++) {
		for (size_t i = 0; i < rotary / 2; i++) table(p, theta, i, rotary, positions[t], co + i, si + i);
		for (size_t h = 0; h < H; h++) {
			size_t at = (t * H + h) * D;
			if (p->fault == LAST_HEAD_STILL && h + 1 == H) continue;
			turn_row(p, x + at, y + at, rotary, neighbours, co, si);
			for (size_t i = rotary; p->fault == TAIL_OF_FIRST_HEAD && i < D; i++) y[at + i] = x[t * H * D + i];
		}
	}
	output(c, "y", y);
}

static void draw_case(struct point *p, struct dice *d, bool tail, bool wide)
{
	struct made *m = &p->made;
	enum dtype type = wide && chance(d, 50) ? DT_F32 : DT_BF16;
	size_t D = ONE_OF(d, 48, 64, 96, 128), rotary = tail ? D / 3 / 4 * 4 : (size_t[]){ D, D, D / 2, D / 4 }[pick(d, 4)];
	const char *layout = chance(d, 30) ? "interleaved" : "half";
	const char *theta = (const char *[]){ "1e5", "5e5", "2e6", "1e7" }[pick(d, 4)];

	*m = (struct made){ .note = "" };
	made_params(m, "{\"rotary_dim\": %zu, \"theta\": %s, \"layout\": \"%s\"}", rotary, theta, layout);
	made_dim(m, "T", between(d, 16, 64));
	made_dim(m, "H", between(d, 2, 6));
	made_dim(m, "D", D);
	made_in(m, "x", "T,H,D", type, DRAW_NORMAL, 0, 1);
	made_in(m, "positions", "T", DT_I32, DRAW_UNIFORM, 0, (double[]){ 64, 4000, 4000, 100000 }[p->fault ? 1 : pick(d, 4)]);
	made_out(m, "y", "T,H,D", type);
}

static void draw(struct point *p, struct dice *d)
{
	struct turn *o = &p->o.turn;
	size_t kind = p->number > 0 ? (size_t)p->number % 3 : pick(d, 3);

	*o = (struct turn){ .wide = chance(d, 40) };
	o->frequency = (int)pick(d, 4);
	o->sum = (int)pick(d, 3);
	p->class = (const char *[]){ "f32", "table in bf16", "all in bf16" }[kind];
	o->table = kind ? BF16 : F32;
	o->value = kind == 2 ? BF16 : F32;
	draw_case(p, d, false, kind == 0);
}

static void simple(struct point *p) { p->o.turn = (struct turn){ .wide = false }; }
static void exact(struct point *p) { p->o.turn.table = p->o.turn.value = F32; }
static void suit(struct point *p)
{
	draw_case(p, &(struct dice){ p->seed ^ 1 }, p->fault == TAIL_OF_FIRST_HEAD, p->o.turn.table == F32);
}

static void say_turn(const struct point *p, char *text, size_t size)
{
	const struct turn *o = &p->o.turn;

	say(text, size, "%s; ", o->wide ? "angles in double" : (const char *[]){ "theta^-x", "1/theta^x", "2^(-x log2 theta)",
		"e^(-x ln theta)" }[o->frequency]);
	say(text, size, "table %s; products %s, %s", number_name[o->table], number_name[o->value],
		(const char *[]){ "then their sum", "that of the cosine fused", "that of the sine fused" }[o->sum]);
}

static const char *const f32[] = { "f32", NULL };
const struct family rope_family = {
	.op = "rope", .f32 = f32, .points = 24, .small = 3, .flaws = flaws, .draw = draw, .simple = simple, .suit = suit,
	.exact = exact,
	.say = say_turn, .run = run
};
