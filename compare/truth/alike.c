#include <stdint.h>
#include <string.h>

#include "alike.h"

void alike_add(struct alike *a, double x)
{
	uint64_t bits;

	memcpy(&bits, &x, sizeof bits);
	bits *= UINT64_C(0x9e3779b97f4a7c15);
	size_t at = bits >> 54;         /* the upper 10 bits: below ALIKE */
	if (a->times[at] == 0) a->number[at] = x;
	double before = a->number[at] == x ? a->times[at]++ : 0;
	a->squares += 2 * before + 1;
}
