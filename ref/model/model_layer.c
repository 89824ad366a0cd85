/* A layer: x <- x + mixer(norm(x)), then x <- x + mlp(norm(x)); the last one's output is normed. Every stage runs over all
 * tokens, in parallel over blocks of rows, columns or heads. */
#include <math.h>
#include <string.h>

#include "model_private.h"

enum { BLOCK = 64 };
/* Columns of a product's parts: narrower where rows are long, and more parts wanted than the columns would give. */
enum { COLUMNS = 256, NARROW = 128, LONG_ROWS = 2048, MANY_COLUMNS = 1 << 16 };

void layer_load(calc *c, mat A, field f, size_t row, size_t col)
{
	for (size_t i = 0; i < A.rows; i++) c_get(c, c_row(c, A, i), f, (row + i) * f.cols + col, 1);
}

void layer_save(calc *c, field f, size_t row, size_t col, mat A)
{
	for (size_t i = 0; i < A.rows; i++) c_put(c, f, (row + i) * f.cols + col, 1, c_row(c, A, i));
}

struct rows { size_t n; void (*block)(calc *, size_t, size_t, void *); void *with; };

static void rows_part(calc *c, size_t i, void *with)
{
	const struct rows *r = with;
	size_t first = i * BLOCK;

	r->block(c, first, r->n - first < BLOCK ? r->n - first : BLOCK, r->with);
}

void layer_rows(calc *c, size_t rows, void (*block)(calc *d, size_t first, size_t n, void *with), void *with)
{
	struct rows r = { rows, block, with };

	c_stage(c, (rows + BLOCK - 1) / BLOCK, rows_part, &r);
}

struct product { field x, y; int in, site; size_t first, columns; };

static void product_part(calc *c, size_t i, void *with)
{
	const struct product *p = with;
	size_t at = i * p->columns, n = p->y.cols - at < p->columns ? p->y.cols - at : p->columns;
	mat X = c_matrix(c, p->x), W = c_mat(c, n, p->x.cols), Y = c_mat(c, p->x.rows, n);

	c_load(c, flat(W), p->in, (p->first + at) * p->x.cols, 1);
	c_gemm(c, Y, NT, X, W);
	c_site(c, p->site, flat(Y));
	layer_save(c, p->y, 0, at, Y);
}

field layer_project(calc *c, field x, int in, size_t first, size_t rows, int site)
{
	size_t columns = x.cols < LONG_ROWS || rows >= MANY_COLUMNS ? COLUMNS : NARROW;
	struct product p = { x, c_field(c, x.rows, rows), in, site, first, columns };

	c_stage(c, (rows + columns - 1) / columns, product_part, &p);
	return p.y;
}

struct norm { field x, y; int in; const char *place; };

static void norm_block(calc *c, size_t first, size_t n, void *with)
{
	const struct norm *p = with;
	struct scope scope = c_scope_at(c, op_own("rmsnorm"), p->place);
	vec x = c_vec(c, p->x.cols), weight = c_vec(c, x.n), w = c_vec(c, x.n), none = { 0 };
	num m = c_num(c);
	size_t mark = c_mark(c);

	c_load(c, weight, p->in, 0, 1);
	c_enter(c, &scope);
	for (size_t i = first; i < first + n; i++) {
		c_get(c, x, p->x, i * x.n, 1);
		c_copy(c, w, weight);
		rms_begin(c, m, x, none);
		rms_divide(c, x, m, c_param(c, P_EPS));
		rms_end(c, x, w, 1, none);
		c_put(c, p->y, i * x.n, 1, x);
		c_release(c, mark);
	}
	c_leave(c);
}

field layer_norm(calc *c, field x, int in, const char *place)
{
	struct norm p = { x, c_field(c, x.rows, x.cols), in, place };

	layer_rows(c, x.rows, norm_block, &p);
	return p.y;
}

struct sum { field a, b, y; int site; };

static void sum_block(calc *c, size_t first, size_t n, void *with)
{
	const struct sum *p = with;
	vec a = c_vec(c, n * p->a.cols), b = c_vec(c, a.n);

	c_get(c, a, p->a, first * p->a.cols, 1);
	c_get(c, b, p->b, first * p->a.cols, 1);
	c_add(c, a, a, b);
	c_site(c, p->site, a);
	c_put(c, p->y, first * p->a.cols, 1, a);
}

field layer_add(calc *c, field a, field b, int site)
{
	struct sum p = { a, b, c_field(c, a.rows, a.cols), site };

	layer_rows(c, a.rows, sum_block, &p);
	return p.y;
}

/* What a public library's attention on a CPU takes for e^x where it computes in bf16: with t = x / ln 2 = n + f and a cubic p,
 * the float whose bits are 2^23 (t - p(f) + 127), rounded to a float themselves: up to 1e-4 off, in steps of 2^-17. */
static void exp_by_cubic(calc *c, vec x)
{
	for (size_t i = 0; i < x.n; i++) {
		float t = (float)c_value(c, c_part(c, x, i, 1)) * 1.44269502f, f = t - floorf(t), e = t;
		float p = fmaf(f, fmaf(f, fmaf(f, -0.079204240219773236f, -0.22433836478672356f), 0.30354260500649682f), 0.00010703434948458272f);
		int32_t bits = t > -126 ? (int32_t)lrintf(fmaf(0x1p23f, t - p, 127 * 0x1p23f)) : 0;
		if (!isnan(t)) memcpy(&e, &bits, sizeof e);
		c_set(c, c_part(c, x, i, 1), (double)e);
	}
}

void layer_weights(calc *c, vec x, num sum, bool by_cubic)
{
	vec ones = c_vec(c, x.n);
	num most = c_num(c);

	c_copy(c, most, c_part(c, x, 0, 1));
	for (size_t i = 1; i < x.n; i++) c_max(c, most, most, c_part(c, x, i, 1));
	c_sub(c, x, x, most);
	if (by_cubic) exp_by_cubic(c, x);
	else c_map(c, x, FN_EXP, x);
	c_set(c, ones, 1);
	c_dot(c, sum, x, ones);
}

void layer_softmax(calc *c, vec x, size_t n)
{
	num sum = c_num(c);

	layer_weights(c, c_part(c, x, 0, n), sum, false);
	c_div(c, c_part(c, x, 0, n), c_part(c, x, 0, n), sum);
	c_set(c, c_part(c, x, n, x.n - n), 0);
}

void layer_both_heads(calc *c, num m, vec other)
{
	num s = c_num(c), half = c_num(c);

	rms_mean_square(c, s, other, other.n);
	c_add(c, m, m, s);
	c_set(c, half, 0.5);
	c_mul(c, m, m, half);
}

/* The hidden state that the call starts from. */
static void start_block(calc *c, size_t first, size_t n, void *with)
{
	const field *x = with;
	vec hi = c_vec(c, n * x->cols), lo = c_vec(c, hi.n);

	c_load(c, hi, IN_X, first * x->cols, 1);
	if (c_has(c, IN_X_LOW)) {
		c_load(c, lo, IN_X_LOW, first * x->cols, 1);
		c_add(c, hi, hi, lo);
	}
	c_put(c, *x, first * x->cols, 1, hi);
}

static field start(calc *c)
{
	field x = c_field(c, c_dim(c, D_T), c_dim(c, D_E));

	layer_rows(c, x.rows, start_block, &x);
	return x;
}

static void store_block(calc *c, size_t first, size_t n, void *with)
{
	const field *y = with;
	vec x = c_vec(c, n * y->cols);

	c_get(c, x, *y, first * y->cols, 1);
	c_site(c, SITE_Y, x);
	c_store(c, OUT_Y, first * y->cols, 1, x);
}

static void layer(calc *c, field (*mixer)(calc *, field))
{
	field x = start(c), normed = layer_norm(c, x, IN_INPUT_NORM, "input_norm"), mixed = mixer(c, normed);
	field none = c_field(c, x.rows, x.cols);

	if (c_fault(c, RESIDUAL_FROM_NORM)) x = normed;
	x = layer_add(c, c_fault(c, RESIDUAL_MISSING) ? none : x, mixed, SITE_RESIDUAL);
	mixed = layer_mlp(c, layer_norm(c, x, IN_POST_NORM, "post_norm"));
	x = layer_add(c, c_fault(c, MLP_RESIDUAL_MISSING) ? none : x, mixed, SITE_HIDDEN);
	if (c_has(c, IN_FINAL_NORM)) x = layer_norm(c, x, IN_FINAL_NORM, "final_norm");
	layer_rows(c, x.rows, store_block, &x);
}

void linear_piece(calc *c, size_t piece) { (void)piece; layer(c, linear_mixer); }
void full_piece(calc *c, size_t piece) { (void)piece; layer(c, full_mixer); }

void head_piece(calc *c, size_t piece)
{
	field y = layer_project(c, start(c), IN_HEAD, 0, c_dim(c, D_V), 0);

	(void)piece;
	layer_rows(c, y.rows, store_block, &y);
}
