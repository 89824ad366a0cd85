#include <math.h>
#include <omp.h>

#include "ref/ranks/ranks.h"
#include "sample.h"

const char *const sample_judge = "mpfr:128";
/* Element operations, of which MPFR at 128 bits does some 30 million a second and core. */
static const uint64_t enough = UINT64_C(1) << 20, too_much = UINT64_C(1) << 25, terms = UINT64_C(1) << 21;

/* The first piece, in dd. */
static bool judge_operations(struct truth_sample *s, const struct call *call, uint64_t work, const size_t room[MAX_OUT], size_t n,
	struct error *e)
{
	struct stream l = { .plan = plan_plain(&arith_judged, arith_judged.precision) };
	bool ok = answer_make(&s->dd, room, true) || error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "a piece in dd");

	s->judged.stride = work / terms + 1;
	l.plan.stride = call->op->pieces(call);
	l.plan.judged = &s->judged;
	for (size_t i = 0; ok && i < n; i++) ok = ref_strip(call, &l, i, n, &s->dd, e);
	stream_end(&l);
	answer_free(&s->dd);
	return ok;
}

struct sample_figures sample_operations(const struct truth_sample *s, double truth_error)
{
	return (struct sample_figures){ 0, s->judged.apart, s->judged.apart * 0x1p53 * truth_error };
}

bool sample_begin(struct truth_sample *s, const struct call *call, uint64_t work, const size_t room[MAX_OUT], size_t n, struct error *e)
{
	uint64_t pieces = call->op->pieces(call), stride = (work + enough - 1) / enough;
	struct plan *judge = &s->judge_stream.plan;

	*s = (struct truth_sample){ .dd_stream.plan = plan_plain(&arith_dd, arith_dd.precision) };
	if (work / pieces > too_much) return judge_operations(s, call, work / pieces, room, n, e);
	s->stride = stride < 1 ? 1 : stride > pieces ? pieces : stride;
	s->dd_stream.plan.stride = judge->stride = s->stride;
	if (!arith_by_name(sample_judge, &judge->arith, &judge->bits)) return false;
	return (answer_make(&s->dd, room, true) && answer_make(&s->judge, room, true))
		|| error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "a sample of the truth");
}

/* All of the call. No thread but this one takes part. */
static void *judge_aside(void *sample)
{
	struct truth_sample *s = sample;

	omp_set_num_threads(1);
	s->aside.ok = ref_strip(s->aside.call, &s->judge_stream, 0, 1, &s->judge, &s->aside.e);
	return NULL;
}

/* Would all threads but one wait for it? Pieces of an op with more than one have no stages (ref/grad/grad_run.c) that threads share out. */
static bool is_alone(const struct truth_sample *s, const struct call *call, size_t n)
{
	size_t pieces = call->op->pieces(call);

	return n == 1 && pieces > 1 && s->stride >= pieces && !call->op->holds && omp_get_max_threads() > 1 && !omp_in_parallel() && ranks_count() == 1;
}

bool sample_refresh(struct truth_sample *s, const struct call *call, size_t strip, size_t n, struct error *e)
{
	if (!s->stride) return true;
	s->aside.call = call;
	if (!sample_wait(s, e)) return false;
	s->aside.goes_on = is_alone(s, call, n) && pthread_create(&s->aside.thread, NULL, judge_aside, s) == 0;
	return ref_strip(call, &s->dd_stream, strip, n, &s->dd, e) && (s->aside.goes_on || ref_strip(call, &s->judge_stream, strip, n, &s->judge, e));
}

bool sample_wait(struct truth_sample *s, struct error *e)
{
	if (!s->aside.goes_on) return true;
	s->aside.goes_on = false;
	pthread_join(s->aside.thread, NULL);
	if (!s->aside.ok && e) *e = s->aside.e;
	return s->aside.ok;
}

void sample_free(struct truth_sample *s)
{
	sample_wait(s, NULL);
	answer_free(&s->dd);
	answer_free(&s->judge);
	stream_end(&s->dd_stream);
	stream_end(&s->judge_stream);
}

/* hi + lo; equal infinities, and NaN in both, are no distance apart. */
static double apart(double ah, double al, double bh, double bl)
{
	if (ah == bh && al == bl) return 0;
	if (isnan(ah) && isnan(bh)) return 0;
	double d = fabs((ah - bh) + (al - bl));
	return isnan(d) ? INFINITY : d;
}

void sample_add(struct sample_figures *f, const struct truth_sample *s, const struct call *call, int i, size_t count, const struct expected *x)
{
	const double *ah = s->dd.hi[i], *al = s->dd.lo[i], *bh = s->judge.hi[i], *bl = s->judge.lo[i];
	size_t n = s->stride ? count : 0, row = out_row(call, i);

	for (size_t first = 0; first < n; first += row) {
		double scale = 0, most = 0;
		for (size_t j = first; j < first + row; j++) {
			double d = apart(ah[j], al[j], bh[j], bl[j]), sigma = x->sigma[i][j];
			bool same = stored_as(out_dtype(call, i), ah[j], al[j]) == stored_as(out_dtype(call, i), bh[j], bl[j]);
			f->count += ah[j] != 0 || bh[j] != 0;
			scale = fmax(scale, fabs(bh[j]));
			most = fmax(most, d);
			if (d > 0) f->sigma = fmax(f->sigma, sigma > 0 ? d / sigma : same ? 0 : (double)INFINITY);
		}
		if (most > 0) f->share = fmax(f->share, most / scale);
	}
}
