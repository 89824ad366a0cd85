/* Vectors of W doubles from arrays of F64, F32, BF16 and F16, for the instructions that are compiled for. */
#ifndef ETALON_LOAD_H
#define ETALON_LOAD_H

#include "fixtures/io/dtype.h"
#include "ref/dd/dd.h"
#include "ref/dd/dd_simd.h"

enum { AHEAD = 8192, LINE = 64 };       /* bytes: asked for before they are read; of the cache */

typedef long long vi __attribute__((vector_size(8 * W)));
typedef unsigned long long vu __attribute__((vector_size(8 * W)));
typedef vd load_of(const void *x, size_t i);    /* elements i .. i + W - 1 */

INLINE vd v_max(vd a, vd b)
{
#if defined __AVX512F__
	return _mm512_max_pd(a, b);
#elif defined __AVX2__
	return _mm256_max_pd(a, b);
#else
	return (vd){ a[0] > b[0] ? a[0] : b[0], a[1] > b[1] ? a[1] : b[1] };
#endif
}

INLINE vd v_min(vd a, vd b)
{
#if defined __AVX512F__
	return _mm512_min_pd(a, b);
#elif defined __AVX2__
	return _mm256_min_pd(a, b);
#else
	return (vd){ a[0] < b[0] ? a[0] : b[0], a[1] < b[1] ? a[1] : b[1] };
#endif
}

/* x << by, 0 where by is not below 64 */
INLINE vu v_shift(vu x, vu by)
{
#if defined __AVX512F__
	return (vu)_mm512_sllv_epi64((__m512i)x, (__m512i)by);
#elif defined __AVX2__
	return (vu)_mm256_sllv_epi64((__m256i)x, (__m256i)by);
#else
	return (x << (by & 63)) & (vu)(by < 64);
#endif
}

/* max(|a|, |b|) */
INLINE vd v_size(vd a, vd b)
{
#if defined __AVX512F__
	return _mm512_range_pd(a, b, 0xb);
#else
	const vi magnitude = (vi)v_set(-0.0) ^ -1;
	return v_max((vd)((vi)a & magnitude), (vd)((vi)b & magnitude));
#endif
}

#if defined __AVX512F__
typedef __m512 vf;
INLINE vf f_load(const float *x) { return _mm512_loadu_ps(x); }
INLINE vf f_max(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf f_min(vf a, vf b) { return _mm512_min_ps(a, b); }
#elif defined __AVX2__
typedef __m256 vf;
INLINE vf f_load(const float *x) { return _mm256_loadu_ps(x); }
INLINE vf f_max(vf a, vf b) { return _mm256_max_ps(a, b); }
INLINE vf f_min(vf a, vf b) { return _mm256_min_ps(a, b); }
#endif

/* Of any alignment. */
INLINE vd load_f64(const void *x, size_t i)
{
	typedef double any __attribute__((vector_size(8 * W), aligned(1), may_alias));
	return *(const any *)((const char *)x + 8 * i);
}

#if defined __AVX512F__
INLINE vd of_floats(__m256 f) { return _mm512_cvtps_pd(f); }
INLINE vd load_f32(const void *x, size_t i) { return of_floats(_mm256_loadu_ps((const float *)x + i)); }
INLINE __m128i halves(const void *x, size_t i) { return _mm_loadu_si128((const void *)((const uint16_t *)x + i)); }
INLINE vd load_f16(const void *x, size_t i) { return of_floats(_mm256_cvtph_ps(halves(x, i))); }
INLINE vd load_bf16(const void *x, size_t i)
{
	return of_floats(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves(x, i)), 16)));
}
#elif defined __AVX2__
INLINE vd of_floats(__m128 f) { return _mm256_cvtps_pd(f); }
INLINE vd load_f32(const void *x, size_t i) { return of_floats(_mm_loadu_ps((const float *)x + i)); }
INLINE __m128i halves(const void *x, size_t i) { return _mm_loadl_epi64((const void *)((const uint16_t *)x + i)); }
INLINE vd load_f16(const void *x, size_t i) { return of_floats(_mm_cvtph_ps(halves(x, i))); }
INLINE vd load_bf16(const void *x, size_t i)
{
	return of_floats(_mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(halves(x, i)), 16)));
}
#else
static vd load_any(enum dtype t, const void *x, size_t i)
{
	double y[W];
	dtype_load(t, (const char *)x + i * dtype_info[t].size, W, y);
	return v_load(y);
}
static vd load_f32(const void *x, size_t i) { return load_any(DT_F32, x, i); }
static vd load_f16(const void *x, size_t i) { return load_any(DT_F16, x, i); }
static vd load_bf16(const void *x, size_t i) { return load_any(DT_BF16, x, i); }
#endif

#endif
