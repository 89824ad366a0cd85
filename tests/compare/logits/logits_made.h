/* Logits in memory as sources, and random numbers to fill them with. */
#ifndef ETALON_TEST_LOGITS_MADE_H
#define ETALON_TEST_LOGITS_MADE_H

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/logits/logits.h"
#include "tests/kernel_model.h"

enum { T = 120, V = 401, TOP = 5 };

struct made { struct tensor t; struct logit_source s; };

static inline double uniform(uint64_t *state) { return (double)(random_bits(state) >> 11) * 0x1p-53; }

/* Of variance 1, and about normal. */
static inline double normal(uint64_t *state)
{
	return sqrt(3) * (uniform(state) + uniform(state) + uniform(state) + uniform(state) - 2);
}

/* x [positions,V] as a source of this type, and x as that type holds it. */
static inline void make(struct made *m, enum dtype type, double *x, size_t positions)
{
	struct error e;

	m->t = (struct tensor){ .name = (char *)(uintptr_t)"x", .offset = NO_OFFSET };
	assert_true(shape_set(&m->t, type, 2, (const size_t[]){ positions, V }));
	m->t.data = malloc(m->t.bytes);
	dtype_store(type, x, m->t.count, m->t.data);
	dtype_load(type, m->t.data, m->t.count, x);
	no_error(source_of_tensor(&m->s, &m->t, "x", &e), &e);
}

static inline void draw(double *x, size_t n, double spread, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++) x[i] = spread * normal(seed);
}

#endif
