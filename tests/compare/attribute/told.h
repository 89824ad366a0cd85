/* Model kernels of one contract, and what a verdict detects in them. */
#ifndef ETALON_TEST_TOLD_H
#define ETALON_TEST_TOLD_H

#include "tests/judged.h"

/* The case with all of its outputs in this type, as the plan answers it. */
static inline void answered(struct capture *c, const char *op, const char *name, uint64_t seed, enum dtype type, const struct plan *p)
{
	struct case_tensor out[MAX_OUT + 1] = { 0 };
	struct test_case k = *case_find(op, name);
	struct error e;

	for (int i = 0; k.out[i].name; i++) out[i] = k.out[i], out[i].dtype = type;
	k.out = out;
	no_error(case_make(c, &k, seed, true, &e), &e);
	answer_by(c, p);
}

/* The float32 kernel of a contract's first structure. */
static inline struct plan kernel(const char *op, const char *contract)
{
	struct plan p = plan_plain(&arith_f32, arith_f32.precision);

	plan_structure(&p, contract_of(op, contract), 0);
	return p;
}

static inline struct verdict told(struct capture *c, const char *contract)
{
	struct verdict v = judged(c, contract, false);

	capture_free(c);
	return v;
}

static inline bool detected(const struct verdict *v, const char *name)
{
	for (int i = 0; i < v->x.n; i++)
		if (v->x.suspect[i].state == DETECTED && !strcmp(v->x.suspect[i].name, name)) return true;
	return false;
}

static inline void bf16_at(struct plan *p, const char *op, const char *site)
{
	p->round[op_site(op_find(op), site)] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
}

#endif
