/* The inner loops of kl_rows; one source in three forms. */
#ifndef ETALON_KL_SUMS_H
#define ETALON_KL_SUMS_H

#include "fixtures/dtype.h"

/* Σ over some logits of w = e^(a - m): w, w (e^t - 1), w (e^t - 1 - t) and w (t e^t - (e^t - 1)), t = (b - a) - c; and the
 * largest |t|. Some sum is not finite where a logit is not; all are without meaning where far is above KL_FAR. */
#define KL_FAR 300.0
struct kl_sums { double w, we, wphi, wpsi, far; };

struct kl_form {
	/* The largest of n elements. A NaN may be dropped. */
	double (*most)(enum dtype t, const void *x, size_t n);
	void (*sums)(struct kl_sums *s, enum dtype ta, const void *a, enum dtype tb, const void *b, size_t n, double m, double c);
};
extern const struct kl_form kl_avx512, kl_avx2, kl_plain;
const struct kl_form *kl_best(void);

#endif
