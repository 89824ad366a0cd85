/* Newton-Schulz matrix by matrix, every iterate kept: where eigenvalues are watched, from a capture's traces or from the op's formula
 * with its products rounded. */
#ifndef ETALON_ITERATE_H
#define ETALON_ITERATE_H

#include "fixtures/cases/capture.h"
#include "fixtures/io/dtype.h"
#include "polynomials.h"

enum ns_algorithm { NS_STANDARD, NS_GRAM_NAIVE, NS_GRAM };
extern const char *const ns_algorithm_name[], *const ns_eps_name[];      /* as in a capture's parameters; then NULL */

struct iteration {
	enum ns_algorithm algorithm;
	struct schedule polynomials;
	uint64_t restarts;              /* bit t: before iteration t */
	enum format iterate;            /* what every product is rounded to: FMT_F64, _F32, _F16, _BF16 */
	bool rounds_r0;                 /* R = XX', at the start and at restarts, is rounded to r0 as well */
	enum format r0;
	double eps;
	int eps_kind;                   /* of ns_eps_name: |X|_F + eps, max(|X|_F, eps), eps alone */
	double largest;                 /* 0: X divided as eps_kind says; else X scaled so that its largest singular value is this */
};

/* The one that a capture's parameters ask for, bound or not. E_PARAM. */
bool iteration_asked(struct iteration *how, const struct capture *c, struct error *e);

/* Entry t = 0 … K: after iteration t, 0 the start. X_t: standard: the iterate; Gram forms: what Q multiplies,
 * replaced at a restart. */
struct trace {
	struct iteration how;
	size_t s, l;                    /* s <= l: X is worked on transposed where it is tall */
	double *X;                      /* [K+1,s,l] */
	double *R, *Q;                  /* [K+1,s,s]; NULL for the standard form */
	double *y;                      /* [s,l], the answer; NULL: Q_K X_K, or X_K */
	bool recorded;                  /* from a capture, else emulated */
};

/* Emulates: x [s,l], s <= l, by the op's formula in f32, each product with its terms rounded once to `iterate`; f64: all in f64.
 * E_MEMORY, E_PARAM. */
bool trace_emulate(struct trace *t, const struct iteration *how, const double *x, size_t s, size_t l, struct error *e);

/* What the answer would be after iteration t: X_t, or Q_t X_t in double. X [s,l]. */
void trace_answer(double *X, const struct trace *t, size_t at);

void trace_free(struct trace *t);

/* x [s,l] = U diag(σ) V', U and V drawn from seed, with σ from 1 down:
 *      exp: 10^(-decades i/(s-1));  linear: 1 - i/s;  power: 1/(i+1);  flat: 1. E_UNKNOWN_NAME, E_MEMORY. */
bool spectrum_draw(double *x, size_t s, size_t l, const char *shape, double decades, uint64_t seed, struct error *e);

#endif
