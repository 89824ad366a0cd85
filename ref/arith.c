#include <stdlib.h>
#include <string.h>

#include "arith.h"

const struct arith *const ariths[] = { &arith_f32, &arith_f64, &arith_f64up, &arith_mpfr, &arith_noisy, NULL };

bool arith_by_name(const char *spec, const struct arith **a, int *bits)
{
	size_t n = strcspn(spec, ":");

	for (size_t i = 0; ariths[i]; i++) {
		if (strlen(ariths[i]->name) != n || strncmp(ariths[i]->name, spec, n)) continue;
		*a = ariths[i];
		*bits = ariths[i]->precision;
		if (*bits) return !spec[n];
		if (!spec[n]) return false;
		char *end;
		long b = strtol(spec + n + 1, &end, 10);
		*bits = (int)b;
		return spec[n + 1] >= '0' && spec[n + 1] <= '9' && !*end && b >= 24 && b <= 4096;
	}
	return false;
}
