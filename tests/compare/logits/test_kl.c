/* Divergences against MPFR at 300 bits, and against what is known in closed form. */
#include <math.h>
#include <mpfr.h>
#include <stdlib.h>

#include "compare/logits/kl_sums.h"
#include "compare/logits/logit_row.h"
#include "fixtures/io/tensor.h"
#include "tests/helpers.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
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

static struct logit_row row_of(const struct tensor *a, const struct tensor *b, size_t first, size_t n)
{
	struct logit_row r;

	logit_row(a->dtype, (const char *)a->data + first * dtype_info[a->dtype].size, b->dtype,
		(const char *)b->data + first * dtype_info[b->dtype].size, n, K, NULL, &r);
	return r;
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
				for (size_t i = 0; i < 2 * n; i++) {
					put(&a, i, 4 * normal());
					put(&b, i, get(&a, i) + pow(10, -size) * normal() + (size % 2 ? 3 : 0));
				}
				for (size_t i = 0; i < 2; i++) {
					struct logit_row r = row_of(&a, &b, i * n, n);
					double pq = divergence(&a, &b, i * n, n), qp = divergence(&b, &a, i * n, n);
					assert_int_equal(r.count, n);
					if (pq < 1e-30) {
						assert_true(r.kl < 1e-24 && r.kl_back < 1e-24);
						continue;
					}
					worst = fmax(worst, fmax(fabs(r.kl - pq) / pq, fabs(r.kl_back - qp) / qp));
					if (!near(r.kl, pq, 1e-7) || !near(r.kl_back, qp, 1e-7))
						fail_msg("%s %s, %zu logits, 1e-%d: %g and %g, not %g and %g", dtype_info[types[t][0]].name,
							dtype_info[types[t][1]].name, n, size, r.kl, r.kl_back, pq, qp);
					if (size < 4 && !(near(r.kl, pq, 1e-11) && near(r.kl_back, qp, 1e-11)))
						fail_msg("%zu logits, 1e-%d: %.15g, not %.15g", n, size, r.kl, pq);
				}
				free(a.data), free(b.data);
			}
	print_message("off by %.2g of the divergence at most\n", worst);
	assert_true(worst > 0);
	mpfr_free_cache();
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
			for (size_t i = 0; i < N; i++) put(&a, i, normal()), put(&b, i, get(&a, i) + 0.1 * normal());
			put(&a, place, rows[k].a), put(&b, place, rows[k].b);
			struct logit_row r = row_of(&a, &b, 0, N);
			assert_int_equal(r.a.nan + r.b.nan + r.a.inf + r.b.inf, rows[k].nan);
			if (rows[k].pq == 0 && rows[k].qp == 0 && isinf(rows[k].a))
				assert_true(near(r.kl, divergence(&a, &b, 0, N), 1e-9));
			assert_true(rows[k].pq == 0 ? isfinite(r.kl) : rows[k].pq == 1 ? isinf(r.kl) : isnan(r.kl));
			if (k + 1 < LEN(rows))
				assert_true(rows[k].qp == 0 ? isfinite(r.kl_back) : rows[k].qp == 1 ? isinf(r.kl_back) : isnan(r.kl_back));
			else assert_true(r.kl_back > 1e20 || isnan(r.kl_back));
		}
	for (size_t i = 0; i < N; i++) put(&a, i, -INFINITY);
	struct logit_row r = row_of(&a, &b, 0, N);
	assert_true(isnan(r.kl) && isnan(r.kl_back));
	free(a.data), free(b.data);
}

/* Logits hundreds apart: what is far from the centre is not lost. */
static void far_apart(void **state)
{
	static const double rows[][8] = {
		{ 0, -400, -20, -1, 0, 1, -500, -2 }, { 0, 1, 2, 3, 0, 1000, 2000, 3000 }, { 500, 0, 1, 2, -500, 0, 1, 2 },
		{ 0, 1, 2, 800, 3000, -3000, 0, 1 },
		{ 0, -2839, -1, -2840, 0.01, -2839, -1.02, -2840 }, { 0, 0, 0, -740, 0, 1e-8, 0, 700 }, { 20, 0, 0, 0, 20, 1e-9, 0, 0 }
	};
	enum { N = 2048 };
	struct tensor a = made(DT_F64, N), b = made(DT_F64, N);

	(void)state;
	for (size_t k = 0; k < 2 * LEN(rows); k++) {            /* near one another, and blocks apart */
		size_t n = k % 2 ? N : 4;
		for (size_t i = 0; i < n; i++) put(&a, i, -2000), put(&b, i, -2000);
		for (size_t i = 0; i < 4; i++) put(&a, i * n / 4, rows[k / 2][i]), put(&b, i * n / 4, rows[k / 2][4 + i]);
		struct logit_row r = row_of(&a, &b, 0, n);
		double pq = divergence(&a, &b, 0, n), qp = divergence(&b, &a, 0, n);
		if (!near(r.kl, pq, 1e-12) || !near(r.kl_back, qp, 1e-12))
			fail_msg("row %zu of %zu: %.17g and %.17g, not %.17g and %.17g", k / 2, n, r.kl, r.kl_back, pq, qp);
	}
	free(a.data), free(b.data);
}

/* One token of many stands out in one row, so that the largest are further apart than all others:
 * with Z = (e^h + V - 1)/V, the divergences are h e^h / (V Z) - log Z and log Z - h/V. */
static void badly_centred(void **state)
{
	enum { V = 100000 };
	static const double heights[] = { 0.5, 1e-2, 3 };
	struct tensor a = made(DT_F64, V), b = made(DT_F64, V);
	mpfr_t z, y;

	(void)state;
	mpfr_inits2(BITS, z, y, (mpfr_ptr)NULL);
	for (size_t k = 0; k < LEN(heights); k++) {
		put(&a, 5000, heights[k]);
		struct logit_row r = row_of(&a, &b, 0, V);
		mpfr_set_d(y, heights[k], MPFR_RNDN), mpfr_exp(y, y, MPFR_RNDN);
		mpfr_add_ui(z, y, V - 1, MPFR_RNDN), mpfr_div_ui(z, z, V, MPFR_RNDN);
		mpfr_mul_d(y, y, heights[k], MPFR_RNDN), mpfr_div_ui(y, y, V, MPFR_RNDN), mpfr_div(y, y, z, MPFR_RNDN);
		mpfr_log(z, z, MPFR_RNDN), mpfr_sub(y, y, z, MPFR_RNDN);
		double pq = mpfr_get_d(y, MPFR_RNDN);
		mpfr_set_d(y, heights[k], MPFR_RNDN), mpfr_div_ui(y, y, V, MPFR_RNDN), mpfr_sub(y, z, y, MPFR_RNDN);
		double qp = mpfr_get_d(y, MPFR_RNDN);
		if (!near(r.kl, pq, 1e-12) || !near(r.kl_back, qp, 1e-12))
			fail_msg("%g: %.17g and %.17g, not %.17g and %.17g", heights[k], r.kl, r.kl_back, pq, qp);
	}
	mpfr_clears(z, y, (mpfr_ptr)NULL);
	mpfr_free_cache();
	free(a.data), free(b.data);
}

/* Each form's sums against MPFR, where few terms are enough and where not, at the ends of what they are for. */
static void forms_keep_their_bounds(void **state)
{
	static const struct kl_form *const forms[] = {
#ifdef __x86_64__
		&kl_avx512, &kl_avx2,
#endif
		&kl_plain
	};
	static const char *const names[] = { "avx512", "avx2", "plain" };
	static const double sizes[] = { KL_NEAR, 0x1p-7, 1e-4, 1e-8, 1, 30, KL_FAR };
	enum { N = 501 };
	static double a[N], b[N];
	mpfr_t w, t, u;

	(void)state;
	mpfr_inits2(BITS, w, t, u, (mpfr_ptr)NULL);
	for (size_t f = 0; f < LEN(forms); f++) {
		double worst[4] = { 0 };
		if ((forms[f] == &kl_avx512 && !__builtin_cpu_supports("x86-64-v4"))
			|| (forms[f] == &kl_avx2 && !__builtin_cpu_supports("x86-64-v3"))) continue;
		for (size_t k = 0; k < 40 * LEN(sizes); k++) {
			size_t n = 1 + (size_t)(fabs(uniform()) * (k % 2 ? 20 : N - 1));
			double size = sizes[k % LEN(sizes)], most = -INFINITY;
			mpfr_t exact[4];
			struct kl_sums s;
			for (size_t i = 0; i < n; i++) {
				a[i] = 5 * normal(), b[i] = a[i] + 0.99 * size * (i % 3 ? uniform() : i % 2 ? 1 : -1);
				most = fmax(most, a[i]);
			}
			assert_true(forms[f]->most(DT_F64, a, n) == most);
			forms[f]->sums(&s, DT_F64, a, b, n, 7, 0, size <= KL_NEAR);
			for (int j = 0; j < 4; j++) mpfr_init2(exact[j], BITS), mpfr_set_zero(exact[j], 1);
			for (size_t i = 0; i < n; i++) {
				mpfr_set_d(w, a[i], MPFR_RNDN), mpfr_sub_ui(w, w, 7, MPFR_RNDN), mpfr_exp(w, w, MPFR_RNDN);
				mpfr_set_d(t, b[i] - a[i], MPFR_RNDN), mpfr_expm1(u, t, MPFR_RNDN);
				mpfr_add(exact[0], exact[0], w, MPFR_RNDN);
				mpfr_fma(exact[3], w, u, exact[3], MPFR_RNDN);
				mpfr_sub(u, u, t, MPFR_RNDN);
				mpfr_fma(exact[1], w, u, exact[1], MPFR_RNDN);                  /* w (e^t - 1 - t) */
				mpfr_add(u, u, t, MPFR_RNDN), mpfr_mul(t, t, u, MPFR_RNDN);
				mpfr_fma(exact[2], w, t, exact[2], MPFR_RNDN);                  /* w t (e^t - 1), less the one before */
			}
			mpfr_sub(exact[2], exact[2], exact[1], MPFR_RNDN);
			const double got[] = { s.w, s.wphi, s.wpsi };
			for (int j = 0; j < 3; j++) {
				mpfr_d_sub(t, got[j], exact[j], MPFR_RNDN), mpfr_div(t, t, exact[j], MPFR_RNDN);
				worst[j] = fmax(worst[j], fabs(mpfr_get_d(t, MPFR_RNDN)));
			}
			mpfr_d_sub(t, s.we, exact[3], MPFR_RNDN), mpfr_div(t, t, exact[0], MPFR_RNDN);
			if (size <= 1) worst[3] = fmax(worst[3], fabs(mpfr_get_d(t, MPFR_RNDN)));
			for (int j = 0; j < 4; j++) mpfr_clear(exact[j]);
		}
		print_message("%s: w 2^%.1f, w (e^t - 1 - t) 2^%.1f, w (t e^t - (e^t - 1)) 2^%.1f of themselves; w (e^t - 1) 2^%.1f of w\n",
			names[f], log2(worst[0]), log2(worst[1]), log2(worst[2]), log2(worst[3]));
		assert_true(worst[0] > 0 && worst[0] <= 0x1p-49 && worst[1] > 0 && worst[1] <= 0x1p-38 && worst[2] <= 0x1p-38
			&& worst[3] <= 0x1p-49);
	}
	mpfr_clears(w, t, u, (mpfr_ptr)NULL);
	mpfr_free_cache();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(divergences_are_those_of_mpfr),
		cmocka_unit_test(what_is_not_finite),
		cmocka_unit_test(far_apart),
		cmocka_unit_test(badly_centred),
		cmocka_unit_test(forms_keep_their_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
