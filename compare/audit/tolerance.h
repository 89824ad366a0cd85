/* The tolerances of other people's tests, as text: what may be compared how, and by how much it may differ. */
#ifndef ETALON_TOLERANCE_H
#define ETALON_TOLERANCE_H

#include "ref/call/op.h"

/* g: the kernel's element, w: the reference's; sums run over an output's elements.
 *   allclose:rtol,atol        |g - w| <= atol + rtol |w| for every element
 *   cosine:x                  sum gw / (|g| |w|) >= x
 *   rms_ratio:x[,atol]        |g - w| / |w| <= x, or every |g - w| <= atol
 *   nmse:x                    |g - w|^2 / |w|^2 <= x
 *   match:share,rtol,atol     |g - w| <= atol or |g - w| <= rtol |w| for this share of the elements
 *   ulp:n                     |g - w| <= n ulp of w in the output's type for every element
 *   quantile:share,x,least    |g - w| / |w| <= x for this share of the elements with |w| >= least
 * A kernel that is not finite where the reference is never passes, and neither does an output without elements. Alone it holds for every
 * output; `OUTPUT=RULE;OUTPUT=RULE` for each named alone. */
enum { MAX_PART = 8, MAX_NUMBER = 3 };
struct part { int out, kind; double number[MAX_NUMBER]; };      /* out -1: every output */
struct tolerance { const char *text; struct part part[MAX_PART]; int n; };

/* The text must stay. false with a one-line error that names what was expected. */
bool tolerance_parse(struct tolerance *t, const char *text, const struct op *op, struct error *e);

/* got, want: the call's outputs, [out_count[i]] each. false too where no part has an output of this call. */
bool tolerance_holds(const struct tolerance *t, const struct call *call, double *const *got, double *const *want);

#endif
