/* How far the distributions are apart that two arrays of logits stand for, row by row. */
#ifndef ETALON_KL_H
#define ETALON_KL_H

#include "fixtures/tensor.h"

enum { MAX_TOP = 32 };

/* One row: p = softmax a, q = softmax b. Logits of -inf have probability 0. */
struct kl_row {
	double kl_pq, kl_qp;            /* Σ p log(p/q), Σ q log(q/p), in nats; infinite where only one is 0; NaN where a
	                                   logit is NaN or +inf, or all are -inf */
	size_t nan;                     /* logits that are NaN or +inf, in both */
	uint32_t top_a[MAX_TOP], top_b[MAX_TOP];        /* indices of the largest, falling; of equal ones the first */
	size_t top, common;             /* how many of them: the smaller of k and the width; how many are in both */
};

/* Rows of `width` of two tensors of one shape, of F64, F32, BF16 or F16 each, of whatever leading axes; r [count /
 * width] rows. In double, one pass over memory, on all cores. With t = (b - a) - c, c near its mean,
 *      KL(p, q) = E_p(e^t - 1 - t) - (A - log(1 + A)),  A = E_p(e^t - 1),
 * whose terms are not negative, so that next to nothing cancels: within some 1e-12 of itself, and 2^-52 |b - a| / |t|
 * where that is more, as b - a is rounded. k <= MAX_TOP. E_KIND where a type is another, E_EMPTY where there is no row. */
bool kl_rows(const struct tensor *a, const struct tensor *b, size_t width, size_t k, struct kl_row *r, struct error *e);

#endif
