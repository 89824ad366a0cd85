/* What eigen*.c share. */
#ifndef ETALON_EIGEN_PRIVATE_H
#define ETALON_EIGEN_PRIVATE_H

#include "fixtures/io/bits.h"
#include "eigen.h"

/* X_0 = U diag(σ) V' and what the recurrence makes of each σ. */
struct ranked;
struct eigen_basis {
	size_t s, l, K;
	struct singular x0;
	struct step *exact;             /* [s,K+1] */
	double *v;                      /* [s,l]: row i is v_i */
	double *product, *answer;       /* [s,l] */
	double *M;                      /* [s,s] */
	dd *ascending;                  /* [s] */
	struct ranked *rank;            /* [s] */
};
void basis_free(struct eigen_basis *b);

/* g->left, cause and what goes with it. */
bool cause_find(struct eigen *g, struct eigen_basis *b, const struct trace *t, struct error *e);

#endif
