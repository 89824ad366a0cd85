/* Calls of newton_schulz that several tests make. */
#ifndef ETALON_TEST_NEWTON_SCHULZ_SAMPLES_H
#define ETALON_TEST_NEWTON_SCHULZ_SAMPLES_H

#include "tests/witness.h"

#define OP "newton_schulz"
#define LEN(a) (sizeof(a) / sizeof *(a))
#define FOUR "\"coefficients\": [[3.5, -4.75, 2], [3.25, -4.5, 1.875], [2.5, -2.75, 1.0625], [1.875, -1.25, 0.375]]"
#define WITH(algorithm, more) "{\"algorithm\": \"" algorithm "\", " FOUR more "}"
#define TRACED(s, l) "out.X F64 5," s "," l "; out.R F64 5," s "," s "; out.Q F64 5," s "," s

enum { OUT_Y, OUT_X, OUT_R, OUT_Q, K = 4 };

#endif
