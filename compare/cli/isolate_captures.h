/* The laws of isolation that captures of mixed_batch can show. */
#ifndef ETALON_ISOLATE_CAPTURES_H
#define ETALON_ISOLATE_CAPTURES_H

#include "compare/isolate/isolate_values.h"

/* Of one capture: the first law that is broken, how many tokens are wrong, and the fault that
 * explains them. */
struct isolated {
	struct breach breach;
	size_t tokens, wrong;
	double share;                   /* see struct values */
	struct named named;
};

/* Is one broken? names: looks for the fault then. The capture is of mixed_batch and has its
 * outputs. */
bool isolate_capture(
	struct isolated *to, bool *broken, bool names, const struct capture *c, struct error *e);

/* Prints what came of each capture, and of captures of the same inputs together: their outputs must be equal to the bit.
 * Returns the exit code of the whole. */
int isolate_captures(char **path, size_t n, bool json);

#endif
