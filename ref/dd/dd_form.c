#include "dd_form.h"

const struct dd_form *const dd_forms[] = {
#ifdef __x86_64__
	&dd_avx512, &dd_avx2,
#endif
	&dd_plain, NULL
};

static const struct dd_form *chosen;

void dd_use(const struct dd_form *f) { chosen = f; }

const struct dd_form *dd_form(void)
{
	const struct dd_form *const *f = dd_forms;

	if (chosen) return chosen;
	while (!(*f)->runs()) f++;
	return *f;
}

/* With S the sum of all |a b|: l is at most u S when normalised, and i terms later u (4 + i) S. A term rounds it once
 * and adds an error of u^2 (S + 10 |a b|), so DD_TERMS = 16 terms cost 216 u^2 S, and normalising, where h cancelled, 20:
 * below 15 u^2 S a term, and 10 in all. */
double dd_sum_error(size_t k) { return 15 * (double)(k + 2) * DD_U2; }
