/* The vector operations of one arithmetic, made from its elements. The including file defines
 *   E            the element type, and AT(c, p, i), the address of element i;
 *   e_set0, e_add, e_sub, e_mul, e_div, e_max, e_pow(c, y, a, b);
 *   e_fma(c, y, a, x)   y += a x;
 *   e_map(c, f, y, x), inline for f that is known;
 *   LOOP         an attribute for the functions below (or nothing).
 * Sums run in index order. */
#include <string.h>

#define UNUSED __attribute__((unused))

static inline void e_binary(calc *c, enum binary op, E *y, const E *a, const E *b)
{
	switch (op) {
	case OP_ADD: e_add(c, y, a, b); break;
	case OP_SUB: e_sub(c, y, a, b); break;
	case OP_MUL: e_mul(c, y, a, b); break;
	case OP_DIV: e_div(c, y, a, b); break;
	case OP_MAX: e_max(c, y, a, b); break;
	case OP_POW: e_pow(c, y, a, b); break;
	}
}

/* b: a number, a vector, or every b_step-th of one. */
#define EACH(e) do { \
	const E number = *AT(c, b, 0); \
	if (b_step == 0) for (size_t i = 0; i < n; i++) e(c, AT(c, y, i), AT(c, a, i), &number); \
	else if (b_step == 1) for (size_t i = 0; i < n; i++) e(c, AT(c, y, i), AT(c, a, i), AT(c, b, i)); \
	else for (size_t i = 0; i < n; i++) e(c, AT(c, y, i), AT(c, a, i), AT(c, b, i * b_step)); \
} while (0)
LOOP UNUSED static void l_binary(calc *c, enum binary op, void *y, const void *a, const void *b, size_t b_step, size_t n)
{
	if (!n) return;
	switch (op) {
	case OP_ADD: EACH(e_add); break;
	case OP_SUB: EACH(e_sub); break;
	case OP_MUL: EACH(e_mul); break;
	default: for (size_t i = 0; i < n; i++) e_binary(c, op, AT(c, y, i), AT(c, a, i), AT(c, b, i * b_step)); break;
	}
}
#undef EACH

/* Whole states are copied, and negated. */
#define EACH(f) for (size_t i = 0; i < n; i++) e_map(c, f, AT(c, y, i), AT(c, x, i))
UNUSED static void l_map(calc *c, enum fn f, void *y, const void *x, size_t n)
{
	if (f == FN_ID) EACH(FN_ID);
	else if (f == FN_NEG) EACH(FN_NEG);
	else EACH(f);
}
#undef EACH

LOOP UNUSED static void l_axpy(calc *c, void *y, const void *a, const void *x, size_t n)
{
	const E number = *AT(c, a, 0);

	for (size_t i = 0; i < n; i++) e_fma(c, AT(c, y, i), &number, AT(c, x, i));
}

UNUSED static void l_scan(calc *c, void *y, const void *x, size_t n)
{
	if (n) e_map(c, FN_ID, AT(c, y, 0), AT(c, x, 0));
	for (size_t i = 1; i < n; i++) e_add(c, AT(c, y, i), AT(c, y, i - 1), AT(c, x, i));
}

UNUSED static void l_dot(calc *c, void *y, const void *a, const void *b, size_t n)
{
	e_set0(c, AT(c, y, 0));
	for (size_t i = 0; i < n; i++) e_fma(c, AT(c, y, 0), AT(c, a, i), AT(c, b, i));
}

UNUSED static void l_gemv_t(calc *c, void *y, const void *A, const void *x, size_t rows, size_t cols)
{
	for (size_t j = 0; j < cols; j++) e_set0(c, AT(c, y, j));
	for (size_t i = 0; i < rows; i++) l_axpy(c, y, AT(c, x, i), AT(c, A, i * cols), cols);
}

UNUSED static void l_ger(calc *c, void *A, const void *x, const void *y, size_t rows, size_t cols)
{
	for (size_t i = 0; i < rows; i++) l_axpy(c, AT(c, A, i * cols), AT(c, x, i), y, cols);
}

UNUSED static void l_gemm_add(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	for (size_t i = 0; i < m; i++) {
		for (size_t j = 0; tb && !ta && j < n; j++)
			for (size_t l = 0; l < k; l++) e_fma(c, AT(c, C, i * n + j), AT(c, A, i * k + l), AT(c, B, j * k + l));
		for (size_t l = 0; (ta || !tb) && l < k; l++) {
			const E *a = ta ? AT(c, A, l * m + i) : AT(c, A, i * k + l);
			if (!tb) l_axpy(c, AT(c, C, i * n), a, AT(c, B, l * n), n);
			else for (size_t j = 0; j < n; j++) e_fma(c, AT(c, C, i * n + j), a, AT(c, B, j * k + l));
		}
	}
}

UNUSED static void l_gemm(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	for (size_t i = 0; i < m * n; i++) e_set0(c, AT(c, C, i));
	l_gemm_add(c, C, A, ta, B, tb, m, n, k);
}

#define ARITH_LOOPS_WITH(product) .binary = l_binary, .map = l_map, .axpy = l_axpy, .scan = l_scan, .dot = l_dot, .gemv_t = l_gemv_t, \
	.ger = l_ger, .gemm = product
#define ARITH_LOOPS ARITH_LOOPS_WITH(l_gemm)
