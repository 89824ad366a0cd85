/* One cell in one turn: operations on doubles, rounded to f32 behind each that rounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"
#include "ref/arith/arith.h"

/* The n elements of a block, or n times the number that it is, to be freed then; NULL: no memory. */
static double *spread(struct block b, size_t n)
{
	double *at = b.rows * b.cols == n ? b.at : malloc((n + 1) * sizeof *at);

	for (size_t i = 0; i < n && at && at != b.at; i++) at[i] = b.at[0];
	return at;
}

/* An operand, or what the product is added to, may be one number: zeros(t) zeros(t)' + 1. */
static void gemm(const struct cell *c, struct block y, const struct block *a)
{
	const bool onto = c->arg[2] >= 0;
	const size_t ka = c->p[0] ? a[0].rows : a[0].cols, kb = c->p[1] ? a[1].cols : a[1].rows, k = a[0].rows * a[0].cols == 1 ? kb : ka;
	double *of[] = { spread(a[0], y.rows * k), spread(a[1], k * y.cols), onto ? spread(a[2], y.rows * y.cols) : NULL };

	if (of[0] && of[1] && (of[2] || !onto)) multiply(&(struct product){ c->p[2], y.at, of[0], of[1], of[2], c->p[0], c->p[1], y.rows, k, y.cols });
	else y.at[0] = (double)NAN;
	for (int i = 0; i < 2 + onto; i++)
		if (of[i] != a[i].at) free(of[i]);
}

/* The lower triangle on both sides of the diagonal; tile: so many elements at a time, which are not transposed (0: each element). */
static void mirrored(struct block y, struct block a, size_t tile)
{
	size_t n = y.rows, by = tile ? tile : 1;

	memcpy(y.at, a.at, n * y.cols * sizeof *y.at);
	for (size_t i = 0; i < n; i++)
		for (size_t j = 0; j < y.cols; j++) {
			size_t r = i / by, q = j / by;
			if (q <= r || (tile && (q + 1) * by > y.cols)) continue;
			y.at[i * y.cols + j] = tile ? a.at[(q * by + i % by) * y.cols + r * by + j % by] : a.at[j * y.cols + i];
		}
}

/* The indices of the largest, the largest first, of equals the first. */
static void top(struct block y, struct block a)
{
	size_t n = y.rows * y.cols, all = a.rows * a.cols;

	for (size_t i = 0; i < n; i++) {
		size_t at = 0;
		double most = -INFINITY;
		for (size_t k = 0; k < all; k++) {
			bool taken = false;
			for (size_t j = 0; j < i; j++) taken = taken || y.at[j] == (double)k;
			if (a.at[k] > most && !taken) most = a.at[k], at = k;
		}
		y.at[i] = (double)at;
	}
}

/* One condition, or one for each row. */
static void choice(const struct program *p, const struct ex *x, struct block y, struct block a, struct block b, const struct turn *t)
{
	int var = x->ix->each ? p->chunk_var[x->ix->each - 1] : -1;
	double first = var < 0 ? 0 : t->now->var[var];
	bool yes = ix_value(x->ix, t->now) != 0;

	ix_settle(t->now, x->ix);
	for (size_t i = 0; i < y.rows; i++) {
		if (var >= 0) {
			t->now->var[var] = first + (double)i;
			yes = ix_again(t->now, x->ix) != 0;
		}
		struct block from = yes ? a : b;
		for (size_t j = 0; j < y.cols; j++) y.at[i * y.cols + j] = from.at[i * step_down(from) + j * step_along(from)];
	}
	if (var < 0) return;
	t->now->var[var] = first;
	ix_again(t->now, x->ix);
}

/* The first element of a part of n in lines of `wide`; NaN where it leaves them. */
static double begin(const struct ex *x, size_t wide, size_t n, const struct turn *t)
{
	double first = x->ix ? ix_value(x->ix, t->now) * (double)(x->in_rows ? n : 1) : (double)x->first;

	return first >= 0 && first == floor(first) && (!n || first + (double)((n - 1) * x->by) < (double)wide) ? first : (double)NAN;
}

static void part(const struct ex *x, struct block y, const struct block *a, const struct turn *t)
{
	bool back = x->kind == EX_REPLACED, flat = x->a->s.rank == COLUMN || x->in_rows;
	struct block whole = back ? y : a[0], some = back ? a[1] : y;
	size_t rows = flat ? 1 : whole.rows, wide = flat ? whole.rows * whole.cols : whole.cols, n = flat ? some.rows * some.cols : some.cols;
	double first = begin(x, wide, n, t);

	if (isnan(first))
		for (size_t i = 0; i < y.rows * y.cols; i++) y.at[i] = first;
	else if (back) memcpy(y.at, a[0].at, y.rows * y.cols * sizeof *y.at);
	for (size_t i = 0; i < rows && !isnan(first); i++) {
		for (size_t j = 0; j < n; j++) {
			double *w = whole.at + i * wide + (size_t)first + j * x->by, *s = some.at + i * n + j;
			if (back) *w = *s;
			else *s = *w;
		}
	}
}

static void rows_to_one(enum ex_kind kind, struct block y, struct block a)
{
	bool vector = y.rows * y.cols == 1;
	size_t rows = vector ? 1 : a.rows, n = vector ? a.rows * a.cols : a.cols;

	for (size_t i = 0; i < rows; i++) {
		double s = kind == EX_SUM ? 0 : -INFINITY;
		for (size_t j = 0; j < n; j++) s = kind == EX_SUM ? s + a.at[i * n + j] : cell_binary(OP_MAX, s, a.at[i * n + j]);
		y.at[i] = s;
	}
}

static double power_of_two(double of)
{
	double p = 0x1p-126;

	while (p < of) p *= 2;
	return p;
}

/* As ref/formula has it: whole turns counted in f32. */
static double fast_angle(double x)
{
	double turns = (double)(float)(x * 0.15915494309189535);

	return (turns - rint(turns)) * 6.283185307179586;
}

static void moved(enum ex_kind kind, int op, struct block y, struct block a)
{
	if (kind == EX_TRANS) {
		for (size_t i = 0; i < y.rows; i++)
			for (size_t j = 0; j < y.cols; j++) y.at[i * y.cols + j] = a.at[j * a.cols + i];
	} else if (kind == EX_FLIP) {
		memcpy(y.at, a.at, y.rows * y.cols * sizeof *y.at);
	} else if (kind == EX_LAST) {
		size_t n = y.rows * y.cols, all = a.rows * a.cols;
		if (all >= n) memcpy(y.at, a.at + all - n, n * sizeof *y.at);
	} else {
		for (size_t i = 0; i < y.rows; i++)
			for (size_t j = 0; j < y.cols; j++) y.at[i * y.cols + j] = (double)j <= (double)i + op ? a.at[i * y.cols + j] : 0;
	}
}

static void operation(const struct evaluator *v, const struct cell *c, const struct block *a, struct block y, const struct turn *t)
{
	const struct program *p = v->f->program;
	enum ex_kind kind = c->ex ? c->ex->kind : (enum ex_kind)c->p[0];
	size_t n = y.rows * y.cols;

	switch (kind) {
	case EX_LOAD: load_slice(p, c->ex, y, t); break;
	case EX_MEMORY: load_memory(p, c->ex, y, t); break;
	case EX_IX: y.at[0] = ix_value(c->ex->ix, t->now); break;
	case EX_IOTA: for (size_t i = 0; i < n; i++) y.at[i] = (c->ex->ix ? ix_value(c->ex->ix, t->now) : 0) + (double)i; break;
	case EX_IF: choice(p, c->ex, y, a[0], a[1], t); break;
	case EX_PART: case EX_REPLACED: part(c->ex, y, a, t); break;
	case EX_SHIFTED: {
		double rows = ix_value(c->ex->ix, t->now);
		size_t zeros = rows >= 0 && rows < (double)y.rows ? (size_t)rows * y.cols : n;
		memset(y.at, 0, zeros * sizeof *y.at);
		memcpy(y.at + zeros, a[0].at, (n - zeros) * sizeof *y.at);
		break;
	}
	case EX_ELEMENT: {
		double k = ix_value(c->ex->ix, t->now), last = n ? (double)(a[0].rows * a[0].cols / n) - 1 : -1;
		size_t at = last < 0 ? 0 : (size_t)(k > last ? last : k > 0 ? k : 0) * n;
		for (size_t i = 0; i < n; i++) y.at[i] = last < 0 ? (double)NAN : a[0].at[at + i];
		break;
	}
	case EX_POWER: for (size_t i = 0; i < n; i++) y.at[i] = power_of_two(a[0].at[i]); break;
	case EX_ANGLE: for (size_t i = 0; i < n; i++) y.at[i] = fast_angle(a[0].at[i]); break;
	case EX_FLOOR: for (size_t i = 0; i < n; i++) y.at[i] = floor(a[0].at[i]); break;
	case EX_MIRRORED: mirrored(y, a[0], (size_t)c->ex->op); break;
	case EX_ROUNDED:
		memcpy(y.at, a[0].at, n * sizeof *y.at);
		format_round_all((enum format)c->ex->op, ROUND_NEAREST_EVEN, y.at, n);
		break;
	case EX_TOP: top(y, a[0]); break;
	case EX_CMP: cell_compare(c->ex->op, y, a[0], a[1]); break;
	case EX_WHERE: cell_select(y, a[0], a[1], a[2]); break;
	case EX_MAP: {
		enum fn f = (enum fn)c->p[1];
		for (size_t i = 0; i < n; i++) y.at[i] = c->p[2] ? way_value(f, c->p[2], a[0].at[i]) : cell_function(f, a[0].at[i]);
		break;
	}
	case EX_SUM: case EX_MAX: rows_to_one(kind, y, a[0]); break;
	default: moved(kind, c->p[1], y, a[0]); break;
	}
}

/* Is the cell in a turn of the iteration that is exact? */
static bool past(const struct evaluator *v, int in, const struct turn *t)
{
	const struct form_symbols *f = v->f;

	while (in > f->iterated) in = f->in[in].up;
	return in && in == f->iterated && t->now->var[f->in[in].of->var] >= v->rounded;
}

/* The cell without what it rounds. */
static struct cell exact(const struct cell *c)
{
	struct cell x = *c;

	x.exact = true;
	if (c->op == CELL_ROUND) x.p[0] = AS_IT_IS;
	if (c->op == CELL_GEMM || c->op == CELL_OP) x.p[2] = 0;
	if (c->op == CELL_GEMM) x.p[3] = 0;
	return x;
}

void compute(const struct evaluator *v, const struct cell *c, const struct block *a, struct block y, const struct turn *t)
{
	struct cell without;
	if (v->rounded && past(v, c->in, t)) without = exact(c), c = &without;
	size_t n = y.rows * y.cols;
	bool rounds = !c->exact;

	switch (c->op) {
	case CELL_NUMBER: for (size_t i = 0; i < n; i++) y.at[i] = c->number; break;
	case CELL_ROUND:
		round_into(y.at, a[0].at, n, (enum type)c->p[0]);
		rounds = false;
		break;
	case CELL_ZIP:
		(rounds ? cell_zip_floats : cell_zip)(c->p[0], y, a[0], a[1]);
		rounds = false;
		break;
	case CELL_GEMM: (c->p[3] ? by_element : gemm)(c, y, a); break;
	case CELL_NEG: for (size_t i = 0; i < n; i++) y.at[i] = -a[0].at[i]; break;
	case CELL_PER_LN2: {
		const double by = c->exact || c->p[0] ? M_LOG2E : (double)(float)M_LOG2E;
		for (size_t i = 0; i < n; i++) y.at[i] = a[0].at[i] * by;
		break;
	}
	case CELL_SCAN: sum_scan(c, y, a[0]); break;
	case CELL_INVERSE: invert(y, a[0], c->p, c->cols.n, c->exact); break;
	case CELL_NARROW: sum_narrow(c, y, a[0]); break;
	default: operation(v, c, a, y, t); break;
	}
	if (rounds) round_cells(y.at, n, IN_F32);
}
