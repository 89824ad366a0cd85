/* Singular values and left singular vectors of matrices made to have them. */
#include <math.h>

#include <mpfr.h>

#include "ref/eigen/spectrum.h"
#include "tests/helpers.h"

enum { BITS = 400 };

static double sign(size_t i) { return (i * i / 3 + i) % 2 ? -1 : 1; }

/* ---- singular values: X = H diag(σ) [G]_s, both of Householder's, exactly ---- */
static void householder_wide(double *X, const double *sigma, size_t s, size_t l)
{
	mpfr_t x, t;

	mpfr_inits2(BITS, x, t, (mpfr_ptr)0);
	for (size_t i = 0; i < s; i++)
		for (size_t j = 0; j < l; j++) {
			mpfr_set_zero(x, 1);
			for (size_t k = 0; k < s; k++) {
				mpfr_set_d(t, sigma[k], MPFR_RNDN);
				mpfr_mul_d(t, t, (double)(i == k) - 2 * sign(i) * sign(k) / (double)s, MPFR_RNDN);
				mpfr_mul_d(t, t, (double)(k == j) - 2 * sign(k + 1) * sign(j + 1) / (double)l, MPFR_RNDN);
				mpfr_add(x, x, t, MPFR_RNDN);
			}
			X[i * l + j] = mpfr_get_d(x, MPFR_RNDN);
			assert_true(mpfr_cmp_d(x, X[i * l + j]) == 0);
		}
	mpfr_clears(x, t, (mpfr_ptr)0);
}

static void known_singular_values(void **state)
{
	enum { S = 16, L = 64 };
	double sigma[S], X[S * L];
	struct singular v;
	struct error e = { 0 };

	(void)state;
	for (int i = 0; i < S; i++) sigma[i] = ldexp(1, -2 * i);        /* 1 … 1e-9 */
	householder_wide(X, sigma, S, L);
	assert_true(singular_of(&v, X, S, L, "X", &e));
	for (int i = 0; i < S; i++) {
		double off = fabs(dd_sub(v.value[i], dd_of(sigma[i])).hi);
		if (!(off <= v.bound[i] && v.bound[i] < 1e-27 / sigma[i])) fail_msg("%d: off %.3g, bound %.3g", i, off, v.bound[i]);
	}
	for (size_t i = 0; i < S; i++)                  /* U is Householder's, to its columns' signs */
		for (size_t j = 0; j < S; j++) {
			double want = fabs((double)(i == j) - 2 * sign(i) * sign(j) / S);
			assert_true(fabs(fabs(v.u.hi[i * S + j]) - want) < 1e-12);
		}
	singular_free(&v);
	for (size_t j = 0; j < L; j++) X[j] = X[L + j];         /* two equal rows */
	assert_true(singular_of(&v, X, S, L, "X", &e));
	assert_true(v.value[S - 1].hi >= 0 && v.value[S - 1].hi <= v.bound[S - 1]);
	singular_free(&v);
}

/* U'U = I and the rows of U'X are apart by right angles and as long as the singular values, of a random X: the law that defines
 * them, in double-double. */
static void random_singular_vectors(void **state)
{
	enum { S = 9, L = 13 };
	double X[S * L];
	uint64_t seed = 3;
	struct singular v;
	struct error e = { 0 };
	dd UX[S][L];

	(void)state;
	for (size_t i = 0; i < S * L; i++) X[i] = ldexp((double)(random_bits(&seed) >> 12), -52) - 0.5;
	assert_true(singular_of(&v, X, S, L, "X", &e));
	for (size_t i = 0; i < S; i++)
		for (size_t k = 0; k < L; k++) {
			UX[i][k] = dd_of(0);
			for (size_t j = 0; j < S; j++) UX[i][k] = dd_add(UX[i][k], dd_mul(ddm_at(&v.u, j, i), dd_of(X[j * L + k])));
		}
	for (size_t i = 0; i < S; i++)
		for (size_t j = 0; j < S; j++) {
			dd identity = dd_of(-(double)(i == j)), gram = i == j ? dd_neg(dd_mul(v.value[i], v.value[i])) : dd_of(0);
			for (size_t k = 0; k < S; k++) identity = dd_add(identity, dd_mul(ddm_at(&v.u, k, i), ddm_at(&v.u, k, j)));
			for (size_t k = 0; k < L; k++) gram = dd_add(gram, dd_mul(UX[i][k], UX[j][k]));
			assert_true(fabs(identity.hi) < 1e-27 && fabs(gram.hi) < 1e-26);
		}
	singular_free(&v);
}

static void rank_one(void **state)
{
	enum { S = 12 };
	double X[S * S];
	struct singular v;
	struct error e;

	(void)state;
	for (size_t i = 0; i < S * S; i++) X[i] = sin((double)(i % S)) * cos((double)(i / S));
	assert_true(singular_of(&v, X, S, S, "X", &e));
	for (size_t i = 1; i < S; i++) assert_true(v.value[i].hi >= 0 && v.value[i].hi <= 1e-15 + v.bound[i] && v.bound[i] < 1e-12);
	singular_free(&v);
}

static void one_by_one(void **state)
{
	const double X[1] = { -3 };
	struct singular v;
	struct error e;

	(void)state;
	assert_true(singular_of(&v, X, 1, 1, "X", &e));
	assert_true(v.value[0].hi == 3 && v.bound[0] < 1e-28 && fabs(v.u.hi[0]) == 1);
	singular_free(&v);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_singular_values),
		cmocka_unit_test(random_singular_vectors),
		cmocka_unit_test(rank_one),
		cmocka_unit_test(one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
