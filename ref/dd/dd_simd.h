/* Vectors of W doubles, W as the instructions that are compiled for have them. */
#ifndef ETALON_DD_SIMD_H
#define ETALON_DD_SIMD_H

#include <math.h>

#if defined __AVX512F__
enum { W = 8 };
#elif defined __AVX2__
enum { W = 4 };
#else
enum { W = 2 };
#endif
#ifdef __AVX2__
#include <immintrin.h>
#endif

typedef double vd __attribute__((vector_size(8 * W)));
typedef double vd_unaligned __attribute__((vector_size(8 * W), aligned(8), may_alias));

INLINE vd v_load(const double *x) { return *(const vd_unaligned *)x; }
INLINE void v_store(double *y, vd x) { *(vd_unaligned *)y = x; }

/* a b + c, rounded once */
INLINE vd v_fma(vd a, vd b, vd c)
{
#if defined __AVX512F__
	return _mm512_fmadd_pd(a, b, c);
#elif defined __AVX2__
	return _mm256_fmadd_pd(a, b, c);
#else
	return (vd){ fma(a[0], b[0], c[0]), fma(a[1], b[1], c[1]) };
#endif
}

INLINE vd v_set(double x)
{
#if defined __AVX512F__
	return _mm512_set1_pd(x);
#elif defined __AVX2__
	return _mm256_set1_pd(x);
#else
	return (vd){ x, x };
#endif
}

/* 0 where x is not finite */
INLINE vd v_finite(vd x)
{
	typedef long long mask __attribute__((vector_size(8 * W)));
	mask finite = ((mask)x & 0x7fffffffffffffff) < 0x7ff0000000000000;

	return (vd)((mask)x & finite);
}

#endif
