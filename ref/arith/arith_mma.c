/* mma:ARCH: float, y + a x rounded once; products of matrices as NVIDIA's tensor cores add them (published
 * tests: MMA-Sim, arXiv 2511.10909; Fasi, Higham, Mikaitis and Pranesh 2021). K is cut into steps, chained
 * through the result c. In one step the products are exact; with e the largest exponent among them and c,
 * an exponent of a product being the sum of its factors', all terms are cut to multiples of 2^(e - F)
 * towards zero and added exactly; the sum is cut to 24 bits. How far a step goes depends on the operands'
 * type, which is the narrowest of bf16, f16 and tf32 that holds all elements of both matrices. Operands
 * that none holds are multiplied by a chain of fused multiply-adds. */
#include <math.h>

#include "calc_private.h"
#include "gpu_functions.h"

#define E float
#define F(name) name##f
#define FUSED
#include "arith_real.h"
#include "warp_scan.h"

/* What tensor cores multiply: the low bits of a float that are 0, the largest number (0: a float's), the
 * least normal exponent, bytes. */
static const struct operand { uint32_t low; float most; int least; size_t bytes; } operands[] = {
	{ 0xffff, 0, -126, 2 }, { 0x1fff, 65504, -14, 2 }, { 0x1fff, 0, -126, 4 }
};
enum { BF16, F16, TF32, OPERANDS };

/* bytes: of a row's elements in one step; fraction: F; types: bit i for operands[i]. */
static const struct unit { size_t bytes; int fraction; unsigned types; } units[MMA_ARCHES] = {
	[MMA_VOLTA] = { 8, 23, 1 << F16 }, [MMA_TURING] = { 16, 24, 1 << F16 },
	[MMA_AMPERE] = { 16, 24, 7 }, [MMA_ADA] = { 16, 24, 7 },
	[MMA_HOPPER] = { 32, 25, 7 }, [MMA_BLACKWELL] = { 32, 25, 7 },
};

static bool holds(const struct operand *t, const float *x, size_t n)
{
	float grid = t->most > 0 ? 0x1p24f : 0;         /* f16's subnormals are multiples of 2^-24 */

	for (size_t i = 0; i < n; i++) {
		union { float f; uint32_t u; } v = { fabsf(x[i]) };
		if (v.u & t->low) return false;
		if (grid > 0 && isfinite(v.f) && (v.f > t->most || v.f * grid != truncf(v.f * grid))) return false;
	}
	return true;
}

/* NULL: none of the unit's types holds both. */
static const struct operand *operand_of(const struct unit *u, const float *a, size_t na, const float *b, size_t nb)
{
	for (int i = 0; i < OPERANDS; i++)
		if (u->types >> i & 1 && holds(&operands[i], a, na) && holds(&operands[i], b, nb)) return &operands[i];
	return NULL;
}

/* A matrix's elements and their exponents, rows and columns filled up with zeros. The exponent of 0 is below all. */
struct panel { float *x; int16_t *e; size_t cols; };
enum { NOTHING = -10000, COLUMNS = 64, TERMS = 4 };

static inline int32_t exponent(double x, int least)
{
	union { double d; uint64_t u; } v = { x };
	int e = (int)(v.u >> 52 & 0x7ff) - 1023;

	return e > least ? e : least;
}

static size_t up_to(size_t n, size_t by) { return (n + by - 1) / by * by; }

/* M [rows,cols], or stored transposed, filled up. */
static struct panel panel(calc *c, const float *M, bool transposed, size_t rows, size_t cols, size_t to_rows, size_t to_cols, const struct operand *t)
{
	const size_t n = to_rows * to_cols;
	float *x = c_vec(c, n + n / 2 + 1).at;
	struct panel p = { x, (int16_t *)(x + n), to_cols };

	for (size_t i = 0; i < to_rows; i++)
		for (size_t j = 0; j < to_cols; j++) {
			float v = i < rows && j < cols ? transposed ? M[j * rows + i] : M[i * cols + j] : 0;
			p.x[i * to_cols + j] = v;
			p.e[i * to_cols + j] = (int16_t)(v == 0 ? NOTHING : exponent((double)v, t->least));
		}
	return p;
}

static inline double power_of_2(int32_t e)
{
	union { uint64_t u; double d; } v = { (uint64_t)(1023 + e) << 52 };

	return v.d;
}

/* Towards zero to a float; what is not finite stays. */
static inline double to_float(double x)
{
	union { double d; uint64_t u; } v = { x };

	v.u &= ~UINT64_C(0x1fffffff);
	return (double)(float)(fabs(x) < 0x1p-126 ? trunc(x * 0x1p149) * 0x1p-149 : v.d);
}

/* One step for n <= COLUMNS results d, floats: d += Σ_l a_l b_l, where a has `len` elements. In units of 2^(e - F) every term is an integer
 * below 2^(F + 2). */
LOOP static void step(float *d, size_t n, struct panel a, struct panel b, size_t len, int fraction)
{
	double sum[COLUMNS], unit[COLUMNS];
	int32_t e[COLUMNS];

	for (size_t j = 0; j < n; j++) e[j] = exponent((double)d[j], -126);
	for (size_t l = 0; l < len; l++)
		for (size_t j = 0; j < n; j++) {
			int32_t el = a.e[l] + b.e[l * b.cols + j];
			e[j] = el > e[j] ? el : e[j];
		}
	for (size_t j = 0; j < n; j++) {
		unit[j] = power_of_2(fraction - e[j]);
		sum[j] = trunc((double)d[j] * unit[j]);
	}
	for (size_t l = 0; l < len; l++)
		for (size_t j = 0; j < n; j++) sum[j] += trunc((double)a.x[l] * (double)b.x[l * b.cols + j] * unit[j]);
	for (size_t j = 0; j < n; j++) d[j] = (float)to_float(sum[j] * power_of_2(e[j] - fraction));
}

/* The same for COLUMNS results, in floats and 32-bit integers: exact where the largest exponent is from SMALLEST on, as products that matter
 * beside it are exact floats then, and sums of 8 terms such integers. False: a smaller one. len: a multiple of TERMS, at most 16. */
enum { SMALLEST = -90, LARGEST = 100 };
LOOP static bool narrow_step(float *d, struct panel a, struct panel b, size_t len, int fraction)
{
	int32_t sum[2][COLUMNS] = { { 0 } }, top[COLUMNS], small = 0;
	float unit[COLUMNS];
	int16_t e[COLUMNS];

	for (int j = 0; j < COLUMNS; j++) e[j] = 2 * NOTHING;
	for (size_t l = 0; l < len; l++)
		for (int j = 0; j < COLUMNS; j++) {
			int16_t el = (int16_t)(a.e[l] + b.e[l * b.cols + (size_t)j]);
			e[j] = el > e[j] ? el : e[j];
		}
	for (int j = 0; j < COLUMNS; j++) {
		union { float f; uint32_t u; } v = { d[j] }, one;
		int32_t own = v.f == 0 ? NOTHING : (int32_t)(v.u >> 23 & 0xff) - 127;
		top[j] = own > e[j] ? own : e[j];
		small |= (top[j] < SMALLEST) & (top[j] > NOTHING / 2);
		top[j] = top[j] > SMALLEST ? top[j] : SMALLEST;
		one.u = (uint32_t)(127 + fraction - top[j]) << 23;
		unit[j] = one.f;
		sum[0][j] = (int32_t)(d[j] * unit[j]);
	}
	if (small) return false;
	for (size_t l = 0; l < len; l += TERMS) {
		const float *x = a.x + l, *y = b.x + l * b.cols;
		int32_t *s = sum[l >= 8];
		for (int j = 0; j < COLUMNS; j++)
			s[j] += (int32_t)(x[0] * y[j] * unit[j]) + (int32_t)(x[1] * y[b.cols + (size_t)j] * unit[j])
				+ (int32_t)(x[2] * y[2 * b.cols + (size_t)j] * unit[j]) + (int32_t)(x[3] * y[3 * b.cols + (size_t)j] * unit[j]);
	}
	for (int j = 0; j < COLUMNS; j++) {
		union { double d; uint64_t u; } v = { (double)sum[0][j] + (double)sum[1][j] };
		v.u &= ~UINT64_C(0x1fffffff);
		d[j] = (float)(v.d * power_of_2(top[j] - fraction));
	}
	return true;
}

/* The largest exponent; more than a float's where not all are finite. */
static int largest(const float *x, size_t n)
{
	uint32_t most = 0;

	for (size_t i = 0; i < n; i++) {
		union { float f; uint32_t u; } v = { fabsf(x[i]) };
		most = v.u > most ? v.u : most;
	}
	return most >> 23 == 255 ? 1000 : (int)(most >> 23) - 127;
}

static bool all_zero(const float *x, size_t n)
{
	while (n && x[n - 1] == 0) n--;
	return !n;
}

/* y [width] += a B, for a row a of k elements. narrow: is nothing too large for narrow_step()? */
static void row(float *y, size_t width, struct panel a, struct panel b, size_t k, size_t length, int fraction, bool narrow)
{
	float d[COLUMNS] = { 0 };

	memcpy(d, y, width * sizeof *d);
	for (size_t l = 0; l < k; l += length) {
		struct panel al = { a.x + l, a.e + l, a.cols }, bl = { b.x + l * b.cols, b.e + l * b.cols, b.cols };
		size_t len = k - l < length ? k - l : length;
		if (narrow && all_zero(al.x, len)) continue;
		if (!narrow || !narrow_step(d, al, bl, len, fraction)) step(d, width, al, bl, len, fraction);
	}
	for (size_t j = 0; j < width; j++) y[j] = d[j] + 0;     /* of -0 and nothing: 0 */
}

static void gemm_add(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	const struct unit *u = &units[(c->arith - arith_mma) % MMA_ARCHES];
	const struct operand *t = operand_of(u, A, m * k, B, k * n);
	size_t mark = c_mark(c), length = t ? u->bytes / t->bytes : 0, filled = up_to(k, TERMS);
	float *y = C;

	if (!t) {
		l_gemm_add(c, C, A, ta, B, tb, m, n, k);
		return;
	}
	bool narrow = n >= COLUMNS / 8 && largest(A, m * k) + largest(B, k * n) <= LARGEST && largest(C, m * n) <= LARGEST;
	struct panel a = panel(c, A, ta, m, k, m, filled, t), b = panel(c, B, tb, k, n, filled, narrow ? up_to(n, COLUMNS) : n, t);
	for (size_t i = 0; i < m; i++)
		for (size_t j = 0; j < n; j += COLUMNS) {
			struct panel ai = { a.x + i * filled, a.e + i * filled, filled }, bj = { b.x + j, b.e + j, b.cols };
			row(y + i * n + j, n - j < COLUMNS ? n - j : COLUMNS, ai, bj, filled, length, u->fraction, narrow);
		}
	c_release(c, mark);
}

static void gemm(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	memset(C, 0, m * n * sizeof(float));
	gemm_add(c, C, A, ta, B, tb, m, n, k);
}

/* Of a vector as one row of many. */
static void dot(calc *c, void *y, const void *a, const void *b, size_t n) { gemm(c, y, a, false, b, false, 1, 1, n); }
static void gemv_t(calc *c, void *y, const void *A, const void *x, size_t rows, size_t cols) { gemm(c, y, x, false, A, false, 1, cols, rows); }

#define MMA(arch, text, dots, vectors) { .name = "mma:" arch, .what = "float, fused multiply-adds, products of matrices as " text " tensor cores add", \
	.precision = 24, .size = size, .init = init, .load = load, .read = take, .binary = l_binary, .map = l_map, .axpy = l_axpy, \
	.scan = warp_scan, .ger = l_ger, .dot = dots, .gemv_t = vectors, .gemm = gemm, .gemm_add = gemm_add }
#define BOTH(i, arch, text) [i] = MMA(arch, text, l_dot, l_gemv_t), [MMA_ARCHES + i] = MMA(arch " with vectors", text, dot, gemv_t)
const struct arith arith_mma[2 * MMA_ARCHES] = {
	BOTH(MMA_VOLTA, "volta", "Volta's"), BOTH(MMA_TURING, "turing", "Turing's"), BOTH(MMA_AMPERE, "ampere", "Ampere's"),
	BOTH(MMA_ADA, "ada", "Ada's"), BOTH(MMA_HOPPER, "hopper", "Hopper's"), BOTH(MMA_BLACKWELL, "blackwell", "Blackwell's"),
};
