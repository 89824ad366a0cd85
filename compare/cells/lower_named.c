/* In a chain of matrices with factors, what the op has a name for. */
#include "chain.h"

/* Is `scaled`, as it is or transposed, the leaf with the factors that stand on it, and no other? */
static bool is_scaled(const struct sym *scaled, const struct chain *c, int n)
{
	const struct sym *x = c->dense[c->t.node[n].first].x, *turned = is_ex(x, EX_TRANS) ? x->arg[0] : NULL;
	int dense = 0, others = 0, found = 0;

	while (scaled->role[dense] != DENSE) dense++;
	const struct sym *d = scaled->arg[dense];
	bool flipped = d == turned || (is_ex(d, EX_TRANS) && d->arg[0] == x);
	for (int i = 0; i < c->n_factor && (d == x || flipped); i++) {
		const struct factor *f = &c->factor[i];
		if (f->place.node != n) continue;
		others++;
		for (int j = 0; j < scaled->n; j++)
			found += j != dense && scaled->arg[j] == f->e.x && (f->e.role == NUMBER || (j > dense) == (f->place.columns != flipped));
	}
	return others && found == others && others == scaled->n - 1;
}

struct sym low_leaf_named(const struct lowering_run *l, const struct chain *c, int n)
{
	const struct form_symbols *f = l->h->f;
	const struct sym *dense = c->dense[c->t.node[n].first].x, *of = is_ex(dense, EX_TRANS) ? dense->arg[0] : dense;
	struct sym x = *dense;

	x.site = of->operand >= 0 ? of->operand : of->site;
	for (int i = 0; i < c->n_factor; i++)
		if (c->factor[i].place.node == n) x.site = -1;
	for (int i = 0; i < f->n_scaled; i++)
		if (is_scaled(f->scaled[i], c, n)) x.site = f->scaled[i]->site;
	return x;
}

/* The product of the op's that node n is before the factors on it; NULL: no such, or no factor. */
static const struct sym *named_product(const struct form_symbols *f, const struct chain *c, int n)
{
	const int first = c->t.node[n].first, last = c->t.node[n].last;
	int on_it = 0, within = 0;

	for (int i = 0; i < c->n_factor; i++) {
		const struct place *p = &c->factor[i].place;
		if (p->node == n && !p->inside) on_it++;
		else within += c->t.node[p->node].first >= first && c->t.node[p->node].last <= last;
	}
	for (int k = 0; k < f->n_product && on_it && !within; k++) {
		int same = 0;
		while (same < f->product[k]->n && first + same <= last && f->product[k]->arg[same] == c->dense[first + same].x) same++;
		if (same == f->product[k]->n && first + same == last + 1) return f->product[k];
	}
	static const struct sym unnamed = { .kind = SYM_PRODUCT, .site = -1, .operand = -1 };
	return on_it && c->dense[first].x->kind == SYM_UNDECAYED ? &unnamed : NULL;
}

struct val low_unscaled(struct lowering_run *l, const struct chain *c, int n, struct val v)
{
	const struct sym *of = named_product(l->h->f, c, n);

	for (int i = 0, before = -1; i < 2 && of && v.cell >= 0 && v.cell != before; i++) {
		v = low_single(l, v);
		before = v.cell;
		v = low_site(l, v, c->about, W_UNSCALED, 2 * (c->t.node[n].first * 16 + c->t.node[n].last) + i, CHOOSE_INNER, of);
	}
	return v;
}
