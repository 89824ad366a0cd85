/* fold, count, first and last: numbers made of one for each index of a range. */
#include "lower.h"

/* What the fold is made of, beside what changes within: MAX_FREE + 1 of them are too many to tell. */
static void free_in(struct ix *fold, struct ix *x)
{
	int i = 0;

	if (x->kind == IX_NUMBER) return;
	if (x->level >= fold->inner) {
		for (int k = 0; k < x->n; k++) free_in(fold, x->arg[k]);
		return;
	}
	if (x->level > fold->level) fold->level = x->level;
	while (i < fold->n_free && i < MAX_FREE && fold->free[i]->var != x->var) i++;
	if (i == fold->n_free && i < MAX_FREE) fold->free[i] = x;
	if (i == fold->n_free) fold->n_free++;
}

/* Of what changes within does it read only what is held? */
static bool of_held(const struct ix *fold, const struct ix *x)
{
	bool only = x->kind != IX_FOLD;

	if (x->kind == IX_VAR && x->level >= fold->inner) return x->var == fold->held;
	for (int i = 0; only && x->level >= fold->inner && i < x->n; i++) only = of_held(fold, x->arg[i]);
	return only;
}

/* held if STAYS or ... else ... */
static struct ix *staying(const struct ix *fold)
{
	struct ix *x = fold->arg[3];

	if (x->kind != IX_OP || x->op != NODE_IF || x->arg[1]->kind != IX_VAR || x->arg[1]->var != fold->held) return NULL;
	for (x = x->arg[0]; x->kind == IX_OP && x->op == NODE_OR;) x = x->arg[0];
	return x->level >= fold->inner && of_held(fold, x) ? x : NULL;
}

/* It is computed in the innermost of the loops that what it is made of changes in. */
static struct ix *added(struct lower *l, struct ix *x)
{
	for (int i = 0; i < x->n; i++) free_in(x, x->arg[i]);
	if (!l->p->folded && !(l->p->folded = folded_make(l->call))) {
		error_set(l->e, E_MEMORY, l->t->path, NO_OFFSET, "preparing a formula");
		return NULL;
	}
	return (x->var = new_var(l, x->at)) < 0 ? NULL : x;
}

/* The body of a fold in a level of its own: what does not read the index or what is held is computed outside of it. */
static bool fold_body(struct lower *l, struct ix *y, const char *held, const char *over, const struct node *value)
{
	struct symbol *outer = l->symbols;
	bool ok = l->level + 1 < MAX_LEVEL || low_error(l, value, "expected fewer than %d loops in each other", MAX_LEVEL);

	l->level++;
	if (ok) l->same[y->inner = l->level] = NULL;
	ok = ok && (y->held = new_var(l, value)) >= 0 && (y->over = new_var(l, value)) >= 0 && symbol_add(l, held, SYMBOL_VAR, y->held, scalar)
		&& symbol_add(l, over, SYMBOL_VAR, y->over, scalar) && (y->arg[3] = low_ix(l, value));
	l->level--;
	l->symbols = outer;
	return ok;
}

static struct ix *fold_of(struct lower *l, const struct node *x, const struct node *from, const char *held, const struct node *range,
	const struct node *value)
{
	struct ix *y = low_make(l, sizeof *y);

	if (!y) return NULL;
	*y = (struct ix){ .kind = IX_FOLD, .at = x };
	if (!(y->arg[0] = low_ix(l, from)) || !(y->arg[1] = low_ix(l, range->arg[0])) || !(y->arg[2] = low_ix(l, range->arg[1]))) return NULL;
	double around;
	if (!low_turns(l, x, y->arg[1], y->arg[2], &around) || !fold_body(l, y, held, range->name, value)) return NULL;
	l->turns = around;
	y->n = 4;
	for (int i = 0; i < 4; i++)
		if (y->arg[i]->each && !low_error(l, x, "expected no chunk's index in %s", x->name)) return NULL;
	y->stays = staying(y);
	y->down = same_name(x->name, "last");
	y->finds = y->down || same_name(x->name, "first");
	return added(l, y);
}

static bool is_range(const struct node *x, int n) { return x->kind == NODE_RANGE && x->name && x->n == n; }

bool low_folds(const struct node *x)
{
	return x->kind == NODE_CALL && x->n > 1 && (is_range(x->arg[0], 2) || is_range(x->arg[0], 1));
}

static struct node *made(struct lower *l, const struct node *at, enum node_kind kind, const char *name, int n)
{
	struct node *x = low_make(l, sizeof *x);

	if (!x || !(x->arg = low_make(l, (size_t)n * sizeof *x->arg))) return NULL;
	*x = (struct node){ .kind = kind, .line = at->line, .column = at->column, .name = name, .n = n, .arg = x->arg };
	return x;
}

/* What count, first and last hold: one more, or the index, where the condition is true. */
static struct node *held_value(struct lower *l, const struct node *x, bool counts)
{
	struct node *chosen = made(l, x, NODE_IF, NULL, 3), *held = made(l, x, NODE_NAME, "(held)", 0), *one = made(l, x, NODE_NUMBER, NULL, 0);
	struct node *sum = made(l, x, NODE_ADD, NULL, 2), *index = made(l, x, NODE_NAME, x->arg[0]->name, 0);

	if (!chosen || !held || !one || !sum || !index) return NULL;
	one->number = 1;
	sum->arg[0] = held, sum->arg[1] = one;
	chosen->arg[0] = x->arg[1], chosen->arg[1] = counts ? sum : index, chosen->arg[2] = held;
	return chosen;
}

/* fold(n from a, i in b:c, VALUE); count(i in b:c, CONDITION); first(i in b:c, CONDITION, else), and from the end, last */
struct ix *low_fold(struct lower *l, const struct node *x)
{
	const struct node *range = x->arg[0];
	bool counts = same_name(x->name, "count");

	if (same_name(x->name, "fold") && x->n == 3 && is_range(range, 1) && is_range(x->arg[1], 2))
		return fold_of(l, x, range->arg[0], range->name, x->arg[1], x->arg[2]);
	if (!is_range(range, 2) || !(counts ? x->n == 2 : x->n == 3 && (same_name(x->name, "first") || same_name(x->name, "last")))) {
		low_error(l, x, "expected fold(n from A, i in B:C, VALUE), count(i in B:C, CONDITION), or first or last(i in B:C, CONDITION, ELSE)");
		return NULL;
	}
	struct node *zero = made(l, x, NODE_NUMBER, NULL, 0), *value = held_value(l, x, counts);
	return zero && value ? fold_of(l, x, counts ? zero : x->arg[2], "(held)", range, value) : NULL;
}
