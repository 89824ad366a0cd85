/* The gated delta rule in chunks of L tokens, in any structure. With G the running sum of g, r_i = 1/|k_i|:
 *   A = diag(b) tril(K K', -1),  E_ij = e^(G_i - G_j),  T = (I + A∘E)^-1 = (I + A)^-1 ∘ E,
 *   N = T diag(b) (V - e^G K S),  P = tril(Q K') ∘ E,  o = scale (e^G Q S + P N),  S <- e^G_L S + K' e^(G_L - G) N. */
#include <string.h>

#include "delta.h"

enum { TILE = 8 };
/* Q, K [L,Dk], V [L,Dv] as loaded; rq, rk: the factors of Q and K that are still to come; b, G, eG, end = e^(G_L - G) [L]; A to P
 * as above. */
struct chunk { const struct delta_head *p; size_t L; float *Q, *K, *V, *rq, *rk, *b, *G, *eG, *end, last, *N; };

static void scale_rows(float *X, const float *f, size_t rows, size_t cols)
{
	for (size_t i = 0; f && i < rows * cols; i++) X[i] *= f[i / cols];
}

static void scale_cols(float *X, const float *f, size_t rows, size_t cols)
{
	for (size_t i = 0; f && i < rows * cols; i++) X[i] *= f[i % cols];
}

/* An operand of a product: X with rows scaled by f and g, where given, rounded. */
static float *operand(const struct chunk *c, enum delta_site site, const float *X, size_t rows, size_t cols, const float *f,
	const float *g)
{
	float *Y = floats_of(X, rows * cols);

	scale_rows(Y, f, rows, cols);
	scale_rows(Y, g, rows, cols);
	round_all(c->p->o->at[site], Y, rows * cols);
	return Y;
}

static float *with_columns(const struct chunk *c, enum delta_site site, const float *T, const float *f, const float *g,
	const float *h)
{
	float *Y = floats_of(T, c->L * c->L);

	scale_cols(Y, f, c->L, c->L);
	scale_cols(Y, g, c->L, c->L);
	scale_cols(Y, h, c->L, c->L);
	round_all(c->p->o->at[site], Y, c->L * c->L);
	return Y;
}

static const float *if_at(enum place is, enum place at, const float *f) { return is == at ? f : NULL; }
static const float *late_k(const struct chunk *c, enum place is, enum place at)
{
	return c->p->o->k_norm == ON_LOAD ? NULL : if_at(is, at, c->rk);
}

/* ---- exponents ---- */

static float power(const struct chunk *c, float x)
{
	switch (c->p->o->unit) {
	case NATURAL: return expf(x);
	case LOG2_LATE: return exp2f(x * 1.44269504f);
	default: return exp2f(x);
	}
}

static float E(const struct chunk *c, size_t i, size_t j) { return power(c, c->G[i] - c->G[j]); }

/* y_i = x_0 + ... + x_i in warps of 32: each lane adds the one 1, 2, 4, 8, 16 before it, then the warps before. */
static void warp_scan(float *x, size_t n)
{
	float before[32], carry = 0;

	for (size_t w = 0; w < n; w += 32) {
		size_t m = n - w < 32 ? n - w : 32;
		for (size_t d = 1; d < 32; d *= 2) {
			memcpy(before, x + w, m * sizeof *x);
			for (size_t i = d; i < m; i++) x[w + i] = before[i] + before[i - d];
		}
		for (size_t i = 0; i < m; i++) x[w + i] += carry;
		carry = x[w + m - 1];
	}
}

static void exponents(struct chunk *c, size_t t0)
{
	const struct delta *o = c->p->o;
	size_t L = c->L;

	for (size_t i = 0; i < L; i++) c->G[i] = delta_g(c->p, t0 + i) * (o->unit == LOG2_FIRST ? 1.44269504f : 1);
	if (o->warp_scan) warp_scan(c->G, L);
	else for (size_t i = 1; i < L; i++) c->G[i] += c->G[i - 1];
	for (size_t i = 0; o->unit == LOG2_AFTER && i < L; i++) c->G[i] *= 1.44269504f;
	for (size_t i = 0; i < L; i++) {
		float G = c->p->fault == OWN_DECAY_TWICE ? i ? c->G[i - 1] : 0 : c->G[i];
		c->eG[i] = power(c, c->G[i]);
		c->end[i] = power(c, c->G[L - 1] - G);
	}
	c->last = c->p->fault == NATURAL_END ? expf(c->G[L - 1]) : c->eG[L - 1];
}

/* ---- a chunk ---- */

static void load_rows(struct chunk *c, size_t t0)
{
	const struct delta_head *p = c->p;
	const struct delta *o = p->o;
	size_t Dk = p->s->Dk, Dv = p->s->Dv;

	for (size_t i = 0; i < c->L; i++) {
		float rq = delta_norm(p, delta_q(p, t0 + i)), rk = delta_key_norm(p, t0 + i),
			scale = o->scale == ON_LOAD ? p->in->scale : 1;
		for (size_t d = 0; d < Dk; d++) {
			c->Q[i * Dk + d] = delta_q(p, t0 + i)[d] * (o->q_norm == ON_LOAD ? rq : 1) * scale;
			c->K[i * Dk + d] = delta_k(p, t0 + i)[d] * (o->k_norm == ON_LOAD ? rk : 1);
		}
		memcpy(c->V + i * Dv, delta_v(p, t0 + i), Dv * sizeof *c->V);
		c->b[i] = delta_step_size(p, t0 + i);
		c->rq[i] = rq;
		c->rk[i] = rk;
	}
	round_all(o->at[Q_LOADED], c->Q, c->L * Dk);
	round_all(o->at[K_LOADED], c->K, c->L * Dk);
}

static struct chunk load(const struct delta_head *p, size_t t0, size_t L)
{
	size_t Dk = p->s->Dk, Dv = p->s->Dv;
	struct chunk c = { .p = p, .L = L, .Q = floats(L * Dk), .K = floats(L * Dk), .V = floats(L * Dv), .rq = floats(L),
		.rk = floats(L), .b = floats(L), .G = floats(L), .eG = floats(L), .end = floats(L), .N = floats(L * Dv) };

	load_rows(&c, t0);
	exponents(&c, t0);
	return c;
}

/* A, decayed unless that is done to its inverse. */
static float *gram(const struct chunk *c)
{
	const struct delta *o = c->p->o;
	size_t L = c->L, Dk = c->p->s->Dk;
	const float *r = late_k(c, o->k_gram, ON_OPERAND), *late = late_k(c, o->k_gram, ON_RESULT);
	float *left = operand(c, GRAM_LEFT, c->K, L, Dk, r, if_at(o->beta_gram, ON_OPERAND, c->b)),
		*right = operand(c, GRAM_RIGHT, c->K, L, Dk, r, NULL);
	float *A = floats(L * L);

	product(o->gram, A, plain(left, Dk), turned(right, Dk), L, Dk, L, false);
	scale_rows(A, late, L, L);
	scale_cols(A, late, L, L);
	if (c->p->fault == BETA_OF_COLUMN) scale_cols(A, c->b, L, L);
	else scale_rows(A, if_at(o->beta_gram, ON_RESULT, c->b), L, L);
	for (size_t i = 0; i < L; i++)
		for (size_t j = 0; j < L; j++) A[i * L + j] = j < i ? A[i * L + j] * (o->after ? 1 : E(c, i, j)) : 0;
	round_all(o->at[A_GIVEN], A, L * L);
	return A;
}

/* T [L,L]: of A padded with zeros to the chunk's full size. */
static float *inverse(const struct chunk *c)
{
	const struct delta *o = c->p->o;
	size_t L = c->L, n = o->chunk;
	float *A = gram(c), *full = floats(n * n), *X = floats(n * n), *T = floats(L * L);

	for (size_t i = 0; i < L; i++) memcpy(full + i * n, A + i * L, L * sizeof *A);
	delta_inverse(o, c->p->fault, full, X, n);
	for (size_t i = 0; i < L; i++) {
		size_t from = c->p->fault == ROW_OF_INVERSE_EARLY && i % TILE == TILE - 1 && i + 1 < L ? i + 1 : i;
		memcpy(T + i * L, X + from * n, L * sizeof *T);
	}
	round_all(o->at[T_STORED], T, L * L);
	for (size_t i = 0; o->after && i < L; i++)
		for (size_t j = 0; j <= i; j++) T[i * L + j] *= E(c, i, j);
	return T;
}

/* N = T diag(b) (V - e^G K S) */
static void residual(struct chunk *c, const float *T, const float *S)
{
	const struct delta *o = c->p->o;
	size_t L = c->L, Dk = c->p->s->Dk, Dv = c->p->s->Dv;
	float *K = operand(c, KS_K, c->K, L, Dk, late_k(c, o->k_state, ON_OPERAND), if_at(o->decay_k, ON_OPERAND, c->eG));
	float *H = floats(L * Dv), *R = floats_of(c->V, L * Dv);

	product(o->state, H, plain(K, Dk), plain(operand(c, KS_S, S, Dk, Dv, NULL, NULL), Dv), L, Dk, Dv, false);
	scale_rows(H, late_k(c, o->k_state, ON_RESULT), L, Dv);
	scale_rows(H, if_at(o->decay_k, ON_RESULT, c->eG), L, Dv);
	round_all(o->at[SUBTRAHEND], H, L * Dv);
	for (size_t i = 0; i < L * Dv; i++) R[i] -= H[i];
	scale_rows(R, if_at(o->beta_v, ON_OPERAND, c->b), L, Dv);
	round_all(o->at[RESIDUAL], R, L * Dv);
	product(o->state, c->N, plain(with_columns(c, T_V, T, if_at(o->beta_v, ON_RESULT, c->b), NULL, NULL), L), plain(R, Dv), L,
		L, Dv, false);
}

/* N = U - W S with U = T diag(b) V, W = T diag(b e^G) K */
static void wy(struct chunk *c, const float *T, const float *S)
{
	const struct delta *o = c->p->o;
	size_t L = c->L, Dk = c->p->s->Dk, Dv = c->p->s->Dv;
	float *BV = operand(c, B_V, c->V, L, Dv, if_at(o->beta_v, ON_OPERAND, c->b), NULL), *W = floats(L * Dk),
		*H = floats(L * Dv);
	float *BK = floats_of(c->K, L * Dk);

	product(o->state, c->N, plain(with_columns(c, T_V, T, if_at(o->beta_v, ON_RESULT, c->b), NULL, NULL), L), plain(BV, Dv),
		L, L, Dv, false);
	round_all(o->at[U_GIVEN], c->N, L * Dv);
	scale_rows(BK, late_k(c, o->k_state, ON_OPERAND), L, Dk);
	BK = operand(c, B_K, BK, L, Dk, if_at(o->beta_k, ON_OPERAND, c->b), if_at(o->decay_k, ON_OPERAND, c->eG));
	float *TK = with_columns(c, T_K, T, if_at(o->beta_k, ON_RESULT, c->b), if_at(o->decay_k, ON_RESULT, c->eG),
		late_k(c, o->k_state, ON_RESULT));
	product(o->state, W, plain(TK, L), plain(BK, Dk), L, L, Dk, false);
	round_all(o->at[W_S], W, L * Dk);
	product(o->state, H, plain(W, Dk), plain(operand(c, KS_S, S, Dk, Dv, NULL, NULL), Dv), L, Dk, Dv, false);
	round_all(o->at[SUBTRAHEND], H, L * Dv);
	for (size_t i = 0; i < L * Dv; i++) c->N[i] -= H[i];
}

/* P [L,L] */
static float *scores(const struct chunk *c)
{
	const struct delta *o = c->p->o;
	size_t L = c->L, Dk = c->p->s->Dk;
	float *P = floats(L * L), *K = operand(c, QK_K, c->K, L, Dk, late_k(c, o->k_scores, ON_OPERAND), NULL);

	product(o->gram, P, plain(operand(c, QK_Q, c->Q, L, Dk, NULL, NULL), Dk), turned(K, Dk), L, Dk, L, false);
	scale_rows(P, if_at(o->q_norm, ON_RESULT, c->rq), L, L);
	scale_cols(P, late_k(c, o->k_scores, ON_RESULT), L, L);
	for (size_t i = 0; o->scale == ON_RESULT && i < L * L; i++) P[i] *= c->p->in->scale;
	round_all(o->at[SCORES], P, L * L);
	for (size_t i = 0; i < L; i++)
		for (size_t j = 0; j < L; j++) {
			float e = j > i ? 0 : E(c, c->p->fault == MASK_A_TOKEN_LATE && i > j ? i - 1 : i, j);
			P[i * L + j] = e == 0 ? 0 : P[i * L + j] * e;
		}
	round_all(o->at[PN_P], P, L * L);
	return P;
}

static void outputs(const struct chunk *c, size_t t0, const float *S, float *o)
{
	const struct delta_head *p = c->p;
	const struct delta *how = p->o;
	size_t L = c->L, Dk = p->s->Dk, Dv = p->s->Dv;
	float *H = floats(L * Dv), *I = floats(L * Dv), *Q = operand(c, QS_Q, c->Q, L, Dk, if_at(how->decay_q, ON_OPERAND, c->eG),
		NULL);
	float *Nr = operand(c, PN_N, c->N, L, Dv, NULL, NULL), scale = p->in->scale, end = how->scale == AT_END ? scale : 1;

	product(how->state, H, plain(Q, Dk), plain(operand(c, QS_S, S, Dk, Dv, NULL, NULL), Dv), L, Dk, Dv, false);
	for (size_t i = 0; i < L * Dv; i++) {
		float e = how->decay_q == ON_RESULT && !(p->fault == NO_DECAY_IN_TILE && i % Dv >= TILE) ? c->eG[i / Dv] : 1;
		H[i] *= e * (how->q_norm == ON_RESULT ? c->rq[i / Dv] : 1);
		if (how->scale == ON_RESULT || p->fault == SCALED_TWICE_FROM_STATE) H[i] *= scale;
	}
	round_all(how->at[QS_GIVEN], H, L * Dv);
	if (how->more_o) memcpy(I, H, L * Dv * sizeof *H);
	product(how->state, I, plain(scores(c), L), plain(Nr, Dv), L, L, Dv, how->more_o);
	for (size_t i = 0; i < L * Dv; i++) {
		float sum = how->more_o ? I[i] : H[i] + I[i];
		o[((t0 + i / Dv) * p->s->Hv + p->h) * Dv + i % Dv] = sum * end * (how->q_norm == AT_END ? c->rq[i / Dv] : 1);
	}
}

/* S <- e^G_L S + K' e^(G_L - G) N */
static void carry(const struct chunk *c, float *S)
{
	const struct delta *o = c->p->o;
	size_t L = c->L, Dk = c->p->s->Dk, Dv = c->p->s->Dv;
	float *N = o->again ? operand(c, PN_N, c->N, L, Dv, NULL, NULL) : c->N, *D = floats(Dk * Dv);
	float *UN = operand(c, UPDATE_N, N, L, Dv, if_at(o->decay_end, ON_RESULT, c->end), late_k(c, o->k_update, ON_RESULT));
	float *UK = operand(c, UPDATE_K, c->K, L, Dk, if_at(o->decay_end, ON_OPERAND, c->end),
		late_k(c, o->k_update, ON_OPERAND));

	for (size_t i = 0; i < Dk * Dv; i++) S[i] *= c->last;
	product(o->state, o->more_S ? S : D, turned(UK, Dk), plain(UN, Dv), Dk, L, Dv, o->more_S);
	for (size_t i = 0; !o->more_S && i < Dk * Dv; i++) S[i] += D[i];
}

void delta_chunks(const struct delta_head *p, float *S, float *o)
{
	size_t C = p->o->chunk, size = p->s->Dk * p->s->Dv;
	float *old = floats_of(S, size), *before = floats(size);

	for (size_t t = p->first, mark = floats_mark(); t < p->last; t += C, floats_release(mark)) {
		struct chunk c = load(p, t, p->last - t < C ? p->last - t : C);
		const float *T = inverse(&c), *read = p->fault == STATE_A_CHUNK_OLD ? old : S;
		memcpy(before, S, size * sizeof *S);
		(p->o->wy ? wy : residual)(&c, T, read);
		round_all(p->o->at[N_GIVEN], c.N, c.L * p->s->Dv);
		outputs(&c, t, S, o);
		carry(&c, S);
		memcpy(old, before, size * sizeof *S);
	}
}
