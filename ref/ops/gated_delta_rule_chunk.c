/* The gated delta rule in chunks of C tokens: what does not depend on the state is done for a whole
 * chunk as matrix products (the WY form of Yang et al. 2024), and the state is updated once a chunk.
 * Within a chunk, with G the running sum of g, in units of ln 2 once it is there, and L its length:
 *   A_ij = beta_i e^(G_i - G_j) k_i·k_j  (j < i),    T = (I + A)^-1,
 *   U = T (beta v),   W = T (beta e^G k),   V = U - W S,
 *   o_i = scale (e^G_i S'q_i + Σ_{j<=i} e^(G_i - G_j) (q_i·k_j) V_j),
 *   S <- e^G_L S + Σ_i k_i (e^(G_L - G_i) V_i)'. */
#include <math.h>

#include "gated_delta_rule.h"

#define F32_EXP_MAX 128         /* 2^x overflows a float from here */

/* G, R, eG, eR: G in units of ln 2 and e^G, of each token and of the decay at which it retrieves: its own;
 * before its decay, the one before's. k_given and k_factor, what its norm multiplies it by: for the sites that need them. */
struct chunk { mat Q, K, V; vec g, beta, G, eG, R, eR; size_t L; mat k_given; vec k_factor; };

static const struct { int fault; size_t slot; } wrong_end[] = {
	{ CHUNK_END_DECAY_WRONG_SLOT, 61 }, { CHUNK_END_DECAY_SLOT_57, 57 }, { CHUNK_END_DECAY_SLOT_59, 59 },
};

static bool in_two_parts(const calc *c, int site)
{
	const struct site_rounding *r = c_rounding(c, site);

	return r && r->format == FMT_BF16X2;
}

/* what a first part in bf16 leaves of A */
static mat rest(calc *c, mat A)
{
	mat B = c_mat(c, A.rows, A.cols);

	c_copy(c, flat(B), flat(A));
	c_round(c, FMT_BF16, flat(B));
	c_sub(c, flat(B), flat(A), flat(B));
	return B;
}

/* Y <- A B of operands that were rounded at sites a and b. Where both are of two parts, the product of the second parts, as
 * small as what their rounding lost, is left out. */
static void product(calc *c, mat Y, mat A, int a, mat B, int b)
{
	c_gemm(c, Y, NN, A, B);
	if (!in_two_parts(c, a) || !in_two_parts(c, b)) return;
	mat small = c_mat(c, Y.rows, Y.cols);
	c_gemm(c, small, NN, rest(c, A), rest(c, B));
	c_sub(c, flat(Y), flat(Y), flat(small));
}

/* e^(Gi - G_j) for j < n */
static vec decay_row(calc *c, const struct chunk *k, num Gi, size_t n)
{
	vec d = c_vec(c, n), Gj = c_part(c, k->G, 0, n);

	c_map(c, d, FN_NEG, Gj);
	c_add(c, d, d, Gi);
	c_map(c, d, FN_EXP2, d);
	for (size_t j = 0; j < n && c_fault(c, SPLIT_EXPONENT); j++)
		if (c_value(c, c_part(c, Gj, j, 1)) < -F32_EXP_MAX) c_set(c, c_part(c, d, j, 1), NAN);
	return d;
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
	mat T = gdr_inverse(c, A);
	c_site(c, SITE_INVERSE, flat(T));
	return T;
}

/* T_ij factor_j: what multiplies x where a kernel takes the factors of x's rows into T. */
static mat columns_scaled(calc *c, mat T, vec factor, int site)
{
	mat Z = c_mat(c, T.rows, T.cols);

	for (size_t i = 0; i < T.rows; i++) c_mul(c, c_row(c, Z, i), c_row(c, T, i), factor);
	c_site(c, site, flat(Z));
	return Z;
}

static mat inverse_beta_k(calc *c, const struct chunk *k, mat T)
{
	vec factor = c_vec(c, k->L);

	c_mul(c, factor, k->beta, k->k_factor);
	if (!c_fault(c, CHUNK_W_FROM_DECAYED_GRAM)) c_mul(c, factor, factor, k->eR);
	gdr_times(c, factor);
	return columns_scaled(c, T, factor, SITE_INVERSE_BETA_K);
}

/* U [L,Dv] and W [L,Dk] */
static void wy(calc *c, const struct chunk *k, mat U, mat W)
{
	mat T = chunk_inverse(c, k), BV = c_mat(c, k->L, k->V.cols), BK = c_mat(c, k->L, k->K.cols);
	bool late = c_fault(c, CHUNK_W_FROM_DECAYED_GRAM);

	for (size_t i = 0; i < k->L; i++) {
		num beta = c_part(c, k->beta, i, 1), eR = c_part(c, k->eR, i, 1);
		c_mul(c, c_row(c, BV, i), c_row(c, k->V, i), beta);
		c_mul(c, c_row(c, BK, i), c_row(c, k->K, i), beta);
		if (!late) c_mul(c, c_row(c, BK, i), c_row(c, BK, i), eR);
	}
	gdr_times(c, flat(BK));
	c_site(c, SITE_BETA_V, flat(BV));
	c_site(c, SITE_BETA_K, flat(BK));
	if (c_rounding(c, SITE_INVERSE_BETA)) c_gemm(c, U, NN, columns_scaled(c, T, k->beta, SITE_INVERSE_BETA), k->V);
	else c_gemm(c, U, NN, T, BV);
	if (c_rounding(c, SITE_INVERSE_BETA_K)) c_gemm(c, W, NN, inverse_beta_k(c, k, T), k->k_given);
	else c_gemm(c, W, NN, T, BK);
	for (size_t i = 0; i < k->L && late; i++) c_mul(c, c_row(c, W, i), c_row(c, W, i), c_part(c, k->eR, i, 1));
	c_site(c, SITE_U, flat(U));
	c_site(c, SITE_W, flat(W));
}

/* e^(G_i - G_j) q_i·k_j for j <= i, or j < i where o is read before the update */
static mat attention(calc *c, const struct chunk *k)
{
	mat P = c_mat(c, k->L, k->L);
	size_t own = !c_fault(c, READ_BEFORE_UPDATE);

	c_gemm(c, P, NT, k->Q, k->K);
	for (size_t i = 0; i < k->L; i++) {
		vec row = c_row(c, P, i), lower = c_part(c, row, 0, i + own);
		num Gi = c_part(c, k->G, i, 1);
		double over = c_value(c, Gi) - c_value(c, c_part(c, k->G, k->L - 1, 1));
		if (!c_fault(c, CHUNK_MASK_WITHOUT_DECAY)) c_mul(c, lower, lower, decay_row(c, k, Gi, i + own));
		if (c_fault(c, MASK_AFTER_MULTIPLY) && over > F32_EXP_MAX) c_set(c, lower, NAN);
		c_set(c, c_part(c, row, i + own, k->L - i - own), 0);
	}
	c_site(c, SITE_ATTENTION, flat(P));
	return P;
}

static void outputs(calc *c, const struct head *p, const struct chunk *k, size_t t0, mat S, mat V, num scale)
{
	mat O = c_mat(c, k->L, S.cols), I = c_mat(c, k->L, S.cols);

	c_gemm(c, O, NN, k->Q, S);
	product(c, I, attention(c, k), SITE_ATTENTION, V, SITE_V_NEW);
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
		if (c_fault(c, wrong_end[i].fault) && L > wrong_end[i].slot) return wrong_end[i].slot;
	return L - 1;
}

/* S <- e^G_L S + Σ k_i (e^(G_L - G_i) V_i)' */
static void carry(calc *c, const struct chunk *k, mat S, mat V)
{
	bool tail = k->L < c_chunk(c) && c_fault(c, CHUNK_END_DECAY_LOST_ON_TAIL), given = c_rounding(c, SITE_V_NEW_DECAYED_K) != NULL;
	num d = c_num(c), G = c_part(c, k->G, end_slot(c, k->L), 1);

	for (size_t i = 0; i < k->L; i++) {
		c_sub(c, d, G, c_part(c, k->G, i, 1));
		c_map(c, d, FN_EXP2, d);
		if (given) c_mul(c, d, d, c_part(c, k->k_factor, i, 1));
		c_mul(c, c_row(c, V, i), c_row(c, V, i), d);
	}
	c_site(c, given ? SITE_V_NEW_DECAYED_K : SITE_V_NEW_DECAYED, flat(V));
	c_map(c, d, FN_EXP2, G);
	if (!tail) c_mul(c, flat(S), flat(S), d);
	c_gemm_add(c, S, TN, given ? k->k_given : k->K, V);
	c_site(c, SITE_STATE, flat(S));
}

static void load_given(calc *c, const struct head *p, size_t t0, struct chunk *k)
{
	size_t Dk = c_dim(c, D_DK);
	bool normed = c_param(c, P_QK_L2NORM) && !c_fault(c, L2_MISSING_K);
	vec x = c_vec(c, Dk);

	k->k_given = c_mat(c, k->L, Dk);
	k->k_factor = c_vec(c, k->L);
	for (size_t i = 0; i < k->L; i++) {
		num factor = c_part(c, k->k_factor, i, 1);
		c_load(c, x, IN_K, ((t0 + i) * c_dim(c, D_HK) + p->hk) * Dk, 1);
		c_copy(c, c_row(c, k->k_given, i), x);
		c_set(c, factor, 1);
		if (normed) c_copy(c, factor, delta_l2_norm(c, x, c_param(c, P_L2_EPS)));
	}
}

static void load_chunk(calc *c, const struct head *p, size_t t0, size_t L, struct chunk *k)
{
	size_t Dk = c_dim(c, D_DK), Dv = c_dim(c, D_DV);

	*k = (struct chunk){ c_mat(c, L, Dk), c_mat(c, L, Dk), c_mat(c, L, Dv),
		c_vec(c, L), c_vec(c, L), c_vec(c, L), c_vec(c, L), { 0 }, { 0 }, L, { 0 }, { 0 } };
	for (size_t i = 0; i < L; i++)
		gdr_token(c, p, t0 + i, c_row(c, k->Q, i), c_row(c, k->K, i), c_row(c, k->V, i), c_part(c, k->g, i, 1),
			c_part(c, k->beta, i, 1));
	if (c_rounding(c, SITE_INVERSE_BETA_K) || c_rounding(c, SITE_V_NEW_DECAYED_K)) load_given(c, p, t0, k);
	c_scan(c, k->G, k->g);
	c_site(c, SITE_G_SUM, k->G);
	c_map(c, k->G, FN_PER_LN2, k->G);
	c_map(c, k->eG, FN_EXP2, k->G);
	k->R = k->G;
	k->eR = k->eG;
	if (!c_fault(c, RETRIEVE_BEFORE_DECAY)) return;
	k->R = c_vec(c, L);
	k->eR = c_vec(c, L);
	c_copy(c, c_part(c, k->R, 1, L - 1), c_part(c, k->G, 0, L - 1));
	c_map(c, k->eR, FN_EXP2, k->R);
}

void gdr_chunked(calc *c, size_t piece)
{
	struct head p = gdr_head(c, piece);
	size_t Dv = c_dim(c, D_DV), C = c_chunk(c), t = p.token.first, end = c_strip(c).last;
	struct carried s = gdr_begin(c, &p, &t);
	mat S = s.S;
	size_t mark = c_mark(c);
	struct chunk k;

	for (; t < p.token.last && t < end; t += C) {
		size_t L = p.token.last - t < C ? p.token.last - t : C;
		bool again = t + L > end;       /* in the next strip, which has the rest of the chunk's tokens */
		if (again) c_suspend(c, s.all, t);
		if (t > p.token.first && c_fault(c, CHUNK_STATE_NOT_CARRIED)) c_set(c, flat(S), 0);
		load_chunk(c, &p, t, L, &k);
		mat U = c_mat(c, L, Dv), W = c_mat(c, L, S.rows), V = c_mat(c, L, Dv);
		mat operand = gdr_copy_at(c, S, SITE_STATE_OPERAND);
		wy(c, &k, U, W);
		product(c, V, W, SITE_W, operand, SITE_STATE_OPERAND);
		c_sub(c, flat(V), flat(U), flat(V));
		outputs(c, &p, &k, t, operand, gdr_copy_at(c, V, SITE_V_NEW), s.scale);
		carry(c, &k, S, V);
		c_release(c, mark);
		if (again) return;
	}
	gdr_end(c, &p, &s, t);
}
