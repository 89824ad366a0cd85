/* Divergences against MPFR at 300 bits, and against what is known in closed form. */
#include <math.h>
#include <mpfr.h>
#include <stdlib.h>

#include "compare/kl.h"
#include "compare/kl_sums.h"
#include "tests/helpers.h"

#define LEN(a) (sizeof (a) / sizeof *(a))
enum { BITS = 300, K = 10 };
static uint64_t stream = 3;
static double uniform(void) { return (double)(int64_t)random_bits(&stream) * 0x1p-63; }
static double normal(void) { return sqrt(-2 * log(fabs(uniform()) + 0x1p-70)) * cos(3.141592653589793 * uniform()); }

static struct tensor made(enum dtype d, size_t n)
{
	return (struct tensor){ .name = (char *)(uintptr_t)"logits", .dtype = d, .count = n, .data = calloc(n + 1, dtype_info[d].size) };
}

static double get(const struct tensor *t, size_t i)
{
	double x;

	dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
	return x;
}

static void put(struct tensor *t, size_t i, double x)
{
	dtype_store(t->dtype, &x, 1, (char *)t->data + i * dtype_info[t->dtype].size);
}

/* log Σ e^x_i */
static void log_sum(mpfr_ptr y, const struct tensor *t, size_t first, size_t n)
{
	mpfr_t e;

	mpfr_init2(e, BITS);
	mpfr_set_zero(y, 1);
	for (size_t i = first; i < first + n; i++) {
		mpfr_set_d(e, get(t, i), MPFR_RNDN);
		mpfr_exp(e, e, MPFR_RNDN);
		mpfr_add(y, y, e, MPFR_RNDN);
	}
	mpfr_log(y, y, MPFR_RNDN);
	mpfr_clear(e);
}

static double divergence(const struct tensor *a, const struct tensor *b, size_t first, size_t n)
{
	mpfr_t la, lb, sum, p, q;

	mpfr_inits2(BITS, la, lb, sum, p, q, (mpfr_ptr)NULL);
	log_sum(la, a, first, n);
	log_sum(lb, b, first, n);
	mpfr_set_zero(sum, 1);
	for (size_t i = first; i < first + n; i++) {
		if (isinf(get(a, i))) continue;
		mpfr_set_d(p, get(a, i), MPFR_RNDN);
		mpfr_sub(p, p, la, MPFR_RNDN);
		mpfr_set_d(q, get(b, i), MPFR_RNDN);
		mpfr_sub(q, q, lb, MPFR_RNDN);
		mpfr_sub(q, p, q, MPFR_RNDN);
		mpfr_exp(p, p, MPFR_RNDN);
		mpfr_mul(p, p, q, MPFR_RNDN);
		mpfr_add(sum, sum, p, MPFR_RNDN);
	}
	double y = mpfr_get_d(sum, MPFR_RNDN);
	mpfr_clears(la, lb, sum, p, q, (mpfr_ptr)NULL);
	return y;
}

static bool near(double x, double y, double share) { return fabs(x - y) <= share * y; }

/* Rows of several widths whose logits differ by steps from 1 down to 1e-7, and by a constant; of all types. */
static void divergences_are_those_of_mpfr(void **state)
{
	static const size_t widths[] = { 1, 2, 9, 1000, 1025, 5003 };
	static const enum dtype types[][2] = {
		{ DT_F64, DT_F64 }, { DT_F32, DT_F32 }, { DT_BF16, DT_BF16 }, { DT_F16, DT_F32 }, { DT_F32, DT_F64 }
	};
	double worst = 0;

	(void)state;
	for (size_t t = 0; t < LEN(types); t++)
		for (size_t w = 0; w < LEN(widths); w++)
			for (int size = 0; size < 8; size++) {
				size_t n = widths[w];
				struct tensor a = made(types[t][0], 2 * n), b = made(types[t][1], 2 * n);
				struct kl_row r[2];
				struct error e;
				for (size_t i = 0; i < 2 * n; i++) {
					put(&a, i, 4 * normal());
					put(&b, i, get(&a, i) + pow(10, -size) * normal() + (size % 2 ? 3 : 0));
				}
				assert_true(kl_rows(&a, &b, n, K, r, &e));
				for (size_t i = 0; i < 2; i++) {
					double pq = divergence(&a, &b, i * n, n), qp = divergence(&b, &a, i * n, n);
					assert_int_equal(r[i].nan, 0);
					if (pq < 1e-30) {
						assert_true(r[i].kl_pq < 1e-24 && r[i].kl_qp < 1e-24);
						continue;
					}
					worst = fmax(worst, fmax(fabs(r[i].kl_pq - pq) / pq, fabs(r[i].kl_qp - qp) / qp));
					if (!near(r[i].kl_pq, pq, 1e-7) || !near(r[i].kl_qp, qp, 1e-7))
						fail_msg("%s %s, %zu logits, 1e-%d: %g and %g, not %g and %g", dtype_info[types[t][0]].name,
							dtype_info[types[t][1]].name, n, size, r[i].kl_pq, r[i].kl_qp, pq, qp);
					if (size < 4 && !(near(r[i].kl_pq, pq, 1e-11) && near(r[i].kl_qp, qp, 1e-11)))
						fail_msg("%zu logits, 1e-%d: %.15g, not %.15g", n, size, r[i].kl_pq, pq);
				}
				free(a.data), free(b.data);
			}
	print_message("off by %.2g of the divergence at most\n", worst);
	assert_true(worst > 0);
	mpfr_free_cache();
}

static void the_largest_are_found(void **state)
{
	enum { N = 3000 };
	struct tensor a = made(DT_F32, N), b = made(DT_F32, N);
	struct kl_row r;
	struct error e;

	(void)state;
	for (int draw = 0; draw < 20; draw++) {
		for (size_t i = 0; i < N; i++) put(&a, i, draw % 2 ? normal() : floor(8 * uniform())), put(&b, i, get(&a, i));
		put(&b, 17, 100), put(&b, N - 1, 99);
		assert_true(kl_rows(&a, &b, N, K, &r, &e));
		assert_int_equal(r.top, K);
		for (size_t k = 0; k < K; k++) {
			size_t above = 0;
			for (size_t i = 0; i < N; i++)
				above += get(&a, i) > get(&a, r.top_a[k]) || (get(&a, i) == get(&a, r.top_a[k]) && i < r.top_a[k]);
			assert_int_equal(above, k);
		}
		assert_true(r.top_b[0] == 17 && r.top_b[1] == N - 1);
		assert_true(r.common >= K - 2 && r.common <= K);
	}
	assert_true(kl_rows(&a, &a, 3, K, &(struct kl_row[N / 3]){ 0 }[0], &e));
	free(a.data), free(b.data);
}

/* -inf is a probability of 0; NaN and +inf are no logits; the divergence is then never a small number. */
static void what_is_not_finite(void **state)
{
	static const struct { double a, b; size_t nan; int pq, qp; } rows[] = {         /* 0 finite, 1 infinite, 2 NaN */
		{ -INFINITY, -INFINITY, 0, 0, 0 }, { 1, -INFINITY, 0, 1, 0 }, { -INFINITY, 1, 0, 0, 1 }, { NAN, 1, 1, 2, 2 },
		{ 1, NAN, 1, 2, 2 },
		{ NAN, NAN, 2, 2, 2 }, { INFINITY, 1, 1, 2, 2 }, { 1, INFINITY, 1, 2, 2 }, { INFINITY, INFINITY, 2, 2, 2 },
		{ -1e30, 1, 0, 0, 0 },
	};
	enum { N = 2500 };
	struct tensor a = made(DT_F32, N), b = made(DT_F32, N);

	(void)state;
	for (size_t k = 0; k < LEN(rows); k++)
		for (size_t place = 0; place < N; place += 833) {
			struct kl_row r;
			struct error e;
			for (size_t i = 0; i < N; i++) put(&a, i, normal()), put(&b, i, get(&a, i) + 0.1 * normal());
			put(&a, place, rows[k].a), put(&b, place, rows[k].b);
			assert_true(kl_rows(&a, &b, N, K, &r, &e));
			assert_int_equal(r.nan, rows[k].nan);
			if (rows[k].pq == 0 && rows[k].qp == 0 && isinf(rows[k].a))
				assert_true(near(r.kl_pq, divergence(&a, &b, 0, N), 1e-9));
			assert_true(rows[k].pq == 0 ? isfinite(r.kl_pq) : rows[k].pq == 1 ? isinf(r.kl_pq) : isnan(r.kl_pq));
			if (k + 1 < LEN(rows))
				assert_true(rows[k].qp == 0 ? isfinite(r.kl_qp) : rows[k].qp == 1 ? isinf(r.kl_qp) : isnan(r.kl_qp));
			else assert_true(r.kl_qp > 1e20 || isnan(r.kl_qp));
		}
	for (size_t i = 0; i < N; i++) put(&a, i, -INFINITY);
	struct kl_row r;
	struct error e;
	assert_true(kl_rows(&a, &b, N, K, &r, &e) && isnan(r.kl_pq) && isnan(r.kl_qp));
	assert_false(kl_rows(&a, &b, N + 1, K, &r, &e));
	a.dtype = DT_I32;
	assert_false(kl_rows(&a, &b, N, K, &r, &e));
	a.dtype = DT_F32;
	free(a.data), free(b.data);
}

/* Logits hundreds apart: what is far from the centre is not lost. */
static void far_apart(void **state)
{
	struct tensor a = made(DT_F64, 4), b = made(DT_F64, 4);
	struct kl_row r;
	struct error e;

	(void)state;
	put(&a, 0, 0), put(&a, 1, -400), put(&b, 0, 0), put(&b, 1, 1), put(&a, 2, -20), put(&b, 2, -500);
	put(&a, 3, -1), put(&b, 3, -2);
	assert_true(kl_rows(&a, &b, 4, 1, &r, &e));
	assert_true(near(r.kl_pq, divergence(&a, &b, 0, 4), 1e-12) && near(r.kl_qp, divergence(&b, &a, 0, 4), 1e-12));
	free(a.data), free(b.data);
}

static void forms_agree(void **state)
{
	static double a[999], b[999];
	struct kl_sums p, s;

	(void)state;
	for (size_t i = 0; i < LEN(a); i++) a[i] = 5 * normal(), b[i] = a[i] + 0.3 * normal();
	for (size_t n = 1; n < LEN(a); n += 1 + n / 7) {
		kl_plain.sums(&p, DT_F64, a, DT_F64, b, n, 7, 0.1);
#ifdef __x86_64__
		for (int f = 0; f < 2; f++) {
			if (f ? !__builtin_cpu_supports("x86-64-v4") : !__builtin_cpu_supports("x86-64-v3")) continue;
			const struct kl_form *form = f ? &kl_avx512 : &kl_avx2;
			form->sums(&s, DT_F64, a, DT_F64, b, n, 7, 0.1);
			assert_true(near(s.w, p.w, 1e-12) && near(s.wphi, p.wphi, 1e-12) && near(s.wpsi, p.wpsi, 1e-12) && s.far == p.far);
			assert_true(form->most(DT_F64, a, n) == kl_plain.most(DT_F64, a, n));
		}
#endif
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(divergences_are_those_of_mpfr),
		cmocka_unit_test(the_largest_are_found),
		cmocka_unit_test(what_is_not_finite),
		cmocka_unit_test(far_apart),
		cmocka_unit_test(forms_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
