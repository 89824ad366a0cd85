/* W_down (silu(W_gate x) W_up x), or a mixture: the top-k experts of softmax(W_router x), weighed by their probabilities over
 * their sum, plus a shared expert times sigmoid(W_shared x). */
#include <math.h>
#include <string.h>

#include "model_private.h"

/* a <- silu(a) b */
static void swiglu(calc *c, vec a, vec b)
{
	c_site(c, SITE_GATE, a);
	c_site(c, SITE_UP, b);
	if (!c_fault(c, ACTIVATION_MISSING)) c_map(c, a, FN_SILU, a);
	c_site(c, SITE_SILU, a);
	c_mul(c, a, a, b);
	c_site(c, SITE_PRODUCT, a);
}

struct pair { field gate, up; };

static void swiglu_block(calc *c, size_t first, size_t n, void *with)
{
	const struct pair *p = with;
	bool swapped = c_fault(c, GATE_UP_SWAPPED);
	vec a = c_vec(c, n * p->gate.cols), b = c_vec(c, a.n);

	c_get(c, a, swapped ? p->up : p->gate, first * p->gate.cols, 1);
	c_get(c, b, swapped ? p->gate : p->up, first * p->gate.cols, 1);
	swiglu(c, a, b);
	c_put(c, p->gate, first * p->gate.cols, 1, a);
}

/* W [rows,cols] <- `in`, from element `first` on; the fault takes [cols,rows] for it. */
static void load_matrix(calc *c, mat W, int in, size_t first, bool transposed)
{
	for (size_t i = 0; i < W.rows; i++) c_load(c, c_row(c, W, i), in, first + i * (transposed ? 1 : W.cols), transposed
		? W.rows : 1);
}

struct down { field x, y; };

static void down_block(calc *c, size_t first, size_t n, void *with)
{
	const struct down *p = with;
	mat X = c_mat(c, n, p->x.cols), W = c_mat(c, p->y.cols, p->x.cols), Y = c_mat(c, n, p->y.cols);

	layer_load(c, X, p->x, first, 0);
	load_matrix(c, W, IN_DOWN, 0, true);
	c_gemm(c, Y, NT, X, W);
	layer_save(c, p->y, first, 0, Y);
}

static field dense(calc *c, field x)
{
	size_t I = c_dim(c, D_I);
	struct pair p = { layer_project(c, x, IN_GATE, 0, I, SITE_GATE), layer_project(c, x, IN_UP, 0, I, SITE_UP) };

	layer_rows(c, x.rows, swiglu_block, &p);
	if (!c_fault(c, DOWN_TRANSPOSED)) return layer_project(c, p.gate, IN_DOWN, 0, x.cols, SITE_DOWN);
	struct down d = { p.gate, c_field(c, x.rows, x.cols) };
	layer_rows(c, x.rows, down_block, &d);
	return d.y;
}

/* expert and weight [T,k]: chosen by token; out [T k,E]: what each made of its token. */
struct mixture { field x, logits, weight, out, shared, gate, y; size_t k; size_t *expert; };

static bool in_list(const size_t *list, size_t n, size_t x)
{
	while (n-- > 0)
		if (list[n] == x) return true;
	return false;
}

/* The k largest, the first among equals. */
static void choose(calc *c, vec p, size_t k, size_t *list)
{
	for (size_t i = 0; i < k; i++) {
		double best = -INFINITY;
		list[i] = 0;
		for (size_t e = 0; e < p.n; e++) {
			double value = c_value(c, c_part(c, p, e, 1));
			if (!in_list(list, i, e) && value > best) best = value, list[i] = e;
		}
	}
}

static void route_block(calc *c, size_t first, size_t n, void *with)
{
	const struct mixture *m = with;
	size_t X = m->logits.cols, k = m->k;
	vec p = c_vec(c, X), w = c_vec(c, k), ones = c_vec(c, k);
	num sum = c_num(c);
	size_t mark = c_mark(c);

	c_set(c, ones, 1);
	for (size_t t = first; t < first + n; t++) {
		size_t *list = m->expert + t * k;
		c_get(c, p, m->logits, t * X, 1);
		if (c_fault(c, ROUTER_IS_SIGMOID)) c_map(c, p, FN_SIGMOID, p);
		else layer_softmax(c, p, X);
		c_site(c, SITE_PROBABILITY, p);
		choose(c, p, k, list);
		for (size_t i = 0; i < k; i++) c_copy(c, c_part(c, w, i, 1), c_part(c, p, list[i], 1));
		c_dot(c, sum, w, ones);
		if (!c_fault(c, NO_RENORMALISING)) c_div(c, w, w, sum);
		if (c_fault(c, TOP_K_OFF_BY_ONE)) c_set(c, c_part(c, w, k - 1, 1), 0);
		c_site(c, SITE_ROUTE, w);
		c_put(c, m->weight, t * k, 1, w);
		c_release(c, mark);
	}
}

/* Rows of an expert's gate (half 0) or up projection. */
static void load_half(calc *c, mat W, size_t expert, size_t half)
{
	size_t J = W.rows, E = W.cols, from = 2 * J * E * expert;
	bool interleaved = c_fault(c, EXPERTS_SPLIT_INTERLEAVED);

	if (c_fault(c, EXPERTS_GATE_UP_SWAPPED)) half = 1 - half;
	for (size_t j = 0; j < J; j++) c_load(c, c_row(c, W, j), IN_EXPERT_GATE_UP, from + (interleaved
		? 2 * j + half : half * J + j) * E, 1);
}

static void expert_part(calc *c, size_t expert, void *with)
{
	const struct mixture *m = with;
	size_t E = m->x.cols, J = c_dim(c, D_J), slots = m->x.rows * m->k, n = 0, i = 0;

	for (size_t s = 0; s < slots; s++) n += m->expert[s] == expert;
	if (!n) return;
	mat X = c_mat(c, n, E), G = c_mat(c, n, J), U = c_mat(c, n, J), W = c_mat(c, J, E), D = c_mat(c, E, J), Y = c_mat(c, n, E);
	num w = c_num(c);
	for (size_t s = 0; s < slots; s++)
		if (m->expert[s] == expert) c_get(c, c_row(c, X, i++), m->x, s / m->k * E, 1);
	load_half(c, W, expert, 0);
	c_gemm(c, G, NT, X, W);
	load_half(c, W, expert, 1);
	c_gemm(c, U, NT, X, W);
	swiglu(c, flat(G), flat(U));
	load_matrix(c, D, IN_EXPERT_DOWN, expert * E * J, c_fault(c, EXPERT_WEIGHTS_TRANSPOSED));
	c_gemm(c, Y, NT, G, D);
	c_site(c, SITE_DOWN, flat(Y));
	for (size_t s = i = 0; s < slots; s++) {
		if (m->expert[s] != expert) continue;
		vec y = c_row(c, Y, i++);
		c_get(c, w, m->weight, s, 1);
		c_mul(c, y, y, w);
		c_site(c, SITE_EXPERT, y);
		c_put(c, m->out, s * E, 1, y);
	}
}

/* sum <- Σ of the token's experts, in their order. */
static void sum_experts(calc *c, const struct mixture *m, size_t t, vec sum, vec y)
{
	size_t X = m->logits.cols;

	c_set(c, sum, 0);
	for (size_t e = 0; e < X; e++)
		for (size_t i = 0; i < m->k; i++) {
			if (m->expert[t * m->k + i] != e) continue;
			c_get(c, y, m->out, (t * m->k + i) * y.n, 1);
			c_add(c, sum, sum, y);
			c_site(c, SITE_RUNNING, sum);
		}
	c_site(c, SITE_EXPERTS, sum);
}

/* y <- sum + sigmoid(gate) shared */
static void combine_block(calc *c, size_t first, size_t n, void *with)
{
	const struct mixture *m = with;
	vec sum = c_vec(c, m->x.cols), y = c_vec(c, sum.n);
	num g = c_num(c), ranks = c_number(c, 8);
	bool all = c_fault(c, SHARED_GATE_ON_EVERYTHING), ungated = c_fault(c, SHARED_GATE_MISSING) || all;

	for (size_t t = first; t < first + n; t++) {
		sum_experts(c, m, t, sum, y);
		c_get(c, y, m->shared, t * y.n, 1);
		c_get(c, g, m->gate, t, 1);
		c_map(c, g, FN_SIGMOID, g);
		c_site(c, SITE_SHARED_GATE, g);
		if (!ungated) c_mul(c, y, y, g);
		c_site(c, SITE_SHARED, y);
		if (c_fault(c, SHARED_EXPERT_PER_RANK)) c_mul(c, y, y, ranks);
		if (!c_fault(c, SHARED_EXPERT_MISSING)) c_add(c, sum, sum, y);
		if (all) c_mul(c, sum, sum, g);
		c_site(c, SITE_MLP, sum);
		c_put(c, m->y, t * y.n, 1, sum);
	}
}

field layer_mlp(calc *c, field x)
{
	size_t T = x.rows, E = x.cols, k = (size_t)c_param(c, P_TOP_K);

	if (!c_has(c, IN_ROUTER)) return dense(c, x);
	struct mixture m = {
		x, layer_project(c, x, IN_ROUTER, 0, c_dim(c, D_X), SITE_ROUTER), c_field(c, T, k), c_field(c, T * k, E), dense(c, x),
		layer_project(c, x, IN_SHARED_GATE, 0, 1, SITE_SHARED_LOGIT), c_field(c, T, E), k, c_bytes(c, T * k * sizeof *m.expert)
	};
	layer_rows(c, T, route_block, &m);
	c_stage(c, c_dim(c, D_X), expert_part, &m);
	layer_rows(c, T, combine_block, &m);
	return m.y;
}
