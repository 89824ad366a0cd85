/* The inner loops of logit_row; one source in three forms. */
#ifndef ETALON_KL_SUMS_H
#define ETALON_KL_SUMS_H

#include "fixtures/io/dtype.h"

/* Over pairs of logits with d = b - a, t = d - c, w = e^(a - m): Σ of w, of w (e^t - 1), w (e^t - 1 - t),
 * w (t e^t - (e^t - 1)), d and d^2; the least and the largest d. d2 is not finite where a logit is not. The first four are
 * without meaning where some |t| is above KL_FAR or, where near was asked for, above KL_NEAR. */
#define KL_FAR 300.0
#define KL_NEAR 0x1p-4
#define KL_DEEP 700.0
struct kl_sums { double w, we, wphi, wpsi, d, d2, least, most; };

struct kl_form {
	/* The largest of n elements. A NaN may be dropped, as by the next. */
	double (*most)(enum dtype t, const void *x, size_t n);
	/* Is an element less than m by more than KL_DEEP? */
	bool (*deep)(enum dtype t, const void *x, size_t n, double m);
	/* a - m <= 700. near: by fewer terms, for a - m >= -KL_DEEP. Memory past the arrays may be asked for, but is not read. */
	void (*sums)(struct kl_sums *s, enum dtype t, const void *a, const void *b, size_t n, double m, double c, bool near);
};
extern const struct kl_form kl_avx512, kl_avx2, kl_plain;
const struct kl_form *kl_best(void);     /* for this processor, or the one that kl_use chose */
void kl_use(const struct kl_form *f);    /* for timing; NULL: the best. Not while another thread compares. */
bool kl_has(enum dtype t);               /* the types of both functions */

#endif
