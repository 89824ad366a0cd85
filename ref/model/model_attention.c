/* Full attention: per head q | gate = W_q x; q and k normed and turned; causal softmax(q k' / √D) v times sigmoid(gate);
 * W_o. */
#include <math.h>

#include "model_private.h"


enum { ROWS = 128 };

/* qg [T,2HD]; k, v [T,GD]; then normed and turned queries [T,HD] and all keys and values [S+T,GD]; o [T,HD]. */
struct mixer { field qg, k, v, q, keys, values, o; };

/* Where head h's query and gate stand in a row of qg. */
static size_t query_at(calc *c, size_t h) { return h * c_dim(c, D_D) * (c_fault(c, GATE_SPLIT_FLAT) ? 1 : 2); }
static size_t gate_at(calc *c, size_t h)
{
	size_t D = c_dim(c, D_D);

	return c_fault(c, GATE_SPLIT_FLAT) ? (c_dim(c, D_H) + h) * D : (2 * h + 1) * D;
}

/* A head that is normed and turned: from row t of `from` at `at` to row `behind` + t of `to` at `there`; its neighbour
 * stands at `beside`. */
struct turned { field from, to; size_t at, beside, there, behind; int weight; const char *place; bool turns; };

static void norm_row(calc *c, const struct turned *p, const struct scope *norm, vec x, vec weight, size_t t)
{
	vec w = c_vec(c, x.n), other = c_vec(c, x.n), none = { 0 };
	num m = c_num(c);
	bool both = c_fault(c, QK_NORM_OVER_HEADS);

	if (c_fault(c, QK_NORM_MISSING)) return;
	c_get(c, other, p->from, t * p->from.cols + p->beside, 1);
	c_copy(c, w, weight);
	c_enter(c, norm);
	rms_begin(c, m, x, none);
	if (both) layer_both_heads(c, m, other);
	rms_divide(c, x, m, c_param(c, P_EPS));
	rms_end(c, x, w, 1, none);
	c_leave(c);
}

/* y <- x turned; element by element where pairs are not in halves. */
static void turn_row(calc *c, const struct scope *rope, vec x, size_t position)
{
	size_t rotary = (size_t)c_param(c, P_ROTARY_DIM);

	c_enter(c, rope);
	struct rope_pairs p = rope_pairs(c, x.n, rotary, false);
	vec x1 = c_vec(c, p.n), x2 = c_vec(c, p.n), y1 = c_vec(c, p.n), y2 = c_vec(c, p.n), co = c_vec(c, p.n), si = c_vec(c, p.n);
	rope_cos_sin(c, co, si, c_number(c, (double)position), x.n, rotary, c_param(c, P_THETA));
	for (size_t i = 0; i < p.n; i++) {
		c_copy(c, c_part(c, x1, i, 1), c_part(c, x, p.first + i * p.step, 1));
		c_copy(c, c_part(c, x2, i, 1), c_part(c, x, p.first + p.apart + i * p.step, 1));
	}
	rope_turn(c, y1, y2, x1, x2, co, si);
	for (size_t i = 0; i < p.n; i++) {
		c_copy(c, c_part(c, x, p.first + i * p.step, 1), c_part(c, y1, i, 1));
		c_copy(c, c_part(c, x, p.first + p.apart + i * p.step, 1), c_part(c, y2, i, 1));
	}
	c_leave(c);
}

static void turn_head(calc *c, const struct turned *p)
{
	size_t D = c_dim(c, D_D), S = c_fault(c, POSITION_OFF) ? 0 : c_dim(c, D_S);
	bool after = c_fault(c, QK_NORM_AFTER_ROPE);
	struct scope norm = c_scope_at(c, op_own("rmsnorm"), p->place), rope = c_scope_at(c, op_own("rope"), "rope");
	vec x = c_vec(c, D), weight = c_vec(c, D);
	size_t mark = c_mark(c);

	c_load(c, weight, p->weight, 0, 1);
	for (size_t t = 0; t < p->from.rows; t++) {
		c_get(c, x, p->from, t * p->from.cols + p->at, 1);
		if (!after) norm_row(c, p, &norm, x, weight, t);
		if (p->turns) turn_row(c, &rope, x, S + t);
		if (after) norm_row(c, p, &norm, x, weight, t);
		c_site(c, SITE_TURNED, x);
		c_put(c, p->to, (p->behind + t) * p->to.cols + p->there, 1, x);
		c_release(c, mark);
	}
}

/* Keys and values of the tokens before, and these tokens' values; all are stored for those that come. */
static void cache(calc *c, const struct mixer *m, size_t g)
{
	size_t D = c_dim(c, D_D), S = c_dim(c, D_S), GD = m->keys.cols;
	vec x = c_vec(c, D);

	for (size_t s = 0; s < m->keys.rows; s++) {
		size_t at = s * GD + g * D;
		if (s < S) {
			c_load(c, x, IN_KEYS, at, 1);
			c_put(c, m->keys, at, 1, x);
			c_load(c, x, IN_VALUES, at, 1);
		} else {
			c_get(c, x, m->v, at - S * GD, 1);
		}
		c_put(c, m->values, at, 1, x);
		c_store(c, OUT_VALUES, at, 1, x);
		c_get(c, x, m->keys, at, 1);
		c_store(c, OUT_KEYS, at, 1, x);
	}
}

/* Heads 0 .. H-1 are queries, then keys. */
static void turn_part(calc *c, size_t i, void *with)
{
	const struct mixer *m = with;
	size_t H = c_dim(c, D_H), G = c_dim(c, D_G), D = c_dim(c, D_D), g = i - H, near = (i ^ 1) < H ? i ^ 1 : i;

	if (i < H) {
		turn_head(c, &(struct turned){ m->qg, m->q, query_at(c, i), query_at(c, near), i * D, 0, IN_Q_NORM, "q_norm", true });
		return;
	}
	turn_head(c, &(struct turned){ m->k, m->keys, g * D, ((g ^ 1) < G ? g ^ 1 : g) * D, g * D, c_dim(c, D_S), IN_K_NORM, "k_norm",
		!c_fault(c, KEYS_NOT_TURNED) });
	cache(c, m, g);
}

/* O <- O sigmoid(gate) for rows from t of head h. */
static void gate(calc *c, const struct mixer *m, mat O, size_t t, size_t h)
{
	vec g = c_vec(c, O.cols);

	for (size_t i = 0; i < O.rows; i++) {
		c_get(c, g, m->qg, (t + i) * m->qg.cols + gate_at(c, h), 1);
		c_map(c, g, c_fault(c, GATE_IS_SILU) ? FN_SILU : FN_SIGMOID, g);
		c_site(c, SITE_SIGMOID, g);
		c_mul(c, c_row(c, O, i), c_row(c, O, i), g);
	}
	c_site(c, SITE_GATED, flat(O));
}

/* x <- softmax of its first n elements; the rest become 0. What a fused kernel rounds of them stands before the division, which
 * it leaves until after the product with v. */
static void soften(calc *c, vec x, size_t n)
{
	vec part = c_part(c, x, 0, n);
	num sum = c_num(c);

	layer_weights(c, part, sum, c_fault(c, EXP_BY_CUBIC));
	c_site(c, SITE_WEIGHTS, part);
	c_div(c, part, part, sum);
	c_set(c, c_part(c, x, n, x.n - n), 0);
}

static void attend_part(calc *c, size_t i, void *with)
{
	const struct mixer *m = with;
	size_t H = c_dim(c, D_H), G = c_dim(c, D_G), D = c_dim(c, D_D), S = c_dim(c, D_S), N = m->keys.rows, h = i % H, t = i / H * ROWS;
	size_t n = m->q.rows - t < ROWS ? m->q.rows - t : ROWS, g = c_fault(c, GQA_TILED) ? h % G : h / (H / G);
	mat Q = c_mat(c, n, D), K = c_mat(c, N, D), V = c_mat(c, N, D), P = c_mat(c, n, N), O = c_mat(c, n, D);
	num scale = c_number(c, (double)D);
	bool early = c_fault(c, GATE_BEFORE_ATTENTION);
	size_t mark = c_mark(c);

	layer_load(c, Q, m->q, t, h * D);
	layer_load(c, K, m->keys, 0, g * D);
	layer_load(c, V, m->values, 0, g * D);
	if (early) gate(c, m, Q, t, h);
	c_gemm(c, P, NT, Q, K);
	c_site(c, SITE_SCORES, flat(P));
	c_map(c, scale, FN_RSQRT, scale);
	if (!c_fault(c, ATTENTION_SCALE_MISSING)) c_mul(c, flat(P), flat(P), scale);
	c_site(c, SITE_SCALED, flat(P));
	for (size_t r = 0; r < n; r++) {
		size_t seen = S + t + r + 1 + c_fault(c, CAUSAL_OFF_BY_ONE);
		soften(c, c_row(c, P, r), seen < N ? seen : N);
		c_release(c, mark);
	}
	c_site(c, SITE_SOFTMAX, flat(P));
	c_gemm(c, O, NN, P, V);
	c_site(c, SITE_ATTENTION, flat(O));
	if (!early && !c_fault(c, OUTPUT_GATE_MISSING)) gate(c, m, O, t, h);
	layer_save(c, m->o, t, h * D, O);
}

field full_mixer(calc *c, field x)
{
	size_t H = c_dim(c, D_H), G = c_dim(c, D_G), HD = c_dim(c, D_HD), GD = c_dim(c, D_GD), N = c_dim(c, D_S) + x.rows;
	struct mixer m = {
		layer_project(c, x, IN_Q, 0, 2 * HD, SITE_Q), layer_project(c, x, IN_K, 0, GD, SITE_K),
		layer_project(c, x, IN_V, 0, GD, SITE_V),
		c_field(c, x.rows, HD), c_field(c, N, GD), c_field(c, N, GD), c_field(c, x.rows, HD)
	};

	c_stage(c, H + G, turn_part, &m);
	c_stage(c, (x.rows + ROWS - 1) / ROWS * H, attend_part, &m);
	return layer_project(c, m.o, IN_O, 0, x.cols, SITE_MIXED);
}
