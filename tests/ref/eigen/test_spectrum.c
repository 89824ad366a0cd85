/* Spectra against matrices made to have them, and against Arb's enclosures. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <acb_mat.h>
#include <mpfr.h>

#include "ref/eigen/spectrum.h"
#include "tests/helpers.h"

enum { BITS = 400 };

/* ---- A = H diag(d) H, H = I - (2/n) ww', w_i = ±1, n a power of two: exact in double-double for short d ---- */
static double sign(size_t i) { return (i * i / 3 + i) % 2 ? -1 : 1; }

/* Fails where an element has more bits than double-double holds. */
static void householder(struct ddm *A, const dd *d, size_t n)
{
	mpfr_t sum, a, t;

	mpfr_inits2(BITS, sum, a, t, (mpfr_ptr)0);
	mpfr_set_zero(sum, 1);
	for (size_t i = 0; i < n; i++) {
		mpfr_add_d(sum, sum, d[i].hi, MPFR_RNDN);
		mpfr_add_d(sum, sum, d[i].lo, MPFR_RNDN);
	}
	assert_true(ddm_make(A, n, n));
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < n; j++) {         /* a_ij = δ d_i + w_i w_j (4 Σd / n² - 2 (d_i + d_j) / n) */
			mpfr_set_d(t, d[i].hi, MPFR_RNDN);
			mpfr_add_d(t, t, d[i].lo, MPFR_RNDN);
			mpfr_add_d(t, t, d[j].hi, MPFR_RNDN);
			mpfr_add_d(t, t, d[j].lo, MPFR_RNDN);
			mpfr_mul_d(t, t, -2.0 / (double)n, MPFR_RNDN);
			mpfr_mul_d(a, sum, 4.0 / (double)(n * n), MPFR_RNDN);
			mpfr_add(a, a, t, MPFR_RNDN);
			mpfr_mul_d(a, a, sign(i) * sign(j), MPFR_RNDN);
			if (i == j) {
				mpfr_add_d(a, a, d[i].hi, MPFR_RNDN);
				mpfr_add_d(a, a, d[i].lo, MPFR_RNDN);
			}
			dd x = dd_of(mpfr_get_d(a, MPFR_RNDN));
			mpfr_sub_d(a, a, x.hi, MPFR_RNDN);
			x.lo = mpfr_get_d(a, MPFR_RNDN);
			mpfr_sub_d(a, a, x.lo, MPFR_RNDN);
			assert_true(mpfr_zero_p(a));
			ddm_put(A, i, j, x);
		}
	mpfr_clears(sum, a, t, (mpfr_ptr)0);
}

static int ascending(const void *a, const void *b)
{
	const dd *x = a, *y = b;

	return dd_less(*x, *y) ? -1 : dd_less(*y, *x);
}

/* Within its bound, and the bound within `most` of the largest |d|. */
static void expect_spectrum(dd *d, size_t n, double most)
{
	struct ddm A;
	struct spectrum s;
	struct error e = { 0 };
	double largest = 0;

	householder(&A, d, n);
	assert_true(spectrum_of(&s, &A, "A", &e));
	qsort(d, n, sizeof *d, ascending);
	for (size_t i = 0; i < n; i++) largest = fmax(largest, fabs(d[i].hi));
	if (!(s.bound <= most * largest)) fail_msg("n %zu: bound %.3g of %.3g, eta %.3g; d[0] %g", n, s.bound, largest, s.eta, d[0].hi);
	for (size_t i = 0; i < n; i++) {
		double off = fabs(dd_sub(s.value[i], d[i]).hi);
		if (!(off <= s.bound)) fail_msg("eigenvalue %zu of %zu is %.17g, off by %.3g, bound %.3g", i, n, d[i].hi, off, s.bound);
	}
	spectrum_free(&s);
	ddm_free(&A);
}

static void known_spectra(void **state)
{
	enum { N = 64 };
	dd d[N];

	(void)state;
	for (size_t n = 2; n <= N; n *= 2) {
		for (size_t i = 0; i < n; i++) d[i] = dd_of((double)i - 7.25);                  /* apart, negative ones */
		expect_spectrum(d, n, 1e-26);
		for (size_t i = 0; i < n; i++) d[i] = dd_of(1 + ldexp((double)(i * i % 7), -44));       /* one cluster, 1e-13 wide */
		expect_spectrum(d, n, 1e-26);
		for (size_t i = 0; i < n; i++) d[i] = dd_two_sum((double)(i % 3), ldexp((double)(i % 5) - 2, -80));   /* three, 1e-24 wide */
		expect_spectrum(d, n, 1e-26);
		for (size_t i = 0; i < n; i++) d[i] = dd_of(ldexp(i % 2 ? 1 : -1, -(int)i));    /* tiny next to large */
		expect_spectrum(d, n, 1e-26);
		for (size_t i = 0; i < n; i++) d[i] = dd_of(i ? 1 + ldexp((double)i, -27) : -0x1p-11);  /* as the iteration leaves it */
		expect_spectrum(d, n, 1e-26);
		for (size_t i = 0; i < n; i++) d[i] = dd_of(1e300 * (i + 1 == n));
		expect_spectrum(d, n, 1e-26);
		for (size_t i = 0; i < n; i++) d[i] = dd_of(1);
		expect_spectrum(d, n, 1e-26);
		for (size_t i = 0; i < n; i++) d[i] = dd_of(0);
		expect_spectrum(d, n, 1);
	}
}

/* ---- random matrices: Arb encloses what ours must meet ---- */
static double uniform(uint64_t *seed) { return ldexp((double)(random_bits(seed) >> 12), -52) - 0.5; }

static void expect_enclosed(const struct ddm *A, const struct spectrum *s)
{
	slong n = (slong)A->rows;
	acb_mat_t M, R;
	acb_ptr found = _acb_vec_init(n), enclosed = _acb_vec_init(n);
	bool *taken = calloc((size_t)n, sizeof *taken);

	acb_mat_init(M, n, n);
	acb_mat_init(R, n, n);
	for (slong i = 0; i < n; i++)
		for (slong j = 0; j < n; j++) acb_set_d(acb_mat_entry(M, i, j), A->hi[i * n + j]);
	acb_mat_approx_eig_qr(found, NULL, R, M, NULL, 0, BITS);
	assert_true(acb_mat_eig_multiple(enclosed, M, found, R, BITS));
	for (slong i = 0; i < n; i++) {
		arb_t ours;
		slong k = 0;
		arb_init(ours);
		arb_set_d(ours, s->value[i].lo);
		mag_t bound;
		mag_init(bound);
		mag_set_d(bound, s->bound);
		arb_t hi;
		arb_init(hi);
		arb_set_d(hi, s->value[i].hi);
		arb_add(ours, ours, hi, BITS);
		arb_add_error_mag(ours, bound);
		while (k < n && (taken[k] || !arb_overlaps(ours, acb_realref(enclosed + k)))) k++;
		if (k == n) fail_msg("eigenvalue %ld, %.17g ± %.3g, is none of Arb's", i, s->value[i].hi, s->bound);
		taken[k] = true;
		arb_clear(ours);
		arb_clear(hi);
		mag_clear(bound);
	}
	free(taken);
	acb_mat_clear(M);
	acb_mat_clear(R);
	_acb_vec_clear(found, n);
	_acb_vec_clear(enclosed, n);
}

static void random_spectra_meet_arb(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (size_t n = 1; n <= 21; n += 5) {
		struct ddm A;
		struct spectrum s;
		struct error e = { 0 };
		assert_true(ddm_make(&A, n, n));
		for (size_t i = 0; i < n; i++)
			for (size_t j = 0; j <= i; j++) A.hi[i * n + j] = A.hi[j * n + i] = uniform(&seed);
		assert_true(spectrum_of(&s, &A, "A", &e));
		assert_true(s.bound < 1e-27 * (double)n);
		expect_enclosed(&A, &s);
		spectrum_free(&s);
		ddm_free(&A);
	}
}

/* The vectors belong to the values: |Au - λu| in MPFR-free double-double, and |U'U - I| within eta. */
static void vectors_belong_to_values(void **state)
{
	enum { N = 16 };
	dd d[N];
	struct ddm A;
	struct spectrum s;
	struct error e = { 0 };

	(void)state;
	for (int i = 0; i < N; i++) d[i] = dd_of(i < 8 ? 1 + ldexp(i, -45) : -i);
	householder(&A, d, N);
	assert_true(spectrum_of(&s, &A, "A", &e));
	for (size_t k = 0; k < N; k++)
		for (size_t i = 0; i < N; i++) {
			dd r = dd_neg(dd_mul(s.value[k], ddm_at(&s.vector, i, k))), g = dd_of(-(double)(i == k));
			for (size_t j = 0; j < N; j++) {
				r = dd_add(r, dd_mul(ddm_at(&A, i, j), ddm_at(&s.vector, j, k)));
				g = dd_add(g, dd_mul(ddm_at(&s.vector, j, i), ddm_at(&s.vector, j, k)));
			}
			assert_true(fabs(r.hi) < 1e-27 * 16 && fabs(g.hi) <= s.eta);
		}
	assert_true(s.eta < 1e-27);
	spectrum_free(&s);
	ddm_free(&A);
}

static void not_finite_is_refused(void **state)
{
	static const double bad[] = { NAN, INFINITY, -INFINITY };
	struct ddm A;
	struct spectrum s;
	struct singular v;
	struct error e;

	(void)state;
	assert_true(ddm_make(&A, 3, 3));
	for (size_t i = 0; i < 3; i++) {
		A.hi[4] = bad[i];
		e = (struct error){ 0 };
		assert_false(spectrum_of(&s, &A, "R", &e));
		assert_error_at(&e, E_VALUE, NO_OFFSET, "spectrum");
		assert_string_equal(e.item, "R");
		assert_false(singular_of(&v, A.hi, 3, 3, "X", &e));
		assert_error_at(&e, E_VALUE, NO_OFFSET, "singular");
	}
	ddm_free(&A);
}

static void symmetric_part_is_exact(void **state)
{
	const double A[] = { 1, 1, 0x1p-70, -3 };
	struct ddm S;
	double skew;

	(void)state;
	assert_true(symmetric_part(&S, &skew, A, 2));
	assert_true(S.hi[1] == 0.5 && S.lo[1] == 0x1p-71 && S.hi[2] == 0.5 && S.lo[2] == 0x1p-71 && S.hi[0] == 1 && S.hi[3] == -3);
	assert_true(fabs(skew - sqrt(0.5)) < 1e-15);
	ddm_free(&S);
}

/* n = 128 in tens of milliseconds; several times that is allowed for on a busy machine, more where instrumented. */
#ifdef __SANITIZE_ADDRESS__
#define SECONDS 4
#else
#define SECONDS 0.4
#endif
static void fast_enough(void **state)
{
	enum { N = 128 };
	static dd d[N];
	struct ddm A;
	struct spectrum s;
	struct error e = { 0 };
	struct timespec from, to;
	double best = INFINITY;

	(void)state;
	for (int i = 0; i < N; i++) d[i] = dd_of(i % 2 ? 1 + ldexp(i, -40) : ldexp(i, -12));
	householder(&A, d, N);
	for (int i = 0; i < 3; i++) {
		clock_gettime(CLOCK_MONOTONIC, &from);
		assert_true(spectrum_of(&s, &A, "A", &e));
		clock_gettime(CLOCK_MONOTONIC, &to);
		spectrum_free(&s);
		best = fmin(best, (double)(to.tv_sec - from.tv_sec) + 1e-9 * (double)(to.tv_nsec - from.tv_nsec));
	}
	print_message("n = 128: %.1f ms\n", 1e3 * best);
	assert_true(best < SECONDS);
	ddm_free(&A);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_spectra),
		cmocka_unit_test(random_spectra_meet_arb),
		cmocka_unit_test(vectors_belong_to_values),
		cmocka_unit_test(not_finite_is_refused),
		cmocka_unit_test(symmetric_part_is_exact),
		cmocka_unit_test(fast_enough),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
