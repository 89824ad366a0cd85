/* The figures of one output; see verdict.h for what they are. */
#ifndef ETALON_FIGURES_H
#define ETALON_FIGURES_H

#include "verdict.h"

/* What is kept of an output whose strips are added one by one. */
struct figures {
	struct output_verdict *v;
	double *largest;                /* [2 most] of the errors in sigma, of which the `most` largest count */
	size_t kept, most, counted;
	struct gain_axes axes;
	struct gain_sum *gain;          /* [groups] */
	struct gain_pass pass;
	bool moved;                     /* an element that float32 moves */
	double limit;                   /* of excess */
	double sum, sum2;
};

/* Fills *v, from the strips of output i in order, each with its part of the truth, of the truth in another arithmetic and of what is
 * expected. The output must be there and finite in the truth. figures_end takes expected_end's figures, and frees; figures_free, without
 * an end. E_MEMORY is the only error. */
bool figures_begin(struct figures *f, struct output_verdict *v, const struct call *call, int i, struct error *e);
bool figures_add(struct figures *f, const struct call *call, const struct strip *s, const struct answer *truth,
	const struct answer *second, const struct expected *x);
/* Is output i, in the strip that *x is of, further off than noise where float32 rounds, but by no more than a kernel in other algebra
 * may be, which is noise where float32 is exact, too? */
bool figures_beyond(const struct call *call, int i, const struct strip *s, const struct answer *truth, const struct expected *x);
void figures_end(struct figures *f, const struct call *call, const struct expected *x);
void figures_free(struct figures *f);

/* All in one strip. Output i must be there and finite in the truth. second is the truth in another arithmetic. The
 * only error is E_MEMORY. */
bool figures(struct output_verdict *v, const struct call *call, int i, const struct answer *truth,
	const struct answer *second, const struct expected *x, struct error *e);

/* The rules' limits for output i, were sigma known from `runs` noisy runs and not from x->runs. */
void figures_limits(double limit[RULE_COUNT], const struct expected *x, int i, int runs);

/* What the largest of n errors in sigma of a correct kernel stays below, sigma being known from `runs` noisy runs. */
double worst_limit(int runs, size_t n);

/* What the rms in sigma of a correct kernel's errors stays below, given their degrees of freedom. */
double rms_limit(double freedom);

#endif
