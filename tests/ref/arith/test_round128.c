/* Sums and products of 128 bits, against MPFR's. */
#include <stdio.h>

#include "ref/arith/round128.h"
#include "tests/helpers.h"

enum { BITS = 128 };

/* Of the ways in which roundings go wrong: few ones, few zeros, ones at the ends, any. */
static u128 some_mantissa(uint64_t *state)
{
	u128 any = (u128)random_bits(state) << 64 | random_bits(state), x;
	int at = (int)(random_bits(state) % 128), other = (int)(random_bits(state) % 128);

	switch (random_bits(state) % 6) {
	case 0: x = (u128)1 << at; break;
	case 1: x = ~((u128)1 << at); break;
	case 2: x = ((u128)1 << at) - 1; break;
	case 3: x = (u128)1 << at | (u128)1 << other; break;
	case 4: x = any >> at << at; break;
	default: x = any;
	}
	return x | (u128)1 << 127;
}

static void set(mpfr_t x, u128 mantissa, mpfr_exp_t e, int sign)
{
	mpfr_set_ui_2exp(x, 1, e - 1, MPFR_RNDN);
	x->_mpfr_d[0] = (mp_limb_t)mantissa, x->_mpfr_d[1] = (mp_limb_t)(mantissa >> 64);
	mpfr_setsign(x, x, sign < 0, MPFR_RNDN);
}

static bool same(const mpfr_t a, const mpfr_t b)
{
	return (mpfr_nan_p(a) && mpfr_nan_p(b)) || (mpfr_equal_p(a, b) && !mpfr_signbit(a) == !mpfr_signbit(b));
}

/* a + b and a b, into a third and into either; how many of the sums are exact. */
static size_t both_ways(const mpfr_t a, const mpfr_t b)
{
	mpfr_t want, got, in_a, in_b;
	size_t exact;

	mpfr_inits2(BITS, want, got, in_a, in_b, (mpfr_ptr)NULL);
	for (int product = 0; product < 2; product++) {
		void (*by)(__mpfr_struct *, const __mpfr_struct *, const __mpfr_struct *) = product ? mul128 : add128;
		int rounded = product ? mpfr_mul(want, a, b, MPFR_RNDN) : mpfr_add(want, a, b, MPFR_RNDN);
		mpfr_set(in_a, a, MPFR_RNDN), mpfr_set(in_b, b, MPFR_RNDN);
		by(got, a, b), by(in_a, in_a, b), by(in_b, a, in_b);
		if (!same(want, got) || !same(want, in_a) || !same(want, in_b)) {
			mpfr_fprintf(stderr, "%Ra %c %Ra: %Ra, not %Ra\n", a, product ? '*' : '+', b, got, want);
			fail();
		}
		if (!product) exact = !rounded;
	}
	mpfr_clears(want, got, in_a, in_b, (mpfr_ptr)NULL);
	return exact;
}

/* y + a b, of two roundings: whether it is made: else y stays. */
static bool product_added(const mpfr_t y, const mpfr_t a, const mpfr_t b)
{
	mpfr_t want, got;

	mpfr_inits2(BITS, want, got, (mpfr_ptr)NULL);
	mpfr_mul(want, a, b, MPFR_RNDN), mpfr_add(want, y, want, MPFR_RNDN);
	mpfr_set(got, y, MPFR_RNDN);
	bool made = fma128(got, a, b);
	if (!same(made ? want : y, got)) {
		mpfr_fprintf(stderr, "%Ra + %Ra * %Ra: %Ra, not %Ra\n", y, a, b, got, want);
		fail();
	}
	mpfr_clears(want, got, (mpfr_ptr)NULL);
	return made;
}

/* y from far above the product to far below, and what is nearly all or all of it with the other sign. */
static void products_are_added_as_mpfr_does(void **state)
{
	enum { DRAWS = 1000000 };
	uint64_t bits = 11;
	mpfr_t y, a, b;

	(void)state;
	mpfr_inits2(BITS, y, a, b, (mpfr_ptr)NULL);
	for (int i = 0; i < DRAWS; i++) {
		uint64_t r = random_bits(&bits);
		set(a, some_mantissa(&bits), (mpfr_exp_t)(r >> 40) % 2000 - 1000, r & 1 ? 1 : -1);
		set(b, some_mantissa(&bits), (mpfr_exp_t)(r >> 20) % 2000 - 1000, r & 2 ? 1 : -1);
		set(y, some_mantissa(&bits), mpfr_get_exp(a) + mpfr_get_exp(b) + (mpfr_exp_t)(r >> 8) % (r & 4 ? 4 : 300) * (r & 8 ? 1 : -1), r & 16 ? 1 : -1);
		if (!(r & 0xe0)) mpfr_mul(y, a, b, r & 0x100 ? MPFR_RNDU : MPFR_RNDN), mpfr_neg(y, y, MPFR_RNDN);
		assert_true(product_added(y, a, b));
	}
	mpfr_clears(y, a, b, (mpfr_ptr)NULL);
}

static void as_mpfr_rounds(void **state)
{
	enum { DRAWS = 1000000 };
	uint64_t bits = 7;
	size_t exact = 0;
	mpfr_t a, b;

	(void)state;
	mpfr_inits2(BITS, a, b, (mpfr_ptr)NULL);
	for (int i = 0; i < DRAWS; i++) {
		uint64_t r = random_bits(&bits);
		/* as far apart as matters, and beyond: 0 to 300 bits, half of them at most 3 */
		mpfr_exp_t apart = (mpfr_exp_t)(r & 1 ? (r >> 1) % 4 : (r >> 1) % 300);
		u128 m = some_mantissa(&bits);
		set(a, m, (mpfr_exp_t)(r >> 40) % 2000 - 1000, r >> 32 & 1 ? 1 : -1);
		set(b, r >> 33 & 7 ? some_mantissa(&bits) : m ^ (r >> 36 & 1), mpfr_get_exp(a) - (r >> 37 & 1 ? apart : -apart), r >> 38 & 1 ? 1 : -1);
		exact += both_ways(a, b);
	}
	assert_true(exact > DRAWS / 50 && exact < DRAWS / 2);
	mpfr_clears(a, b, (mpfr_ptr)NULL);
}

/* Half way between two numbers, a bit above and below, with the last bit even and odd; of a power of two the number below is nearer. */
static void ties(void **state)
{
	mpfr_t a, b;

	(void)state;
	mpfr_inits2(BITS, a, b, (mpfr_ptr)NULL);
	for (int odd = 0; odd < 2; odd++)
		for (int off = -1; off <= 1; off++)
			for (int minus = 0; minus < 2; minus++)
				for (int all = 0; all < 2; all++)
					for (int near = 0; near < 2; near++) {
						const u128 half = (u128)1 << 127;
						set(a, (all ? ~(u128)1 : half) | (unsigned)odd, 0, 1);
						set(b, off < 0 ? ~(u128)0 : half | (unsigned)off, -128 - (off < 0) - near, minus ? -1 : 1);
						both_ways(a, b);
					}
	mpfr_clears(a, b, (mpfr_ptr)NULL);
}

static bool plain(const mpfr_t x) { return plain128(x, x); }

/* Zeros, infinities, NaN, and exponents that reach MPFR's limits. */
static void what_has_no_mantissa(void **state)
{
	enum { KINDS = 9 };
	mpfr_t x[KINDS];

	(void)state;
	for (int i = 0; i < KINDS; i++) mpfr_init2(x[i], BITS);
	mpfr_set_zero(x[0], 1), mpfr_set_zero(x[1], -1);
	mpfr_set_inf(x[2], 1), mpfr_set_inf(x[3], -1);
	mpfr_set_nan(x[4]);
	mpfr_set_d(x[5], -1.5, MPFR_RNDN);
	mpfr_set_ui_2exp(x[6], 1, mpfr_get_emax() - 1, MPFR_RNDN);
	mpfr_set_ui_2exp(x[7], 1, mpfr_get_emin(), MPFR_RNDN);
	mpfr_set_ui_2exp(x[8], 3, -1, MPFR_RNDN);
	for (int i = 0; i < KINDS; i++)
		for (int j = 0; j < KINDS; j++) {
			both_ways(x[i], x[j]);
			for (int k = 0; k < KINDS; k++) assert_true(product_added(x[k], x[i], x[j]) == (plain(x[i]) && plain(x[j]) && plain(x[k])));
		}
	for (int i = 0; i < KINDS; i++) mpfr_clear(x[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_mpfr_rounds),
		cmocka_unit_test(products_are_added_as_mpfr_does),
		cmocka_unit_test(ties),
		cmocka_unit_test(what_has_no_mantissa),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
