/* MPFR as one writes it by hand: mul and add in place, no temporary but one. */
#ifndef ETALON_BENCH_MPFR_H
#define ETALON_BENCH_MPFR_H

#include <mpfr.h>

struct mp {
	enum { BITS = 128 };
	struct product { const mp &a, &b; };
	struct difference { const mp &a, &b; };
	mpfr_t x;

	mp() { mpfr_init2(x, BITS), mpfr_set_zero(x, 1); }
	~mp() { mpfr_clear(x); }
	mp(const mp &) = delete;
	mp &operator=(const mp &b) { return mpfr_set(x, b.x, MPFR_RNDN), *this; }
	mp &operator=(double d) { return mpfr_set_d(x, d, MPFR_RNDN), *this; }
	mp &operator=(product p) { return mpfr_mul(x, p.a.x, p.b.x, MPFR_RNDN), *this; }
	mp &operator=(difference p) { return mpfr_sub(x, p.a.x, p.b.x, MPFR_RNDN), *this; }
	mp &operator+=(product p) { return mpfr_mul(part(), p.a.x, p.b.x, MPFR_RNDN),
		mpfr_add(x, x, part(), MPFR_RNDN), *this; }
	mp &operator-=(product p) { return mpfr_mul(part(), p.a.x, p.b.x, MPFR_RNDN),
		mpfr_sub(x, x, part(), MPFR_RNDN), *this; }
	mp &operator+=(const mp &b) { return mpfr_add(x, x, b.x, MPFR_RNDN), *this; }
	mp &operator-=(const mp &b) { return mpfr_sub(x, x, b.x, MPFR_RNDN), *this; }
	mp &operator*=(const mp &b) { return mpfr_mul(x, x, b.x, MPFR_RNDN), *this; }
	mp &operator/=(const mp &b) { return mpfr_div(x, x, b.x, MPFR_RNDN), *this; }
	mp &operator/=(unsigned long n) { return mpfr_div_ui(x, x, n, MPFR_RNDN), *this; }

private:
	static mpfr_ptr part()
	{
		static mp one;
		return one.x;
	}
};

inline mp::product operator*(const mp &a, const mp &b) { return { a, b }; }
inline mp::difference operator-(const mp &a, const mp &b) { return { a, b }; }

#endif
