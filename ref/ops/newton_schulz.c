/* newton_schulz: y orthogonalises x [N,M], each matrix of a batch on its own. The iterations are in
 * newton_schulz_step.c, on x' where N > M. */
#include <math.h>

#include "newton_schulz.h"

enum { D_B, D_N, D_M, D_K, D_S, D_L };
enum { IN_X };
enum { OUT_Y, OUT_X, OUT_R, OUT_Q };
enum { SITE_Y = NS_SITES };

/* Row i of X, in the orientation that is worked on: a row of x, or a column where N > M. */
static size_t row_at(const calc *c, size_t b, size_t i, size_t *step)
{
	size_t N = c_dim(c, D_N), M = c_dim(c, D_M);

	*step = N > M ? M : 1;
	return b * N * M + (N > M ? i : i * M);
}

static void load_x(calc *c, const struct ns *ns)
{
	size_t step;

	for (size_t i = 0; i < ns->X.rows; i++) {
		size_t first = row_at(c, ns->b, i, &step);
		c_load(c, c_row(c, ns->X, i), IN_X, first, step);
	}
}

static void store_y(calc *c, const struct ns *ns)
{
	size_t step;

	c_site(c, SITE_Y, flat(ns->X));
	for (size_t i = 0; i < ns->X.rows; i++) {
		size_t first = row_at(c, ns->b, i, &step);
		c_store(c, OUT_Y, first, step, c_row(c, ns->X, i));
	}
}

/* Of an anchored call: the start, each iteration from the entry before it, the answer from the last. */
static void anchored(calc *c, struct ns *ns, size_t part)
{
	size_t K = ns_iterations(c);

	if (part == 0) {
		load_x(c, ns);
		ns_start(c, ns);
		return;
	}
	ns_recall(c, ns, part - 1);
	if (part <= K) {
		ns_iterate(c, ns, part - 1);
		return;
	}
	ns_answer(c, ns);
	store_y(c, ns);
}

static size_t parts(const struct call *call) { return call->anchored ? (size_t)call->param[P_COEFFICIENTS] + 2 : 1; }
static size_t pieces(const struct call *call) { return call->dim[D_B] * parts(call); }

static void matrix(calc *c, size_t piece)
{
	size_t n = c_anchored(c) ? ns_iterations(c) + 2 : 1, N = c_dim(c, D_N), M = c_dim(c, D_M);
	struct ns ns = ns_make(c, N < M ? N : M, N < M ? M : N, piece / n, OUT_X);

	if (c_anchored(c)) {
		anchored(c, &ns, piece % n);
		return;
	}
	load_x(c, &ns);
	ns_orthogonalise(c, &ns);
	store_y(c, &ns);
}

static void derive(struct call *call)
{
	size_t N = call->dim[D_N], M = call->dim[D_M];

	call->dim[D_K] = (size_t)call->param[P_COEFFICIENTS];
	call->dim[D_S] = N < M ? N : M;
	call->dim[D_L] = N < M ? M : N;
}

static bool has_trace(const struct call *call, int out) { return out == OUT_X || call->param[P_ALGORITHM] != STANDARD; }

static const struct tensor_spec in[] = { [IN_X] = { "x", "B?,N,M", 0, "a matrix, or a batch of them" }, { 0 } };
static const struct tensor_spec out[] = {
	[OUT_Y] = { "y", "B?,N,M", 0, "" },
	[OUT_X] = { "X", "B?,K+1,S,L", TRACE, "" },
	[OUT_R] = { "R", "B?,K+1,S,S", TRACE, "" },
	[OUT_Q] = { "Q", "B?,K+1,S,S", TRACE, "" },
	{ 0 }
};
static const struct param_spec params[] = { NS_PARAM_TABLE, { 0 } };
static const struct site_spec sites[] = { NS_SITE_TABLE(OUT_X), [SITE_Y] = { "y", "the output", -1, 1 + OUT_Y }, { 0 } };
static const struct fault_spec faults[] = { NS_FAULT_TABLE, { 0 } };

#define STORED(...) NS_STORED(__VA_ARGS__), [SITE_Y] = __VA_ARGS__
NS_STRUCTURES;
#define STORED_F16 "every matrix stored in float16, products and multiples before their sum too or not, sums in float32"
#define STORED_BF16 "every matrix stored in bf16, products and multiples before their sum too or not, sums in float32"
#define CAST_BF16 "the input cast to bf16 before its norm, which is rounded too, and every matrix stored in bf16"
static const struct contract contracts[] = {
	{ "f32", "all in float32", FULL, 0, {{ 0 }}, NULL },
	{ "lower_f32", "all in float32" NS_MIRRORED, LOWER, 0, {{ 0 }}, NULL },
	{ "f16", STORED_F16, FULL, 0, { NS_APART(NS_F16) }, f16_kernels },
	{ "lower_f16", STORED_F16 NS_MIRRORED, LOWER, 0, { NS_APART(NS_F16) }, f16_kernels },
	{ "bf16", STORED_BF16, FULL, 0, { NS_APART(NS_BF16) }, bf16_kernels },
	{ "lower_bf16", STORED_BF16 NS_MIRRORED, LOWER, 0, { NS_APART(NS_BF16) }, bf16_kernels },
	{ "bf16_input", CAST_BF16, FULL, 0, { NS_CAST_FIRST, NS_APART(NS_BF16) }, cast_kernels },
	{ "lower_bf16_input", CAST_BF16 NS_MIRRORED, LOWER, 0, { NS_CAST_FIRST, NS_APART(NS_BF16) }, cast_kernels },
	{ 0 }
};

const struct op op_newton_schulz = {
	.name = "newton_schulz", .what = "y = UV' of x = U S V', nearly: X <- aX + bXX'X + c(XX')^2 X, again and again",
	.dims = { "B", "N", "M", "K", "S", "L" }, .in = in, .out = out, .params = params, .sites = sites, .faults = faults,
	.contracts = contracts, .forms = NS_FORMS(matrix), .check = ns_check, .pieces = pieces, .iterates = true, .derive = derive,
	.has_trace = has_trace, .iteration = ns_iteration
};
