/* Model kernels: captures in memory whose outputs a reference run fills. */
#ifndef ETALON_TEST_MODEL_H
#define ETALON_TEST_MODEL_H

#include <string.h>

#include "compare/truth/expected.h"
#include "fixtures/cases/cases.h"
#include "tests/helpers.h"

static inline void no_error(bool ok, const struct error *e)
{
	if (ok) return;
	error_print(stderr, e);
	putc('\n', stderr);
	fail();
}

/* Fills c's outputs with the plan's answer, rounded once to their types. */
static inline void answer_by(struct capture *c, const struct plan *p)
{
	struct call call;
	struct answer a;
	struct error e;

	no_error(call_bind(&call, c, false, &e) && ref_run(&call, p, &a, &e), &e);
	for (int i = 0; i < MAX_OUT; i++) {
		for (size_t j = 0; a.lo[i] && j < call.out_count[i]; j++) a.hi[i][j] = stored_as(call.out[i]->dtype, a.hi[i][j], a.lo[i][j]);
		if (call.out_count[i]) dtype_store(call.out[i]->dtype, a.hi[i], call.out_count[i], call.out[i]->data);
	}
	answer_free(&a);
}

/* The case with outputs of NaN. */
static inline void make_case(struct capture *c, const char *op, const char *name)
{
	const struct test_case *k = case_find(op, name);
	struct error e;

	assert_non_null(k);
	no_error(case_make(c, k, 1, true, &e), &e);
}

static inline const struct contract *contract_of(const char *op, const char *name)
{
	int i = op_contract(op_find(op), name);

	assert_true(i >= 0);
	return &op_find(op)->contracts[i];
}

/* The case as a correct kernel answers it that computes in float32 and rounds, to nearest, just
 * where the contract lets it. */
static inline void model_case(struct capture *c, const char *op, const char *name, const char *contract)
{
	struct plan p = plan_plain(&arith_f32, 24);

	make_case(c, op, name);
	plan_contract(&p, contract_of(op, contract));
	answer_by(c, &p);
}

/* The expected error of a kernel that rounds where the contract lets it. */
static inline void expect_under(struct expected *x, const struct call *call, const char *contract, const struct answer *truth, int runs)
{
	struct plan model = plan_plain(&arith_noisy, arith_noisy.precision);
	struct error e;

	plan_contract(&model, contract_of(call->op->name, contract));
	model.random = true;
	no_error(expected_make(x, call, &model, truth, runs, &e), &e);
}

static inline void *element_at(struct tensor *t, size_t i) { return (char *)t->data + i * dtype_info[t->dtype].size; }

static inline double get(struct tensor *t, size_t i)
{
	double x;

	dtype_load(t->dtype, element_at(t, i), 1, &x);
	return x;
}

static inline void set(struct tensor *t, size_t i, double x) { dtype_store(t->dtype, &x, 1, element_at(t, i)); }

/* The next number of t's type away from zero. */
static inline void step_up(struct tensor *t, size_t i)
{
	uint64_t bits = 0;

	memcpy(&bits, element_at(t, i), dtype_info[t->dtype].size);
	bits++;
	memcpy(element_at(t, i), &bits, dtype_info[t->dtype].size);
}

#endif
