/* Two tensors against a plain loop in long double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/diff/elementwise.h"
#include "compare/diff/scan.h"
#include "tests/helpers.h"

#define LEN(a) (sizeof(a) / sizeof *(a))
static uint64_t stream = 5;
static double uniform(void) { return (double)(int64_t)random_bits(&stream) * 0x1p-63; }

static struct tensor made(enum dtype d, size_t n)
{
	return (struct tensor){ .name = (char *)(uintptr_t)"x", .dtype = d, .count = n, .data = calloc(n + 1, dtype_info[d].size) };
}

static double element(const struct tensor *t, size_t i)
{
	double x;

	dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
	return x;
}

static void put(struct tensor *t, size_t i, double x)
{
	dtype_store(t->dtype, &x, 1, (char *)t->data + i * dtype_info[t->dtype].size);
}

/* Spacing of d's numbers at x. */
static double spacing(enum dtype d, double x) { return format_ulp(dtype_info[d].format, x); }

static void plain(struct elementwise *r, const struct tensor *a, const struct tensor *b)
{
	long double d2 = 0, a2 = 0, sum = 0, finite = 0;
	enum dtype coarse = dtype_info[a->dtype].format == FMT_F64 || format_info[dtype_info[b->dtype].format].precision <
		format_info[dtype_info[a->dtype].format].precision ? b->dtype : a->dtype;

	*r = (struct elementwise){ .count = a->count };
	for (size_t i = 0; i < a->count; i++) {
		double x = element(a, i), y = element(b, i), m = fmax(fabs(x), fabs(y)), d = fabs(y - x);
		r->nan_a += isnan(x) != 0, r->nan_b += isnan(y) != 0, r->inf_a += isinf(x) != 0, r->inf_b += isinf(y) != 0;
		r->differ += isnan(x) || isnan(y) || memcmp(&x, &y, sizeof x) != 0;
		if (!isfinite(x) || !isfinite(y)) continue;
		d2 += (long double)(y - x) * (y - x), a2 += (long double)x * x, sum += y - x, finite++;
		r->max_abs = fmax(r->max_abs, d);
		if (m > 0) r->max_rel = fmax(r->max_rel, d / m);
		r->max_ulp = fmax(r->max_ulp, d / spacing(coarse, m));
		size_t bin = 0;
		while (bin + 1 < SCAN_BINS && d / spacing(coarse, m) >= ldexp(1, (int)bin - 1)) bin++;
		r->histogram[bin]++;
	}
	finite = fmaxl(finite, 1);
	r->rms = (double)sqrtl(d2 / finite), r->rms_a = (double)sqrtl(a2 / finite), r->mean = (double)(sum / finite);
}

static bool near(double x, double y, double share) { return x == y || fabs(x - y) <= share * fabs(y) + 1e-300; }

static void check(const struct tensor *a, const struct tensor *b, const char *what)
{
	struct elementwise r, p;
	struct error e;

	plain(&p, a, b);
	assert_true(elementwise(a, b, 3, false, &r, &e));
	if (r.count != p.count || r.differ != p.differ || r.nan_a != p.nan_a || r.nan_b != p.nan_b || r.inf_a != p.inf_a ||
		r.inf_b != p.inf_b)
		fail_msg("%s %s: counts are %zu %zu %zu %zu %zu, not %zu %zu %zu %zu %zu", dtype_info[a->dtype].name, what, r.differ, r.nan_a,
			r.nan_b, r.inf_a, r.inf_b, p.differ, p.nan_a, p.nan_b, p.inf_a, p.inf_b);
	if (r.max_abs != p.max_abs || !near(r.max_rel, p.max_rel, 0x1p-51) || r.max_ulp != p.max_ulp)
		fail_msg("%s %s: at most %g, %g, %g ulp, not %g, %g, %g", dtype_info[a->dtype].name, what, r.max_abs, r.max_rel, r.max_ulp,
			p.max_abs, p.max_rel, p.max_ulp);
	if (!near(r.rms, p.rms, 1e-12) || !near(r.rms_a, p.rms_a, 1e-12) || !(fabs(r.mean - p.mean) <= 1e-12 * p.rms + 1e-300))
		fail_msg("%s %s: rms %g of %g, mean %g; not %g, %g, %g", dtype_info[a->dtype].name, what, r.rms, r.rms_a, r.mean, p.rms,
			p.rms_a, p.mean);
	for (size_t i = 0; i < SCAN_BINS; i++)
		if (r.histogram[i] != p.histogram[i])
			fail_msg("%s %s: bin %zu has %zu, not %zu", dtype_info[a->dtype].name, what, i, r.histogram[i], p.histogram[i]);
	elementwise_free(&r);
}

static const enum dtype types[] = { DT_F32, DT_F64, DT_BF16, DT_F16 };
static const char *const whats[] = { "equal", "some differ", "all differ", "one ulp apart", "of all sizes",
	"with infinities and NaN", "zeros", "ulps of all octaves", "unrelated", "tiny, and zeros", "differences that are no floats" };

static void fill(struct tensor *a, struct tensor *b, size_t what)
{
	static const double odd[] = { INFINITY, -INFINITY, NAN, 0, -0.0 };

	for (size_t i = 0; i < a->count; i++) {
		uint64_t r = random_bits(&stream);
		double x = what == 4 ? ldexp(uniform(), (int)(16 * uniform())) : what == 6 ? 0 : 1 + uniform() / 2;
		if (what == 5 && r % 50 == 0) x = odd[r / 50 % LEN(odd)];
		if (what == 8) x = uniform();
		if (what == 9) x = r % 5 ? ldexp(x, -(int)(r % 150)) : 0;
		put(a, i, x);
		x = element(a, i);
		if (what == 1) x += r % 100 == 0 ? 0.25 : 0;
		if (what == 2 || what == 4) x *= 1 + uniform() / 8;
		if (what == 3) x += ((double)(r % 3) - 1) * spacing(a->dtype, x);
		if (what == 5 && r % 37 == 0) x = odd[r / 37 % LEN(odd)];
		if (what == 6 && r % 2) x = -x;
		if (what == 7) x += floor(ldexp(1.5 + uniform() / 2, (int)(r % 16))) * spacing(a->dtype, x) / 2;
		if (what == 8) x = uniform();
		if (what == 9 && (x > 0 || a->dtype != DT_F64)) x += (double)(r / 8 % 4) * spacing(a->dtype, x) / 2;
		if (what == 10) x = 0x1p-24 + (double)(r % 32) * 0x1p-50;
		put(b, i, x);
	}
}

static void figures_are_those_of_a_plain_loop(void **state)
{
	static const size_t sizes[] = { 1, 2, 7, 8, 31, 33, 1000, 4096, 4097, 10007, (1 << 18) + 12345 };

	(void)state;
	for (size_t t = 0; t < LEN(types); t++)
		for (size_t k = 0; k < LEN(sizes); k++)
			for (size_t what = 0; what < LEN(whats); what++) {
				struct tensor a = made(types[t], sizes[k]), b = made(types[t], sizes[k]), c = made(DT_F64, sizes[k]);
				fill(&a, &b, what);
				check(&a, &b, whats[what]);
				for (size_t i = 0; i < sizes[k]; i++) put(&c, i, element(&b, i));
				if (sizes[k] < 5000) check(&a, &c, "against F64");
				free(a.data), free(b.data), free(c.data);
			}
}

/* By the definition. */
static bool passes(const struct tensor *a, const struct tensor *b, const struct limits *l)
{
	for (size_t i = 0; i < a->count; i++) {
		double x = element(a, i), y = element(b, i), d = fabs(y - x), m = fmax(fabs(x), fabs(y));
		double power = m > 0 ? ldexp(1, ilogb(m)) : 0;
		if (d > l->abs || d > l->rel * m || d > l->ulp * fmax(power, l->least)) return true;
	}
	return false;
}

/* The largest of each figure that a and b have, and limits of a few bits less or more. */
static void limits_around(struct limits *l, const struct tensor *a, const struct tensor *b, int which, double share)
{
	double most[3] = { 0 }, none[3] = { INFINITY, INFINITY, INFINITY };

	for (size_t i = 0; i < a->count; i++) {
		double x = element(a, i), y = element(b, i), d = fabs(y - x), m = fmax(fabs(x), fabs(y));
		most[0] = fmax(most[0], d), most[1] = fmax(most[1], m > 0 ? d / m : 0);
		most[2] = fmax(most[2], d / fmax(m > 0 ? ldexp(1, ilogb(m)) : 0, l->least));
	}
	none[which] = most[which] * share;
	l->abs = none[0], l->rel = none[1], l->ulp = none[2];
}

static void forms_agree_on(enum dtype t, size_t n, size_t what)
{
	static const struct { const char *level; scan_form *scan; } forms[] = {
		{ NULL, scan_plain },
#ifdef __x86_64__
		{ "v3", scan_avx2 }, { "v4", scan_avx512 },
#endif
	};
	static const double shares[] = { 0.5, 1 - 0x1p-20, 1 - 0x1p-30, 1, 1 + 0x1p-50, 2 };
	const struct format_info *format = &format_info[dtype_info[t].format];
	struct tensor a = made(t, n), b = made(t, n);

	fill(&a, &b, what);
	struct guarded ga = guarded_copy(a.data, n * dtype_info[t].size), gb = guarded_copy(b.data, n * dtype_info[t].size);
	for (size_t k = 0; k < 3 * LEN(shares); k++) {
		struct limits l = { .least = ldexp(1, format->emin), .scale = ldexp(1, 1 - format->precision) };
		struct scanned first = { 0 }, s;
		limits_around(&l, &a, &b, (int)k % 3, shares[k / 3]);
		for (size_t f = 0; f < LEN(forms); f++) {
#ifdef __x86_64__
			if (f == 1 && !__builtin_cpu_supports("x86-64-v3")) continue;
			if (f == 2 && !__builtin_cpu_supports("x86-64-v4")) continue;
#endif
			forms[f].scan(&s, t, ga.bytes, gb.bytes, n, &l);
			if (f == 0) first = s;
			assert_true(s.differ == first.differ);
			if ((k % 3 != 1 || fabs(shares[k / 3] - 1) > 0x1p-40) && s.past != passes(&a, &b, &l))
				fail_msg("%s %s, %zu, form %zu, limit %zu of %g: past is %d", dtype_info[t].name, whats[what], n, f, k % 3, shares[k / 3],
					s.past);
			assert_memory_equal(s.bin, first.bin, sizeof s.bin);
			assert_true(near(s.d2, first.d2, 1e-14) && near(s.a2, first.a2, 1e-14));
			assert_true(fabs(s.d - first.d) <= 1e-13 * (1 + sqrt(s.d2 * (double)n)));
		}
	}
	guarded_free(&ga), guarded_free(&gb);
	free(a.data), free(b.data);
}

/* Each form's figures, of arrays that end where memory does. */
static void forms_agree(void **state)
{
	(void)state;
	for (size_t t = 0; t < LEN(types); t++)
		for (size_t what = 0; what < LEN(whats); what++)
			for (size_t n = 0; n < 5000; n += n < 70 ? 1 : 331)
				if (what != 5) forms_agree_on(types[t], n, what);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_are_those_of_a_plain_loop),
		cmocka_unit_test(forms_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
