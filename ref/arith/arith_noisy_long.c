/* Long sums of noisy: computed exactly in blocks of SPAN, and what the block's roundings add up to drawn at once. */
#include <cblas.h>
#include <math.h>
#include <string.h>

#include "calc_private.h"
#include "fixtures/io/bits.h"
#include "noisy.h"

/* A rounding at random of x = s + a b, s a float, errs by f up or 1 - f down, in units u of the last place of x: by 0 on
 * average, with variance f (1 - f) u². What lies below u is that of a b, whose last bit is at the sum of a's and b's: d bits
 * below, f is an odd multiple of 2^-d, and f (1 - f) is (1 + 2 4^-d)/6 on average; where a b ends at or above u,
 * as most products of two bf16 numbers do, nothing is rounded. A chain of k such errors is normal, as k is large. */
enum { SPAN = 256, LAST = 160, BITS = 320, ROW_SAMPLE = 256, SAMPLE = 4096 };
_Static_assert((int)ROW_SAMPLE <= (int)LONG, "a row has as many numbers as are looked at");

/* How often a number's last bit stands at 2^(i - LAST); zeros count in n alone. */
struct ends { double share[BITS]; int first, last; };

static struct ends ends_of(const double *x, size_t n, size_t step)
{
	struct ends y = { .first = BITS, .last = -1 };
	double one = 1 / (double)((n + step - 1) / step);

	for (size_t i = 0; i < n; i += step) {
		uint64_t b = to_bits(x[i]), fraction = b & ((UINT64_C(1) << 52) - 1);
		int exponent = (int)(b >> 52 & 0x7ff) - 1023;
		int at = LAST + exponent - (fraction ? 52 - __builtin_ctzll(fraction) : 0);
		if (at < 0 || at >= BITS || exponent == 1024) continue;
		y.share[at] += one;
		y.first = at < y.first ? at : y.first;
		y.last = at > y.last ? at : y.last;
	}
	return y;
}

/* deviation[i]: of the errors of one multiply-add, over the power of two below a sum of biased exponent LEAST + i. */
enum { LEAST = 1023 - 151, EXPONENTS = 288, ULP = 23, NEGLIGIBLE = 12 };
static void deviations(double *deviation, const struct ends *a, const struct ends *b)
{
	double share[2 * BITS] = { 0 };
	int first = a->first + b->first, last = a->last + b->last;

	for (int i = a->first; i <= a->last; i++)
		for (int j = b->first; j <= b->last; j++) share[i + j] += a->share[i] * b->share[j];
	for (int i = 0; i < EXPONENTS; i++) {
		int ulp = LEAST + i - 1023 - ULP + 2 * LAST;
		double variance = 0, rest = 0.25;
		if (i > 0 && ulp > last + NEGLIGIBLE) {
			deviation[i] = deviation[i - 1];
			continue;
		}
		for (int p = ulp - 1; p >= first; p--, rest /= 4) variance += p <= last ? share[p] * (1 + 2 * rest) / 6 : 0;
		deviation[i] = sqrt(variance) * 0x1p-23;
	}
}

/* y + deviation at y's exponent times z. */
static inline double disturbed(double y, const double *deviation, double z)
{
	int64_t e = (int64_t)(to_bits(y) >> 52 & 0x7ff), i = e < LEAST ? 0 : e < LEAST + EXPONENTS ? e - LEAST : EXPONENTS - 1;

	return y + deviation[i] * from_bits(e == 0x7ff ? 0 : (uint64_t)e << 52) * z;
}

/* Of 32 bits, the sum of two uniform numbers, of deviation 26755 and mean 0; a chain's errors are sums of many blocks'. */
static inline double pair(uint32_t r) { return (double)(int32_t)((r & 0xffff) + (r >> 16)) - 65535; }

/* y + what `steps` roundings of sums near y add up to. */
WIDE_LOOP static void disturb(double *y, size_t n, const double *deviation, double steps, struct draws d)
{
	double scale = sqrt(steps) / 26755.1;

	for (size_t i = 0; i < n; i++) y[i] = disturbed(y[i], deviation, scale * pair(drawn(&d, i)));
}

/* The sums at a block's two ends stand for those inside, half and half. */
void noisy_long(calc *c, double *C, const double *A, const double *B, size_t m, size_t n, size_t k)
{
	size_t mark = c_mark(c);
	double *deviation = c_bytes(c, m * EXPONENTS * sizeof *deviation);
	struct ends b = ends_of(B, n * k, n * k / SAMPLE + 1);

	for (size_t i = 0; i < m; i++) {
		struct ends a = ends_of(A + i * k, k, k / ROW_SAMPLE);
		deviations(deviation + i * EXPONENTS, &a, &b);
	}
	for (size_t first = 0; first < k; first += SPAN) {
		size_t depth = k - first < SPAN ? k - first : SPAN, next = k - first - depth < SPAN ? k - first - depth : SPAN;
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)depth, 1, A + first, (int)k, B + first, (int)k,
			first > 0, C, (int)n);
		for (size_t i = 0; i < m; i++)
			IN_ROWS(j, part, n) disturb(C + i * n + j, part, deviation + i * EXPONENTS, (double)(depth + next) / 2, draws_at(c->noise));
	}
	noisy_load(c, C, C, m * n);
	c_release(c, mark);
}
