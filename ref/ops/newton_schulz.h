/* The Newton-Schulz iterations, for every op that orthogonalises. */
#ifndef ETALON_NEWTON_SCHULZ_H
#define ETALON_NEWTON_SCHULZ_H

#include <math.h>

#include "ref/call/op.h"

enum { STANDARD, GRAM_NAIVE, GRAM };
enum { ITERATE_F32, ITERATE_F16, ITERATE_BF16 };

/* Such an op's tables begin with these parameters, sites and faults. */
enum { P_ALGORITHM, P_COEFFICIENTS, P_RESTARTS, P_EPS, P_EPS_KIND, P_ITERATE, NS_PARAMS };
enum { EPS_SUM, EPS_MAX };
enum { SITE_INPUT, SITE_NORM, SITE_X0, SITE_PRODUCT, SITE_TERM, SITE_GRAM, SITE_Z, SITE_Q, SITE_RZ, SITE_R, SITE_X, NS_SITES };
enum {
	SPECTRAL_FOR_FROBENIUS, EPS_SWAMPS_SMALL_INPUT, NORMALISE_IN_LOW_PRECISION, LAST_COEFFICIENTS_REUSED, RESTART_MISSING,
	RESTART_ONE_LATE, RESTART_KEEPS_Q, GRAM_FROM_MIRRORED_TRIANGLE, MIRROR_NOT_TRANSPOSED, R_UPDATE_ONE_SIDED,
	IDENTITY_ADDED_IN_LOW_PRECISION, ITERATE_IN_BF16_FOR_F16, NS_FAULTS
};

/* What is iterated on: X [s,l] with s <= l, R and Q [s,s]; the standard iteration has X alone. After iteration t of matrix b,
 * counted from 0, entry t + 1 of the traces holds it; entry 0 holds what the iteration starts from. */
enum { TRACE_X, TRACE_R, TRACE_Q };
struct ns {
	mat X, R, Q;
	size_t b;
	bool lower;             /* products [s,s] are computed below the diagonal and mirrored */
	int trace;              /* the op's output that is the trace of X, those of R and Q following; -1: it has none */
};

struct ns ns_make(calc *c, size_t s, size_t l, size_t b, int trace);
size_t ns_iterations(const calc *c);

/* X <- X/(‖X‖_F + eps) or X/max(‖X‖_F, eps), as it is stored. */
void ns_normalise(calc *c, mat X);
/* A, a matrix of the iteration, as it is stored: rounded at the site. */
void ns_stored(calc *c, int site, mat A);

/* X <- X/(‖X‖_F + eps), R <- XX', Q <- I; entry 0. */
void ns_start(calc *c, struct ns *i);
/* Iteration t; entry t + 1. */
void ns_iterate(calc *c, struct ns *i, size_t t);
/* X <- QX, for the standard iteration nothing. */
void ns_answer(calc *c, struct ns *i);
/* X, R, Q of entry t as the kernel recorded them. */
void ns_recall(calc *c, struct ns *i, size_t t);
/* All of it, free-running. */
void ns_orthogonalise(calc *c, struct ns *i);

bool ns_check(const struct call *call, struct error *e);
/* From the parameters alone: of a capture that was not bound. */
bool ns_iteration(struct iteration *how, const struct capture *c, struct error *e);

#define NS_F16 { true, FMT_F16, ROUND_NEAREST_EVEN }
#define NS_BF16 { true, FMT_BF16, ROUND_NEAREST_EVEN }
#define NS_CAST_FIRST [SITE_INPUT] = NS_BF16, [SITE_NORM] = NS_BF16

/* What such an op stores of its iteration, and its kernels: one epilogue in float32 makes a matrix of products and sums, or separate
 * calls do, each of which stores its result. The op defines STORED(type) as NS_STORED(type) and what it answers. */
#define NS_STORED(...) [SITE_X0] = __VA_ARGS__, [SITE_GRAM] = __VA_ARGS__, [SITE_Z] = __VA_ARGS__, [SITE_Q] = __VA_ARGS__, \
	[SITE_RZ] = __VA_ARGS__, [SITE_R] = __VA_ARGS__, [SITE_X] = __VA_ARGS__
#define NS_APART(...) [SITE_PRODUCT] = __VA_ARGS__, [SITE_TERM] = __VA_ARGS__, STORED(__VA_ARGS__)
#define NS_STRUCTURES \
	static const struct structure f16_kernels[] = { \
		{ "one_epilogue", { STORED(NS_F16) } }, { "separate_calls", { NS_APART(NS_F16) } }, { 0 } \
	}, bf16_kernels[] = { \
		{ "one_epilogue", { STORED(NS_BF16) } }, { "separate_calls", { NS_APART(NS_BF16) } }, { 0 } \
	}, cast_kernels[] = { \
		{ "one_epilogue", { NS_CAST_FIRST, STORED(NS_BF16) } }, { "separate_calls", { NS_CAST_FIRST, NS_APART(NS_BF16) } }, { 0 } \
	}

/* The forms of such an op, whose piece is a matrix. */
#define NS_FORMS(piece) { { "full", piece, false }, { "lower", piece, false } }
enum { FULL, LOWER };
#define NS_MIRRORED "; products [s,s] below the diagonal, mirrored"

#define NS_PARAM_TABLE \
	[P_ALGORITHM] = { "algorithm", PARAM_CHOICE, "standard|gram_naive|gram", true, 0, "the iteration" }, \
	[P_COEFFICIENTS] = { "coefficients", PARAM_LIST, "a,b,c", true, 0, "of each iteration" }, \
	[P_RESTARTS] = { "restarts", PARAM_LIST, "t", false, NAN, \
		"gram: iterations, from 0, before which X <- QX, R <- XX', Q <- I ([2] of more than two)" }, \
	[P_EPS] = { "eps", PARAM_REAL, NULL, false, 1e-7, "of the Frobenius norm" }, \
	[P_EPS_KIND] = { "eps_kind", PARAM_CHOICE, "sum|max", false, EPS_SUM, "X is divided by ‖X‖ + eps, or by max(‖X‖, eps)" }, \
	[P_ITERATE] = { "iterate_dtype", PARAM_CHOICE, "F32|F16|BF16", false, 0, \
		"what the normalised input is cast to; a contract says what is rounded" }

#define NS_SITE_TABLE(out) \
	[SITE_INPUT] = { "input", "the input as loaded", -1, 0 }, \
	[SITE_NORM] = { "norm", "the Frobenius norm", -1, 0 }, \
	[SITE_X0] = { "x0", "the normalised input, cast to the iterate's type", -1, 0 }, \
	[SITE_PRODUCT] = { "product", "a product that is still multiplied or added to, as A^2 in bA + cA^2", -1, 0 }, \
	[SITE_TERM] = { "term", "a multiple that is still added to another, as bA and cA^2", -1, 0 }, \
	[SITE_GRAM] = { "gram", "XX': A of the standard iteration; R at the start and at a restart", -1, 0 }, \
	[SITE_Z] = { "z", "bA + cA^2, in the Gram forms bR + cR^2, in the naive one + aI", -1, 0 }, \
	[SITE_Q] = { "q", "Q after each iteration", -1, (out) < 0 ? 0 : 1 + (out) + TRACE_Q }, \
	[SITE_RZ] = { "rz", "RZ, in the gram form + aR", -1, 0 }, \
	[SITE_R] = { "r", "R after each iteration", -1, (out) < 0 ? 0 : 1 + (out) + TRACE_R }, \
	[SITE_X] = { "x", "X after each iteration; in the Gram forms at a restart", -1, (out) < 0 ? 0 : 1 + (out) + TRACE_X }

#define NS_FAULT_TABLE \
	[SPECTRAL_FOR_FROBENIUS] = { "spectral_for_frobenius", "X over its largest singular value", "", -1, 0, 0, 0 }, \
	[EPS_SWAMPS_SMALL_INPUT] = { "eps_swamps_small_input", "X / max(‖X‖, 1e-7), which leaves small inputs small", \
		"Emerging-Optimizers#229", -1, 0, 0, 0 }, \
	[NORMALISE_IN_LOW_PRECISION] = { "normalise_in_low_precision", "the norm and the quotient of X rounded to bf16", "", \
		-1, true, SITE_INPUT, FMT_BF16 }, \
	[LAST_COEFFICIENTS_REUSED] = { "last_coefficients_reused", \
		"a list one short: the last iteration takes those of the one before", "", -1, 0, 0, 0 }, \
	[RESTART_MISSING] = { "restart_missing", "no restart", "", -1, 0, 0, 0 }, \
	[RESTART_ONE_LATE] = { "restart_one_late", "each restart after its iteration", "", -1, 0, 0, 0 }, \
	[RESTART_KEEPS_Q] = { "restart_keeps_q", "a restart leaves Q as it was", "", -1, 0, 0, 0 }, \
	[GRAM_FROM_MIRRORED_TRIANGLE] = { "gram_from_mirrored_triangle", "XX' mirrored from the triangle that was not computed: " \
		"zeros off the diagonal", "", -1, 0, 0, 0 }, \
	[MIRROR_NOT_TRANSPOSED] = { "mirror_not_transposed", "tiles of 16 of XX' mirrored without being transposed", "", -1, 0, 0, 0 }, \
	[R_UPDATE_ONE_SIDED] = { "r_update_one_sided", "R <- RZ for ZRZ", "", -1, 0, 0, 0 }, \
	[IDENTITY_ADDED_IN_LOW_PRECISION] = { "identity_added_in_low_precision", "a added to the diagonal of the rounded Z or B, " \
		"not as a term of the products", "", -1, 0, 0, 0 }, \
	[ITERATE_IN_BF16_FOR_F16] = { "iterate_in_bf16_for_f16", "every matrix of the iteration in bf16, where that is not asked for", "", -1, 0, 0, 0 }

#endif
