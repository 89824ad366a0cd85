/* Two rows of logits in one pass: divergences both ways, errors, the largest tokens. */
#ifndef ETALON_LOGIT_ROW_H
#define ETALON_LOGIT_ROW_H

#include "fixtures/io/dtype.h"

enum { LOGIT_TOP = 64, LOGIT_BINS = 128 };

struct ranked { size_t token; double value; };

/* Where bin i of a histogram of |d| begins: half octaves, 2^-48, 1.5 * 2^-48, 2^-47 ... The first bin begins at 0, the last
 * has no end. */
double logit_bin_from(size_t i);

/* One side of a row. A logit of -inf is a masked token, of probability 0. */
struct logit_side {
	size_t nan, inf, masked;        /* inf: +inf; masked: -inf here and not on the other side */
	double log_sum;                 /* log sum exp over the row; -inf where all are masked */
	struct ranked top[LOGIT_TOP];      /* value falling; equal values: token rising; no NaN, no -inf */
	size_t n_top;
};

/* a is the reference, d = b - a over the tokens that are finite in both. */
struct logit_row {
	struct logit_side a, b;
	size_t count, masked;           /* finite in both; -inf in both */
	double kl, kl_back;             /* KL(a||b), KL(b||a) in nats, >= 0. NaN where a side has a NaN, +inf or nothing finite;
	                                 * inf where the other side masks a token that this one does not */
	double max, sum, squares;       /* |d|, Σd, Σd² */
	size_t worst;                   /* token of max */
};

/* a [V], b [V] of any float type and alignment; V > 0. top <= LOGIT_TOP. histogram [LOGIT_BINS] is added to, or NULL. In double
 * precision, one pass over memory. With t = (b - a) - c, c the difference of the largest logits,
 *      KL(a||b) = E_a(e^t - 1 - t) - (p - log(1 + p)),  p = E_a(e^t - 1),
 * whose terms are not negative; where they nearly cancel, overflow or the rows are far apart, two passes more, by each side's
 * own sum. KL is within 1e-12 of itself, and 2^-52 |b - a| / |t| where that is more, as b - a is rounded; log_sum within
 * 4e-14 (tests/compare/logits/test_kl.c, tests/compare/logits/test_logit_row.c). */
void logit_row(enum dtype type_a, const void *a, enum dtype type_b, const void *b, size_t V, size_t top, size_t *histogram,
	struct logit_row *r);

/* 1 + the number of tokens of x [V] with a larger value, or an equal one and a smaller index. */
size_t logit_rank(enum dtype type, const void *x, size_t V, size_t token);

/* x[token]. */
double logit_value(enum dtype type, const void *x, size_t token);

#endif
