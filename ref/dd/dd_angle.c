#include <stddef.h>

#include "dd_angle.h"

/* 256 bits of zeros, then 2/π = 0.a2f9... in base 16, 64 bits a word, as far as the largest double needs. */
static const uint64_t two_per_pi[] = {
	0, 0, 0, 0,
	UINT64_C(0xa2f9836e4e441529), UINT64_C(0xfc2757d1f534ddc0), UINT64_C(0xdb6295993c439041),
	UINT64_C(0xfe5163abdebbc561), UINT64_C(0xb7246e3a424dd2e0), UINT64_C(0x06492eea09d1921c),
	UINT64_C(0xfe1deb1cb129a73e), UINT64_C(0xe88235f52ebb4484), UINT64_C(0xe99c7026b45f7e41),
	UINT64_C(0x3991d639835339f4), UINT64_C(0x9c845f8bbdf9283b), UINT64_C(0x1ff897ffde05980f),
	UINT64_C(0xef2f118b5a0a6d1f), UINT64_C(0x6d367ecf27cb09b7), UINT64_C(0x4f463f669e5fea2d),
	UINT64_C(0x7527bac7ebe5f17b), UINT64_C(0x3d0739f78a5292ea), UINT64_C(0x6bfb5fb11f8d5d08),
	UINT64_C(0x56033046fc7b6bab), UINT64_C(0xf0cfbc209af4361d), UINT64_C(0xa9e391615ee61b08),
	UINT64_C(0x6599855f14a06840), UINT64_C(0x8dffd8804d732731)
};

/* A number modulo 4 in two's complement: 2 integer bits and 254 behind the point. */
enum { WORDS = 4 };
struct fraction { uint64_t word[WORDS]; };

static void add(struct fraction *f, const struct fraction *g)
{
	unsigned __int128 sum = 0;

	for (int i = WORDS; i-- > 0; sum >>= 64) {
		sum += (unsigned __int128)f->word[i] + g->word[i];
		f->word[i] = (uint64_t)sum;
	}
}

static void negate(struct fraction *f)
{
	static const struct fraction ulp = { { 0, 0, 0, 1 } };

	for (int i = 0; i < WORDS; i++) f->word[i] = ~f->word[i];
	add(f, &ulp);
}

/* x 2/π modulo 4 within 2^-200: of x = m 2^e, m times the bits of 2/π that weigh from 2^(1-e) down. */
static struct fraction turns(double x)
{
	struct fraction f = { 0 };
	unsigned __int128 sum = 0;
	int e;
	uint64_t m = (uint64_t)ldexp(fabs(frexp(x, &e)), 53);

	e += 254 - 53;
	for (int i = WORDS; e >= 0 && i-- > 0; sum >>= 64) {
		size_t w = (size_t)e / 64 + (size_t)i, s = (size_t)e % 64;
		uint64_t bits = s ? two_per_pi[w] << s | two_per_pi[w + 1] >> (64 - s) : two_per_pi[w];
		sum += (unsigned __int128)m * bits;
		f.word[i] = (uint64_t)sum;
	}
	if (x < 0) negate(&f);
	return f;
}

dd dd_angle_far(dd x, double *q)
{
	struct fraction f = turns(x.hi), low = turns(x.lo);
	dd r = { 0, 0 };

	add(&f, &low);
	uint64_t nearest = (f.word[0] >> 62) + (f.word[0] >> 61 & 1);
	f.word[0] -= nearest << 62;
	bool below = f.word[0] >> 63;
	if (below) negate(&f);
	for (int i = WORDS; i-- > 0;) {
		r = dd_add(r, dd_of(ldexp((double)(f.word[i] & UINT32_MAX), -62 - 64 * i)));
		r = dd_add(r, dd_of(ldexp((double)(f.word[i] >> 32), -30 - 64 * i)));
	}
	r = dd_mul(below ? dd_neg(r) : r, (dd){ 0x1.921fb54442d18p0, 0x1.1a62633145c07p-54 });
	*q = (double)nearest;
	return r;
}
