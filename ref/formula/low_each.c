/* The indices of pieces. */
#include "lower.h"

/* Of so many pieces a file is checked before there is a call. */
enum { CHECKED = 8 };

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

	if (ok && !(parts >= 1 && parts <= MAX_PART && parts == (double)(size_t)parts))
		ok = low_error(&l, x->last, "expected 1 to %d pieces, got %g", MAX_PART, parts);
	if (ok) *n = !call->capture && parts > CHECKED ? CHECKED : (size_t)parts;
	pool_free(&p.pool);
	return ok;
}

bool low_each(struct lower *l, const struct form_decl *f)
{
	const struct each *x = f->each ? f->each : l->t->each, *parts = parts_of(l->t, f);

	l->p->pieces = 1;
	for (; x; x = (const struct each *)x->d.next) {
		const struct node at = { .line = x->d.line, .column = x->d.column };
		if (!x->dim) {
			if (x != parts) return low_error(l, &at, "expected one index at most that counts from 0");
			if (!symbol_add(l, x->d.name, SYMBOL_NUMBER, (int)l->part, scalar)) return false;
			continue;
		}
		int i = op_size(l->op, x->dim);
		if (i < 0) return low_error(l, &at, "expected the name of a size; no tensor has '%s'", x->dim);
		int var = l->p->n_each < MAX_EACH ? new_var(l, &at) : (low_error(l, &at, "expected at most %d indices", MAX_EACH), -1);
		if (var < 0 || !symbol_add(l, x->d.name, SYMBOL_VAR, var, scalar)) return false;
		l->p->pieces *= l->p->each[var] = l->call->dim[i];
		l->p->n_each++;
	}
	return true;
}

size_t program_pieces(const struct program *p)
{
	size_t n = 0;

	for (; p; p = p->next) n += p->pieces;
	return n;
}
