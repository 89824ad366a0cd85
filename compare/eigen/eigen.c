/* A trace against the exact recurrence. */
#include "eigen.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "eigen_private.h"

const char *const matrix_name[MATRICES] = { "R", "Q", "X", "Y" };

/* M [s,s] = U' A (A [s,s]) U, or U' A V' with A [s,l] and V's rows. */
static void in_basis(struct eigen_basis *b, const double *A, bool wide)
{
	int s = (int)b->s, l = (int)(wide ? b->l : b->s);

	cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, s, l, s, 1, b->x0.u.hi, s, A, l, 0, b->product, l);
	cblas_dgemm(CblasRowMajor, CblasNoTrans, wide ? CblasTrans : CblasNoTrans, s, s, l, 1, b->product, l, wide ? b->v : b->x0.u.hi,
		wide ? l : s, 0, b->M, s);
}

/* |M - diag M| / |M| */
static double drift(const struct eigen_basis *b)
{
	double off = 0, all = 0;

	for (size_t i = 0; i < b->s * b->s; i++) {
		all += b->M[i] * b->M[i];
		if (i % (b->s + 1)) off += b->M[i] * b->M[i];
	}
	return all > 0 ? sqrt(off / all) : 0;
}

/* ---- one matrix after one iteration ---- */
static dd exact_of(const struct eigen_basis *b, enum matrix m, size_t t, size_t i)
{
	const struct step *step = &b->exact[i * (b->K + 1) + t];

	return m == M_R ? step->r : m == M_Q ? step->q : step->x;
}

struct ranked { dd value; size_t index; };

static int by_value(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return dd_less(x->value, y->value) ? -1 : dd_less(y->value, x->value);
}

/* Rows of matrix m after iteration t; value [s] ascending, NULL where it is not finite. */
static void add_rows(struct eigen *g, struct eigen_basis *b, enum matrix m, size_t t, const dd *value)
{
	struct ranked *rank = b->rank;

	for (size_t i = 0; i < b->s; i++) rank[i] = (struct ranked){ exact_of(b, m, t, i), i };
	qsort(rank, b->s, sizeof *rank, by_value);
	for (size_t k = 0; k < b->s; k++) {
		size_t i = rank[k].index;
		g->row[g->rows + i] = (struct eigen_row){ t, m, i, dd_double(b->x0.value[i]), dd_double(rank[k].value),
			value ? dd_double(value[k]) : NAN, value ? dd_double(dd_sub(value[k], rank[k].value)) : NAN,
			value ? b->M[i * b->s + i] : NAN };
	}
	g->rows += b->s;
}

/* Of R or Q; values ascending. */
static bool symmetric(struct eigen *g, struct eigen_basis *b, enum matrix m, size_t t, const double *A, struct error *e)
{
	struct eigen_step *step = &g->step[t];
	struct ddm S = { 0 };
	struct spectrum p = { 0 };
	double skew, least = INFINITY, most = 0, exact_least = INFINITY, exact_most = 0;
	bool finite = all_finite(A, b->s * b->s);

	for (size_t i = 0; i < b->s; i++) {
		double x = dd_double(exact_of(b, m, t, i));
		exact_least = fmin(exact_least, m == M_R ? x : fabs(x));
		exact_most = fmax(exact_most, fabs(x));
	}
	if (m == M_R) step->exact_least_r = exact_least;
	else step->exact_condition = exact_most / exact_least;
	step->finite &= finite;
	if (!finite) {
		add_rows(g, b, m, t, NULL);
		return true;
	}
	if (!symmetric_part(&S, &skew, A, b->s)) return error_set(e, E_MEMORY, matrix_name[m], NO_OFFSET, "its symmetric part");
	double norm = ddm_norm(&S);
	bool ok = spectrum_of(&p, &S, matrix_name[m], e);
	ddm_free(&S);
	if (!ok) return false;
	in_basis(b, A, false);
	add_rows(g, b, m, t, p.value);
	for (size_t i = 0; i < b->s; i++) {
		least = fmin(least, fabs(p.value[i].hi));
		most = fmax(most, fabs(p.value[i].hi));
	}
	step->drift[m] = drift(b);
	if (m == M_R) {
		step->least_r = dd_double(p.value[0]);
		step->skew = norm > 0 ? skew / norm : 0;
	} else step->condition = most / least;
	spectrum_free(&p);
	return true;
}

/* Of X after iteration t, or of the answer; *error the largest of a singular value, *orthogonality |XX' - I|_2. */
static bool wide(struct eigen *g, struct eigen_basis *b, enum matrix m, size_t t, const double *X, double *error,
	double *orthogonality, double *drifted, struct error *e)
{
	struct singular v;
	dd *ascending = b->ascending;

	*error = *orthogonality = *drifted = NAN;
	if (!all_finite(X, b->s * b->l)) {
		add_rows(g, b, m, t, NULL);
		return true;
	}
	if (!singular_of(&v, X, b->s, b->l, matrix_name[m], e)) return false;
	for (size_t i = 0; i < b->s; i++) ascending[i] = v.value[b->s - 1 - i];
	in_basis(b, X, true);
	size_t first = g->rows;
	add_rows(g, b, m, t, ascending);
	*error = *orthogonality = 0;
	*drifted = drift(b);
	for (size_t i = 0; i < b->s; i++) {
		*error = fmax(*error, fabs(g->row[first + i].error));
		*orthogonality = fmax(*orthogonality, fabs(dd_sub(dd_mul(v.value[i], v.value[i]), dd_of(1)).hi));
	}
	singular_free(&v);
	return true;
}

/* ---- what the recurrence says ---- */
static bool basis_make(struct eigen_basis *b, const struct trace *t, struct error *e)
{
	size_t s = t->s, l = t->l, K = t->how.polynomials.n;
	struct ddm X0 = { 0 }, P = { 0 };

	*b = (struct eigen_basis){ .s = s, .l = l, .K = K };
	if (!singular_of(&b->x0, t->X, s, l, "X_0", e)) return false;
	b->v = calloc(s * l, sizeof(double));
	b->product = calloc(s * l, sizeof(double));
	b->M = calloc(s * s, sizeof(double));
	b->answer = calloc(s * l, sizeof(double));
	b->ascending = calloc(s, sizeof(dd));
	b->rank = calloc(s, sizeof(struct ranked));
	b->exact = calloc(s * (K + 1), sizeof(struct step));
	bool ok = b->v && b->product && b->M && b->answer && b->ascending && b->rank && b->exact
		&& ddm_make(&X0, s, l) && ddm_make(&P, s, l);
	if (ok) {
		memcpy(X0.hi, t->X, s * l * sizeof(double));
		ddm_product(&P, true, &b->x0.u, &X0, false);
	}
	for (size_t i = 0; ok && i < s; i++) {          /* v_i = X'u_i / σ_i; 0 where σ_i is not told from 0 */
		dd sigma = b->x0.value[i];
		for (size_t j = 0; sigma.hi > 1e3 * b->x0.bound[i] && j < l; j++) b->v[i * l + j] = dd_div(ddm_at(&P, i, j), sigma).hi;
		recurrence(b->exact + i * (K + 1), &t->how.polynomials, t->how.restarts, sigma, 0);
	}
	ddm_free(&X0);
	ddm_free(&P);
	if (!ok) basis_free(b);
	return ok || error_set(e, E_MEMORY, "X_0", NO_OFFSET, "its singular vectors");
}

void basis_free(struct eigen_basis *b)
{
	singular_free(&b->x0);
	free(b->v);
	free(b->product);
	free(b->M);
	free(b->answer);
	free(b->ascending);
	free(b->rank);
	free(b->exact);
	*b = (struct eigen_basis){ 0 };
}

/* Of the s singular values added last; NaN where they are. */
static double departure(const struct eigen *g)
{
	double most = 0;

	for (const struct eigen_row *r = g->row + g->rows - g->s; r < g->row + g->rows; r++) {
		double d = fabs(r->error) / fmax(1, r->exact);
		if (!(d <= most)) most = d;
	}
	return most;
}

static bool one_step(struct eigen *g, struct eigen_basis *b, const struct trace *t, size_t at, struct error *e)
{
	struct eigen_step *step = &g->step[at];

	*step = (struct eigen_step){ NAN, NAN, NAN, NAN, NAN, NAN, NAN, { NAN, NAN, NAN }, NAN, true };
	if (t->R && !(symmetric(g, b, M_R, at, t->R + at * b->s * b->s, e) && symmetric(g, b, M_Q, at, t->Q + at * b->s * b->s, e)))
		return false;
	trace_answer(b->answer, t, at);
	if (!wide(g, b, M_X, at, b->answer, &step->error, &step->orthogonality, &step->drift[M_X], e)) return false;
	step->finite &= isfinite(step->error) != 0;
	step->departure = departure(g);
	return true;
}

/* An answer may be off by so many times `leave` along the vectors below. A correct bf16 kernel on a
 * matrix of condition 1000 is off by 0.08, the negative of an answer by 2. */
enum { TURNED = 3 };

/* How far y is off along the singular vectors of X_0, relative as departure is. Those of singular
 * values below a tenth of the largest are left out, as any rounding turns them. */
static double off_along(struct eigen_basis *b, const double *y)
{
	double most = 0;

	in_basis(b, y, true);
	for (size_t i = 0; i < b->s; i++) {
		double exact = dd_double(exact_of(b, M_X, b->K, i));
		double off = fabs(b->M[i * (b->s + 1)] - exact) / fmax(1, exact);
		if (10 * dd_double(b->x0.value[i]) >= dd_double(b->x0.value[0]) && !(off <= most))
			most = off;
	}
	return most;
}

/* Is the recorded answer what the iteration gives, where that follows the exact curve? */
static void judge_answer(
	struct eigen *g, struct eigen_basis *b, const struct trace *t, const double *y)
{
	g->y_along = off_along(b, y);
	g->answer_left = !(g->y_departure <= g->leave);
	trace_answer(b->answer, t, b->K);
	bool turned = !(g->y_along <= TURNED * g->leave) && off_along(b, b->answer) <= g->leave;
	g->answer_wrong = g->cause == FOLLOWS && (g->answer_left || turned);
}

bool eigen_make(struct eigen *g, const struct trace *t, const double *y, double leave,
	void (*tick)(const char *stage, size_t done, size_t total), struct error *e)
{
	size_t K = t->how.polynomials.n;
	struct eigen_basis b;

	*g = (struct eigen){ .s = t->s, .K = K, .leave = leave, .left = K + 1 };
	g->y_error = g->y_orthogonality = g->y_along = NAN;
	if (!basis_make(&b, t, e)) return false;
	g->row = calloc(t->s * (3 * (K + 1) + 1), sizeof *g->row);
	g->step = calloc(K + 1, sizeof *g->step);
	g->sigma_max = dd_double(b.x0.value[0]);
	g->sigma_min = dd_double(b.x0.value[t->s - 1]);
	bool ok = (g->row && g->step) || error_set(e, E_MEMORY, "X", NO_OFFSET, "a table of eigenvalues");
	for (size_t at = 0; ok && at <= K; at++) {
		if (tick) tick("eigenvalues", at, K + 1);
		ok = one_step(g, &b, t, at, e);
	}
	const double *answer = y ? y : t->y;
	double drifted;
	if (ok && answer) ok = wide(g, &b, M_Y, K, answer, &g->y_error, &g->y_orthogonality, &drifted, e);
	g->y_departure = ok && answer ? departure(g) : NAN;
	g->has_y = answer != NULL;
	g->y_recorded = y != NULL;
	g->y_is_finite = isfinite(g->y_error) != 0;
	ok = ok && cause_find(g, &b, t, e);
	if (ok && y) judge_answer(g, &b, t, y);
	if (tick) tick("eigenvalues", 1, 1);
	basis_free(&b);
	if (!ok) eigen_free(g);
	return ok;
}

void eigen_free(struct eigen *g)
{
	free(g->row);
	free(g->step);
	*g = (struct eigen){ 0 };
}
