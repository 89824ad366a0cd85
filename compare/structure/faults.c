/* Does the kernel that was read also have a fault? One with which what it left unexplained shrinks. */
#include "compare/limits/limits.h"
#include "search.h"

bool graph_with(struct search *s, struct graph *g, const struct candidate *c, int fault, const char **why)
{
	const struct program_loop *l = graph_of(s, c)->f.loop;

	*g = (struct graph){ 0 };
	return graph_make(s, g, c->form, l && l->chunk >= 0 ? l->by : DEFAULT_CHUNK, UINT64_C(1) << fault, why);
}

static double tried(struct search *s, const struct candidate *c, int fault, const struct errors *base, struct errors *e)
{
	struct graph g;
	struct score score[MAX_OUT];
	const char *why = NULL;
	double left = 1;

	struct error ignored, *to = s->e;
	s->e = &ignored;
	if (graph_with(s, &g, c, fault, &why) && !why && measured_in(s, &g, c, score, e->of)) {
		struct contrast x = contrast(s, e, base);
		left = better(&x) ? x.energy : 1;
	}
	s->e = to;
	s->failed = false;
	graph_free(&g);
	return left;
}

/* Near ties hide no fault that is told: sums are exact, which is quick. */
int fault_of(struct search *s, const struct candidate *c)
{
	struct candidate t = *c;
	const struct fault_spec *f = s->call->op->faults;
	struct errors base, other;
	struct score score[MAX_OUT];
	double least = fault_shrinks;
	int best = -1;
	bool ok = errors_make(s, &base), two = errors_make(s, &other), equal = true;

	ok = ok && two && measured(s, c, score, base.of);
	for (int o = 0; o < MAX_OUT && ok; o++)
		for (int k = 0; k < s->n_stage; k++) equal = equal && score[o].left[k] <= 1e-4 * score[o].base[k];
	for (int i = 0; i < c->met.n; i++)
		if (s->keys.at[c->met.key[i]].what == W_SUMS) t.config.value[c->met.key[i]] = 0;
	ok = ok && !equal && measured(s, &t, score, base.of);
	for (int i = 0; i < MAX_FAULT && ok && f[i].name && !late(s); i++) {
		if (f[i].is_rounding || s->faults >> i & 1 || !form_has(s->call->op, i, c->form)) continue;
		double left = tried(s, &t, i, &base, &other);
		if (left < least) least = left, best = i;
	}
	errors_free(&base);
	errors_free(&other);
	return best;
}
