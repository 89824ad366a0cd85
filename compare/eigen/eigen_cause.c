/* Where an iteration leaves the exact curve, and why. */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "eigen_private.h"

const char *const cause_name[] = { "follows", "negative eigenvalues of R", "sigma > 1", "drift" };

enum { POINTS = 2048 };

/* The largest r before iteration t, and the largest x after the last, that 0 <= x <= 1 leads to. */
static double reach(const struct schedule *p, size_t t, bool of_x)
{
	struct step step[MAX_ITERATIONS + 1];
	double most = 0;

	for (int i = 0; i <= 2 * POINTS; i++) {
		double x = i <= POINTS ? (double)i / POINTS : pow(10, -10. * (i - POINTS) / POINTS);
		recurrence(step, p, 0, dd_of(x), 0);
		most = fmax(most, of_x ? step[t].x.hi : step[t].r.hi);
	}
	return most;
}

/* v [s]: the largest left singular vector of X_t - U diag(x_t) V'. */
static bool direction(double *v, struct eigen_basis *b, const struct trace *t, size_t at, struct error *e)
{
	size_t s = b->s, l = b->l;
	struct singular d;

	trace_answer(b->answer, t, at);
	for (size_t i = 0; i < s; i++)
		for (size_t j = 0; j < l; j++) b->product[i * l + j] = dd_double(b->exact[i * (b->K + 1) + at].x) * b->v[i * l + j];
	cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)s, (int)l, (int)s, -1, b->x0.u.hi, (int)s, b->product, (int)l, 1,
		b->answer, (int)l);
	if (!singular_of(&d, b->answer, s, l, "X", e)) return false;
	for (size_t i = 0; i < s; i++) v[i] = d.u.hi[i * s];
	singular_free(&d);
	return true;
}

/* The R that iteration t works on: the trace's, or where it makes its own XX' from X (standard form, restart) that
 * in double, rounded to the iterate's type. */
static bool driving(struct ddm *R, const struct trace *t, size_t at)
{
	bool own = !t->R || t->how.restarts >> at & 1;
	size_t s = t->s, l = t->l;
	const double *X = t->X + (t->R ? at + 1 : at) * s * l;
	double *A = malloc(s * s * sizeof *A), skew;

	if (!A) return false;
	if (own) {
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)s, (int)s, (int)l, 1, X, (int)l, X, (int)l, 0, A, (int)s);
		for (size_t i = 0; i < s * s; i++) A[i] = format_round(t->how.iterate, ROUND_NEAREST_EVEN, A[i], 0);
	} else memcpy(A, t->R + at * s * s, s * s * sizeof *A);
	bool ok = symmetric_part(R, &skew, A, s);
	free(A);
	return ok;
}

/* How much of |v|^2 lies in R's eigenvectors below 0 and above `most`. */
struct shares { double below, above, least, largest; };

static bool shares(struct shares *h, const struct ddm *R, const double *v, double most, struct error *e)
{
	struct spectrum p;

	*h = (struct shares){ 0 };
	if (!all_finite(R->hi, R->rows * R->rows)) return true;
	if (!spectrum_of(&p, R, "R", e)) return false;
	h->least = p.value[0].hi;
	h->largest = p.value[p.n - 1].hi;
	for (size_t k = 0; k < p.n; k++) {
		double c = 0, x = p.value[k].hi;
		for (size_t i = 0; i < p.n; i++) c += p.vector.hi[i * p.n + k] * v[i];
		if (x < -p.bound) h->below += c * c;
		if (x > most) h->above += c * c;
	}
	spectrum_free(&p);
	return true;
}

static bool decide(struct eigen *g, const struct trace *t, const double *v, size_t at, struct error *e)
{
	size_t from = 0;

	for (size_t i = 1; i < at; i++)
		if (t->how.restarts >> i & 1) from = i;
	g->cause = DRIFT;
	g->cause_at = at - 1;
	g->cause_value = NAN;
	for (size_t i = from; i < at; i++) {
		struct ddm R;
		struct shares h;
		bool ok = driving(&R, t, i) || error_set(e, E_MEMORY, "R", NO_OFFSET, "its eigenvalues");
		ok = ok && shares(&h, &R, v, 1.01 * fmax(1, reach(&t->how.polynomials, i, false)), e);
		ddm_free(&R);
		if (!ok) return false;
		if (h.below > 0.5 || h.above > 0.5) {
			g->cause = h.below > 0.5 ? NEGATIVE : ABOVE_ONE;
			g->cause_at = i;
			g->cause_value = h.below > 0.5 ? h.least : h.largest;
			g->cause_share = h.below > 0.5 ? h.below : h.above;
			return true;
		}
	}
	return true;
}

bool cause_find(struct eigen *g, struct eigen_basis *b, const struct trace *t, struct error *e)
{
	size_t at = 0, s = b->s;
	double *v, most = 0;

	for (size_t i = 0; i < s; i++) most = fmax(most, b->exact[i * (b->K + 1) + b->K].x.hi);
	g->exact_diverges = g->sigma_max > 1 && !(most <= 1.01 * fmax(1, reach(&t->how.polynomials, b->K, true)));
	while (at <= g->K && g->step[at].finite && g->step[at].departure <= g->leave) at++;
	g->left = at;
	if (at > g->K || !s) return true;
	g->overflows = !g->step[at].finite;
	if (at && g->overflows) at--;            /* the last that can be looked at */
	if (!(v = calloc(s, sizeof *v))) return error_set(e, E_MEMORY, "X", NO_OFFSET, "a direction");
	bool ok = direction(v, b, t, at, e) && decide(g, t, v, g->left, e);
	free(v);
	return ok;
}
