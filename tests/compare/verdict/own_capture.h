/* Captures that a test fills by kernels of its own, plain float code that shares nothing with the reference. */
#ifndef ETALON_TEST_OWN_CAPTURE_H
#define ETALON_TEST_OWN_CAPTURE_H

#include <math.h>
#include <stdlib.h>

#include "compare/verdict/verdict.h"
#include "tests/kernel_model.h"

enum { MOST = 1 << 16 };
static const float log2e = 1.44269504f, ln2 = 0.69314718f;

static inline void begin(struct capture *c, const char *op, const char *params)
{
	*c = (struct capture){ .op = NULL };
	assert_true(meta_set(&c->tensors, "etalon.op", op) && meta_set(&c->tensors, "etalon.params", params)
		&& meta_set(&c->tensors, "etalon.producer", "a test") && meta_set(&c->tensors, "etalon.device", "CPU"));
}

/* shape ends with 0 */
static inline void put(struct capture *c, const char *name, enum dtype d, const size_t *shape, const float *x)
{
	static double wide[MOST];
	int rank = 0;

	while (shape[rank]) rank++;
	struct tensor *t = tensors_add(&c->tensors, name, d, rank, shape);
	assert_non_null(t);
	assert_true(t->count <= MOST);
	for (size_t i = 0; i < t->count; i++) wide[i] = (double)x[i];
	dtype_store(d, wide, t->count, t->data);
}
#define SHAPE(...) ((const size_t[]){ __VA_ARGS__, 0 })

/* c is freed. Correct: it must pass, or its limits be as large as its answer, and nothing be named where names are looked for, unless `quick`; else it must fail, by a rule, under
 * whatever contract is the best. */
static inline void judged_as(struct capture *c, const char *contract, bool correct, bool quick, const char *what, int variant)
{
	const struct judging how = { .contract = contract, .quick = quick };
	struct verdict v;
	struct error e;

	no_error(capture_bind(c, &e) && judge(c, &how, &v, &e), &e);
	if (!(correct && v.outcome == UNDECIDED && v.says_nothing) && v.outcome != (correct ? PASS : FAIL))
		fail_msg("%s, variant %d, under %s: %s: %s", what, variant, v.contract->name, outcome_name[v.outcome], v.n_reason ? v.reason[0] : "");
	for (int i = 0; correct && i < v.x.n; i++)
		if (v.x.suspect[i].state == DETECTED) fail_msg("%s, variant %d: named %s", what, variant, v.x.suspect[i].name);
	capture_free(c);
}

static uint64_t dice;
static inline int draw(int low, int high) { return low + (int)(random_bits(&dice) % (uint64_t)(high - low + 1)); }
static inline float uniform(float low, float high) { return low + (high - low) * (float)(random_bits(&dice) >> 40) * 0x1p-24f; }
static inline float normal(float deviation)
{
	float sum = -6;

	for (int i = 0; i < 12; i++) sum += uniform(0, 1);
	return deviation * sum;
}
static inline float in_type(enum dtype d, float x) { return (float)stored(d, (double)x); }
static inline float up(float x, int ulps)
{
	for (; ulps > 0; ulps--) x = nextafterf(x, INFINITY);
	for (; ulps < 0; ulps++) x = nextafterf(x, -INFINITY);
	return x;
}

/* What operands of products are rounded to: FULL, nothing. */
enum number { FULL, TF32, HALF, BF };
static inline float rounded(enum number n, float x)
{
	union { float f; uint32_t u; } v = { x };

	if (n == TF32) v.u = (v.u + 0xfff + (v.u >> 13 & 1)) & 0xffffe000;
	return n == HALF ? in_type(DT_F16, x) : n == BF ? in_type(DT_BF16, x) : v.f;
}

#endif
