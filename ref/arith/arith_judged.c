/* dd, with MPFR beside it: of operations here and there one element is computed again in 256 bits, from the operands that dd
 * had. How far the two are apart, the plan keeps. */
#include <mpfr.h>
#include <stdlib.h>

#include "calc_private.h"
#include "ref/dd/dd_form.h"

enum { BITS = 256 };
#define RN MPFR_RNDN

/* One sum Σ a_i b_i, or one result, made before dd makes its own over the operands. */
struct again { bool on; mpfr_t y, a, b; double scale; };

static dd element(const calc *c, const void *x, size_t i)
{
	const double *hi = (const double *)x + i;

	return (dd){ *hi, *(const double *)calc_low(c, hi) };
}

static void set(mpfr_t y, dd x)
{
	mpfr_set_d(y, x.hi, RN);
	if (isfinite(x.hi)) mpfr_add_d(y, y, x.lo, RN);
}

/* Is one of n elements of `terms` terms each to be made again? Its index. */
static bool begin(calc *c, struct again *g, size_t n, size_t terms, size_t *i)
{
	g->on = n && c->judged && c->work >= c->judge_at;
	if (!g->on) return false;
	c->judge_at = c->work + 1 + random_at(~c->work) % (2 * terms * c->judged->stride);         /* not in step with a loop */
	*i = (size_t)(random_at(c->work) % n);
	mpfr_inits2(BITS, g->y, g->a, g->b, (mpfr_ptr)NULL);
	mpfr_set_zero(g->y, 1);
	g->scale = 0;
	return true;
}

static void add_term(struct again *g, dd a, dd b)
{
	set(g->a, a), set(g->b, b);
	mpfr_mul(g->a, g->a, g->b, RN);
	mpfr_add(g->y, g->y, g->a, RN);
	g->scale += fabs(a.hi * b.hi);
}

/* Against dd's result, as a share of the scale; of numbers that doubles cannot hold to the last bit, their high part. */
static void end(calc *c, struct again *g, dd y)
{
	struct judged *j = c->judged;
	double exact, apart;

	if (!g->on) return;
	exact = mpfr_get_d(g->y, RN);
	if (!isfinite(y.hi) || !isfinite(exact)) apart = y.hi == exact || (isnan(y.hi) && isnan(exact)) ? 0 : INFINITY;
	else {
		mpfr_sub_d(g->y, g->y, y.hi, RN), mpfr_sub_d(g->y, g->y, y.lo, RN);
		apart = fabs(mpfr_get_d(g->y, RN));
		apart = g->scale > 0x1p-900 ? apart / g->scale : apart <= 0x1p-900 ? 0 : INFINITY;
	}
	mpfr_clears(g->y, g->a, g->b, (mpfr_ptr)NULL);
	#pragma omp critical (judged)
	{
		j->elements++;
		if (!(apart <= j->apart)) j->apart = isnan(apart) ? INFINITY : apart;
	}
}

/* By MPFR's own table of operations, on one element. */
static void by_mpfr(struct again *g, int fn, int op, dd a, dd b)
{
	calc m = { .arith = &arith_mpfr, .bits = BITS };
	_Alignas(16) char y[256], p[256], q[256];
	double hi;

	m.element = arith_mpfr.size(&m);
	arith_mpfr.init(&m, y, 1), arith_mpfr.init(&m, p, 1), arith_mpfr.init(&m, q, 1);
	set(g->a, a), mpfr_set((mpfr_ptr)p, g->a, RN);
	set(g->b, b), mpfr_set((mpfr_ptr)q, g->b, RN);
	if (fn >= 0) arith_mpfr.map(&m, (enum fn)fn, y, p, 1);
	else arith_mpfr.binary(&m, (enum binary)op, y, p, q, 0, 1);
	mpfr_set(g->y, (mpfr_ptr)y, RN);
	hi = fabs(mpfr_get_d(g->y, RN));
	g->scale = op == OP_POW ? hi * (1 + fabs(b.hi)) : hi;
}

static void binary(calc *c, enum binary op, void *y, const void *a, const void *b, size_t b_step, size_t n)
{
	struct again g;
	size_t i;

	if (begin(c, &g, n, 1, &i)) by_mpfr(&g, -1, (int)op, element(c, a, i), element(c, b, i * b_step));
	arith_dd.binary(c, op, y, a, b, b_step, n);
	if (g.on) end(c, &g, element(c, y, i));
}

static void map(calc *c, enum fn f, void *y, const void *x, size_t n)
{
	struct again g;
	size_t i;

	if (begin(c, &g, n, 1, &i)) by_mpfr(&g, (int)f, -1, element(c, x, i), dd_of(0));
	arith_dd.map(c, f, y, x, n);
	if (g.on) end(c, &g, element(c, y, i));
}

static void axpy(calc *c, void *y, const void *a, const void *x, size_t n)
{
	struct again g;
	size_t i;

	if (begin(c, &g, n, 2, &i)) add_term(&g, element(c, y, i), dd_of(1)), add_term(&g, element(c, a, 0), element(c, x, i));
	arith_dd.axpy(c, y, a, x, n);
	if (g.on) end(c, &g, element(c, y, i));
}

static void scan(calc *c, void *y, const void *x, size_t n)
{
	struct again g;
	size_t i;

	if (begin(c, &g, n, n, &i))
		for (size_t k = 0; k <= i; k++) add_term(&g, element(c, x, k), dd_of(1));
	arith_dd.scan(c, y, x, n);
	if (g.on) end(c, &g, element(c, y, i));
}

/* Σ over k of a[k a_step] b[k b_step] */
static void sum(calc *c, struct again *g, const void *a, size_t a_at, size_t a_step, const void *b, size_t b_at, size_t b_step,
	size_t n)
{
	for (size_t k = 0; k < n; k++) add_term(g, element(c, a, a_at + k * a_step), element(c, b, b_at + k * b_step));
}

static void dot(calc *c, void *y, const void *a, const void *b, size_t n)
{
	struct again g;
	size_t i;

	if (begin(c, &g, 1, n, &i)) sum(c, &g, a, 0, 1, b, 0, 1, n);
	arith_dd.dot(c, y, a, b, n);
	if (g.on) end(c, &g, element(c, y, 0));
}

static void gemv_t(calc *c, void *y, const void *A, const void *x, size_t rows, size_t cols)
{
	struct again g;
	size_t i;

	if (begin(c, &g, cols, rows, &i)) sum(c, &g, A, i, cols, x, 0, 1, rows);
	arith_dd.gemv_t(c, y, A, x, rows, cols);
	if (g.on) end(c, &g, element(c, y, i));
}

static void ger(calc *c, void *A, const void *x, const void *y, size_t rows, size_t cols)
{
	struct again g;
	size_t i;

	if (begin(c, &g, rows * cols, 2, &i))
		add_term(&g, element(c, A, i), dd_of(1)), add_term(&g, element(c, x, i / cols), element(c, y, i % cols));
	arith_dd.ger(c, A, x, y, rows, cols);
	if (g.on) end(c, &g, element(c, A, i));
}

static void gemm(calc *c, void *C, const void *A, bool ta, const void *B, bool tb, size_t m, size_t n, size_t k)
{
	struct again g;
	size_t i;

	if (begin(c, &g, m * n, k, &i))
		sum(c, &g, A, ta ? i / n : i / n * k, ta ? m : 1, B, tb ? i % n * k : i % n, tb ? 1 : n, k);
	arith_dd.gemm(c, C, A, ta, B, tb, m, n, k);
	if (g.on) end(c, &g, element(c, C, i));
}

static size_t size(const calc *c) { return arith_dd.size(c); }
static void init(calc *c, void *y, size_t n) { arith_dd.init(c, y, n); }
static void load(calc *c, void *y, const double *x, size_t n) { arith_dd.load(c, y, x, n); }
static void take(calc *c, double *hi, double *lo, const void *x, size_t n) { arith_dd.read(c, hi, lo, x, n); }
static void leave(calc *c) { (void)c; mpfr_free_cache2(MPFR_FREE_LOCAL_CACHE); }

const struct arith arith_judged = {
	.name = "dd_judged", .what = "dd, and MPFR on a sample of its operations", .precision = 106, .wide = true, .split = true,
	.size = size, .init = init, .load = load, .read = take, .binary = binary, .map = map, .axpy = axpy, .scan = scan,
	.dot = dot, .gemv_t = gemv_t, .ger = ger, .gemm = gemm, .leave = leave
};
