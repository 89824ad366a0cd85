#include <math.h>

#include "sample.h"

const char *const sample_judge = "mpfr:128";
/* Element operations, of which MPFR at 128 bits does some 30 million a second and core. */
static const uint64_t enough = UINT64_C(1) << 24, too_much = UINT64_C(1) << 27, terms = UINT64_C(1) << 22;

static bool run(struct answer *a, const struct call *call, const char *spec, size_t stride, struct error *e)
{
	struct plan p = { .stride = stride };

	return arith_by_name(spec, &p.arith, &p.bits) && ref_run(call, &p, a, e);
}

/* The first piece, in dd. */
static bool judge_operations(struct truth_sample *s, const struct call *call, uint64_t work, struct error *e)
{
	struct plan p = plan_plain(&arith_judged, arith_judged.precision);
	struct answer a;

	s->judged.stride = work / terms + 1;
	p.stride = call->op->pieces(call);
	p.judged = &s->judged;
	if (!ref_run(call, &p, &a, e)) return false;
	answer_free(&a);
	return true;
}

struct sample_figures sample_operations(const struct truth_sample *s, double truth_error)
{
	return (struct sample_figures){ 0, s->judged.apart, s->judged.apart * 0x1p53 * truth_error };
}

bool sample_make(struct truth_sample *s, const struct call *call, uint64_t work, struct error *e)
{
	uint64_t pieces = call->op->pieces(call), stride = (work + enough - 1) / enough;

	*s = (struct truth_sample){ 0 };
	if (work / pieces > too_much) return judge_operations(s, call, work / pieces, e);
	s->stride = stride < 1 ? 1 : stride > pieces ? pieces : stride;
	return run(&s->dd, call, "dd", s->stride, e) && run(&s->judge, call, sample_judge, s->stride, e);
}

void sample_free(struct truth_sample *s)
{
	answer_free(&s->dd);
	answer_free(&s->judge);
}

/* hi + lo; equal infinities, and NaN in both, are no distance apart. */
static double apart(double ah, double al, double bh, double bl)
{
	if (ah == bh && al == bl) return 0;
	if (isnan(ah) && isnan(bh)) return 0;
	double d = fabs((ah - bh) + (al - bl));
	return isnan(d) ? INFINITY : d;
}

struct sample_figures sample_compare(const struct truth_sample *s, const struct call *call, int i, const struct expected *x)
{
	const double *ah = s->dd.hi[i], *al = s->dd.lo[i], *bh = s->judge.hi[i], *bl = s->judge.lo[i];
	size_t n = s->stride ? call->out_count[i] : 0, row = out_row(call, i);
	struct sample_figures f = { 0 };

	for (size_t first = 0; first < n; first += row) {
		double scale = 0, most = 0;
		for (size_t j = first; j < first + row; j++) {
			double d = apart(ah[j], al[j], bh[j], bl[j]), sigma = x->sigma[i][j];
			bool same = stored_as(out_dtype(call, i), ah[j], al[j]) == stored_as(out_dtype(call, i), bh[j], bl[j]);
			f.count += ah[j] != 0 || bh[j] != 0;
			scale = fmax(scale, fabs(bh[j]));
			most = fmax(most, d);
			if (d > 0) f.sigma = fmax(f.sigma, sigma > 0 ? d / sigma : same ? 0 : (double)INFINITY);
		}
		if (most > 0) f.share = fmax(f.share, most / scale);
	}
	return f;
}
