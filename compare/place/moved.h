/* Does what stands at some indices of an axis belong at others? Swapped, shifted, repeated. */
#ifndef ETALON_MOVED_H
#define ETALON_MOVED_H

#include <stdbool.h>
#include <stddef.h>

/* Lines along an axis of n indices, each through an element that is wrong: number i lines + l. */
struct lines {
	size_t n, lines;
	double *got, *expected;
	bool *wrong;
};
enum { FEWEST_LINES = 8 }; /* that tell an index */

/* true: nine in ten of the indices that are wrong hold what belongs elsewhere, in one way. What
 * is said is a clause: "H = 1 and 2 are swapped", "T from 1 on hold what belongs at T - 1".
 * false also where memory is short. */
bool moved_find(char *text, size_t size, const char *axis, const struct lines *a);

#endif
