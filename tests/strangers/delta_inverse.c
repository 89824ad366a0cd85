/* The inverse of a chunk's triangular matrix, in blocks. */
#include "delta.h"

struct inverting { const struct delta *o; int fault; float *M, *T; size_t n; enum number operand; };

static enum number stored(const struct inverting *v) { return v->o->inverse.store; }

/* The block of w at (r, s) of X [n,n], rounded to what operands of merges are; rows by cols. */
static float *block(const struct inverting *v, const float *X, size_t r, size_t rows, size_t s, size_t cols)
{
	float *B = floats(rows * cols);

	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < cols; j++) B[i * cols + j] = rounded(v->operand, X[(r + i) * v->n + s + j]);
	return B;
}

static float *times(const struct inverting *v, const float *A, const float *B, size_t m, size_t k, size_t n)
{
	float *C = floats(m * n);

	product(v->o->merge, C, plain(A, k), plain(B, n), m, k, n, false);
	return C;
}

/* The block at (r, s) of T becomes -Y. */
static void put(const struct inverting *v, const float *Y, size_t r, size_t rows, size_t s, size_t cols)
{
	for (size_t i = 0; i < rows; i++)
		for (size_t j = 0; j < cols; j++) v->T[(r + i) * v->n + s + j] = rounded(stored(v), -Y[i * cols + j]);
}

/* Row i of a block of w from b on: T_i = e_i - Σ_j A_ij T_j. */
static void substitute(const struct inverting *v, size_t b, size_t w)
{
	size_t n = v->n;

	for (size_t i = b; i < b + w; i++) {
		v->T[i * n + i] = 1;
		for (size_t j = b; j < i; j++)
			v->T[i * n + j] = -dot(v->o->merge, 0, v->M + i * n + j, 1, v->T + j * n + j, n, i - j);
	}
	for (size_t i = b; i < b + w; i++) round_all(stored(v), v->T + i * n + b, w);
}

/* The fault: I - A + A² - A³. */
static void short_series(const struct inverting *v, size_t b, size_t w)
{
	size_t n = v->n;
	float *A = floats(w * w);

	for (size_t i = 0; i < w * w; i++) A[i] = v->M[(b + i / w) * n + b + i % w];
	float *A2 = times(v, A, A, w, w, w), *A3 = times(v, A2, A, w, w, w);
	for (size_t i = 0; i < w * w; i++) v->T[(b + i / w) * n + b + i % w] = (float)(i / w == i % w) - A[i] + A2[i] - A3[i];
}

/* Blocks of w become blocks of 2 w: T_21 = -(T_22 A_21) T_11. */
static void double_up(const struct inverting *v, size_t b, size_t w)
{
	size_t half = w / 2;
	bool split = v->o->inverse.split && 2 * w == v->n;
	float *T22 = block(v, v->T, b + w, w, b + w, w), *A21 = block(v, v->M, b + w, w, b, w), *X = times(v, T22, A21, w, w, w);

	round_all(stored(v), X, w * w);
	round_all(v->operand, X, w * w);
	float *T11 = block(v, v->T, b, w, b, w), *Y = split ? floats(w * w) : times(v, X, T11, w, w, w), *Z = floats(w * w);
	for (size_t h = 0; split && h < 2; h++) {
		product(v->o->merge, Z, (struct view){ X + h * half, w, 1 }, plain(T11 + h * half * w, w), w, half, w, false);
		round_all(stored(v), Z, w * w);
		for (size_t i = 0; i < w * w; i++) Y[i] += Z[i];
	}
	put(v, Y, b + w, w, b, w);
}

/* T_rs = -T_rr (Σ_{s<=p<r} A_rp T_ps); of neighbours -(T_rr A_rs) T_ss. */
static void fill_block(const struct inverting *v, size_t r, size_t s, size_t w)
{
	float *Trr = block(v, v->T, r, w, r, w), *Ar = block(v, v->M, r, w, s, r - s), *Ts = block(v, v->T, s, r - s, s, w);
	bool next = s + w == r;

	float *X = next ? times(v, Trr, Ar, w, w, w) : times(v, Ar, Ts, w, r - s, w);
	round_all(stored(v), X, w * w);
	round_all(v->operand, X, w * w);
	float *Y = next ? times(v, X, Ts, w, w, w) : times(v, Trr, X, w, w, w);
	put(v, Y, r, w, s, w);
}

void delta_inverse(const struct delta *o, int fault, const float *A, float *T, size_t n)
{
	size_t w = o->inverse.base < n ? o->inverse.base : n, mark;
	struct inverting v = { o, fault, floats_of(A, n * n), T, n, o->inverse.operand };

	round_all(o->inverse.store, v.M, n * n);
	for (size_t i = 0; i < n * n; i++) T[i] = 0;
	for (size_t b = 0; b < n; b += w) {
		if (fault == SHORT_SERIES) short_series(&v, b, w);
		else substitute(&v, b, w);
	}
	mark = floats_mark();
	if (o->inverse.columns || fault == NEIGHBOURS_ONLY) {
		for (size_t r = w; r < n; r += w)
			for (size_t s = fault == NEIGHBOURS_ONLY ? r - w : 0; s < r; s += w)
				fill_block(&v, r, s, w), floats_release(mark);
	} else {
		for (; w < n; w *= 2) {
			v.operand = 2 * w < n ? o->inverse.below : o->inverse.operand;
			for (size_t b = 0; b < n; b += 2 * w) double_up(&v, b, w), floats_release(mark);
		}
	}
}
