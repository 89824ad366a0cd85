/* What other ops take of causal_conv1d. The order is that of its sites and faults in ref/ops/causal_conv1d.op. */
#include "ref/ops/parts.h"

enum { SITE_PRODUCTS, SITE_CONV, SITE_Y };
enum {
	TAPS_REVERSED, NOT_CAUSAL, NO_ACTIVATION, ACTIVATION_TWICE, BIAS_MISSING, ZERO_HISTORY, HISTORY_AFTER_ACTIVATION,
	HISTORY_AFTER_CONVOLUTION, RING_OFF_BY_ONE, SHORT_CHUNK_HISTORY, HISTORY_FROM_PADDED_END, LEAKS_ACROSS_SEQUENCES
};

size_t conv_tap_of(const calc *c, size_t W, size_t i) { return c_fault(c, TAPS_REVERSED) ? W - 1 - i : i; }
size_t conv_ahead(const calc *c) { return c_fault(c, NOT_CAUSAL); }

void conv_tap(calc *c, vec y, vec w, vec x)
{
	vec t = c_vec(c, y.n);

	c_mul(c, t, x, w);
	c_site(c, SITE_PRODUCTS, t);
	c_add(c, y, y, t);
}

void conv_activation(calc *c, vec y, bool silu)
{
	c_site(c, SITE_CONV, y);
	if (silu && !c_fault(c, NO_ACTIVATION)) c_map(c, y, FN_SILU, y);
	if (c_fault(c, ACTIVATION_TWICE)) c_map(c, y, FN_SILU, y);
}
