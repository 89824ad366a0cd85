#include <string.h>

#include "yardstick.h"

/* Element operations, counted by the reference: MPFR does some 25 million a second and core, dd 4,000 million. */
static const uint64_t mpfr_work = UINT64_C(1) << 29, dd_work = UINT64_C(1) << 36, noisy_work = UINT64_C(1) << 31;
enum { MIN_RUNS = 16, MAX_RUNS = 64 };

/* Truths from the quickest to the most exact. The one below is each one's second opinion. */
static const char *const ladder[] = { "f64up", "f64", "dd", "mpfr:256", "mpfr:512" };
enum { LADDER = sizeof ladder / sizeof *ladder, LADDER_F64 = 1, LADDER_DD = 2 };

static bool run_plain(const struct yardstick *y, const struct call *call, const char *spec, struct answer *a, struct error *e)
{
	const struct arith *arith;
	int bits;

	if (!arith_by_name(spec, &arith, &bits)) return error_set(e, E_USAGE, spec, NO_OFFSET, "expected f64, dd or mpfr:BITS");
	if (y->tick) y->tick(spec, 0, 1);
	struct plan p = plan_plain(arith, bits);
	return ref_run(call, &p, a, e);
}

/* dd's judge, where dd is the truth. */
static bool sampled(struct yardstick *y, const struct call *call, struct error *e)
{
	struct truth *t = &y->truth;

	if (strcmp(t->name, "dd")) return true;
	if (y->tick) y->tick(sample_judge, 0, 1);
	return sample_make(&t->sample, call, t->first.work, e);
}

/* A named truth of P bits has its second opinion at half of them, but f64's is f64up's, and dd's f64's. */
static bool named_truth(struct yardstick *y, const struct call *call, const char *name, struct error *e)
{
	struct truth *t = &y->truth;
	const struct arith *a;
	int bits;

	if (!arith_by_name(name, &a, &bits) || (a != &arith_f64 && a != &arith_dd && a != &arith_mpfr))
		return error_set(e, E_USAGE, name, NO_OFFSET, "expected f64, dd or mpfr:BITS for the truth");
	snprintf(t->name, sizeof t->name, "%s", name);
	if (a == &arith_f64) snprintf(t->other, sizeof t->other, "f64up");
	else if (bits < 192) snprintf(t->other, sizeof t->other, "f64");
	else snprintf(t->other, sizeof t->other, "mpfr:%d", bits / 2);
	t->rung = LADDER - 1;
	return run_plain(y, call, t->name, &t->first, e) && run_plain(y, call, t->other, &t->second, e) && sampled(y, call, e);
}

bool yardstick_make(struct yardstick *y, const struct call *call, const char *truth,
	void (*tick)(const char *, size_t, size_t), struct error *e)
{
	struct truth *t = &y->truth;

	*y = (struct yardstick){ .truth.rung = LADDER_F64, .tick = tick };
	if (truth) return named_truth(y, call, truth, e);
	if (!run_plain(y, call, ladder[LADDER_F64], &t->second, e)) return false;
	if (t->second.work <= dd_work) {
		t->rung = LADDER_DD;
		if (!run_plain(y, call, ladder[LADDER_DD], &t->first, e)) return false;
	} else {
		t->first = t->second;
		t->second = (struct answer){ 0 };
		if (!run_plain(y, call, ladder[LADDER_F64 - 1], &t->second, e)) return false;
	}
	snprintf(t->name, sizeof t->name, "%s", ladder[t->rung]);
	snprintf(t->other, sizeof t->other, "%s", ladder[t->rung - 1]);
	return sampled(y, call, e);
}

static void forget(struct yardstick *y)
{
	for (int i = 0; i < MAX_CONTRACT; i++) expected_free(&y->expected[i]);
}

void yardstick_free(struct yardstick *y)
{
	answer_free(&y->truth.first);
	answer_free(&y->truth.second);
	sample_free(&y->truth.sample);
	forget(y);
}

bool yardstick_climb(struct yardstick *y, const struct call *call, bool *climbed, struct error *e)
{
	struct truth *t = &y->truth;

	*climbed = t->rung >= LADDER_DD && t->rung + 1 < LADDER && t->first.work <= mpfr_work;
	if (!*climbed) return true;
	forget(y);
	answer_free(&t->second);
	sample_free(&t->sample);
	t->sample.stride = 0;
	t->second = t->first;
	t->first = (struct answer){ 0 };
	snprintf(t->other, sizeof t->other, "%s", t->name);
	snprintf(t->name, sizeof t->name, "%s", ladder[++t->rung]);
	return run_plain(y, call, t->name, &t->first, e);
}

int yardstick_runs(const struct yardstick *y)
{
	uint64_t work = y->truth.first.work, runs = work ? noisy_work / work : MAX_RUNS;

	return runs < MIN_RUNS ? MIN_RUNS : runs > MAX_RUNS ? MAX_RUNS : (int)runs;
}

static struct { void (*tick)(const char *, size_t, size_t); const char *stage; } noisy_stage;
static void noisy_tick(size_t done, size_t total) { noisy_stage.tick(noisy_stage.stage, done, total); }

const struct expected *yardstick_under(struct yardstick *y, const struct call *call, const struct contract *k, struct error *e)
{
	struct expected *x = &y->expected[k - call->op->contracts];
	struct plan model = plan_plain(&arith_noisy, arith_noisy.precision);

	if (x->runs) return x;
	plan_contract(&model, k);
	model.random = true;
	if (y->tick) {
		noisy_stage.tick = y->tick;
		noisy_stage.stage = k->name;
		model.tick = noisy_tick;
	}
	return expected_make(x, call, &model, &y->truth.first, yardstick_runs(y), e) ? x : NULL;
}
