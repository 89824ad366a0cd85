/* Tensor cores: mma:hopper against an H200's own answers, every architecture against the definition in
 * MPFR; and the orders in which a warp adds. Runs from the repository's root. */
#include <math.h>
#include <mpfr.h>
#include <string.h>

#include "fixtures/io/tensor.h"
#include "ref/approx/approx.h"
#include "tests/witness.h"

#define LEN(a) (sizeof(a) / sizeof *(a))

/* What a test's body is about; in_calc gives it the arithmetic alone. */
static struct { const char *type; struct tensors recorded; size_t differ, elements; uint64_t stream; } now;

static void in_arith(const char *spec, void (*body)(calc *c))
{
	struct plan p = plan_in(spec);

	in_calc(&p, NULL, NULL, body);
}

static mat filled(calc *c, size_t rows, size_t cols, const double *x)
{
	mat A = c_mat(c, rows, cols);

	c->arith->load(c, A.at, x, rows * cols);
	return A;
}

/* ---- against hardware: see mma_record.cu ---- */
static const double *recorded(const char *name, size_t *tiles, size_t *k)
{
	static double x[4][36 * 256];
	char full[16];

	snprintf(full, sizeof full, "%s.%s", now.type, name);
	struct tensor *t = tensors_find(&now.recorded, full);
	assert_true(t && t->count <= LEN(x[0]));
	dtype_load(t->dtype, t->data, t->count, x[name[0] - 'a']);
	*tiles = t->shape[0];
	if (*name == 'a') *k = t->shape[2];
	return x[name[0] - 'a'];
}

static void compare_recorded(calc *c)
{
	size_t tiles, k = 0, mark = c_mark(c);
	const double *a = recorded("a", &tiles, &k), *b = recorded("b", &tiles, &k), *x = recorded("c", &tiles, &k), *d = recorded("d", &tiles, &k);

	for (size_t t = 0; t < tiles; t++) {
		mat D = filled(c, 16, 8, x + t * 128);
		c_gemm_add(c, D, NN, filled(c, 16, k, a + t * 16 * k), filled(c, k, 8, b + t * 8 * k));
		for (size_t i = 0; i < 128; i++) {
			double y = (double)((float *)D.at)[i], z = d[t * 128 + i];
			now.differ += y != z && !(isnan(y) && isnan(z));
			now.elements++;
		}
		c_release(c, mark);
	}
}

static void equals_an_h200(void **state)
{
	static const char *const types[] = { "bf16", "f16", "tf32" };
	struct error e;

	(void)state;
	assert_true(tensors_read(&now.recorded, "tests/ref/arith/mma_hopper.safetensors", &e));
	for (size_t i = 0; i < LEN(types); i++) {
		now.type = types[i];
		now.differ = now.elements = 0;
		in_arith("mma:hopper", compare_recorded);
		if (now.differ) fail_msg("%s: %zu of %zu differ", types[i], now.differ, now.elements);
		assert_int_equal(now.elements, 36 * 128);
		in_arith("mma:ampere", compare_recorded);       /* the records can tell another accumulator */
		assert_true(now.differ > 300);
	}
	tensors_free(&now.recorded);
}

/* ---- against the definition ---- */

/* bf16, f16 and tf32, and what each architecture multiplies */
static const struct type { int precision, least, top; size_t bytes; } bf16 = { 8, -126, 127, 2 }, f16 = { 11, -14, 15, 2 }, tf32 = { 11, -126, 127, 4 };
static const struct machine { const char *spec; int fraction; size_t bytes; bool f16_only; } machines[] = {
	{ "mma:volta", 23, 8, true }, { "mma:turing", 24, 16, true }, { "mma:ampere", 24, 16, false }, { "mma:ada", 24, 16, false },
	{ "mma:hopper", 25, 32, false }, { "mma:blackwell", 25, 32, false },
};
static const struct machine *machine;
static const struct type *type;

/* floor(log2 |x|), no less than the type's least; zero has it too. */
static long exponent_of(double x, int least)
{
	int e;

	frexp(x, &e);
	return x == 0 || e - 1 < least ? least : e - 1;
}

/* What is below 2^e is cut off, towards zero. */
static void cut(mpfr_ptr x, long e)
{
	mpfr_mul_2si(x, x, -e, MPFR_RNDN);
	mpfr_trunc(x, x);
	mpfr_mul_2si(x, x, e, MPFR_RNDN);
}

/* One step: c + Σ a_i b_i; 1200 bits hold any such sum of floats. */
static float one_step(float c, const double *a, const double *b, size_t n)
{
	long top = exponent_of((double)c, -126);
	mpfr_t sum, t;

	mpfr_inits2(1200, sum, t, (mpfr_ptr)NULL);
	for (size_t i = 0; i < n; i++) {
		long e = exponent_of(a[i], type->least) + exponent_of(b[i], type->least);
		if (a[i] != 0 && b[i] != 0 && e > top) top = e;
	}
	mpfr_set_flt(sum, c, MPFR_RNDN);
	cut(sum, top - machine->fraction);
	for (size_t i = 0; i < n; i++) {
		mpfr_set_d(t, a[i], MPFR_RNDN);
		mpfr_mul_d(t, t, b[i], MPFR_RNDN);
		cut(t, top - machine->fraction);
		mpfr_add(sum, sum, t, MPFR_RNDN);
	}
	long e = mpfr_zero_p(sum) ? 0 : mpfr_get_exp(sum) - 24;
	cut(sum, e < -149 ? -149 : e);
	double y = mpfr_get_d(sum, MPFR_RNDN);
	mpfr_clears(sum, t, (mpfr_ptr)NULL);
	return (float)y;
}

/* Of the type; one in eight is 0, scales are `spread` binades about 1, now and then down to subnormals. */
static double drawn(int spread)
{
	uint64_t r = random_bits(&now.stream);
	int e = (int)(r >> 8 & 0xff) % (2 * spread + 1) - spread;

	if ((r & 7) == 0) return 0;
	if ((r >> 3 & 31) == 0) e = type->least - (int)(r >> 8 & 7);
	double x = ldexp(1 + (double)(r >> 41) * 0x1p-23, e < type->top ? e : type->top);
	double grid = ldexp(1, (int)exponent_of(x, type->least) - type->precision + 1);
	return (r >> 16 & 1 ? -1 : 1) * trunc(x / grid) * grid;
}

/* Sums of the last row and every eighth column are about 2^-118. */
static void make_small(size_t m, size_t n, size_t k, double *a, double *b, double *x)
{
	for (size_t l = 0; l < k; l++) a[(m - 1) * k + l] *= fabs(a[(m - 1) * k + l]) > 0x1p-40 ? 0x1p-60 : 0;
	for (size_t l = 0; l < k; l++)
		for (size_t j = 0; j < n; j += 8) b[l * n + j] *= fabs(b[l * n + j]) > 0x1p-40 ? 0x1p-58 : 0;
	for (size_t j = 0; j < n; j += 8) x[(m - 1) * n + j] = (double)(float)(x[(m - 1) * n + j] * 0x1p-118);
}

static void chains(calc *c)
{
	enum { M = 3, N = 70, K = 43 };                 /* more columns than are done at once; a short last step */
	static double a[M][K], b[K][N], at[K][M], bt[N][K], x[M][N];       /* two of K cancel */
	static const int spreads[] = { 1, 6, 14 };
	size_t step = machine->bytes / type->bytes;

	for (size_t s = 0; s < LEN(spreads); s++) {
		for (size_t i = 0; i < M * K; i++) a[i / K][i % K] = i % K == 1 ? -a[i / K][0] : drawn(spreads[s]);
		for (size_t i = 0; i < K * N; i++) b[i / N][i % N] = i / N == 1 && i % 5 ? b[0][i % N] : drawn(spreads[s]);
		for (size_t i = 0; i < M * N; i++) x[i / N][i % N] = i % 3 ? (double)(float)(drawn(spreads[s]) * 1.3) : 0;
		if (type->least < -100) make_small(M, N, K, a[0], b[0], x[0]);
		/* all terms of a step as large as they can be, of one sign */
		for (size_t l = 0; l < K && !s; l++) a[0][l] = b[l][3] = x[0][3] = 1.9921875;
		for (size_t i = 0; i < M * K; i++) at[i % K][i / K] = a[i / K][i % K];
		for (size_t i = 0; i < K * N; i++) bt[i % N][i / N] = b[i / N][i % N];
		mat nn = filled(c, M, N, x[0]), tn = filled(c, M, N, x[0]), nt = filled(c, M, N, x[0]), A = filled(c, M, K, a[0]), B = filled(c, K, N, b[0]);
		c_gemm_add(c, nn, NN, A, B);
		c_gemm_add(c, tn, TN, filled(c, K, M, at[0]), B);
		c_gemm_add(c, nt, NT, A, filled(c, N, K, bt[0]));
		assert_memory_equal(nn.at, tn.at, M * N * sizeof(float));
		assert_memory_equal(nn.at, nt.at, M * N * sizeof(float));
		for (size_t i = 0; i < M * N; i++) {
			float d = (float)x[i / N][i % N];
			for (size_t l = 0; l < K; l += step) d = one_step(d, a[i / N] + l, bt[i % N] + l, K - l < step ? K - l : step);
			float y = ((float *)nn.at)[i];
			if (y != d) fail_msg("%s, %zu bytes, least 2^%d: element %zu is %a, not %a", machine->spec, type->bytes, type->least, i, (double)y, (double)d);
		}
	}
}

static void equals_the_definition(void **state)
{
	static const struct type *const types[] = { &bf16, &f16, &tf32 };

	(void)state;
	for (machine = machines; machine < machines + LEN(machines); machine++)
		for (size_t i = 0; i < LEN(types); i++) {
			type = types[i];
			now.stream = 5;
			if (!machine->f16_only || type == &f16) in_arith(machine->spec, chains);
		}
	mpfr_free_cache();
}

/* ---- operands that no type holds; the order of sums ---- */

/* (1 + 2^-20)² - 1 - 2^-19 is 2^-40: fused, it stays; cut to tf32 or rounded twice, it is 0. */
static void fused(calc *c)
{
	mat D = c_mat(c, 1, 1);
	double a[] = { 1, 1, 1 + 0x1p-20 }, b[] = { -1, -0x1p-19, 1 + 0x1p-20 };

	c_gemm(c, D, NN, filled(c, 1, 3, a), filled(c, 3, 1, b));
	assert_true(c_value(c, flat(D)) == 0x1p-40);
}

/* Turing has no bf16: 2^20 with 2^-4 to it eight times, each lost, is exact in one step of Ampere. */
static void bf16_or_not(calc *c)
{
	mat D = c_mat(c, 1, 1);
	double a[] = { 0x1p60, 1, 1, 1, 1, 1, 1, 1 }, b[] = { 0x1p-40, 0x1p-4, 0x1p-4, 0x1p-4, 0x1p-4, 0x1p-4, 0x1p-4, 0x1p-4 };

	c_gemm(c, D, NN, filled(c, 1, 8, a), filled(c, 8, 1, b));
	assert_true(c_value(c, flat(D)) == (c->arith == &arith_mma[MMA_AMPERE] ? 0x1p20 + 0.4375 - 0.0625 : 0x1p20));
}

/* Lanes of 8 elements: the seven ones in 2^24's lane are lost one by one, as is lane 4's; the three of lane 1
 * add up before they meet it. */
static void lanes(calc *c)
{
	double x[40] = { [0] = 0x1p24, [1] = 1, [2] = 1, [3] = 1, [4] = 1, [5] = 1, [6] = 1, [7] = 1, [8] = 1, [9] = 1, [15] = 1, [39] = 1 }, ones[40];
	num y = c_num(c);

	for (size_t i = 0; i < 40; i++) ones[i] = 1;
	mat A = filled(c, 1, 40, x), B = filled(c, 1, 40, ones);
	c_dot(c, y, flat(A), flat(B));
	assert_true(c_value(c, y) == 0x1p24 + 4);
	c_gemv_t(c, y, filled(c, 40, 1, x), flat(B));
	assert_true(c_value(c, y) == 0x1p24 + 4);
}

/* Element 2 is (x2 + x1) + x0, not (x0 + x1) + x2; what the first warp has comes last. */
static void scan(calc *c)
{
	double x[34] = { 0x1p24, -0x1p24 + 1, 1, 1, [32] = 1, [33] = 1 };
	vec from = c_vec(c, 34), to = c_vec(c, 34);

	c->arith->load(c, from.at, x, 34);
	c_scan(c, to, from);
	assert_true(((float *)to.at)[0] == 0x1p24f && ((float *)to.at)[1] == 1 && ((float *)to.at)[3] == 3 && ((float *)to.at)[33] == 5);
	x[0] = 0x1p24, x[1] = 1, x[2] = 1, x[3] = 0;
	c->arith->load(c, from.at, x, 34);
	c_scan(c, to, from);
	assert_true(((float *)to.at)[2] == (c->arith == &arith_f32 ? 0x1p24f : 0x1p24f + 2));
	assert_true(((float *)to.at)[33] == (c->arith == &arith_f32 ? 0x1p24f : 0x1p24f + 2));
}

static double mapped(calc *c, enum fn f, double at)
{
	num x = c_num(c);

	c_set(c, x, at);
	c_map(c, x, f, x);
	return c_value(c, x);
}

/* Functions as the GPU's units answer: of these arguments some would be another float rounded right. */
static void functions(calc *c)
{
	int other[2] = { 0 };

	for (int i = 0; i < 1000; i++) {
		float x = -0.013f * (float)i;
		assert_true(mapped(c, FN_EXP2, (double)x) == (double)approx(APPROX_EX2, x, false));
		assert_true(mapped(c, FN_EXP, (double)x) == (double)approx_expf(x));
		assert_true(mapped(c, FN_SIGMOID, (double)x) == (double)(1 / (1 + approx_expf(-x))));
		other[0] += mapped(c, FN_EXP2, (double)x) != (double)(float)exp2((double)x);
		other[1] += mapped(c, FN_EXP, (double)x) != (double)(float)exp((double)x);
	}
	assert_true(other[0] > 10 && other[1] > 10);
	assert_true(mapped(c, FN_SOFTPLUS, 1.25) == (double)log1pf(approx_expf(1.25f)) && mapped(c, FN_SOFTPLUS, 20.5) == 20.5);
}

static void orders(void **state)
{
	static const char *const warps[] = { "f32_tree", "mma:hopper", "f32" };

	(void)state;
	for (size_t i = 0; i < LEN(machines); i++) in_arith(machines[i].spec, fused);
	in_arith("f32_fma", fused);
	in_arith("mma:ampere", bf16_or_not);
	in_arith("mma:turing", bf16_or_not);
	in_arith("f32_tree", lanes);
	for (size_t i = 0; i < LEN(warps); i++) in_arith(warps[i], scan);
	in_arith("mma:hopper", functions);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equals_an_h200),
		cmocka_unit_test(equals_the_definition),
		cmocka_unit_test(orders),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
