#include "fixtures/dtype.h"

#include <math.h>
#include <mpfr.h>

#include "tests/helpers.h"

/* x rounded by MPFR to the format; x has any precision. */
static double mpfr_rounded(const struct layout *l, mpfr_rnd_t r, mpfr_srcptr x)
{
	mpfr_exp_t emin = mpfr_get_emin(), emax = mpfr_get_emax();
	double top = value_of(l, l->top);
	mpfr_t y;

	mpfr_init2(y, l->fraction + 1);
	int t = mpfr_set(y, x, r);
	/* MPFR's significand is in [1/2, 1) */
	mpfr_set_emin(1 - l->bias - l->fraction + 1);
	mpfr_set_emax(ilogb(top) + 1);
	t = mpfr_check_range(y, t, r);
	mpfr_subnormalize(y, t, r);
	double d = mpfr_get_d(y, MPFR_RNDN);
	mpfr_clear(y);
	mpfr_set_emin(emin);
	mpfr_set_emax(emax);
	if (fabs(d) <= top || isnan(d))
		return d;
	/* E4M3's largest binade is not full: 480 is NaN */
	return copysign(r == MPFR_RNDZ ? top : infinity_of(l), d);
}

static double mpfr_rounded_d(const struct layout *l, mpfr_rnd_t r, double x)
{
	mpfr_t wide;

	mpfr_init2(wide, 53);
	mpfr_set_d(wide, x, MPFR_RNDN);
	double y = mpfr_rounded(l, r, wide);
	mpfr_clear(wide);
	return y;
}

/* All that rounds, for x and -x; nearest and zero are the answers for x. */
static void check_rounding(const struct layout *l, double x, double nearest, double zero)
{
	for (int s = 1; s >= -1; s -= 2) {
		double sx = s * x, n = copysign(nearest, sx), z = copysign(zero, sx);
		expect_double(l, "nearest", sx, format_round(l->format, ROUND_NEAREST_EVEN, sx, 0), n);
		expect_double(l, "zero", sx, format_round(l->format, ROUND_ZERO, sx, 0), z);
		if (l->dtype != DT_COUNT)
			expect_double(l, "store", sx, stored(l->dtype, sx), n);
	}
	expect_double(l, "MPFR nearest", x, mpfr_rounded_d(l, MPFR_RNDN, x), nearest);
	expect_double(l, "MPFR zero", x, mpfr_rounded_d(l, MPFR_RNDZ, x), zero);
}

/* Around pattern b and the midpoint between it and its successor, by nearest neighbours. */
static void check_interval(const struct layout *l, uint32_t b)
{
	double low = value_of(l, b), high = value_of(l, b + 1), middle = low / 2 + high / 2;
	double up = b == l->top ? infinity_of(l) : high;

	check_rounding(l, low, low, low);
	check_rounding(l, nextafter(low, high), low, low);
	check_rounding(l, nextafter(middle, low), low, low);
	check_rounding(l, middle, b & 1 ? up : low, low);
	check_rounding(l, nextafter(middle, high), up, low);
	check_rounding(l, nextafter(high, low), up, low);
}

static void rounds_around_every_pattern(void **state)
{
	(void)state;
	for (int i = 0; i < EXHAUSTIVE; i++)
		for (uint32_t b = 0; b <= layouts[i].top; b++)
			check_interval(&layouts[i], b);
}

static void rounds_f32_around_many_patterns(void **state)
{
	const struct layout *l = &layouts[EXHAUSTIVE];
	uint64_t seed = 1;

	(void)state;
	for (int i = 0; i < 100000; i++)
		check_interval(l, (uint32_t)(random_bits(&seed) % (l->top + 1)));
	for (uint32_t k = 0; k < 100; k++) {
		check_interval(l, k);
		check_interval(l, l->top - k);
		check_interval(l, 0x7FFFB0 + k);        /* the smallest normal number is 0x800000 */
	}
}

/* Any bit pattern of double: huge, tiny, subnormal, NaN, infinite. */
static void rounds_any_double(void **state)
{
	static const double special[] = { 0x1p-1074, 0x1p-1022, 0x1.fffffffffffffp1023, 464, 465, 480,
		65519.999, 65520, 61440, 0x1p-150, 0x1.8p-150, 0x1p-149, 1e300, 1e-300 };
	uint64_t seed = 2;

	(void)state;
	for (int i = 0; i < LAYOUTS; i++) {
		const struct layout *l = &layouts[i];
		for (int k = 0; k < 300000; k++) {
			double x = bits_double(random_bits(&seed) >> 1);
			if (k % 2)      /* near the format's range */
				x = ldexp(1 + fabs(fmod(x, 1)), (int)(random_bits(&seed) % 300) - 150);
			if ((size_t)k < sizeof special / sizeof *special)
				x = special[k];
			if (isfinite(x))
				check_rounding(l, x, mpfr_rounded_d(l, MPFR_RNDN, x), mpfr_rounded_d(l, MPFR_RNDZ, x));
		}
		for (int r = ROUND_NEAREST_EVEN; r <= ROUND_RANDOM; r++) {
			expect_double(l, "round", INFINITY, format_round(l->format, (enum rounding)r, INFINITY, 1), infinity_of(l));
			expect_double(l, "round", -INFINITY, format_round(l->format, (enum rounding)r, -INFINITY, 1), -infinity_of(l));
			expect_double(l, "round", NAN, format_round(l->format, (enum rounding)r, NAN, 1), NAN);
		}
		if (l->dtype != DT_COUNT) {
			expect_double(l, "store", INFINITY, stored(l->dtype, INFINITY), infinity_of(l));
			expect_double(l, "store", -INFINITY, stored(l->dtype, -INFINITY), -infinity_of(l));
			expect_double(l, "store", NAN, stored(l->dtype, NAN), NAN);
		}
	}
	assert_true(same_double(format_round(FMT_F64, ROUND_ZERO, 0x1p-1074, 0), 0x1p-1074));
}

/* With 2^16 evenly spread random numbers, the share that goes up is the distance covered. */
static void random_rounding_is_unbiased(void **state)
{
	uint64_t seed = 3;

	(void)state;
	for (int i = 0; i < LAYOUTS; i++)
		for (int k = 0; k < 40; k++) {
			const struct layout *l = &layouts[i];
			uint32_t b = k == 0 ? 0 : k == 1 ? l->top : (uint32_t)(random_bits(&seed) % l->top);
			double low = value_of(l, b), step = value_of(l, b + 1) - low;
			double high = b == l->top ? infinity_of(l) : low + step;
			double x = low + step * (k == 2 ? 0 : (double)(random_bits(&seed) >> 44) * 0x1p-20);
			long ups = 0;
			for (uint64_t r = 0; r < 1 << 16; r++) {
				double y = format_round(l->format, ROUND_RANDOM, -x, r << 48);
				assert_true(same_double(y, -low) || same_double(y, -high));
				ups += !same_double(y, -low);
			}
			assert_true(fabs((double)ups - (x - low) / step * 0x1p16) <= 1);
		}
}

/* The mean over independent random numbers, in its own standard errors. */
static void random_rounding_has_the_right_mean(void **state)
{
	uint64_t seed = 4;
	const int n = 1 << 20;
	double x = 1 + 0.3 * 0x1p-7, sum = 0;

	(void)state;
	for (int i = 0; i < n; i++)
		sum += format_round(FMT_BF16, ROUND_RANDOM, x, random_bits(&seed)) - x;
	assert_true(fabs(sum / n) < 5 * 0x1p-7 * sqrt(0.3 * 0.7 / n));
}

/* hi + lo rounded to odd by MPFR: towards zero, then away if that is inexact and even. */
static double mpfr_odd(mpfr_srcptr exact)
{
	double x = mpfr_get_d(exact, MPFR_RNDZ);

	if (mpfr_cmp_d(exact, x) && !(double_bits(x) & 1))
		x = mpfr_get_d(exact, MPFR_RNDA);
	return x;
}

static void check_odd(double hi, double lo)
{
	mpfr_t exact;

	mpfr_init2(exact, 2200);
	mpfr_set_d(exact, hi, MPFR_RNDN);
	assert_int_equal(mpfr_add_d(exact, exact, lo, MPFR_RNDN), 0);
	double odd = round_to_odd(hi, lo);
	assert_true(same_double(odd, mpfr_odd(exact)));
	for (int i = 0; i < LAYOUTS; i++)
		expect_double(&layouts[i], "odd, then nearest", hi, format_round(layouts[i].format, ROUND_NEAREST_EVEN, odd, 0),
		       mpfr_rounded(&layouts[i], MPFR_RNDN, exact));
	mpfr_clear(exact);
}

static void rounds_to_odd(void **state)
{
	uint64_t seed = 5;

	(void)state;
	for (int k = 0; k < 100000; k++) {
		double u = (double)(random_bits(&seed) >> 11) * 0x1p-53, hi = ldexp(1 + u, (int)(random_bits(&seed) % 320) - 160);
		const struct layout *l = &layouts[k % LAYOUTS];
		if (k % 3 == 0) {       /* a midpoint of a narrow format */
			uint32_t b = (uint32_t)(random_bits(&seed) % l->top);
			hi = value_of(l, b) / 2 + value_of(l, b + 1) / 2;
		}
		if (k % 7 == 0)
			hi = ldexp(1, ilogb(hi));
		double half = format_ulp(FMT_F64, hi) / 2;
		double lo[] = { half, half / 2, half * u, half * 0x1p-60, 0x1p-1074, 0 };
		for (size_t i = 0; i < sizeof lo / sizeof *lo; i++) {
			check_odd(hi, lo[i]);
			check_odd(hi, -lo[i]);
			check_odd(-hi, lo[i]);
		}
	}
	check_odd(0x1.fffffffffffffp1023, 0x1p969);
	assert_true(round_to_odd(INFINITY, 1) == (double)INFINITY);
	assert_true(isnan(round_to_odd(NAN, 1)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rounds_around_every_pattern),
		cmocka_unit_test(rounds_f32_around_many_patterns),
		cmocka_unit_test(rounds_any_double),
		cmocka_unit_test(random_rounding_is_unbiased),
		cmocka_unit_test(random_rounding_has_the_right_mean),
		cmocka_unit_test(rounds_to_odd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
