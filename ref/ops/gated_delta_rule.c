/* The gated delta rule, token by token, and its tables. What a token reads is in
 * gated_delta_rule_token.c, the chunked form in gated_delta_rule_chunk.c. */
#include <math.h>

#include "gated_delta_rule.h"

void delta_step(calc *c, mat S, vec q, vec k, vec v, num decay, num beta, vec u, vec o)
{
	bool early = c_fault(c, RETRIEVE_BEFORE_DECAY), read_early = c_fault(c, READ_BEFORE_UPDATE);

	if (early) c_gemv_t(c, u, S, k);
	if (decay.n) c_mul(c, flat(S), flat(S), decay);         /* S <- exp(g) S     */
	if (!early) c_gemv_t(c, u, S, k);                       /* u <- S'k          */
	if (read_early) c_gemv_t(c, o, S, q);
	gdr_times(c, u);
	c_sub(c, u, v, u);
	c_mul(c, u, u, beta);                                   /* u <- beta (v - u) */
	c_site(c, SITE_U, u);
	c_ger(c, S, k, u);                                      /* S <- S + k u'     */
	c_site(c, SITE_STATE, flat(S));
	if (!read_early) c_gemv_t(c, o, S, q);                  /* o <- S'q          */
	c_site(c, SITE_O, o);
}

static void gdr_sequential(calc *c, size_t piece)
{
	struct head p = gdr_head(c, piece);
	size_t Dk = c_dim(c, D_DK), Dv = c_dim(c, D_DV), t = p.token.first;
	struct carried s = gdr_begin(c, &p, &t);
	mat S = s.S;
	vec q = c_vec(c, Dk), k = c_vec(c, Dk), v = c_vec(c, Dv), u = c_vec(c, Dv), o = c_vec(c, Dv);
	num g = c_num(c), beta = c_num(c), e = c_num(c), none = { 0 };
	size_t mark = c_mark(c);

	for (; t < p.token.last && t < c_strip(c).last; t++) {
		gdr_token(c, &p, t, q, k, v, g, beta);
		c_mul(c, q, q, s.scale);
		c_map(c, e, FN_EXP, g);
		delta_step(c, S, q, k, v, c_param(c, P_GATED) ? e : none, beta, u, o);
		c_store(c, OUT_O, gdr_o_at(c, &p, t), 1, o);
		c_release(c, mark);
	}
	gdr_end(c, &p, &s, t);
}

static bool check(const struct call *call, struct error *e)
{
	const struct tensor *const *in = call->in;
	bool gated = call->param[P_GATED] != 0;
	bool raw = in[IN_A] && in[IN_A_LOG] && in[IN_DT_BIAS], some = in[IN_A] || in[IN_A_LOG] || in[IN_DT_BIAS], g = in[IN_G];

	if (call->dim[D_HV] % call->dim[D_HK])
		return error_set(e, E_DIM, "in.v", NO_OFFSET, "expected Hv a multiple of Hk, got %zu and %zu", call->dim[D_HV], call->dim[D_HK]);
	if (gated ? raw != some || raw == g : some || g)
		return error_set(e, E_MISSING, "in.g", NO_OFFSET, gated ? "expected either in.a, in.A_log and in.dt_bias, or in.g"
			: "expected no decay (in.a, in.A_log, in.dt_bias, in.g) where gated is false");
	if (!in[IN_B] == !in[IN_BETA])
		return error_set(e, E_MISSING, "in.beta", NO_OFFSET, "expected either in.b or in.beta");
	if (!in[IN_CU] && call->dim[D_N] != 1)
		return error_set(e, E_MISSING, "in.cu_seqlens", NO_OFFSET, "expected it where N is not 1");
	return call_check_cuts(call, IN_CU, D_T, D_N, e);
}

static size_t pieces(const struct call *call) { return call->dim[D_N] * call->dim[D_HV]; }

static size_t cut_point(const struct call *call, size_t n)
{
	const struct tensor *t = call->in[IN_CU];
	double x;

	if (!t) return n ? call->dim[D_T] : 0;
	dtype_load(t->dtype, (const char *)t->data + n * dtype_info[t->dtype].size, 1, &x);
	return (size_t)x;
}

/* Sequences that end in these tokens, and with `begun` those that go on after them too. An empty one ends where it begins. */
static span sequences(const struct call *call, span tokens, bool begun)
{
	size_t N = call->dim[D_N], first = 0, last;

	while (tokens.first && first < N && cut_point(call, first + 1) <= tokens.first) first++;
	last = first;
	while (last < N && (cut_point(call, last + 1) <= tokens.last || (begun && cut_point(call, last) < tokens.last))) last++;
	return (span){ first, last };
}

static span pieces_along(const struct call *call, span tokens)
{
	span n = sequences(call, tokens, true);

	return (span){ n.first * call->dim[D_HV], n.last * call->dim[D_HV] };
}

/* The states of one sequence; none where each is a token. */
static size_t carried(const struct call *call)
{
	bool cut = false;

	for (size_t n = 0; n < call->dim[D_N]; n++) cut = cut || cut_point(call, n + 1) - cut_point(call, n) > 1;
	return cut ? call->dim[D_HV] * call->dim[D_DK] * call->dim[D_DV] : 0;
}

static span rows_along(const struct call *call, int out, span tokens)
{
	return out == OUT_O ? tokens : sequences(call, tokens, false);
}

static const struct tensor_spec in[] = {
	[IN_Q] = { "q", "T,Hk,Dk", 0, "queries" },
	[IN_K] = { "k", "T,Hk,Dk", 0, "keys" },
	[IN_V] = { "v", "T,Hv,Dv", 0, "values; value head h reads key head h / (Hv/Hk)" },
	[IN_A] = { "a", "T,Hv", OPTIONAL, "decay's input, with A_log and dt_bias" },
	[IN_B] = { "b", "T,Hv", OPTIONAL, "beta's input: beta = sigmoid(b)" },
	[IN_A_LOG] = { "A_log", "Hv", OPTIONAL, "g = -exp(A_log) softplus(a + dt_bias)" },
	[IN_DT_BIAS] = { "dt_bias", "Hv", OPTIONAL, "see A_log" },
	[IN_G] = { "g", "T,Hv", OPTIONAL, "log of the decay, instead of a, A_log, dt_bias" },
	[IN_BETA] = { "beta", "T,Hv", OPTIONAL, "step size, instead of b" },
	[IN_STATE] = { "initial_state", "N,Hv,Dk,Dv", OPTIONAL, "zeros when absent" },
	[IN_CU] = { "cu_seqlens", "N+1", OPTIONAL | INTEGER, "where sequences begin; one sequence when absent" },
	{ 0 }
};

static const struct tensor_spec out[] = {
	[OUT_O] = { "o", "T,Hv,Dv", 0, "" },
	[OUT_STATE] = { "final_state", "N,Hv,Dk,Dv", 0, "" },
	{ 0 }
};

static const struct param_spec params[] = {
	[P_QK_L2NORM] = { "qk_l2norm", PARAM_BOOL, NULL, false, 0, "q, k <- x (sum x^2 + l2_eps)^-1/2" },
	[P_L2_EPS] = { "l2_eps", PARAM_REAL, NULL, false, 1e-6, "added to the sum of squares" },
	[P_SCALE] = { "scale", PARAM_REAL, NULL, false, NAN, "of q after its norm (Dk^-1/2)" },
	[P_GATED] = { "gated", PARAM_BOOL, NULL, false, 1, "false: the plain delta rule, no decay" },
	{ 0 }
};

static const struct site_spec sites[] = {
	[SITE_Q] = { "q_norm", "q after its norm", BOTH, 0 },
	[SITE_K] = { "k_norm", "k after its norm", BOTH, 0 },
	[SITE_A_LOG] = { "A_log", "A_log as loaded", BOTH, 0 },
	[SITE_DT_BIAS] = { "dt_bias", "dt_bias as loaded", BOTH, 0 },
	[SITE_G] = { "g", "the log of the decay", BOTH, 0 },
	[SITE_BETA] = { "beta", "sigmoid(b)", BOTH, 0 },
	[SITE_U] = { "u", "beta (v - S'k); chunked: U = T (beta v)", BOTH, 0 },
	[SITE_STATE] = { "state", "the state after each token (chunked: after each chunk)", BOTH, 0 },
	[SITE_FINAL_STATE] = { "final_state", "the state after the last token", BOTH, 1 + OUT_STATE },
	[SITE_O] = { "o", "the output", BOTH, 1 + OUT_O },
	[SITE_G_SUM] = { "g_sum", "G, the running sum of g within a chunk", FORM_CHUNK, 0 },
	[SITE_GRAM] = { "gram", "A, the decayed Gram matrix of k, times beta", FORM_CHUNK, 0 },
	[SITE_INVERSE_MERGE] = { "inverse_merge", "the operands that merge the 16 x 16 blocks of T", FORM_CHUNK, 0 },
	[SITE_INVERSE] = { "inverse", "T = (I + A)^-1", FORM_CHUNK, 0 },
	[SITE_BETA_V] = { "beta_v", "beta v", FORM_CHUNK, 0 },
	[SITE_BETA_K] = { "beta_k", "beta e^G k", FORM_CHUNK, 0 },
	[SITE_W] = { "w", "W = T (beta e^G k)", FORM_CHUNK, 0 },
	[SITE_STATE_OPERAND] = { "state_operand", "the state as an operand of products", FORM_CHUNK, 0 },
	[SITE_ATTENTION] = { "attention", "the masked, decayed tile q k'", FORM_CHUNK, 0 },
	[SITE_V_NEW] = { "v_new", "V = U - W S, as the attention's operand", FORM_CHUNK, 0 },
	[SITE_V_NEW_DECAYED] = { "v_new_decayed", "e^(G_L - G) V, for the state's update", FORM_CHUNK, 0 },
	[SITE_INVERSE_BETA] = { "inverse_beta", "T_ij beta_j, which is multiplied by v", FORM_CHUNK, 0 },
	[SITE_INVERSE_BETA_K] = { "inverse_beta_k", "T_ij beta_j e^G_j / |k_j|, which is multiplied by k as given", FORM_CHUNK, 0 },
	[SITE_V_NEW_DECAYED_K] = { "v_new_decayed_k", "e^(G_L - G) V / |k|, for the state's update by k as given", FORM_CHUNK, 0 },
	{ 0 }
};

#define BF16 { true, FMT_BF16, ROUND_NEAREST_EVEN }
#define BF16X2 { true, FMT_BF16X2, ROUND_NEAREST_EVEN }
#define TF32_RZ { true, FMT_TF32, ROUND_ZERO }
static const struct structure chunked_kernels[] = {
	{ "factors_on_rows", {          /* of v and k, as flash-linear-attention has them */
		[SITE_Q] = BF16, [SITE_K] = BF16, [SITE_INVERSE_MERGE] = TF32_RZ, [SITE_INVERSE] = BF16, [SITE_BETA_V] = BF16,
		[SITE_BETA_K] = BF16, [SITE_U] = BF16, [SITE_W] = BF16, [SITE_STATE_OPERAND] = BF16, [SITE_ATTENTION] = BF16,
		[SITE_V_NEW] = BF16, [SITE_V_NEW_DECAYED] = BF16 } },
	{ "factors_on_columns", {       /* of T; q, k and v as given: etalon's own fast kernel */
		[SITE_INVERSE_BETA] = BF16, [SITE_INVERSE_BETA_K] = BF16, [SITE_U] = BF16, [SITE_W] = BF16, [SITE_STATE_OPERAND] = BF16,
		[SITE_ATTENTION] = BF16, [SITE_V_NEW] = BF16, [SITE_V_NEW_DECAYED_K] = BF16 } },
	{ 0 }
};
static const struct contract contracts[] = {
	{ "f32", "token by token, all in float32", FORM_SEQUENTIAL, 0, {{ 0 }}, NULL },
	{ "chunk_f32", "chunks of 64, all in float32", FORM_CHUNK, 64, {{ 0 }}, NULL },
	{ "chunk_bf16x2", "chunks of 64 on tensor cores: operands of products as sums of two bf16 (the product of second parts left out), the carried state in float32", FORM_CHUNK, 64, {
		[SITE_INVERSE_BETA] = BF16X2, [SITE_INVERSE_BETA_K] = BF16X2, [SITE_W] = BF16X2, [SITE_STATE_OPERAND] = BF16X2,
		[SITE_ATTENTION] = BF16X2, [SITE_V_NEW] = BF16X2, [SITE_V_NEW_DECAYED_K] = BF16X2 }, NULL },
	{ "bf16_operands", "in chunks on tensor cores: bf16 operands of products, in any arrangement; the inverse of a matrix in TF32, merged in TF32 "
		"from blocks of any size; sums and the carried state in float32", FORM_CHUNK, 64, {
		[SITE_Q] = BF16, [SITE_K] = BF16, [SITE_GRAM] = TF32_RZ, [SITE_INVERSE_MERGE] = TF32_RZ, [SITE_INVERSE] = BF16,
		[SITE_BETA_V] = BF16, [SITE_BETA_K] = BF16, [SITE_INVERSE_BETA] = BF16, [SITE_INVERSE_BETA_K] = BF16, [SITE_U] = BF16, [SITE_W] = BF16, [SITE_STATE_OPERAND] = BF16,
		[SITE_ATTENTION] = BF16, [SITE_V_NEW] = BF16, [SITE_V_NEW_DECAYED] = BF16, [SITE_V_NEW_DECAYED_K] = BF16 }, chunked_kernels },
	{ "state_bf16", "token by token in float32, the state kept in bf16", FORM_SEQUENTIAL, 0, { [SITE_STATE] = BF16 }, NULL },
	{ 0 }
};

const struct op op_gated_delta_rule = {
	.name = "gated_delta_rule",
	.what = "per head and token: S <- e^g S; u = beta (v - S'k); S <- S + k u'; o = S'q",
	.dims = { "T", "Hk", "Hv", "Dk", "Dv", "N" },
	.in = in, .out = out, .params = params, .sites = sites, .faults = gdr_faults, .contracts = contracts,
	.forms = { { "sequential", gdr_sequential }, { "chunk", gdr_chunked, true } },
	.check = check, .pieces = pieces, .cut = &(const struct cut){ pieces_along, rows_along, carried }
};
