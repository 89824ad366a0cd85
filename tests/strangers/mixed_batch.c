/* mixed_batch: convolution, norms, gated delta rule and gated norm of rows that decode, prefill and speculate, their memory in
 * slots. */
#include <string.h>

#include "strangers.h"

enum { OLDEST_TAP_MISSED = 1, DRAFTS_INPUTS_NOT_KEPT, RATE_OF_FIRST_LAYER, GATE_OF_FIRST_TOKEN, DECODE_WITHOUT_KEY_NORM,
	LAST_OF_PREFILL_KEEPS, PADDING_REPEATS };
enum kind { DECODE, PREFILL, SPECULATIVE, PADDING };
enum { MOST_CHANNELS = 128 };

static const struct flaw flaws[] = {
	{ "rows that decode take the newest input for the oldest tap", DRAWN, NULL, NULL },
	{ "a draft token's slot gets its state, not its inputs", SIMPLE, "f32", NULL },
	{ "all layers have the first one's A_log", SIMPLE, NULL, NULL },
	{ "z of a row's first token gates all of them", DRAWN, NULL, NULL },
	{ "k is not normed in rows that decode", SIMPLE, NULL, NULL },
	{ "the last token of a row of four and more does not decay", SIMPLE, "f32", NULL },
	{ "padding repeats the answer of the row before", DRAWN, NULL, NULL },
	{ 0 }
};

struct batch {
	const struct point *p;
	size_t T, L, C, Hv, Hk, Dk, Dv, W, R;
	const float *x, *z, *a, *b, *taps, *A_log, *dt_bias, *weight, *cuts, *kinds, *read, *write, *position;
	float *states, *inputs, *y, scale;
};
/* A head of a layer, and a row's memory of it: S [Dk,Dv], ring [channel,W] */
struct place_of { size_t layer, h, hk; };
struct row { size_t r, first, last; long position, read; enum kind kind; };

static size_t channel(const struct batch *m, const struct place_of *at, size_t i)
{
	if (i < m->Dk) return at->hk * m->Dk + i;
	if (i < 2 * m->Dk) return (m->Hk + at->hk) * m->Dk + i - m->Dk;
	return 2 * m->Hk * m->Dk + at->h * m->Dv + i - 2 * m->Dk;
}

static float *state_at(const struct batch *m, const struct place_of *at, size_t slot)
{
	return m->states + ((slot * m->L + at->layer) * m->Hv + at->h) * m->Dk * m->Dv;
}

static float *ring_at(const struct batch *m, const struct place_of *at, size_t slot, size_t ch)
{
	return m->inputs + ((slot * m->L + at->layer) * m->C + ch) * m->W;
}

/* c [2 Dk + Dv] = silu(Σ taps x), x of the token at a position having been put into its ring */
static void convolve(const struct batch *m, const struct place_of *at, const struct row *row, size_t t, long position,
	float *ring, float *c)
{
	for (size_t i = 0; i < 2 * m->Dk + m->Dv; i++) {
		size_t ch = channel(m, at, i);
		float sum = 0, *own = ring + i * m->W;
		own[(size_t)position % m->W] = m->x[(t * m->L + at->layer) * m->C + ch];
		for (size_t w = 0; w < m->W; w++) {
			size_t column = (size_t)(position + 1 + (long)w) % m->W;
			if (m->p->fault == OLDEST_TAP_MISSED && row->kind == DECODE && w == 0) column = (size_t)position % m->W;
			sum += m->taps[(at->layer * m->C + ch) * m->W + w] * own[column];
		}
		c[i] = rounded(m->p->o.fused.between, silu(sum));
	}
}

static void normed(const struct batch *m, float *x, float by)
{
	float r = 1 / sqrtf(squares(m->p->o.fused.order, x, m->Dk) + 1e-6f);

	for (size_t i = 0; i < m->Dk; i++) x[i] *= r * by;
}

static float decay(const struct batch *m, const struct place_of *at, size_t gate)
{
	size_t head = at->layer * m->Hv + at->h, rate = m->p->fault == RATE_OF_FIRST_LAYER ? at->h : head;

	return expf(-expf(m->A_log[rate]) * softplus(m->a[gate] + m->dt_bias[head]));
}

/* S <- e S + k u'; o = S'q, in c's place of v */
static void step(const struct batch *m, float *S, const float *q, const float *k, float *v, float e, float beta)
{
	for (size_t j = 0; j < m->Dv; j++) {
		for (size_t i = 0; i < m->Dk; i++) S[i * m->Dv + j] *= e;
		float u = beta * (v[j] - dot(m->p->o.fused.order, 0, S + j, m->Dv, k, 1, m->Dk));
		for (size_t i = 0; i < m->Dk; i++) S[i * m->Dv + j] += k[i] * u;
		v[j] = rounded(m->p->o.fused.between, dot(m->p->o.fused.order, 0, S + j, m->Dv, q, 1, m->Dk));
	}
}

static void token(const struct batch *m, const struct place_of *at, const struct row *row, size_t t, float *S, float *ring)
{
	float c[MOST_CHANNELS], *q = c, *k = c + m->Dk, *o = c + 2 * m->Dk;
	size_t gate = (t * m->L + at->layer) * m->Hv + at->h;
	size_t z = ((m->p->fault == GATE_OF_FIRST_TOKEN ? row->first : t) * m->L + at->layer) * m->Hv + at->h;
	bool still = m->p->fault == LAST_OF_PREFILL_KEEPS && t + 1 == row->last && row->last - row->first >= 4;

	convolve(m, at, row, t, row->position + (long)(t - row->first), ring, c);
	normed(m, q, m->scale);
	if (m->p->fault != DECODE_WITHOUT_KEY_NORM || row->kind != DECODE) normed(m, k, 1);
	step(m, S, q, k, o, still ? 1 : decay(m, at, gate), sigmoid(m->b[gate]));
	float r = 1 / sqrtf(squares(m->p->o.fused.order, o, m->Dv) / (float)m->Dv + 1e-6f);
	for (size_t j = 0; j < m->Dv; j++)
		m->y[gate * m->Dv + j] = o[j] * r * m->weight[at->layer * m->Dv + j] * silu(m->z[z * m->Dv + j]);
}

/* After a token: its memory into the slot that it writes. A key head's inputs are stored by each of its value heads alike. */
static void keep(const struct batch *m, const struct place_of *at, const struct row *row, size_t t, const float *S,
	const float *ring)
{
	long slot = (long)m->write[t];

	if (slot < 0) return;
	memcpy(state_at(m, at, (size_t)slot), S, m->Dk * m->Dv * sizeof *S);
	if (m->p->fault == DRAFTS_INPUTS_NOT_KEPT && row->kind == SPECULATIVE) return;
	for (size_t i = 0; i < 2 * m->Dk + m->Dv; i++)
		memcpy(ring_at(m, at, (size_t)slot, channel(m, at, i)), ring + i * m->W, m->W * sizeof *ring);
}

static void run_row(const struct batch *m, const struct place_of *at, const struct row *row)
{
	size_t mark = floats_mark();
	float *S = floats(m->Dk * m->Dv), *ring = floats((2 * m->Dk + m->Dv) * m->W);

	if (row->read >= 0) memcpy(S, state_at(m, at, (size_t)row->read), m->Dk * m->Dv * sizeof *S);
	for (size_t i = 0; row->read >= 0 && i < 2 * m->Dk + m->Dv; i++)
		memcpy(ring + i * m->W, ring_at(m, at, (size_t)row->read, channel(m, at, i)), m->W * sizeof *ring);
	for (size_t t = row->first; t < row->last; t++) {
		token(m, at, row, t, S, ring);
		keep(m, at, row, t, S, ring);
	}
	floats_release(mark);
}

/* The pools change as the rows go: heads that share inputs each begin with pools as they came. */
static void run_head(struct batch *m, const struct place_of *at)
{
	for (size_t r = 0; r < m->R; r++) {
		struct row row = { r, (size_t)m->cuts[r], (size_t)m->cuts[r + 1], (long)m->position[r], (long)m->read[r],
			(enum kind)m->kinds[r] };
		size_t answer = (row.first * m->L + at->layer) * m->Hv + at->h,
			before = ((row.first - 1) * m->L + at->layer) * m->Hv + at->h;
		if (row.kind != PADDING) run_row(m, at, &row);
		else if (m->p->fault == PADDING_REPEATS && r > 0)
			memcpy(m->y + answer * m->Dv, m->y + before * m->Dv, m->Dv * sizeof *m->y);
	}
}

static void run(const struct point *p, struct capture *c)
{
	struct batch m = { p, dim_of(c, "x", 0), dim_of(c, "x", 1), dim_of(c, "x", 2), dim_of(c, "z", 2), 0,
		dim_of(c, "state_pool", 3), dim_of(c, "z", 3),
		dim_of(c, "conv_weight", 2), dim_of(c, "kinds", 0), input(c, "x"), input(c, "z"), input(c, "a"), input(c, "b"),
		input(c, "conv_weight"),
		input(c, "A_log"), input(c, "dt_bias"), input(c, "norm_weight"), input(c, "cu_seqlens"), input(c, "kinds"),
		input(c, "read_slot"),
		input(c, "write_slot"), input(c, "position"), input(c, "state_pool"), input(c, "conv_pool"), NULL, 0 };
	size_t inputs = capture_in(c, "conv_pool")->count;
	float *came = floats_of(m.inputs, inputs), *left = floats_of(m.inputs, inputs);

	m.Hk = (m.C - m.Hv * m.Dv) / (2 * m.Dk);
	m.y = floats(m.T * m.L * m.Hv * m.Dv);
	m.scale = 1 / sqrtf((float)m.Dk);
	for (size_t i = 0; i < m.L * m.Hv; i++) {
		struct place_of at = { i / m.Hv, i % m.Hv, i % m.Hv / (m.Hv / m.Hk) };
		memcpy(m.inputs, came, inputs * sizeof *came);
		run_head(&m, &at);
		for (size_t j = 0; j < inputs; j++)
			if (m.inputs[j] != came[j]) left[j] = m.inputs[j];
	}
	output(c, "y", m.y);
	output(c, "state_pool", m.states);
	output(c, "conv_pool", left);
}

/* Slot 0 is A's and 1 is B's at first; C is new; B then speculates, two of its drafts stand. Slot 6 is never touched. */
static void draw_tables(struct made *m)
{
	static const int steps[] = { 4, 3, 3 }, rows[] = { 1, 1, 1, 6, 1, 1, 3, 1, 1, 5 },
		kinds[] = { 0, 0, 3, 1, 0, 0, 2, 0, 0, 1 };
	static const int read[] = { 0, 1, -1, -1, 0, 2, 1, 0, 4, 2 }, position[] = { 9, 5, 0, 0, 10, 6, 6, 11, 8, 7 };
	static const int write[] = { 0, 1, -1, -1, -1, -1, -1, -1, 2, 0, 2, 3, 4, 5, 0, 1, -1, -1, -1, -1, 2 };

	made_list(m, "steps", steps, 3);
	made_list(m, "cu_seqlens", rows, 10);
	made_list(m, "kinds", kinds, 10);
	made_list(m, "read_slot", read, 10);
	made_list(m, "write_slot", write, 21);
	made_list(m, "position", position, 10);
	made_in(m, "steps", "K+1", DT_I32, DRAW_CUTS, 0, 0);
	made_in(m, "cu_seqlens", "R+1", DT_I32, DRAW_CUTS, 0, 0);
	made_in(m, "kinds", "R", DT_I32, DRAW_LIST, 0, 0);
	made_in(m, "read_slot", "R", DT_I32, DRAW_LIST, 0, 0);
	made_in(m, "write_slot", "T", DT_I32, DRAW_LIST, 0, 0);
	made_in(m, "position", "R", DT_I32, DRAW_LIST, 0, 0);
}

static void draw(struct point *p, struct dice *d)
{
	struct made *m = &p->made;
	bool wide = p->number > 0 ? p->number % 2 : chance(d, 50);
	enum dtype type = wide ? DT_F32 : DT_BF16;
	size_t Dk = ONE_OF(d, 12, 16), Dv = ONE_OF(d, 8, 16), Hv = 2;

	p->o.fused = (struct fused){ (enum order)pick(d, ORDERS), wide ? F32 : BF16 };
	p->class = wide ? "f32" : "parts in bf16";
	*m = (struct made){ .note = "" };
	made_params(m, "{}");
	for (size_t i = 0; i < 11; i++)
		made_dim(m, (const char *[]){ "T", "R", "K", "P", "L", "Hv", "Dk", "Dv", "C", "W", "H" }[i],
			(const size_t[]){ 21, 10, 3, 7, 2, Hv, Dk, Dv, 2 * Dk + Hv * Dv, 4, 4 }[i]);
	made_in(m, "x", "T,L,C", type, DRAW_NORMAL, 0, 1);
	made_in(m, "z", "T,L,Hv,Dv", type, DRAW_NORMAL, 0, 1.5);
	made_in(m, "a", "T,L,Hv", type, DRAW_NORMAL, 0, 1);
	made_in(m, "b", "T,L,Hv", type, DRAW_NORMAL, 0, 1);
	made_in(m, "conv_weight", "L,C,W", DT_F32, DRAW_NORMAL, 0, 0.5);
	made_in(m, "A_log", "L,Hv", DT_F32, DRAW_LOG_UNIFORM, 0.3, 4);
	made_in(m, "dt_bias", "L,Hv", DT_F32, DRAW_NORMAL, -2, 1);
	made_in(m, "norm_weight", "L,Dv", DT_F32, DRAW_NORMAL, 1, 0.2);
	made_in(m, "state_pool", "P,L,Hv,Dk,Dv", DT_F32, DRAW_NORMAL, 0, 0.3);
	made_in(m, "conv_pool", "P,L,C,H", type, DRAW_NORMAL, 0, 0.3);
	draw_tables(m);
	made_out(m, "y", "T,L,Hv,Dv", type);
	made_out(m, "state_pool", "P,L,Hv,Dk,Dv", DT_F32);
	made_out(m, "conv_pool", "P,L,C,H", type);
}

static void simple(struct point *p) { p->o.fused = (struct fused){ IN_TURN, F32 }; }
static void exact(struct point *p) { p->o.fused.between = F32; }
static void suit(struct point *p) { (void)p; }
static void say_fused(const struct point *p, char *text, size_t size)
{
	say(text, size, "convolution's output and o %s; sums %s", number_name[p->o.fused.between], order_name[p->o.fused.order]);
}

static const char *const f32[] = { "f32", NULL };
const struct family mixed_family = {
	.op = "mixed_batch", .f32 = f32, .points = 6, .small = 1, .flaws = flaws, .draw = draw, .simple = simple, .suit = suit,
	.exact = exact,
	.say = say_fused, .run = run
};
