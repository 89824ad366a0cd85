/* The indices of pieces. */
#include "lower.h"

/* Of so many pieces a file is checked before there is a call. */
enum { CHECKED = 8, MOST = 1 << 20 };

/* The parameter that a number is made of, the first, or NULL. */
static const char *param_in(const struct tree *t, const struct node *x)
{
	const char *name = x->kind == NODE_NAME && declared(t->params, x->name) ? x->name : NULL;

	for (int i = 0; i < x->n && !name; i++) name = param_in(t, x->arg[i]);
	return name;
}

/* Of a call it is the parameter that is wrong. */
static bool wrong_parts(struct lower *l, const struct node *x, double parts)
{
	const char *name = l->call->capture ? param_in(l->t, x) : NULL;

	if (!name) return low_error(l, x, "expected 1 to %d pieces, got %g", MOST, parts);
	return error_set(l->e, E_PARAM, name, NO_OFFSET, "%s:%d:%d: expected 1 to %d pieces, got %g", l->t->path, x->line, x->column, MOST, parts);
}

/* Of indices that count pieces of shapes of their own: the one, or NULL. */
static const struct each *parts_of(const struct tree *t, const struct form_decl *f)
{
	const struct each *x = f->each ? f->each : t->each;

	while (x && x->dim) x = (const struct each *)x->d.next;
	return x;
}

bool program_parts(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, const struct form_decl *f, size_t *n,
	struct error *e)
{
	const struct each *x = parts_of(t, f);
	*n = 1;
	if (!x) return true;
	struct program p = { .call = call, .path = t->path };
	struct lower l = { .t = t, .op = op, .call = call, .plan = plan, .form = plan->form, .p = &p, .e = e };
	double parts = 1;
	bool ok = low_known(&l, x->last, &parts);

	if (ok && !(parts >= 1 && parts <= MOST && parts == (double)(size_t)parts)) ok = wrong_parts(&l, x->last, parts);
	if (ok) *n = !call->capture && parts > CHECKED ? CHECKED : (size_t)parts;
	pool_free(&p.pool);
	return ok;
}

/* Pieces of so many indices each: the chunk's variable, and that of its first index. */
static bool in_chunks(struct lower *l, const struct node *at, int var, size_t by, size_t of)
{
	struct program *p = l->p;

	if (p->n_chunk == MAX_PROGRAM_CHUNK || p->n_each == MAX_EACH) return low_error(l, at, "expected fewer chunks");
	if (new_var(l, at) != first_of(var)) return false;
	p->each[p->n_each++] = 1;
	p->in_chunks[var].by = by;
	p->in_chunks[var].of = of;
	p->in_chunks[var].chunk = p->n_chunk;
	p->chunk_var[p->n_chunk] = var;
	p->chunk_size[p->n_chunk] = by;
	p->chunk_most[p->n_chunk++] = of < by ? of : by;
	return true;
}

/* An index like one of a size. */
static bool one_shape(struct lower *l, const struct each *x, const struct node *at)
{
	int var = l->p->n_each < MAX_EACH ? new_var(l, at) : (low_error(l, at, "expected at most %d indices", MAX_EACH), -1);

	if (var < 0 || !symbol_add(l, x->d.name, SYMBOL_VAR, var, scalar)) return false;
	l->p->pieces *= l->p->each[l->p->n_each++] = l->parts;
	return true;
}

bool low_each(struct lower *l, const struct form_decl *f)
{
	const struct each *x = f->each ? f->each : l->t->each, *parts = parts_of(l->t, f);

	l->p->pieces = 1;
	for (; x; x = (const struct each *)x->d.next) {
		const struct node at = { .line = x->d.line, .column = x->d.column };
		if (!x->dim) {
			if (x != parts) return low_error(l, &at, "expected one index at most that counts from 0");
			if (!(l->parts ? one_shape(l, x, &at) : symbol_add(l, x->d.name, SYMBOL_NUMBER, (int)l->part, scalar) != NULL)) return false;
			continue;
		}
		int i = op_size(l->op, x->dim);
		if (i < 0 && (declared(l->t->params, x->dim) || declared(l->t->lets, x->dim)))
			return low_error(l, &at, "expected the name of a size, and no tensor has '%s': write '%s in 0:%s'", x->dim, x->d.name, x->dim);
		if (i < 0) return low_error(l, &at, "expected the name of a size; no tensor has '%s'", x->dim);
		int var = l->p->n_each < MAX_EACH ? new_var(l, &at) : (low_error(l, &at, "expected at most %d indices", MAX_EACH), -1);
		const struct shape s = x->by ? (struct shape){ COLUMN, { x->by, l->p->n_chunk }, { 1, -1 } } : scalar;
		if (var < 0 || !symbol_add(l, x->d.name, x->by ? SYMBOL_CHUNK : SYMBOL_VAR, var, s)) return false;
		l->p->pieces *= l->p->each[var] = x->by ? (l->call->dim[i] + x->by - 1) / x->by : l->call->dim[i];
		l->p->n_each++;
		if (x->by && !in_chunks(l, &at, var, x->by, l->call->dim[i])) return false;
	}
	return true;
}

