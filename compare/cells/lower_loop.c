/* What loops carry: the recurrence of each, as cells. */
#include <string.h>

#include "lower.h"

/* The loops around it, and itself: what one carries may follow from what those around it do. */
static uint32_t carrying(const struct form_symbols *f, int in)
{
	uint32_t is = 0;

	for (; in; in = f->in[in].up) is |= UINT32_C(1) << in;
	return is;
}

/* Not what has a line of its own, nor what is there. */
static bool computed(const struct sym *x)
{
	return x->kind != SYM_NAME && x->kind != SYM_FINAL && x->kind != SYM_CARRY && !is_ex(x, EX_LOAD) && !is_ex(x, EX_NUMBER);
}

/* What a loop carries, all of it: its recurrence. */
bool low_loop(struct lowering_run *l, int in)
{
	const struct form_symbols *f = l->h->f;
	const struct sym_loop *loop = &f->in[in];
	struct recurrence r;

	if (l->loop[in] != LOOP_NEW) return l->loop[in] == LOOP_DONE;
	l->loop[in] = LOOP_BEGUN;
	memset(&r, 0, sizeof r);
	r.loop = in;
	int outer = l->def;
	for (int k = 0; k < 2 * loop->n_carry && !l->failed; k++) {
		int i = k % loop->n_carry;
		const struct sym_carry *c = &f->carry[loop->carry + i];
		l->def = -1;
		const struct sym *x = k < loop->n_carry ? c->first : c->next;
		struct val v = low_stored(l, x);
		int cell = v.cell;
		*(k < loop->n_carry ? &r.first[i] : &r.next[i]) = cell;
		l->failed = l->failed || cell < 0;
		if (l->h->text && in == f->iterated && k < loop->n_carry && computed(c->first)) fprintf(l->h->text, "%s = %s\n", c->name, v.text);
	}
	l->def = outer;
	int n = l->to->recurrence[in] = l->failed ? -1 : cells_recurrence(l->h->cells, &r);
	l->failed = l->failed || n < 0;
	l->loop[in] = LOOP_DONE;
	return !l->failed;
}

struct val low_carried(struct lowering_run *l, const struct sym *x)
{
	const struct form_symbols *f = l->h->f;
	struct cell c = cell_of(x->kind == SYM_CARRY ? CELL_CARRY : CELL_FINAL, -1, -1, x->s.rows, x->s.cols);
	int in = f->carry[x->reg].loop;
	bool after = x->kind == SYM_FINAL;

	if (after && !low_loop(l, in)) l->failed = true;
	if (l->failed) return (struct val){ -1, "", true };
	c.p[0] = x->reg;
	c.p[1] = after ? l->to->recurrence[in] : 0;
	c.grid = IN_F32;
	c.in = after ? f->in[in].up : in;
	c.carried = carrying(f, c.in);
	struct val v = { cell_add(l->h->cells, &c), x->name, true };
	return after ? low_site(l, v, x->id, W_INNER, 0, CHOOSE_INNER, x) : v;
}
