/* Sums in types of 16 bits, which have an order. */
#include "lower.h"

/* A sum in bf16 or float16 has an order: of each thread, over the lanes of a warp, over the warps. Squares go into it by fused multiply-adds; pairs are as
 * tensor cores leave a row, which is rounded before it is added up. */
struct val low_narrow(struct lowering_run *l, const struct sym *x, struct val a, int how)
{
	const enum type type = narrow_sum(how);
	struct cell c = cell_of(CELL_NARROW, a.cell, -1, x->s.rows, x->s.cols);

	c.p[0] = 4 << choose(l, x->id, W_WARPS, 0, 3, CHOOSE_FORM);
	c.p[1] = narrow_elements(how);
	c.grid = type;
	if (c.p[1] == 2) c.arg[0] = cell_round(l->h->cells, a.cell, type), a.text = said(l, "%s(%s)", type_names[type], a.text);
	return low_cell(l, &c, said(l, "sum[in %s: %d warps, threads of %d](%s)", type_names[type], c.p[0], c.p[1], a.text), true);
}

/* Tensor cores multiply this many rows at once, and more (PTX ISA 9.0, section 9.7.15.5.8: mma.m16n8k16): where a form takes a sequence's tokens side by
 * side, a call that has so many of them, on average, goes there. attention.op's forms in_parts have the same condition. */
enum { ROWS_AT_ONCE = 8 };
static bool enough_rows(const struct form_symbols *f)
{
	const struct call *call = f->program->call;
	const bool by_token = over_tokens(f->loop) && f->loop->chunk < 0;

	return !by_token && call->dim[0] > ROWS_AT_ONCE * call_sequences(call);
}

enum type elements_type(enum what w) { return w == W_ELEMENTS_BF16 ? IN_BF16 : w == W_ELEMENTS_F16 ? IN_F16 : IN_F32; }

bool low_by_element(struct lowering_run *l, struct cell *g, int about, int range)
{
	const enum type type = l->h->cells->at[g->arg[0]].grid;
	const bool vector = (g->rows.n == 1 && g->rows.chunk < 0) || (g->cols.n == 1 && g->cols.chunk < 0);

	if (!vector || l->wide || (type != IN_BF16 && type != IN_F16) || l->h->cells->at[g->arg[1]].grid != type) return false;
	if (enough_rows(l->h->f)) return false;
	g->p[3] = choose(l, about, type == IN_F16 ? W_ELEMENTS_F16 : W_ELEMENTS_BF16, range, BY_COLUMNS + 1, CHOOSE_FORM);
	if (!g->p[3]) return false;
	if (g->p[3] >= BY_ROWS) g->p[5] = choose(l, about, W_THREADS, threads_key(range, g->p[3]), threads_ways[g->p[3]], CHOOSE_FORM);
	g->p[4] = (int)type;
	g->grid = g->p[3] >= BY_ROWS ? type : IN_F32;
	return true;
}

const char *said_by_element(struct lowering_run *l, const struct cell *g, struct val a, struct val b)
{
	const char *type = type_names[g->p[4]], *left = in_brackets(l, a), *right = in_brackets(l, b);
	char room[THREADS_ROOM];

	if (g->p[3] == ADDED_IN_F32) return said(l, "sum(%s(%s * %s))", type, left, right);
	return said(l, "sum[in %s: %s](fma[%s * %s])", type, element_threads_said(g->p[3], g->p[5], room), left, right);
}
