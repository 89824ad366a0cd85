#include <stdlib.h>
#include <string.h>

#include "arith.h"

const struct arith *const ariths[] = {
	&arith_f32, &arith_f32_fma, &arith_f32_tree, &arith_mma[MMA_VOLTA], &arith_mma[MMA_TURING], &arith_mma[MMA_AMPERE],
	&arith_mma[MMA_ADA], &arith_mma[MMA_HOPPER], &arith_mma[MMA_BLACKWELL],
	&arith_f64, &arith_f64up, &arith_dd, &arith_mpfr, &arith_noisy, NULL
};

/* The digits of a parameter, all of text. */
static bool bits_of(const char *text, int *bits)
{
	char *end;
	long b = strtol(text, &end, 10);

	*bits = (int)b;
	return text[0] >= '0' && text[0] <= '9' && !*end && b >= 24 && b <= 4096;
}

bool arith_by_name(const char *spec, const struct arith **a, int *bits)
{
	for (size_t i = 0; ariths[i]; i++) {
		size_t n = strlen(ariths[i]->name);
		*a = ariths[i];
		*bits = ariths[i]->precision;
		if (*bits && !strcmp(spec, ariths[i]->name)) return true;
		if (!*bits && !strncmp(spec, ariths[i]->name, n) && spec[n] == ':') return bits_of(spec + n + 1, bits);
	}
	return false;
}
