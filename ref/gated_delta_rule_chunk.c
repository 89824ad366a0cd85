/* The gated delta rule in chunks of C tokens: what does not depend on the state is done for a whole
 * chunk as matrix products (the WY form of Yang et al. 2024), and the state is updated once a chunk.
 * Within a chunk, with G the running sum of g, in units of ln 2 once it is there, and L its length:
 *   A_ij = beta_i e^(G_i - G_j) k_i·k_j  (j < i),    T = (I + A)^-1,
 *   U = T (beta v),   W = T (beta e^G k),   V = U - W S,
 *   o_i = scale (e^G_i S'q_i + Σ_{j<=i} e^(G_i - G_j) (q_i·k_j) V_j),
 *   S <- e^G_L S + Σ_i k_i (e^(G_L - G_i) V_i)'. */
#include <math.h>

#include "gated_delta_rule.h"

enum { BLOCK = 16 };            /* T is inverted in blocks of 16 and merged */
#define F32_EXP_MAX 128         /* 2^x overflows a float from here */

/* G, R, eG, eR: G in units of ln 2 and e^G, of each token and of the decay at which it retrieves: its own;
 * before its decay, the one before's. */
struct chunk { mat Q, K, V; vec g, beta, G, eG, R, eR; size_t L; };

static const struct { int mistake; size_t slot; } wrong_end[] = {
	{ CHUNK_END_DECAY_WRONG_SLOT, 61 }, { CHUNK_END_DECAY_SLOT_57, 57 }, { CHUNK_END_DECAY_SLOT_59, 59 },
};

/* rows [i0,i0+n) and columns [j0,j0+m) of M, as a new matrix */
static mat block(calc *c, mat M, size_t i0, size_t n, size_t j0, size_t m)
{
	mat B = c_mat(c, n, m);

	for (size_t i = 0; i < n; i++) c_copy(c, c_row(c, B, i), c_part(c, c_row(c, M, i0 + i), j0, m));
	return B;
}

static mat copy_at(calc *c, mat A, int site)
{
	mat B = c_mat(c, A.rows, A.cols);

	c_copy(c, flat(B), flat(A));
	c_site(c, site, flat(B));
	return B;
}

/* e^(Gi - G_j) for j < n */
static vec decay_row(calc *c, const struct chunk *k, num Gi, size_t n)
{
	vec d = c_vec(c, n), Gj = c_part(c, k->G, 0, n);

	c_map(c, d, FN_NEG, Gj);
	c_add(c, d, d, Gi);
	c_map(c, d, FN_EXP2, d);
	for (size_t j = 0; j < n && c_mistake(c, SPLIT_EXPONENT); j++)
		if (c_value(c, c_part(c, Gj, j, 1)) < -F32_EXP_MAX) c_set(c, c_part(c, d, j, 1), NAN);
	return d;
}

/* T = (I + A)^-1, A strictly lower: forward substitution in the diagonal blocks, then
 * T_rs = -T_rr (Σ_{s<=p<r} A_rp T_ps), and -(T_rr A_rs) T_ss for neighbours: the order in which
 * flash-linear-attention multiplies. Every operand passes the site inverse_merge. */
static mat inverse(calc *c, mat A)
{
	size_t L = A.rows;
	mat T = c_mat(c, L, L);
	num a = c_num(c);

	for (size_t i = 0; i < L; i++) {
		size_t b = i / BLOCK * BLOCK;
		c_set(c, c_part(c, c_row(c, T, i), i, 1), 1);
		for (size_t j = b; j < i; j++) {
			c_map(c, a, FN_NEG, c_part(c, c_row(c, A, i), j, 1));
			c_axpy(c, c_part(c, c_row(c, T, i), b, i - b), a, c_part(c, c_row(c, T, j), b, i - b));
		}
	}
	for (size_t r = BLOCK; r < L; r += BLOCK) {
		size_t n = L - r < BLOCK ? L - r : BLOCK;
		mat Trr = copy_at(c, block(c, T, r, n, r, n), SITE_INVERSE_MERGE);
		for (size_t s = 0; s < r; s += BLOCK) {
			mat Ar = copy_at(c, block(c, A, r, n, s, r - s), SITE_INVERSE_MERGE);
			mat Ts = copy_at(c, block(c, T, s, r - s, s, BLOCK), SITE_INVERSE_MERGE);
			mat X = c_mat(c, n, BLOCK), Y = c_mat(c, n, BLOCK);
			bool next = s + BLOCK == r;
			if (next) c_gemm(c, X, NN, Trr, Ar);
			else c_gemm(c, X, NN, Ar, Ts);
			c_site(c, SITE_INVERSE_MERGE, flat(X));
			if (next) c_gemm(c, Y, NN, X, Ts);
			else c_gemm(c, Y, NN, Trr, X);
			for (size_t i = 0; i < n; i++)
				c_map(c, c_part(c, c_row(c, T, r + i), s, BLOCK), FN_NEG, c_row(c, Y, i));
		}
	}
	return T;
}

/* T of the chunk; the Gram matrix is decayed and scaled by beta. */
static mat chunk_inverse(calc *c, const struct chunk *k)
{
	mat A = c_mat(c, k->L, k->L);

	c_gemm(c, A, NT, k->K, k->K);
	for (size_t i = 0; i < k->L; i++) {
		vec row = c_row(c, A, i), lower = c_part(c, row, 0, i);
		if (i) c_mul(c, lower, lower, decay_row(c, k, c_part(c, k->R, i, 1), i));
		if (i) c_mul(c, lower, lower, c_part(c, k->beta, i, 1));
		c_set(c, c_part(c, row, i, k->L - i), 0);
	}
	gdr_times(c, flat(A));
	c_site(c, SITE_GRAM, flat(A));
	mat T = inverse(c, A);
	c_site(c, SITE_INVERSE, flat(T));
	return T;
}

/* U [L,Dv] and W [L,Dk] */
static void wy(calc *c, const struct chunk *k, mat U, mat W)
{
	mat T = chunk_inverse(c, k), BV = c_mat(c, k->L, k->V.cols), BK = c_mat(c, k->L, k->K.cols);
	bool late = c_mistake(c, CHUNK_W_FROM_DECAYED_GRAM);

	for (size_t i = 0; i < k->L; i++) {
		num beta = c_part(c, k->beta, i, 1), eR = c_part(c, k->eR, i, 1);
		c_mul(c, c_row(c, BV, i), c_row(c, k->V, i), beta);
		c_mul(c, c_row(c, BK, i), c_row(c, k->K, i), beta);
		if (!late) c_mul(c, c_row(c, BK, i), c_row(c, BK, i), eR);
	}
	gdr_times(c, flat(BK));
	c_site(c, SITE_BETA_V, flat(BV));
	c_site(c, SITE_BETA_K, flat(BK));
	c_gemm(c, U, NN, T, BV);
	c_gemm(c, W, NN, T, BK);
	for (size_t i = 0; i < k->L && late; i++) c_mul(c, c_row(c, W, i), c_row(c, W, i), c_part(c, k->eR, i, 1));
	c_site(c, SITE_U, flat(U));
	c_site(c, SITE_W, flat(W));
}

/* e^(G_i - G_j) q_i·k_j for j <= i, or j < i where o is read before the update */
static mat attention(calc *c, const struct chunk *k)
{
	mat P = c_mat(c, k->L, k->L);
	size_t own = !c_mistake(c, READ_BEFORE_UPDATE);

	c_gemm(c, P, NT, k->Q, k->K);
	for (size_t i = 0; i < k->L; i++) {
		vec row = c_row(c, P, i), lower = c_part(c, row, 0, i + own);
		num Gi = c_part(c, k->G, i, 1);
		double over = c_value(c, Gi) - c_value(c, c_part(c, k->G, k->L - 1, 1));
		if (!c_mistake(c, CHUNK_MASK_WITHOUT_DECAY)) c_mul(c, lower, lower, decay_row(c, k, Gi, i + own));
		if (c_mistake(c, MASK_AFTER_MULTIPLY) && over > F32_EXP_MAX) c_set(c, lower, NAN);
		c_set(c, c_part(c, row, i + own, k->L - i - own), 0);
	}
	c_site(c, SITE_ATTENTION, flat(P));
	return P;
}

static void outputs(calc *c, const struct head *p, const struct chunk *k, size_t t0, mat S, mat V, num scale)
{
	mat O = c_mat(c, k->L, S.cols), I = c_mat(c, k->L, S.cols);

	c_gemm(c, O, NN, k->Q, S);
	c_gemm(c, I, NN, attention(c, k), V);
	for (size_t i = 0; i < k->L; i++) {
		vec o = c_row(c, O, i);
		c_mul(c, o, o, c_part(c, k->eG, i, 1));
		c_add(c, o, o, c_row(c, I, i));
		c_mul(c, o, o, scale);
		c_site(c, SITE_O, o);
		c_store(c, OUT_O, gdr_o_at(c, p, t0 + i), 1, o);
	}
}

/* The slot of a chunk's total decay: its last. */
static size_t end_slot(const calc *c, size_t L)
{
	for (size_t i = 0; i < sizeof wrong_end / sizeof *wrong_end; i++)
		if (c_mistake(c, wrong_end[i].mistake) && L > wrong_end[i].slot) return wrong_end[i].slot;
	return L - 1;
}

/* S <- e^G_L S + Σ k_i (e^(G_L - G_i) V_i)' */
static void carry(calc *c, const struct chunk *k, mat S, mat V)
{
	bool tail = k->L < c_chunk(c) && c_mistake(c, CHUNK_END_DECAY_LOST_ON_TAIL);
	num d = c_num(c), G = c_part(c, k->G, end_slot(c, k->L), 1);

	for (size_t i = 0; i < k->L; i++) {
		c_sub(c, d, G, c_part(c, k->G, i, 1));
		c_map(c, d, FN_EXP2, d);
		c_mul(c, c_row(c, V, i), c_row(c, V, i), d);
	}
	c_site(c, SITE_V_NEW_DECAYED, flat(V));
	c_map(c, d, FN_EXP2, G);
	if (!tail) c_mul(c, flat(S), flat(S), d);
	c_gemm_add(c, S, TN, k->K, V);
	c_site(c, SITE_STATE, flat(S));
}

static void load_chunk(calc *c, const struct head *p, size_t t0, size_t L, struct chunk *k)
{
	size_t Dk = c_dim(c, D_DK), Dv = c_dim(c, D_DV);

	*k = (struct chunk){ c_mat(c, L, Dk), c_mat(c, L, Dk), c_mat(c, L, Dv),
		c_vec(c, L), c_vec(c, L), c_vec(c, L), c_vec(c, L), { 0 }, { 0 }, L };
	for (size_t i = 0; i < L; i++)
		gdr_token(c, p, t0 + i, c_row(c, k->Q, i), c_row(c, k->K, i), c_row(c, k->V, i), c_part(c, k->g, i, 1),
			c_part(c, k->beta, i, 1));
	c_scan(c, k->G, k->g);
	c_site(c, SITE_G_SUM, k->G);
	c_map(c, k->G, FN_PER_LN2, k->G);
	c_map(c, k->eG, FN_EXP2, k->G);
	k->R = k->G;
	k->eR = k->eG;
	if (!c_mistake(c, RETRIEVE_BEFORE_DECAY)) return;
	k->R = c_vec(c, L);
	k->eR = c_vec(c, L);
	c_copy(c, c_part(c, k->R, 1, L - 1), c_part(c, k->G, 0, L - 1));
	c_map(c, k->eR, FN_EXP2, k->R);
}

void gdr_chunked(calc *c, size_t piece)
{
	struct head p = gdr_head(c, piece);
	size_t Dv = c_dim(c, D_DV), C = c_chunk(c);
	mat S = c_mat(c, c_dim(c, D_DK), Dv);
	num scale = c_num(c);
	size_t mark = c_mark(c);
	struct chunk k;

	gdr_state_in(c, &p, S);
	gdr_scale(c, scale);
	for (size_t t = p.token.first; t < p.token.last; t += C) {
		size_t L = p.token.last - t < C ? p.token.last - t : C;
		if (t > p.token.first && c_mistake(c, CHUNK_STATE_NOT_CARRIED)) c_set(c, flat(S), 0);
		load_chunk(c, &p, t, L, &k);
		mat U = c_mat(c, L, Dv), W = c_mat(c, L, S.rows), V = c_mat(c, L, Dv);
		mat operand = copy_at(c, S, SITE_STATE_OPERAND);
		wy(c, &k, U, W);
		c_gemm(c, V, NN, W, operand);
		c_sub(c, flat(V), flat(U), flat(V));
		outputs(c, &p, &k, t, operand, copy_at(c, V, SITE_V_NEW), scale);
		carry(c, &k, S, V);
		c_release(c, mark);
	}
	gdr_pads(c, &p, S);
	gdr_state_out(c, &p, S);
}
