#include "alike.h"

#include "fixtures/io/bits.h"
#include "fixtures/io/random.h"

void alike_add(struct alike *a, double x)
{
	size_t at = to_bits(x) * RANDOM_STEP >> 54;     /* the upper 10 bits: below ALIKE */

	if (a->times[at] == 0) a->number[at] = x;
	double before = a->number[at] == x ? a->times[at]++ : 0;
	a->squares += 2 * before + 1;
}
