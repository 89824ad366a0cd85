#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/bits.h"
#include "ref/approx/approx.h"
#include "ref/arith/calc_private.h"
#include "op.h"

/* ---- the call ---- */
struct program *c_program(const calc *c) { return c->program; }

int64_t c_int(const calc *c, int in, size_t index)
{
	const struct tensor *t = c->call->in[in];
	double x;

	dtype_load(t->dtype, (const char *)t->data + index * dtype_info[t->dtype].size, 1, &x);
	return (int64_t)x;
}

/* ---- in and out ---- */
void calc_free(calc *c)
{
	for (struct block *b = c->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	free(c->buffer);
}

double *calc_buffer(calc *c, size_t n)
{
	if (n > c->buffer_n) {
		double *b = realloc(c->buffer, 2 * n * sizeof(double));
		if (!b) longjmp(c->no_memory, 1);
		c->buffer = b;
		c->buffer_n = n;
	}
	return c->buffer;
}

static void load(calc *c, vec y, const struct tensor *t, size_t first, size_t step)
{
	size_t size = dtype_info[t->dtype].size;
	const char *at = (const char *)t->data + first * size;
	double *b = c->arith->plain ? y.at : calc_buffer(c, y.n);

	dtype_load_every(t->dtype, at, step, y.n, b);
	c->arith->load(c, y.at, b, y.n);
}

void c_load(calc *c, vec y, int in, size_t first, size_t step) { load(c, y, c->call->in[in], first, step); }
void c_load_trace(calc *c, vec y, int out, size_t first, size_t step) { load(c, y, c->call->out[out], first, step); }

size_t c_store(calc *c, int out, size_t first, size_t step, vec x)
{
	double *hi = c->answer->hi[out], *lo = c->answer->lo[out];
	size_t from = first - c->strip->first[out], count = c->strip->count[out], n = 0, begin = 0;

	if (!hi) return 0;
	if (step == 1 && from < count && x.n <= count - from) {
		c->arith->read(c, hi + from, lo ? lo + from : NULL, x.at, x.n);
		c_wrote(c, out, from, 1, x.n);
		return x.n;
	}
	double *b = calc_buffer(c, x.n);
	c->arith->read(c, b, lo ? b + x.n : NULL, x.at, x.n);
	for (size_t i = 0; i < x.n; i++) {
		size_t at = from + i * step;
		if (at >= count) continue;
		hi[at] = b[i];
		if (lo) lo[at] = b[x.n + i];
		if (!n++) begin = at;
	}
	c_wrote(c, out, begin, step, n);
	return n;
}

bool c_indices(calc *c, bool on)
{
	const bool before = c->indices;

	c->indices = on;
	return before;
}

bool c_goes_first(const calc *c, size_t k, size_t before)
{
	const uint64_t ties = c->plan->ties, from = random_mix(random_mix(ties) + c->piece);

	return ties == LAST_OF_TIES ? k > before : ties && random_mix(from ^ (k + 1) << 20) < random_mix(from ^ (before + 1) << 20);
}

void c_stream(calc *c, size_t i) { c->noise = random_at(random_at(c->plan->seed) + i); }

static void round_all(calc *c, const struct site_rounding *r, vec x)
{
	double *b = calc_buffer(c, x.n), *lo = b + x.n;
	bool random = c->plan->random && r->rounding == ROUND_NEAREST_EVEN;

	c->arith->read(c, b, lo, x.at, x.n);
	for (size_t i = 0; i < x.n && c->arith->wide; i++) b[i] = round_to_odd(b[i], lo[i]);
	if (!random) format_round_all(r->format, r->rounding, b, x.n);
	else format_round_random(r->format, b, x.n, c->noise), c->noise += x.n;
	c->arith->load(c, x.at, b, x.n);
}

/* What the plan asks there, or NULL (also where rounding to f64 would change nothing). */
static const struct site_rounding *rounding(const calc *c, int site)
{
	if (site < 0 || !c->plan->round[site].on) return NULL;
	const struct site_rounding *r = &c->plan->round[site];
	return r->format == FMT_F64 && !c->arith->wide ? NULL : r;
}

void c_site(calc *c, int site, vec x)
{
	const struct site_rounding *r = rounding(c, site);

	if (r) round_all(c, r, x);
}

void c_round(calc *c, enum format f, vec x)
{
	round_all(c, &(struct site_rounding){ true, f, ROUND_NEAREST_EVEN }, x);
}

/* ---- constants and decisions ---- */
void c_set(calc *c, vec y, double x)
{
	double *b = c->arith->plain ? y.at : calc_buffer(c, y.n);

	for (size_t i = 0; i < y.n; i++) b[i] = x;
	c->arith->load(c, y.at, b, y.n);
}

void c_ramp(calc *c, vec y, double first)
{
	double *b = c->arith->plain ? y.at : calc_buffer(c, y.n);

	for (size_t i = 0; i < y.n; i++) b[i] = first + (double)i;
	c->arith->load(c, y.at, b, y.n);
}

num c_number(calc *c, double x)
{
	num a = c_num(c);

	c_set(c, a, x);
	return a;
}

double c_value(calc *c, num x)
{
	double hi;

	c->arith->read(c, &hi, NULL, x.at, 1);
	return hi;
}

double *c_values(calc *c, vec x)
{
	double *b = calc_buffer(c, x.n);

	c->arith->read(c, b, NULL, x.at, x.n);
	return b;
}

void c_given(calc *c, vec y, const double *x) { c->arith->load(c, y.at, x, y.n); }
bool c_finite(calc *c, vec x) { return all_finite(c_values(c, x), x.n); }

/* ---- elementwise and sums ---- */
void c_binary(calc *c, enum binary op, vec y, vec a, vec b)
{
	c->work += y.n;
	c->arith->binary(c, op, y.at, a.at, b.at, b.n == 1 ? 0 : 1, y.n);
}

void c_add(calc *c, vec y, vec a, vec b) { c_binary(c, OP_ADD, y, a, b); }
void c_sub(calc *c, vec y, vec a, vec b) { c_binary(c, OP_SUB, y, a, b); }
void c_mul(calc *c, vec y, vec a, vec b) { c_binary(c, OP_MUL, y, a, b); }
void c_div(calc *c, vec y, vec a, vec b) { c_binary(c, OP_DIV, y, a, b); }
void c_max(calc *c, vec y, vec a, vec b) { c_binary(c, OP_MAX, y, a, b); }
void c_pow(calc *c, vec y, vec a, vec b) { c_binary(c, OP_POW, y, a, b); }

static void approximated(calc *c, vec y, enum fn f, vec x)
{
	double *b = c->arith->plain ? y.at : calc_buffer(c, y.n);

	c->arith->read(c, b, NULL, x.at, y.n);
	for (size_t i = 0; i < y.n; i++) b[i] = (double)approx((enum approx)(f - FN_APPROX(0)), (float)b[i], false);
	c->arith->load(c, y.at, b, y.n);
}

void c_map(calc *c, vec y, enum fn f, vec x)
{
	c->work += y.n;
	if (f > FN_COUNT) approximated(c, y, f, x);
	else c->arith->map(c, f, y.at, x.at, y.n);
}

void c_copy(calc *c, vec y, vec x) { c_map(c, y, FN_ID, x); }

void c_scan(calc *c, vec y, vec x)
{
	c->work += y.n;
	c->arith->scan(c, y.at, x.at, y.n);
}

void c_dot(calc *c, num y, vec a, vec b)
{
	c->work += a.n;
	c->arith->dot(c, y.at, a.at, b.at, a.n);
}

void c_axpy(calc *c, vec y, num a, vec x)
{
	c->work += y.n;
	c->arith->axpy(c, y.at, a.at, x.at, y.n);
}

void c_gemv_t(calc *c, vec y, mat A, vec x)
{
	c->work += A.rows * A.cols;
	c->arith->gemv_t(c, y.at, A.at, x.at, A.rows, A.cols);
}

void c_ger(calc *c, mat A, vec x, vec y)
{
	c->work += A.rows * A.cols;
	c->arith->ger(c, A.at, x.at, y.at, A.rows, A.cols);
}

void c_gemm(calc *c, mat C, enum trans t, mat A, mat B)
{
	size_t k = t == TN ? A.rows : A.cols;

	c->work += C.rows * C.cols * k;
	c->arith->gemm(c, C.at, A.at, t == TN, B.at, t == NT, C.rows, C.cols, k);
}

void c_gemm_add(calc *c, mat C, enum trans t, mat A, mat B)
{
	size_t mark = c_mark(c), k = t == TN ? A.rows : A.cols, n = C.rows * C.cols;

	c->work += n * (k + 1);
	if (c->arith->gemm_add) {
		c->arith->gemm_add(c, C.at, A.at, t == TN, B.at, t == NT, C.rows, C.cols, k);
		return;
	}
	mat X = c_mat(c, C.rows, C.cols);
	c->arith->gemm(c, X.at, A.at, t == TN, B.at, t == NT, C.rows, C.cols, k);
	c->arith->binary(c, OP_ADD, C.at, C.at, X.at, 1, n);
	c_release(c, mark);
}
