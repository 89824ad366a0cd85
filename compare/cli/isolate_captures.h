/* The laws of isolation that captures of mixed_batch can show. */
#ifndef ETALON_ISOLATE_CAPTURES_H
#define ETALON_ISOLATE_CAPTURES_H

#include <stdbool.h>
#include <stddef.h>

/* Prints what came of each capture, and of captures of the same inputs together: their outputs must be equal to the bit.
 * Returns the exit code of the whole. */
int isolate_captures(char **path, size_t n, bool json);

#endif
