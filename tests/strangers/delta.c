/* The gated delta rule: gates, norms, and token by token. */
#include "delta.h"

const float *delta_q(const struct delta_head *p, size_t t) { return p->in->q + (t * p->s->Hk + p->hk) * p->s->Dk; }
const float *delta_k(const struct delta_head *p, size_t t) { return p->in->k + (t * p->s->Hk + p->hk) * p->s->Dk; }
const float *delta_v(const struct delta_head *p, size_t t) { return p->in->v + (t * p->s->Hv + p->h) * p->s->Dv; }

float delta_norm(const struct delta_head *p, const float *x)
{
	return p->in->normed ? 1 / sqrtf(squares(p->o->gram, x, p->s->Dk) + p->in->eps) : 1;
}

float delta_key_norm(const struct delta_head *p, size_t t)
{
	return delta_norm(p, p->fault == KEY_BY_QUERY_NORM ? delta_q(p, t) : delta_k(p, t));
}

/* Of token t in a tensor [T,Hv]. */
static size_t gate_at(const struct delta_head *p, size_t t)
{
	size_t tiled = p->h % p->s->Hk * (p->s->Hv / p->s->Hk) + p->h / p->s->Hk;

	return t * p->s->Hv + (p->fault == GATES_TILED ? tiled : p->h);
}

float delta_g(const struct delta_head *p, size_t t)
{
	const struct delta_inputs *in = p->in;
	float g = 0;

	if (in->gated && in->g) g = in->g[gate_at(p, t)];
	else if (in->gated) {
		float rate = p->fault == RATE_NOT_EXPONENT ? fabsf(in->A_log[p->h]) : expf(in->A_log[p->h]);
		g = -rate * softplus(in->a[gate_at(p, t)] + in->dt_bias[p->h]);
	}
	return p->o->through_alpha ? logf(expf(g) + 1e-10f) : g;
}

float delta_step_size(const struct delta_head *p, size_t t)
{
	float b;

	if (p->in->beta) return p->in->beta[gate_at(p, t)];
	b = p->in->b[gate_at(p, t)];
	return p->fault == HARD_SIGMOID ? fminf(fmaxf(b / 6 + 0.5f, 0), 1) : sigmoid(b);
}

/* e^x */
static float decay(const struct delta *o, float x) { return o->unit == NATURAL ? expf(x) : exp2f(x * 1.44269504f); }

static void one_token(const struct delta_head *p, size_t t, float *S, float *o)
{
	const struct delta *how = p->o;
	size_t Dk = p->s->Dk, Dv = p->s->Dv;
	float q[256], k[256], scale = p->in->scale, rq = delta_norm(p, delta_q(p, t)), rk = delta_key_norm(p, t);
	float e = decay(how, delta_g(p, t)), beta = delta_step_size(p, t);
	bool late = how->decay_k == ON_RESULT, late_k = how->k_norm != ON_LOAD, late_q = how->q_norm != ON_LOAD,
		at_end = how->scale != ON_LOAD;

	for (size_t i = 0; i < Dk; i++) {
		k[i] = late_k ? delta_k(p, t)[i] : delta_k(p, t)[i] * rk;
		q[i] = late_q ? delta_q(p, t)[i] : delta_q(p, t)[i] * rq;
		if (!at_end) q[i] *= scale;
	}
	for (size_t j = 0; j < Dv; j++) {
		for (size_t i = 0; !late && i < Dk; i++) S[i * Dv + j] *= e;
		float held = dot(how->state, 0, S + j, Dv, k, 1, Dk);
		if (late) held *= e;
		if (late_k) held *= rk;
		float u = (delta_v(p, t)[j] - held) * beta;
		if (late_k) u *= rk;
		for (size_t i = 0; i < Dk; i++) S[i * Dv + j] = (late ? S[i * Dv + j] * e : S[i * Dv + j]) + k[i] * u;
		float read = dot(how->state, 0, S + j, Dv, q, 1, Dk);
		if (late_q) read *= rq;
		o[(t * p->s->Hv + p->h) * Dv + j] = at_end ? read * scale : read;
	}
}

void delta_tokens(const struct delta_head *p, float *S, float *o)
{
	for (size_t t = p->first; t < p->last; t++) one_token(p, t, S, o);
}

static struct delta_inputs inputs_of(const struct capture *c, size_t Dk)
{
	double scale = capture_number(c, "scale", (double)NAN);

	return (struct delta_inputs){ .q = input(c, "q"), .k = input(c, "k"), .v = input(c, "v"), .a = input(c, "a"),
		.b = input(c, "b"),
		.A_log = input(c, "A_log"), .dt_bias = input(c, "dt_bias"), .g = input(c, "g"), .beta = input(c, "beta"),
		.state = input(c, "initial_state"), .cuts = input(c, "cu_seqlens"),
		.scale = isnan(scale) ? 1 / sqrtf((float)Dk) : (float)scale, .eps = (float)capture_number(c, "l2_eps", 1e-6),
		.normed = capture_bool(c, "qk_l2norm", false), .gated = capture_bool(c, "gated", true) };
}

void delta_run(const struct point *p, struct capture *c)
{
	const struct tensor *q = capture_in(c, "q"), *v = capture_in(c, "v"), *cuts = capture_in(c, "cu_seqlens");
	struct delta_sizes s = { q->shape[0], cuts ? cuts->count - 1 : 1, q->shape[1], v->shape[1], q->shape[2], v->shape[2] };
	struct delta_inputs in = inputs_of(c, s.Dk);
	float *o = floats(s.T * s.Hv * s.Dv), *final = floats(s.N * s.Hv * s.Dk * s.Dv);
	size_t size = s.Dk * s.Dv;

	for (size_t i = 0; i < s.N * s.Hv; i++) {
		struct delta_head h = { &p->o.delta, p->fault, &s, &in, i / s.Hv, i % s.Hv, i % s.Hv / (s.Hv / s.Hk), 0, s.T };
		size_t from = p->fault == FIRST_HEADS_STATE ? i - h.h : i;
		if (in.cuts) h.first = (size_t)in.cuts[h.n], h.last = (size_t)in.cuts[h.n + 1];
		for (size_t j = 0; in.state && j < size; j++) final[i * size + j] = in.state[from * size + j];
		(h.o->chunk ? delta_chunks : delta_tokens)(&h, final + i * size, o);
	}
	output(c, "o", o);
	output(c, "final_state", final);
}
