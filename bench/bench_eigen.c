/* A symmetric eigensolver in MPFR at 128 bits, as one writes it: Householder's reflections to a tridiagonal matrix, QL
 * with implicit shifts, and the vectors (Golub and Van Loan, sections 8.3.1 and 8.3.3). */
#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "ref/eigen/spectrum.h"

enum { BITS = 128 };
#define RN MPFR_RNDN
struct solver { int n; mpfr_t *A, *start, *Q, *d, *e, *v, *p, t[10]; };

static mpfr_t *numbers(size_t n)
{
	mpfr_t *x = malloc(n * sizeof *x);

	if (!x) exit(4);
	for (size_t i = 0; i < n; i++) mpfr_init2(x[i], BITS), mpfr_set_zero(x[i], 1);
	return x;
}

/* y += a b, y -= a b */
static void add(struct solver *s, mpfr_t y, mpfr_t a, mpfr_t b) { mpfr_mul(s->t[0], a, b, RN), mpfr_add(y, y, s->t[0], RN); }
static void less(struct solver *s, mpfr_t y, mpfr_t a, mpfr_t b) { mpfr_mul(s->t[0], a, b, RN), mpfr_sub(y, y, s->t[0], RN); }

/* Column k of A below the diagonal is reflected onto its first element. */
static void reflect(struct solver *s, int k)
{
	int n = s->n;
	mpfr_t *A = s->A, *v = s->v, *p = s->p, *t = s->t;

	mpfr_set_zero(t[1], 1);
	for (int i = k + 1; i < n; i++) mpfr_set(v[i], A[i * n + k], RN), add(s, t[1], v[i], v[i]);
	mpfr_sqrt(t[2], t[1], RN);
	if (mpfr_sgn(v[k + 1]) > 0) mpfr_neg(t[2], t[2], RN);
	mpfr_set(s->e[k], t[2], RN);
	less(s, t[1], v[k + 1], t[2]);                  /* v'v / 2 */
	mpfr_sub(v[k + 1], v[k + 1], t[2], RN);
	if (mpfr_zero_p(t[1])) return;
	mpfr_ui_div(t[3], 1, t[1], RN);                 /* beta */
	mpfr_set_zero(t[4], 1);
	for (int i = k + 1; i < n; i++) {
		mpfr_set_zero(p[i], 1);
		for (int j = k + 1; j < n; j++) add(s, p[i], A[(i > j ? i : j) * n + (i > j ? j : i)], v[j]);
		mpfr_mul(p[i], p[i], t[3], RN);
		add(s, t[4], p[i], v[i]);
	}
	mpfr_mul(t[4], t[4], t[3], RN), mpfr_div_2ui(t[4], t[4], 1, RN);
	for (int i = k + 1; i < n; i++) less(s, p[i], t[4], v[i]);
	for (int i = k + 1; i < n; i++)
		for (int j = k + 1; j <= i; j++) less(s, A[i * n + j], v[i], p[j]), less(s, A[i * n + j], p[i], v[j]);
	for (int i = 0; i < n; i++) {
		mpfr_set_zero(t[4], 1);
		for (int j = k + 1; j < n; j++) add(s, t[4], s->Q[i * n + j], v[j]);
		mpfr_mul(t[4], t[4], t[3], RN);
		for (int j = k + 1; j < n; j++) less(s, s->Q[i * n + j], t[4], v[j]);
	}
}

/* Columns i and i + 1 of Q turned by cosine t[5] and sine t[6]. */
static void turn(struct solver *s, int i)
{
	mpfr_t *t = s->t;

	for (int k = 0; k < s->n; k++) {
		mpfr_t *a = &s->Q[k * s->n + i], *b = a + 1;
		mpfr_mul(t[7], t[6], *a, RN), add(s, t[7], t[5], *b);
		mpfr_mul(t[8], t[5], *a, RN), less(s, t[8], t[6], *b);
		mpfr_set(*b, t[7], RN), mpfr_set(*a, t[8], RN);
	}
}

/* One QL sweep on l .. m. */
static void sweep(struct solver *s, int l, int m)
{
	mpfr_t *d = s->d, *e = s->e, *t = s->t, g, p, r, f, b;

	mpfr_inits2(BITS, g, p, r, f, b, (mpfr_ptr)NULL);
	mpfr_sub(g, d[l + 1], d[l], RN), mpfr_div(g, g, e[l], RN), mpfr_div_2ui(g, g, 1, RN);
	mpfr_sqr(r, g, RN), mpfr_add_ui(r, r, 1, RN), mpfr_sqrt(r, r, RN), mpfr_copysign(r, r, g, RN), mpfr_add(r, r, g, RN);
	mpfr_div(r, e[l], r, RN), mpfr_sub(g, d[m], d[l], RN), mpfr_add(g, g, r, RN);
	mpfr_set_ui(t[5], 1, RN), mpfr_set_ui(t[6], 1, RN), mpfr_set_zero(p, 1);
	for (int i = m - 1; i >= l; i--) {
		mpfr_mul(f, t[6], e[i], RN), mpfr_mul(b, t[5], e[i], RN);
		mpfr_hypot(e[i + 1], f, g, RN);
		mpfr_div(t[6], f, e[i + 1], RN), mpfr_div(t[5], g, e[i + 1], RN);
		mpfr_sub(g, d[i + 1], p, RN), mpfr_sub(r, d[i], g, RN), mpfr_mul(r, r, t[6], RN);
		mpfr_mul(p, t[5], b, RN), mpfr_mul_2ui(p, p, 1, RN), mpfr_add(r, r, p, RN);
		mpfr_mul(p, t[6], r, RN), mpfr_add(d[i + 1], g, p, RN);
		mpfr_mul(g, t[5], r, RN), mpfr_sub(g, g, b, RN);
		turn(s, i);
	}
	mpfr_sub(d[l], d[l], p, RN), mpfr_set(e[l], g, RN), mpfr_set_zero(e[m], 1);
	mpfr_clears(g, p, r, f, b, (mpfr_ptr)NULL);
}

static void solve(void *data)
{
	struct solver *s = data;
	int n = s->n;

	for (int i = 0; i < n * n; i++) mpfr_set(s->A[i], s->start[i], RN), mpfr_set_ui(s->Q[i], i % (n + 1) == 0, RN);
	for (int k = 0; k < n - 2; k++) reflect(s, k);
	for (int i = 0; i < n; i++) mpfr_set(s->d[i], s->A[i * n + i], RN);
	mpfr_set(s->e[n - 2], s->A[(n - 1) * n + n - 2], RN), mpfr_set_zero(s->e[n - 1], 1);
	for (int l = 0; l < n; l++)
		for (int m = n; m != l;) {
			for (m = l; m < n - 1; m++) {
				mpfr_abs(s->t[1], s->d[m], RN), mpfr_abs(s->t[2], s->d[m + 1], RN), mpfr_add(s->t[1], s->t[1], s->t[2], RN);
				mpfr_mul_2si(s->t[1], s->t[1], -BITS, RN);
				if (mpfr_cmpabs(s->e[m], s->t[1]) <= 0) break;
			}
			if (m != l) sweep(s, l, m);
		}
}

static int by_value(const void *a, const void *b) { return mpfr_cmp(*(const mpfr_t *)a, *(const mpfr_t *)b); }

struct own { struct ddm A; };
static void solve_dd(void *data)
{
	struct spectrum s;
	struct error e;

	if (!spectrum_of(&s, &((struct own *)data)->A, "bench", &e)) exit(4);
	spectrum_free(&s);
}

void bench_eigen(int n, const char *form, const char *goal, bool say)
{
	size_t m = (size_t)n, mm = m * m;
	struct solver s = { n, numbers(mm), numbers(mm), numbers(mm), numbers(m), numbers(m), numbers(m), numbers(m), {} };
	struct own own;
	struct spectrum values;
	struct error e;
	double worst = 0, largest = 0;

	for (int i = 0; i < 10; i++) mpfr_init2(s.t[i], BITS);
	if (!ddm_make(&own.A, (size_t)n, (size_t)n)) exit(4);
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			size_t k = (size_t)((i > j ? i : j) * n + (i > j ? j : i));
			double x = (double)((k * 0x9e3779b97f4a7c15u >> 40) & 0xffff) / 65536 - 0.5;
			mpfr_set_d(s.start[i * n + j], x, RN);
			ddm_put(&own.A, (size_t)i, (size_t)j, dd_of(x));
		}
	double own_time = bench_time(solve_dd, &own), peer = bench_time(solve, &s);
	if (!spectrum_of(&values, &own.A, "bench", &e)) exit(4);
	qsort(s.d, (size_t)n, sizeof *s.d, by_value);
	for (int i = 0; i < n; i++) {
		mpfr_sub_d(s.t[1], s.d[i], values.value[i].hi, RN), mpfr_sub_d(s.t[1], s.t[1], values.value[i].lo, RN);
		worst = fmax(worst, fabs(mpfr_get_d(s.t[1], RN)));
		largest = fmax(largest, fabs(values.value[i].hi));
	}
	char what[96];
	snprintf(what, sizeof what, "symmetric eigenvalues and vectors, n = %d, dd, %s", n, form);
	bench_ratio(what, own_time, "MPFR, 128 bits: Householder and QL", peer, goal);
	if (say) printf("\nThe eigenvalues are within 2^%.1f of MPFR's, relative to the largest; proven: 2^%.1f.\n", log2(worst / largest),
		log2(values.bound / largest));
	spectrum_free(&values);
	ddm_free(&own.A);
}
