/* Does the kernel that was read also have a fault? One with which what it left unexplained shrinks. */
#include <math.h>
#include <stdlib.h>

#include "compare/limits/limits.h"
#include "search.h"

static size_t own_chunk(struct search *s, const struct candidate *c)
{
	const struct program_loop *l = graph_of(s, c)->f.loop;

	return l && l->chunk >= 0 ? l->by : DEFAULT_CHUNK;
}

bool graph_with(struct search *s, struct graph *g, const struct candidate *c, int fault, const char **why)
{
	*g = (struct graph){ 0 };
	return graph_make(s, g, c->form, own_chunk(s, c), UINT64_C(1) << fault, why);
}

static double tried(struct search *s, const struct candidate *c, int fault, const struct errors *base, struct errors *e)
{
	struct graph g;
	struct score score[MAX_OUT];
	const char *why = NULL;
	double left = 1;

	struct error ignored, *to = s->e;
	s->e = &ignored;
	if (graph_with(s, &g, c, fault, &why) && !why && measured_in(s, &g, c, s->n_stage - 1, score, e->of)) {
		struct contrast x = contrast(s, e, base);
		left = better(&x) ? x.energy : 1;
	}
	s->e = to;
	s->failed = false;
	graph_free(&g);
	return left;
}

/* answer: the candidate's. What is left of the kernel's distance from it where the reference's change from exact sums to such ones is added. */
static double left_by_sums(struct search *s, struct plan *p, const struct answer *exact, double *const answer[MAX_OUT], const struct arith *as)
{
	struct answer a;
	double left = 0, whole = 0;

	p->arith = as, p->bits = as->precision;
	if (!ref_run(s->call, p, &a, s->e)) return 1;
	for (int o = 0; o < MAX_OUT; o++)
		for (size_t i = 0; i < s->call->out_count[o]; i++) {
			double y[2] = { answer[o][i], answer[o][i] + a.hi[o][i] - exact->hi[o][i] }, w = (double)s->weight[o][i], got = (double)s->recorded[o][i];
			store_type(s->call->out[o]->dtype, y, 2);
			whole += (got - y[0]) * (got - y[0]) * w * w;
			left += (got - y[1]) * (got - y[1]) * w * w;
		}
	answer_free(&a);
	return whole > 0 && isfinite(left) ? left / whole : 1;
}

/* Would sums in another order, which are nobody's fault, explain as well as the fault, which leaves `least`? Of what they leave it must
 * explain half, too. */
static bool by_sums(struct search *s, const struct candidate *c, double least)
{
	struct plan p = search_plan(s, &arith_f64, c->form, own_chunk(s, c));
	double *answer[MAX_OUT] = { 0 };
	struct answer exact;
	struct error ignored, *to = s->e;
	bool yes = false;

	s->e = &ignored;
	if (answers_make(s, answer) && answered_in(s, graph_of(s, c), c, answer) && ref_run(s->call, &p, &exact, s->e)) {
		for (int i = 1; sums_name(i) && !yes; i++) yes = !sums_of_half(i) && least > fault_shrinks * left_by_sums(s, &p, &exact, answer, sums_arith(i));
		answer_free(&exact);
	}
	for (int o = 0; o < MAX_OUT; o++) free(answer[o]);
	s->e = to;
	s->failed = false;
	return yes;
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
	return best >= 0 && by_sums(s, &t, least) ? -1 : best;
}
