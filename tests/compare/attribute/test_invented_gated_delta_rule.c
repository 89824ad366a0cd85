/* Ten faults of the gated delta rule that the list of faults does not have. */
#include "tests/compare/attribute/invented.h"

enum fault {
	BETA_REUSED = 1, VALUE_A_TOKEN_LATE, COLUMN_NOT_UPDATED, SWAPPED_IN_LAST_CHUNK, LAST_DECAY_UNWRITTEN, SCALE_IN_BF16,
	QUERY_TAIL, NORM_OF_TOKEN_BEFORE, DECAY_FROM_SEQUENCE_BEFORE, SHORT_LOG2E
};

static const struct invention list[INVENTED + 1] = {
	[BETA_REUSED] = { "the last head takes the first head's beta", "ragged", NULL,
		"at Hv = 3" },
	[VALUE_A_TOKEN_LATE] = { "the heads of the second key head read v one token early",
		"ragged", NULL, "at Hv = 2 and 3" },
	[COLUMN_NOT_UPDATED] = { "column 5 of the state takes no update", "ragged", NULL,
		"at Dv = 5" },
	[SWAPPED_IN_LAST_CHUNK] = { "q and k are swapped from token 64 on", "single", NULL,
		"in o, at T from 64 on|in final_state" },
	[LAST_DECAY_UNWRITTEN] = { "the written state lacks the last token's decay", "ragged", NULL,
		"100 % of it in final_state" },
	[SCALE_IN_BF16] = { "head 2 keeps its scale in bf16", "ragged", NULL, ",2,|at Hv = 2" },
	[QUERY_TAIL] = { "the last 4 rows of the state are not read out", "ragged", NULL,
		"100 % of it in o" },
	[NORM_OF_TOKEN_BEFORE] = { "a tile's last k has the norm of the one before", "single", NULL,
		" of it in o| of it in final_state" },
	[DECAY_FROM_SEQUENCE_BEFORE] = { "a sequence's first decay is the last of the sequence "
					 "before",
		"slots", "state_bf16", " of it in final_state| of it in o" },
	[SHORT_LOG2E] = { "the decay is a power of 2 with three decimals of log2 e", "single", NULL,
		" of it in o| of it in final_state" },
};

#define IN(...) .in = (const struct case_tensor[]){ { "q", "T,Hk,Dk", DT_BF16, DRAW_NORMAL, 0, 1 }, { "k", "T,Hk,Dk", DT_BF16, DRAW_NORMAL, 0, 1 }, \
		{ "v", "T,Hv,Dv", DT_BF16, DRAW_NORMAL, 0, 1 }, { "a", "T,Hv", DT_BF16, DRAW_NORMAL, 0, 1 }, { "b", "T,Hv", DT_BF16, DRAW_NORMAL, 0, 1 }, \
		{ "A_log", "Hv", DT_F32, DRAW_LOG_UNIFORM, 0.05, 16 }, { "dt_bias", "Hv", DT_F32, DRAW_NORMAL, -4, 1.5 }, __VA_ARGS__ }
#define OUT(state) .out = (const struct case_tensor[]){ { "o", "T,Hv,Dv", DT_BF16, DRAW_NORMAL, 0, 0 }, { "final_state", "N,Hv,Dk,Dv", state, DRAW_NORMAL, 0, 0 }, { 0 } }
#define DIMS(t, n) .dims = (const struct case_dim[]){ { "T", t }, { "N", n }, { "Hk", 2 }, { "Hv", 4 }, { "Dk", 12 }, { "Dv", 8 }, { 0 } }
#define STATE(type) { "initial_state", "N,Hv,Dk,Dv", type, DRAW_NORMAL, 0, 0.3 }
#define LENGTHS(n, ...) .lists = (const struct case_list[]){ { "cu_seqlens", (const double[]){ __VA_ARGS__ }, n }, { 0 } }
#define CUTS { "cu_seqlens", "N+1", DT_I32, DRAW_CUTS, 0, 0 }

static const struct test_case own[] = {
	{ .op = "gated_delta_rule", .name = "ragged", .params = "{\"qk_l2norm\": true, \"l2_eps\": 1e-6}", DIMS(50, 3),
		IN(STATE(DT_F32), CUTS, { 0 }), OUT(DT_F32), LENGTHS(3, 31, 1, 18) },
	{ .op = "gated_delta_rule", .name = "single", .params = "{\"qk_l2norm\": true, \"l2_eps\": 1e-6}", DIMS(75, 1),
		IN({ 0 }), OUT(DT_F32) },
	{ .op = "gated_delta_rule", .name = "slots", .params = "{\"qk_l2norm\": true, \"l2_eps\": 1e-6}", DIMS(6, 6),
		IN(STATE(DT_BF16), CUTS, { 0 }), OUT(DT_BF16), LENGTHS(6, 1, 1, 1, 1, 1, 1) },
	{ 0 }
};

/* One value head of one sequence, and its token: q, k [Dk], v [Dv], S [Dk,Dv]. */
struct sizes { size_t T, N, Hk, Hv, Dk, Dv; };
struct inputs { const float *q, *k, *v, *a, *b, *A_log, *dt_bias, *state, *cuts; };
struct head { size_t n, h, hk, first, last; };

/* exp(g) */
static float decay(const struct inputs *in, const struct sizes *s, const struct head *p, size_t t, int fault)
{
	if (fault == DECAY_FROM_SEQUENCE_BEFORE && t == p->first && t > 0) t--;
	float x = in->a[t * s->Hv + p->h] + in->dt_bias[p->h], softplus = x > 20 ? x : log1pf(expf(x));
	float g = -expf(in->A_log[p->h]) * softplus;
	return fault == SHORT_LOG2E ? exp2f(1.443f * g) : expf(g);
}

static float inverse_norm(const float *x, size_t n) { return 1 / sqrtf(warp_dot(x, x, n) + 1e-6f); }

static void load_keys(const struct inputs *in, const struct sizes *s, const struct head *p, size_t t, int fault, float *q, float *k)
{
	const float *rows[2] = { in->q, in->k };
	bool swap = fault == SWAPPED_IN_LAST_CHUNK && t >= 64;

	for (int i = 0; i < 2; i++) {
		const float *x = rows[swap ? 1 - i : i] + (t * s->Hk + p->hk) * s->Dk;
		bool stale = fault == NORM_OF_TOKEN_BEFORE && i == 1 && t % 16 == 15;
		float norm = inverse_norm(stale ? x - s->Hk * s->Dk : x, s->Dk);
		for (size_t d = 0; d < s->Dk; d++) (i ? k : q)[d] = x[d] * norm;
	}
}

/* S <- e^g S + k u' with u = beta (v - (e^g S)'k), column by column; o = scale S'q */
static void step(const struct sizes *s, float *S, const float *q, const float *k, const float *v, float e, float beta, float scale,
	int fault, float *o)
{
	size_t seen = fault == QUERY_TAIL ? s->Dk - 4 : s->Dk;

	for (size_t j = 0; j < s->Dv; j++) {
		float sum = 0, read = 0;
		for (size_t i = 0; i < s->Dk; i++) sum += (S[i * s->Dv + j] *= e) * k[i];
		float u = fault == COLUMN_NOT_UPDATED && j == 5 ? 0 : beta * (v[j] - sum);
		for (size_t i = 0; i < s->Dk; i++) S[i * s->Dv + j] += k[i] * u;
		for (size_t i = 0; i < seen; i++) read += S[i * s->Dv + j] * q[i];
		o[j] = read * scale;
	}
}

static void run_head(const struct inputs *in, const struct sizes *s, const struct head *p, int fault, bool narrow, float *S, float *o)
{
	float q[64], k[64], e = 1, scale = 1 / sqrtf((float)s->Dk);
	size_t size = s->Dk * s->Dv;

	for (size_t i = 0; i < size; i++) S[i] = in->state ? in->state[(p->n * s->Hv + p->h) * size + i] : 0;
	if (fault == SCALE_IN_BF16 && p->h == 2) scale = bf16(scale);
	for (size_t t = p->first; t < p->last; t++) {
		size_t from = fault == VALUE_A_TOKEN_LATE && p->hk == 1 && t > 0 ? t - 1 : t;
		size_t h = fault == BETA_REUSED && p->h + 1 == s->Hv ? 0 : p->h;
		load_keys(in, s, p, t, fault, q, k);
		e = decay(in, s, p, t, fault);
		step(s, S, q, k, in->v + (from * s->Hv + p->h) * s->Dv, e, sigmoid(in->b[t * s->Hv + h]), scale, fault,
			o + (t * s->Hv + p->h) * s->Dv);
		for (size_t i = 0; narrow && i < size; i++) S[i] = bf16(S[i]);
	}
	for (size_t i = 0; fault == LAST_DECAY_UNWRITTEN && i < size; i++) S[i] /= e;
}

static void kernel(struct capture *c, int fault, const char *rounds)
{
	const struct tensor *q = capture_in(c, "q"), *v = capture_in(c, "v"), *cuts = capture_in(c, "cu_seqlens");
	struct sizes s = { q->shape[0], cuts ? cuts->count - 1 : 1, q->shape[1], v->shape[1], q->shape[2], v->shape[2] };
	struct inputs in = { input(c, "q"), input(c, "k"), input(c, "v"), input(c, "a"), input(c, "b"), input(c, "A_log"),
		input(c, "dt_bias"), input(c, "initial_state"), input(c, "cu_seqlens") };
	float *o = floats(s.T * s.Hv * s.Dv), *state = floats(s.N * s.Hv * s.Dk * s.Dv);

	for (size_t i = 0; i < s.N * s.Hv; i++) {
		struct head p = { i / s.Hv, i % s.Hv, i % s.Hv / (s.Hv / s.Hk), 0, s.T };
		if (in.cuts) p.first = (size_t)in.cuts[p.n], p.last = (size_t)in.cuts[p.n + 1];
		run_head(&in, &s, &p, fault, rounds != NULL, state + i * s.Dk * s.Dv, o);
	}
	output(c, "o", o);
	output(c, "final_state", state);
}

static const struct inventions all = { "gated_delta_rule", own, list, kernel };

int main(void) { return run_inventions(&all); }
