/* Running sums as warps make them: 32 lanes of one element each add what is 1, 2, 4, 8, 16 lanes before
 * them (Kogge and Stone 1973); the sum of the warps before comes last. Triton's cumsum adds so. */
#ifndef ETALON_WARP_SCAN_H
#define ETALON_WARP_SCAN_H

enum { LANES = 32 };

static void warp_scan(calc *c, void *to, const void *from, size_t n)
{
	const float *x = from;
	float *y = to;

	(void)c;
	for (size_t w = 0; w < n; w += LANES) {
		size_t m = n - w < LANES ? n - w : LANES;
		float before = w ? y[w - 1] : 0;
		memcpy(y + w, x + w, m * sizeof *y);
		for (size_t apart = 1; apart < m; apart *= 2)
			for (size_t i = m; i-- > apart;) y[w + i] += y[w + i - apart];
		for (size_t i = 0; i < m && w; i++) y[w + i] += before;
	}
}

#endif
