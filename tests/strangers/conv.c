/* causal_conv1d: y_t = act(bias + Σ_w weight_w x_{t-W+1+w}), per channel; initial_state before the first token, the last W-1
 * inputs after. */
#include "strangers.h"

enum {
	TAPS_TWO_APART = 1, BIAS_OF_NEXT_CHANNEL, HARD_SILU, SILU_OF_DOUBLE, HISTORY_NEWEST_FIRST, STATE_NEWEST_FIRST,
	WEIGHT_TURNED, FIRST_TOKEN_REPEATED,
	IN_PLACE
};

static const struct flaw flaws[] = {
	{ "taps meet inputs two tokens apart", DRAWN, NULL, NULL },
	{ "the bias of the next channel", SIMPLE, "f32", NULL },
	{ "the activation is x clamp(x/6 + 1/2)", DRAWN, NULL, NULL },
	{ "the activation is x sigmoid(2x)", DRAWN, NULL, NULL },
	{ "the initial state is read newest first", SIMPLE, NULL, NULL },
	{ "the final state is written newest first", SIMPLE, "f32", NULL },
	{ "the weight [C,W] is read as [W,C]", DRAWN, NULL, NULL },
	{ "before the first token stands the first token", SIMPLE, NULL, NULL },
	{ "y overwrites x before later tokens read it", SIMPLE, NULL, NULL },
	{ 0 }
};

struct sizes { size_t T, C, W, N; };
struct inputs { float *x; const float *w, *bias, *state, *cuts; };
struct sequence { size_t n; long first, last; };

/* Input t of channel ch; t < first is in the history. */
static float value(const struct point *p, const struct inputs *in, const struct sizes *s, const struct sequence *q, long t,
	size_t ch, bool final)
{
	long H = (long)s->W - 1, at = H + t - q->first;

	if (t >= q->first) return in->x[(size_t)t * s->C + ch];
	if (p->fault == FIRST_TOKEN_REPEATED && !final) return in->x[(size_t)q->first * s->C + ch];
	if (at < 0 || !in->state) return 0;
	if (p->fault == HISTORY_NEWEST_FIRST) at = H - 1 - at;
	return in->state[(q->n * s->C + ch) * (size_t)H + (size_t)at];
}

static float activate(const struct point *p, bool on, float x)
{
	if (!on) return x;
	if (p->fault == HARD_SILU) return x * fminf(fmaxf(x / 6 + 0.5f, 0), 1);
	if (p->fault == SILU_OF_DOUBLE) return x * sigmoid(2 * x);
	switch (p->o.conv.silu) {
	case BY_TANH: return x * (0.5f + 0.5f * tanhf(0.5f * x));
	case BY_SIGMOID: return x * sigmoid(x);
	default: return silu(x);
	}
}

static float convolve(const struct point *p, const struct inputs *in, const struct sizes *s, const struct sequence *q, long t,
	size_t ch)
{
	const struct conv *o = &p->o.conv;
	float bias = in->bias ? in->bias[p->fault == BIAS_OF_NEXT_CHANNEL ? (ch + 1) % s->C : ch] : 0,
		sum = o->bias_last ? 0 : bias;

	for (size_t i = 0; i < s->W; i++) {
		size_t w = o->newest_first ? s->W - 1 - i : i;
		long back = (long)(s->W - 1 - w) * (p->fault == TAPS_TWO_APART ? 2 : 1);
		float tap = in->w[p->fault == WEIGHT_TURNED ? w * s->C + ch : ch * s->W + w],
			x = value(p, in, s, q, t - back, ch, false);
		if (o->fused) sum = (float)((double)tap * (double)x + (double)sum);
		else sum += rounded(o->tap, tap * x);
	}
	return rounded(o->sum, o->bias_last ? sum + bias : sum);
}

static void run(const struct point *p, struct capture *c)
{
	struct sizes s = { dim_of(c, "x", 0), dim_of(c, "x", 1), dim_of(c, "weight", 1),
		capture_in(c, "cu_seqlens") ? dim_of(c, "cu_seqlens", 0) - 1 : 1 };
	struct inputs in = { input(c, "x"), input(c, "weight"), input(c, "bias"), input(c, "initial_state"),
		input(c, "cu_seqlens") };
	bool on = capture_string(c, "activation", "none")[0] == 's';
	size_t H = s.W - 1;
	float *y = floats(s.T * s.C), *state = floats(s.N * s.C * H);

	for (size_t n = 0; n < s.N; n++) {
		struct sequence q = { n, in.cuts ? (long)in.cuts[n] : 0, in.cuts ? (long)in.cuts[n + 1] : (long)s.T };
		for (size_t i = 0; i < s.C * H; i++) {
			size_t j = p->fault == STATE_NEWEST_FIRST ? H - 1 - i % H : i % H;
			state[n * s.C * H + i] = value(p, &in, &s, &q, q.last - (long)(H - j), i / H, true);
		}
		for (size_t ch = 0; ch < s.C; ch++)
			for (long t = q.first; t < q.last; t++) {
				size_t at = (size_t)t * s.C + ch;
				y[at] = activate(p, on, convolve(p, &in, &s, &q, t, ch));
				if (p->fault == IN_PLACE) in.x[at] = y[at];
			}
	}
	output(c, "y", y);
	output(c, "final_state", state);
}

enum { MUST_BIAS = 1, MUST_KEEP = 2, MUST_ACT = 4, FOUR_TAPS = 8 };
static void draw_case(struct point *p, struct dice *d, int wants, bool wide)
{
	struct made *m = &p->made;
	enum dtype type = wide && chance(d, 50) ? DT_F32 : DT_BF16;
	size_t T = between(d, 20, 120);

	*m = (struct made){ .note = "" };
	made_params(m, "{\"activation\": \"%s\"}", wants & MUST_ACT || chance(d, 80) ? "silu" : "none");
	made_dim(m, "T", T);
	made_dim(m, "N", wants || chance(d, 50) ? 1 : between(d, 2, 5));
	made_dim(m, "C", ONE_OF(d, 32, 48, 96, 200));
	made_dim(m, "W", wants & FOUR_TAPS ? 4 : between(d, 2, 5));
	made_in(m, "x", "T,C", type, DRAW_NORMAL, 0, 1);
	made_in(m, "weight", "C,W", type, DRAW_NORMAL, 0, 0.5);
	if (wants & MUST_BIAS || chance(d, 50)) made_in(m, "bias", "C", type, DRAW_NORMAL, 0, 0.5);
	if (wants & MUST_KEEP || chance(d, 50)) made_in(m, "initial_state", "N,C,W-1", type, DRAW_NORMAL, 0, 1);
	if (made_size(m, "N") > 1) made_sequences(m, "cu_seqlens", d, T, made_size(m, "N"));
	made_out(m, "y", "T,C", type);
	made_out(m, "final_state", "N,C,W-1", type);
}

static void draw(struct point *p, struct dice *d)
{
	struct conv *o = &p->o.conv;
	size_t kind = p->number > 0 ? (size_t)p->number % 4 : pick(d, 4);

	*o = (struct conv){ .newest_first = chance(d, 50) };
	o->bias_last = chance(d, 50), o->fused = chance(d, 40);
	o->silu = (int)pick(d, 3);
	p->class = (const char *[]){ "f32", "products in bf16", "sum in bf16", "both in bf16" }[kind];
	if (kind & 1) o->tap = BF16, o->fused = false;
	if (kind & 2) o->sum = BF16;
	draw_case(p, d, 0, kind == 0);
}

static void simple(struct point *p) { p->o.conv = (struct conv){ .fused = false }; }
static void exact(struct point *p) { p->o.conv.tap = p->o.conv.sum = F32; }

static void suit(struct point *p)
{
	static const int wants[] = {
		[TAPS_TWO_APART] = FOUR_TAPS, [BIAS_OF_NEXT_CHANNEL] = MUST_BIAS, [HARD_SILU] = MUST_ACT,
		[SILU_OF_DOUBLE] = MUST_ACT,
		[HISTORY_NEWEST_FIRST] = MUST_KEEP | FOUR_TAPS, [STATE_NEWEST_FIRST] = FOUR_TAPS, [WEIGHT_TURNED] = FOUR_TAPS,
		[FIRST_TOKEN_REPEATED] = FOUR_TAPS, [IN_PLACE] = MUST_ACT
	};

	draw_case(p, &(struct dice){ p->seed ^ 1 }, wants[p->fault], p->o.conv.tap == F32 && p->o.conv.sum == F32);
}

static void say_conv(const struct point *p, char *text, size_t size)
{
	const struct conv *o = &p->o.conv;

	say(text, size, "%s tap first, bias %s%s; products %s, sum %s; %s", o->newest_first ? "newest" : "oldest",
		o->bias_last ? "last" : "first",
		o->fused ? ", fused" : "", number_name[o->tap], number_name[o->sum],
		(const char *[]){ "x / (1 + e^-x)", "x (1 + tanh(x/2)) / 2", "x sigmoid(x)" }[o->silu]);
}

static const char *const f32[] = { "f32", NULL };
const struct family conv_family = {
	.op = "causal_conv1d", .f32 = f32, .points = 26, .small = 3, .flaws = flaws, .draw = draw, .simple = simple, .suit = suit,
	.exact = exact,
	.say = say_conv, .run = run
};
