/* Sums and products in double-double within the bound of dd_form.h, the worst printed; and the forms of one source
 * against each other, bit by bit. */
#include "tests/ref/dd/dd_units.h"

/* ---- sums ---- */
enum { M = 67, N = 70, K = 300 };
static struct { double ah[M * K], al[M * K], bh[K * N], bl[K * N], ch[M * N], cl[M * N]; } g;

/* Spread over 2^±spread; odd rows of A and columns of B nearly cancel. */
static void draw(double *hi, double *lo, size_t n, int spread)
{
	for (size_t i = 0; i < n; i++) {
		dd x = widened(ldexp(uniform(), (int)(spread * uniform())));
		if (i % 3 == 1) x = dd_of(-hi[i - 1]);
		hi[i] = x.hi, lo[i] = x.lo;
	}
}

/* In units of u^2 Σ|a b|. */
static double off(dd y, const double *ah, const double *al, size_t a_step, const double *bh, const double *bl, size_t b_step,
	size_t k)
{
	mpfr_t s, size, p, q;

	mpfr_inits2(EXACT, s, size, p, q, (mpfr_ptr)NULL);
	mpfr_set_zero(s, 1);
	mpfr_set_zero(size, 1);
	for (size_t i = 0; i < k; i++) {
		set(p, (dd){ ah[i * a_step], al[i * a_step] });
		set(q, (dd){ bh[i * b_step], bl[i * b_step] });
		mpfr_mul(p, p, q, MPFR_RNDN);
		mpfr_add(s, s, p, MPFR_RNDN);
		mpfr_abs(p, p, MPFR_RNDN);
		mpfr_add(size, size, p, MPFR_RNDN);
	}
	double u = units(y, s, size);
	mpfr_clears(s, size, p, q, (mpfr_ptr)NULL);
	return u;
}

static void sums_keep_their_bound(void **state)
{
	dds A = { g.ah, g.al }, B = { g.bh, g.bl }, C = { g.ch, g.cl };

	(void)state;
	for (int spread = 0; spread <= 40; spread += 20) {
		double worst[3] = { 0 };
		draw(g.ah, g.al, LEN(g.ah), spread);
		draw(g.bh, g.bl, LEN(g.bh), spread);
		for (size_t k = 1; k <= K; k += k < 40 ? 1 : 37) {
			dd_form()->dot(C, A, B, k);
			worst[0] = fmax(worst[0], off((dd){ g.ch[0], g.cl[0] }, g.ah, g.al, 1, g.bh, g.bl, 1, k) / (dd_sum_error(k) / DD_U2));
			dd_form()->gemv_t(C, B, A, k, N);
			for (size_t j = 0; j < N; j += 3)
				worst[1] = fmax(worst[1], off((dd){ g.ch[j], g.cl[j] }, g.bh + j, g.bl + j, N, g.ah, g.al, 1, k) / (dd_sum_error(k) / DD_U2));
		}
		dd_form()->gemm(C, N, (struct dd_operand){ A, K, 1 }, (struct dd_operand){ B, N, 1 }, M, N, K, false);
		for (size_t i = 0; i < M; i++)
			for (size_t j = i % 7; j < N; j += 7) {
				double u = off((dd){ g.ch[i * N + j], g.cl[i * N + j] }, g.ah + i * K, g.al + i * K, 1, g.bh + j, g.bl + j, N, K);
				worst[2] = fmax(worst[2], u);
			}
		print_message("entries spread over 2^±%d: dot %.2g, gemv_t %.2g of the bound; gemm of %d terms %.2f u^2 Σ|a b|, "
			"at most %.0f\n", spread, worst[0], worst[1], K, worst[2], dd_sum_error(K) / DD_U2);
		assert_true(worst[0] > 0 && worst[0] <= 1 && worst[1] > 0 && worst[1] <= 1);
		assert_true(worst[2] > 0 && worst[2] <= 40);    /* sampled; the bound has all roundings go one way */
	}
	mpfr_free_cache();
}

/* The product that docs/performance.md times, to 104 bits, and to 100 where entries are spread: a sum then keeps, until it is
 * normalised, what the errors of terms that have cancelled came to. */
static void a_product_has_104_bits(void **state)
{
	enum { ROWS = 9, LONG = 1024, COLUMNS = 33 };
	static double ah[ROWS * LONG], al[ROWS * LONG], bh[LONG * COLUMNS], bl[LONG * COLUMNS], ch[ROWS * COLUMNS], cl[ROWS * COLUMNS];

	(void)state;
	for (int spread = 0; spread <= 60; spread += 20) {
		double worst = 0;
		draw(ah, al, LEN(ah), spread);
		draw(bh, bl, LEN(bh), spread);
		dd_form()->gemm((dds){ ch, cl }, COLUMNS, (struct dd_operand){ { ah, al }, LONG, 1 }, (struct dd_operand){ { bh, bl }, COLUMNS, 1 },
			ROWS, COLUMNS, LONG, false);
		for (size_t i = 0; i < LEN(ch); i++)
			worst = fmax(worst, off((dd){ ch[i], cl[i] }, ah + i / COLUMNS * LONG, al + i / COLUMNS * LONG, 1, bh + i % COLUMNS,
				bl + i % COLUMNS, COLUMNS, LONG));
		print_message("%d terms spread over 2^±%d: 2^%.1f Σ|a b|\n", LONG, spread, log2(worst * DD_U2));
		assert_true(worst > 0 && worst * DD_U2 <= (spread ? 0x1p-100 : 0x1p-104));
	}
	mpfr_free_cache();
}

/* Exact where double-double holds all: small integers, any shape, transposed or not. */
static void products_of_integers_are_exact(void **state)
{
	static const size_t sizes[][3] = {
		{ 1, 1, 1 }, { 3, 5, 7 }, { 4, 16, 16 }, { 65, 64, 17 }, { 64, 70, 129 }, { 67, 1, 300 }, { 1, 70, 33 }
	};

	(void)state;
	for (size_t i = 0; i < LEN(g.ah); i++) g.ah[i] = (double)(random_bits(&stream) >> 40), g.al[i] = 0;
	for (size_t i = 0; i < LEN(g.bh); i++) g.bh[i] = (double)(random_bits(&stream) >> 40), g.bl[i] = 0;
	for (size_t s = 0; s < 4 * LEN(sizes); s++) {
		size_t m = sizes[s / 4][0], n = sizes[s / 4][1], k = sizes[s / 4][2];
		bool ta = s & 1, tb = s & 2;
		struct dd_operand a = { { g.ah, g.al }, ta ? 1 : k, ta ? m : 1 }, b = { { g.bh, g.bl }, tb ? 1 : n, tb ? k : 1 };
		memset(g.ch, 0xff, sizeof g.ch);
		dd_form()->gemm((dds){ g.ch, g.cl }, n, a, b, m, n, k, false);
		for (size_t i = 0; i < m; i++)
			for (size_t j = 0; j < n; j++) {
				__int128 sum = 0;
				for (size_t l = 0; l < k; l++) sum += (__int128)g.ah[i * a.row + l * a.column] * (__int128)g.bh[l * b.row + j * b.column];
				assert_true((__int128)g.ch[i * n + j] + (__int128)g.cl[i * n + j] == sum);
			}
		for (size_t i = m * n; i < LEN(g.ch); i++) assert_true(isnan(g.ch[i]));         /* nothing beyond C */
	}
}

/* ---- the forms ---- */
enum { VECTOR = 333 };
static const double special[] = {
	0, -0.0, INFINITY, -INFINITY, NAN, 0x1p-1074, -0x1p-1030, 1.7e308, -1.7e308, 1e200, 1e-200, 0x1p52, 1e16
};

/* All that a form answers to one set of operands, low parts of what is not finite left out. */
static size_t answers(const struct dd_form *f, double *out)
{
	double hi[4][VECTOR], lo[4][VECTOR];
	dds x = { hi[0], lo[0] }, y = { hi[1], lo[1] }, z = { hi[2], lo[2] }, w = { hi[3], lo[3] };
	size_t used = 0;

	#define TAKE(v, n) for (size_t i = 0; i < (n); i++) { out[used++] = v.hi[i]; out[used++] = isfinite(v.hi[i]) ? v.lo[i] : 0; }
	stream = 11;
	for (size_t i = 0; i < VECTOR; i++) {
		dd a = widened(ldexp(uniform(), (int)(i % 2 ? 60 * uniform() : 8 * uniform()))), b = widened(uniform() * 30);
		if (i % 5 == 0) a = dd_of(special[random_bits(&stream) % LEN(special)]);
		if (i % 7 == 0) b = dd_of(special[random_bits(&stream) % LEN(special)]);
		hi[0][i] = a.hi, lo[0][i] = a.lo, hi[1][i] = b.hi, lo[1][i] = b.lo;
	}
	for (enum binary op = OP_ADD; op <= OP_POW; op++)
		for (size_t step = 0; step < 2; step++) {
			f->binary(op, z, x, y, step, VECTOR);
			TAKE(z, VECTOR)
		}
	for (enum fn fn = FN_ID; fn < FN_COUNT; fn++) {
		f->map(fn, z, x, VECTOR);
		TAKE(z, VECTOR)
	}
	memcpy(hi[2], hi[0], sizeof hi[0]), memcpy(lo[2], lo[0], sizeof lo[0]);
	f->axpy(z, (dd){ hi[1][1], lo[1][1] }, y, VECTOR);
	TAKE(z, VECTOR)
	for (size_t i = 0; i < VECTOR; i++) {           /* sums: without what would make them all NaN */
		if (!isfinite(hi[0][i]) || fabs(hi[0][i]) > 1e100) hi[0][i] = 1, lo[0][i] = 0;
		if (!isfinite(hi[1][i]) || fabs(hi[1][i]) > 1e100) hi[1][i] = 1, lo[1][i] = 0;
	}
	for (size_t n = 1; n <= VECTOR; n += 1 + n / 4) {
		f->dot(w, x, y, n);
		TAKE(w, 1)
	}
	for (size_t cols = 1; cols < 80; cols += 6) {
		f->gemv_t(w, x, y, VECTOR / cols, cols);
		TAKE(w, cols)
		f->gemm(w, cols < 18 ? cols : 18, (struct dd_operand){ x, 1, 18 }, (struct dd_operand){ y, cols < 18 ? cols : 18, 1 }, 18,
			cols < 18 ? cols : 18, 18, cols % 12 == 1);
		if (cols % 12 != 1) TAKE(w, 18 * (cols < 18 ? cols : 18))
	}
	return used;
}

static void forms_agree(void **state)
{
	static double expected[1 << 15], got[1 << 15];
	size_t n = answers(&dd_plain, expected), others = 0;

	(void)state;
	assert_true(n < LEN(expected));
	for (const struct dd_form *const *f = dd_forms; *f != &dd_plain; f++) {
		if (!(*f)->runs()) continue;
		assert_int_equal(answers(*f, got), n);
		for (size_t i = 0; i < n; i++)
			if (!same(got + i, expected + i, 1)) fail_msg("%s: number %zu is %a, plain has %a", (*f)->name, i, got[i], expected[i]);
		print_message("%s: %zu numbers equal to plain's to the bit\n", (*f)->name, n);
		others++;
	}
	if (!others) skip();
}

int main(void)
{
	int failed = 0;

	for (const struct dd_form *const *f = dd_forms; *f; f++) {
		const struct CMUnitTest tests[] = {
			IN_FORM(sums_keep_their_bound, *f),
			IN_FORM(a_product_has_104_bits, *f),
			IN_FORM(products_of_integers_are_exact, *f),
			IN_FORM(forms_agree, *f),
		};
		if ((*f)->runs()) failed += cmocka_run_group_tests_name((*f)->name, tests, NULL, NULL);
	}
	return failed;
}
