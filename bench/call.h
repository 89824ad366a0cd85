/* Calls of ops on made-up inputs, for the programs of `make bench`. */
#ifndef ETALON_BENCH_CALL_H
#define ETALON_BENCH_CALL_H

#include "bench/bench.h"
#include "fixtures/cases/cases.h"
#include "ref/call/op.h"

/* Sizes of the gated delta rule with T tokens. */
#define DELTA(t, hk, hv, d) { { "T", t }, { "N", 1 }, { "Hk", hk }, { "Hv", hv }, { "Dk", d }, { "Dv", d }, { 0 } }

struct bench_call { struct capture capture; struct call call; struct plan plan; };

/* The case with other sizes, and the plain reference in the named arithmetic. Borrows nothing;
 * k->capture is to be freed. */
static inline void bench_bind(struct bench_call *k, const char *op, const char *name,
	const struct case_dim *dims,
	const char *arith)
{
	struct test_case sized = *case_find(op, name);
	const struct arith *a;
	struct error e;
	int bits;

	sized.dims = dims;
	if (!arith_by_name(arith, &a, &bits) || !case_make(&k->capture, &sized, 1, false, &e)
		|| !call_bind(&k->call, &k->capture, false, &e)) bench_stop(op);
	k->plan = plan_plain(a, bits);
}

static inline void bench_run(void *data)
{
	struct bench_call *k = data;
	struct answer a;
	struct error e;

	if (!ref_run(&k->call, &k->plan, &a, &e)) bench_stop(k->call.op->name);
	answer_free(&a);
}

#endif
