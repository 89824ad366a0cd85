#include <string.h>

#include "yardstick.h"

/* Element operations, counted by the reference: MPFR does some 25 million a second and core, dd 4,000 million, noisy runs 600 million. */
static const uint64_t mpfr_work = UINT64_C(1) << 29, dd_work = UINT64_C(1) << 36, noisy_work = UINT64_C(1) << 31, few_work = UINT64_C(1) << 26;
enum { MIN_RUNS = 16, MAX_RUNS = 64 };

/* Truths from the quickest to the most exact. The one below is each one's second opinion. */
static const char *const ladder[] = { "f64up", "f64", "dd", "mpfr:256", "mpfr:512" };
enum { LADDER = sizeof ladder / sizeof *ladder, LADDER_F64 = 1, LADDER_DD = 2 };

/* The stream's plan, which may be that already; false: no such arithmetic. */
static bool take(struct stream *l, const char *spec, struct error *e)
{
	struct plan p = l->plan;

	if (!arith_by_name(spec, &p.arith, &p.bits)) return error_set(e, E_USAGE, spec, NO_OFFSET, "expected f64, dd or mpfr:BITS");
	if (l->plan.arith == p.arith && l->plan.bits == p.bits) return true;
	stream_end(l);
	l->plan = p;
	return true;
}

/* The truth in one arithmetic, its second opinion in the other. */
static bool take_both(struct truth *t, const char *name, const char *other, struct error *e)
{
	snprintf(t->name, sizeof t->name, "%s", name);
	snprintf(t->other, sizeof t->other, "%s", other);
	return take(&t->first_stream, name, e) && take(&t->second_stream, other, e);
}

/* A named truth of P bits has its second opinion at half of them, but f64's is f64up's, and dd's f64's. */
static bool named_truth(struct truth *t, const char *name, struct error *e)
{
	const struct arith *a;
	char other[sizeof t->other];
	int bits;

	if (!arith_by_name(name, &a, &bits) || (a != &arith_f64 && a != &arith_dd && a != &arith_mpfr))
		return error_set(e, E_USAGE, name, NO_OFFSET, "expected f64, dd or mpfr:BITS for the truth");
	if (a == &arith_f64) snprintf(other, sizeof other, "f64up");
	else if (bits < 192) snprintf(other, sizeof other, "f64");
	else snprintf(other, sizeof other, "mpfr:%d", bits / 2);
	t->rung = LADDER - 1;
	return take_both(t, name, other, e);
}

/* *a, which only this stream fills, may have the strip already. */
static bool run_strip(struct yardstick *y, const struct call *call, struct stream *l, size_t s, struct answer *a, const char *name, struct error *e)
{
	if (l->next == s + 1) return true;
	if (y->tick) y->tick(name, s, y->strips);
	return ref_strip(call, l, s, y->strips, a, e);
}

/* The element operations of a run, which are the same in every arithmetic. */
static bool count_work(struct yardstick *y, const struct call *call, struct error *e)
{
	struct truth *t = &y->truth;

	if (!take(&t->second_stream, ladder[LADDER_F64], e)) return false;
	for (size_t s = 0; s < y->strips; s++)
		if (!run_strip(y, call, &t->second_stream, s, &t->second, ladder[LADDER_F64], e)) return false;
	t->work = t->second.work;
	return true;
}

/* Room for the largest strip. */
static bool make_room(struct yardstick *y, const struct call *call, struct error *e)
{
	y->strips = check_strips(call);
	call_room(call, 0, y->strips, y->strips, y->room);
	return (answer_make(&y->truth.first, y->room, true) && answer_make(&y->truth.second, y->room, true))
		|| error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "the truth of %zu elements", call->out_count[0]);
}

bool yardstick_make(struct yardstick *y, const struct call *call, const struct yardstick_of *of,
	void (*tick)(const char *, size_t, size_t), struct error *e)
{
	struct truth *t = &y->truth;
	const char *truth = of->truth;

	*y = (struct yardstick){ .truth.rung = LADDER_F64, .tick = tick, .at = SIZE_MAX };
	if (of->model) {
		y->model = (struct plan){ .form = of->model->form, .chunk = of->model->chunk, .faults = of->model->faults };
		memcpy(y->model.value, of->model->value, sizeof y->model.value);
	}
	t->first_stream.plan = t->second_stream.plan = y->model;
	if (!make_room(y, call, e) || !count_work(y, call, e)) return false;
	while (call->op->contracts[y->contracts].name) y->contracts++;
	if (!(y->expected = calloc(y->contracts, sizeof *y->expected))) {
		y->contracts = 0;
		return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "what is expected under each contract");
	}
	if (!truth) t->rung = t->work <= dd_work ? LADDER_DD : LADDER_F64;
	if (truth ? !named_truth(t, truth, e) : !take_both(t, ladder[t->rung], ladder[t->rung - 1], e)) return false;
	return strcmp(t->name, "dd") || sample_begin(&t->sample, call, t->work, y->room, y->strips, e);
}

static void forget(struct yardstick *y)
{
	for (size_t i = 0; i < y->contracts; i++) expected_free(&y->expected[i][false]), expected_free(&y->expected[i][true]);
}

void yardstick_read(struct yardstick *y, double *const *read)
{
	forget(y);
	y->read = read;
}

void yardstick_free(struct yardstick *y)
{
	answer_free(&y->truth.first);
	answer_free(&y->truth.second);
	stream_end(&y->truth.first_stream);
	stream_end(&y->truth.second_stream);
	sample_free(&y->truth.sample);
	forget(y);
	free(y->expected);
	y->expected = NULL;
	y->contracts = 0;
}

/* What was the truth is the second opinion. */
static void step_down(struct truth *t)
{
	struct answer second = t->second;
	struct stream stream = t->second_stream;

	t->second = t->first, t->second_stream = t->first_stream;
	t->first = second, t->first_stream = stream;
}

bool yardstick_climb(struct yardstick *y, bool *climbed, struct error *e)
{
	struct truth *t = &y->truth;
	char other[sizeof t->other];

	*climbed = t->rung >= LADDER_DD && t->rung + 1 < LADDER && t->work <= mpfr_work;
	if (!*climbed) return true;
	forget(y);
	sample_free(&t->sample);
	t->sample.stride = 0;
	y->at = SIZE_MAX;
	step_down(t);
	snprintf(other, sizeof other, "%s", t->name);
	return take_both(t, ladder[++t->rung], other, e);
}

bool yardstick_refresh(struct yardstick *y, const struct call *call, size_t s, bool truth_alone, struct error *e)
{
	struct truth *t = &y->truth;

	if (s != y->at) {
		if (!run_strip(y, call, &t->first_stream, s, &t->first, t->name, e)) return false;
		y->at = s;
		y->whole = false;
	}
	if (y->whole || truth_alone) return true;
	if (y->tick && t->sample.stride) y->tick(sample_judge, s, y->strips);
	y->whole = run_strip(y, call, &t->second_stream, s, &t->second, t->other, e) && sample_refresh(&t->sample, call, s, y->strips, e);
	return y->whole;
}

int yardstick_runs(const struct yardstick *y, bool all)
{
	uint64_t work = y->truth.work, runs = work ? (all ? noisy_work : few_work) / work : MAX_RUNS;

	return runs < MIN_RUNS ? MIN_RUNS : runs > MAX_RUNS ? MAX_RUNS : (int)runs;
}

/* Its runs, where it is the call's first strip or the only one. */
static bool begin(struct yardstick *y, const struct call *call, const struct contract *k, struct expected *x, int runs, struct error *e)
{
	struct plan model = plan_plain(&arith_noisy, arith_noisy.precision);

	plan_contract(&model, k);
	model.random = true;
	model.region = k;
	model.faults = y->model.faults;
	memcpy(model.value, y->model.value, sizeof model.value);
	if (model.faults && y->model.form != model.form) model.form = y->model.form, model.chunk = y->model.chunk, model.region = NULL;
	model.stage = k->name;
	model.tick = y->tick;
	expected_free(x);
	return expected_begin(x, call, &model, y->room, runs, y->read, e);
}

const struct expected *yardstick_under(struct yardstick *y, const struct call *call, const struct contract *k, bool all, struct error *e)
{
	struct expected *x = &y->expected[k - call->op->contracts][all];

	if (y->strips == 1 && x->runs) return x;
	if (y->at == 0 && !begin(y, call, k, x, yardstick_runs(y, all), e)) return NULL;
	if (!expected_add(x, call, y->at, y->strips, &y->truth.first, e)) {
		expected_free(x);
		return NULL;
	}
	if (y->at == y->strips - 1) expected_end(x);
	return x;
}

bool yardstick_widen(struct yardstick *y, const struct call *call, const struct contract *k, bool all, unsigned outputs, struct error *e)
{
	struct expected *x = &y->expected[k - call->op->contracts][all];

	if (y->tick) y->tick("noise where float32 is exact", y->at, y->strips);
	return expected_widen(x, call, y->at, y->strips, outputs, &y->truth.first, e);
}
