#include "fixtures/dtype.h"

#include <math.h>
#include <string.h>

#include "tests/helpers.h"

/* Every pattern of the 8- and 16-bit types, by definition; storing gives the pattern back. */
static void loads_and_stores_every_pattern(void **state)
{
	(void)state;
	for (int i = 0; i < STORED; i++) {
		const struct layout *l = &layouts[i];
		int width = 1 + l->exponent + l->fraction;
		uint32_t sign = UINT32_C(1) << (width - 1);
		for (uint32_t b = 0; b < 2 * sign; b++) {
			uint32_t magnitude = b & (sign - 1), back = 0;
			double x, y = magnitude <= l->top ? value_of(l, magnitude)
			            : l->has_inf && magnitude == l->top + 1 ? (double)INFINITY : (double)NAN;
			dtype_load(l->dtype, &b, 1, &x);        /* little-endian */
			expect_double(l, "load", b, x, b & sign ? -y : y);
			assert_true(isnan(y) || signbit(x) == !!(b & sign));
			dtype_store(l->dtype, &x, 1, &back);
			assert_true(isnan(y) ? (back & (sign - 1)) > l->top + l->has_inf : back == b);
			if (isnan(y))   /* quiet: the first bit of the fraction is set */
				assert_true(back >> (l->fraction - 1) & 1);
			expect_double(l, "format_round", x, format_round(l->format, ROUND_NEAREST_EVEN, x, 0), x);
		}
	}
}

static void describes_the_formats(void **state)
{
	(void)state;
	for (int i = 0; i < LAYOUTS; i++) {
		const struct layout *l = &layouts[i];
		const struct format_info *f = &format_info[l->format];
		assert_int_equal(f->precision, l->fraction + 1);
		assert_int_equal(f->emin, 1 - l->bias);
		assert_true(f->max == value_of(l, l->top));
		assert_int_equal(f->has_inf, l->has_inf);
		for (uint32_t b = 0; b <= l->top; b += l->format == FMT_F32 ? 4099 : 1) {
			double low = value_of(l, b), high = value_of(l, b + 1);
			expect_double(l, "ulp", low, format_ulp(l->format, -low), high - low);
			expect_double(l, "ulp", high, format_ulp(l->format, nextafter(high, low)), high - low);
		}
	}
	for (double x = 0x1p-1074; x < 0x1p1023; x *= 1.1 + 0x1p-1074 / x)
		assert_true(format_ulp(FMT_F64, x) == nextafter(x, INFINITY) - x);
	assert_true(format_ulp(FMT_F64, 0) == 0x1p-1074);
	assert_true(format_ulp(FMT_BF16, 0) == 0x1p-133);
}

static void stores_integers(void **state)
{
	static const struct { enum dtype d; double x, y; } cases[] = {
		{ DT_U8, -1, 0 }, { DT_U8, -0.9, 0 }, { DT_U8, 254.9, 254 }, { DT_U8, 256, 255 }, { DT_U8, NAN, 0 },
		{ DT_I32, -1.9, -1 }, { DT_I32, 1e300, 2147483647 }, { DT_I32, -INFINITY, -2147483648.0 },
		{ DT_I32, 2147483647.5, 2147483647 }, { DT_I32, -2147483648.5, -2147483648.0 }, { DT_I32, NAN, 0 },
		{ DT_I64, 0x1p53 + 2, 0x1p53 + 2 }, { DT_I64, -0x1p63, -0x1p63 }, { DT_I64, -INFINITY, -0x1p63 },
		{ DT_I64, 0x1.fffffffffffffp62, 0x1.fffffffffffffp62 }, { DT_I64, NAN, 0 },
	};
	int64_t most;
	uint8_t all[256];
	double x[256];

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_true(stored(cases[i].d, cases[i].x) == cases[i].y);
	dtype_store(DT_I64, &(double){ 0x1p63 }, 1, &most);
	assert_true(most == INT64_MAX);
	for (int i = 0; i < 256; i++)
		all[i] = (uint8_t)i;
	dtype_load(DT_U8, all, 256, x);
	for (int i = 0; i < 256; i++)
		assert_true(x[i] == i);
}

/* Random bytes at every alignment give what the aligned ones give. */
static void takes_any_alignment(void **state)
{
	unsigned char bytes[8 * 64 + 8], back[sizeof bytes];
	double aligned[64], shifted[64];
	uint64_t seed = 6, word;

	(void)state;
	for (int d = 0; d < DT_COUNT; d++)
		for (size_t shift = 0; shift < 8; shift++) {
			for (size_t i = 0; i < 64; i++) {
				word = random_bits(&seed) & UINT64_C(0x000FFFFFFFFFFFFF);
				memcpy(bytes + 8 * i, &word, 8);
			}
			dtype_load((enum dtype)d, bytes, 64, aligned);
			memmove(bytes + shift, bytes, 8 * 64);
			dtype_load((enum dtype)d, bytes + shift, 64, shifted);
			dtype_store((enum dtype)d, shifted, 64, back + shift);
			dtype_load((enum dtype)d, back + shift, 64, shifted);
			for (size_t i = 0; i < 64; i++)
				assert_true(same_double(shifted[i], aligned[i]));
		}
}

static void makes_nan_quiet(void **state)
{
	uint32_t single;
	uint64_t pattern = UINT64_C(0x7FF0000000000001), back;
	double x;

	(void)state;
	memcpy(&x, &pattern, sizeof x);
	dtype_store(DT_F64, &x, 1, &back);
	assert_true(back == (pattern | UINT64_C(1) << 51));
	dtype_store(DT_F32, &x, 1, &single);
	assert_true((single & 0x7FC00000) == 0x7FC00000);
}

static void knows_names(void **state)
{
	enum dtype d;
	enum format f;
	enum rounding r;

	(void)state;
	for (int i = 0; i < DT_COUNT; i++) {
		assert_true(dtype_by_name(dtype_info[i].name, &d) && (int)d == i);
		assert_true(stored(d, 3) == 3);
	}
	for (int i = 0; i < FMT_COUNT; i++)
		for (int k = ROUND_NEAREST_EVEN; k <= ROUND_RANDOM; k++)
			assert_true(format_by_name(rounding_name((enum format)i, (enum rounding)k), &f, &r) &&
			            (int)f == i && (int)r == k);
	assert_true(format_by_name("tf32_rz", &f, &r) && f == FMT_TF32 && r == ROUND_ZERO);
	assert_true(format_by_name("bf16", &f, &r) && f == FMT_BF16 && r == ROUND_NEAREST_EVEN);
	assert_false(dtype_by_name("f32", &d) || dtype_by_name("", &d) || dtype_by_name("BOOL", &d));
	assert_false(format_by_name("tf32_", &f, &r) || format_by_name("", &f, &r));
}

/* The sum of a bf16 number and the bf16 nearest to the rest is off by half a unit of bf16x2 at most, and by as much somewhere. */
static void two_bf16_are_as_good_as_17_bits(void **state)
{
	double worst = 0;

	(void)state;
	for (uint32_t i = 0; i < 1u << 20; i++) {
		double x = 1 + (double)i * 0x1p-20, high = format_round(FMT_BF16, ROUND_NEAREST_EVEN, x, 0);
		double low = format_round(FMT_BF16, ROUND_NEAREST_EVEN, x - high, 0), units = fabs(x - high - low) / format_ulp(FMT_BF16X2, x);
		assert_true(units <= 0.5);
		worst = fmax(worst, units);
	}
	assert_true(worst == 0.5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(describes_the_formats),
		cmocka_unit_test(loads_and_stores_every_pattern),
		cmocka_unit_test(stores_integers),
		cmocka_unit_test(takes_any_alignment),
		cmocka_unit_test(makes_nan_quiet),
		cmocka_unit_test(knows_names),
		cmocka_unit_test(two_bf16_are_as_good_as_17_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
