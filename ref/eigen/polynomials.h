/* The polynomials of Newton-Schulz, p(x) = x h(x^2) with h(r) = a + b r + c r^2, and what they do to one
 * singular value in exact arithmetic. */
#ifndef ETALON_POLYNOMIALS_H
#define ETALON_POLYNOMIALS_H

#include <jansson.h>
#include <stdint.h>

#include "ref/dd/dd.h"
#include "fixtures/io/error.h"

enum { MAX_ITERATIONS = 63 };

struct polynomial { double a, b, c; };
struct schedule { size_t n; struct polynomial at[MAX_ITERATIONS]; };    /* at[t]: iteration t, from 0 */

/* name: polar_express, you, jordan, quintic, or a JSON file with [[a,b,c], …] or {"coefficients": [[a,b,c], …]}.
 * iterations: 0 is the list's own number; beyond its length the last triple repeats.
 * safety s: polar_express only, a/s, b/s^3, c/s^5, but not in the triple that repeats (its limit, which the
 * paper excludes too). E_UNKNOWN_NAME, E_OPEN …, E_VALUE. */
bool schedule_find(struct schedule *s, const char *name, size_t iterations, double safety, struct error *e);
#define SAFETY 1.05

/* An array of 1 … MAX_ITERATIONS triples of finite numbers; else E_PARAM for `item`. */
bool schedule_json(struct schedule *s, const json_t *j, const char *item, struct error *e);

/* h(r) */
dd polynomial_h(const struct polynomial *p, dd r);

/* After iteration t (step[t], t = 0 … n; step[0] is the start): r_0 = x^2 + p, q_0 = 1; z = h_t(r); q <- q z,
 * r <- r z^2; x_t = q_t x. Bit t of restarts: before iteration t, x <- q x, r <- x^2 + p, q <- 1.
 * p, 0 in exact arithmetic, is a spurious part of the Gram matrix. */
struct step { dd r, q, x; };
void recurrence(struct step *step, const struct schedule *s, uint64_t restarts, dd x, double p);

#endif
