/* f32_tree: float, y + a x rounded once, sums as a warp adds them. Element i belongs to lane i/8 mod 32,
 * as reads of 16 bytes of bf16 have it; a lane adds its elements in order, and lanes are added pairwise,
 * first those 16 apart, then 8, 4, 2, 1: the butterfly of warp shuffles. Running sums: see warp_scan. */
#include <math.h>

#include "calc_private.h"
#include "gpu_functions.h"

#define E float
#define F(name) name##f
#define FUSED
#include "arith_real.h"
#include "warp_scan.h"

enum { PIECE = 8 };

/* Σ a_i b_i, elements `as` and `bs` apart. */
LOOP static float tree(const float *a, size_t as, const float *b, size_t bs, size_t n)
{
	float lane[LANES] = { 0 };

	for (size_t i = 0; i < n; i++) {
		float *to = &lane[i / PIECE % LANES];
		*to = fmaf(a[i * as], b[i * bs], *to);
	}
	for (size_t apart = LANES / 2; apart; apart /= 2)
		for (size_t i = 0; i < apart; i++) lane[i] += lane[i + apart];
	return lane[0];
}

static void gemm(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	const float *a = A, *b = B;

	(void)c;
	for (size_t i = 0; i < m; i++)
		for (size_t j = 0; j < n; j++)
			((float *)C)[i * n + j] = tree(a + (ta ? i : i * k), ta ? m : 1, b + (tb ? j * k : j), tb ? 1 : n, k);
}

static void dot(calc *c, void *y, const void *a, const void *b, size_t n) { gemm(c, y, a, false, b, false, 1, 1, n); }

static void gemv_t(calc *c, void *y, const void *A, const void *x, size_t rows, size_t cols)
{
	gemm(c, y, A, true, x, false, cols, 1, rows);
}

const struct arith arith_f32_tree = {
	.name = "f32_tree", .what = "float, fused multiply-adds, sums over 32 lanes and then pairwise, as a warp adds", .precision = 24,
	.size = size, .init = init, .load = load, .read = take,
	.binary = l_binary, .map = l_map, .axpy = l_axpy, .scan = warp_scan, .ger = l_ger, .dot = dot, .gemv_t = gemv_t, .gemm = gemm
};
