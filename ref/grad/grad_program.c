/* From a formula's program to one that can be run backwards: what depends on an input, and where pieces add to the same element. */
#include <string.h>

#include "grad_private.h"

bool grad_active(const struct grad *g, const struct ex *x)
{
	if (!x) return false;
	switch (x->kind) {
	case EX_REG: return g->active[x->reg];
	case EX_LOAD: return g->of->output_of[x->slice->tensor] >= 0;
	case EX_MEMORY: return g->of->output_of[x->op] >= 0;
	case EX_NUMBER: case EX_IX: case EX_IOTA: case EX_CMP: case EX_TOP: return false;
	case EX_WHERE: return grad_active(g, x->a) || grad_active(g, x->b);
	default: return grad_active(g, x->a) || grad_active(g, x->b) || grad_active(g, x->c);
	}
}

/* Marks what depends on an input; was anything new? */
static bool mark(struct grad *g, const struct step *s)
{
	bool any = false;

	for (; s; s = s->next) {
		if (s->kind == STEP_LOOP) any = mark(g, s->loop->body) || any;
		if (s->kind != STEP_SET || g->active[s->reg] || !grad_active(g, s->value)) continue;
		g->active[s->reg] = any = true;
	}
	return any;
}

/* Has each part of x that depends on an input a derivative? */
static bool differentiable(const struct grad *g, const struct ex *x, const char **what)
{
	if (!grad_active(g, x)) return true;
	switch (x->kind) {
	case EX_REG: case EX_LOAD: case EX_FLIP: case EX_MAP: case EX_ZIP: case EX_DOT: case EX_GEMV: case EX_GEMV_T: case EX_OUTER: case EX_GEMM:
	case EX_TRANS: case EX_SUM: case EX_MAX: case EX_SCAN: case EX_TRIL: case EX_INVERSE: case EX_LAST: case EX_WHERE: case EX_IF:
	case EX_SHIFTED: case EX_ELEMENT: case EX_PART: case EX_REPLACED: case EX_AXPY: case EX_MIRRORED: case EX_FLOOR: break;
	case EX_MEMORY: *what = "memory"; return false;
	case EX_POWER: *what = "power_of_two"; return false;
	case EX_ANGLE: *what = "fast_angle"; return false;
	case EX_ROUNDED: *what = format_info[x->op].name; return false;
	default: *what = "this"; return false;
	}
	return differentiable(g, x->a, what) && differentiable(g, x->b, what) && (x->kind == EX_WHERE || differentiable(g, x->c, what));
}

static bool all_differentiable(const struct grad *g, const struct program *p, const struct step *s, struct error *e)
{
	const char *what = "";

	for (; s; s = s->next) {
		if (s->kind == STEP_LOOP ? !all_differentiable(g, p, s->loop->body, e) : !differentiable(g, s->value, &what))
			return s->kind == STEP_LOOP ? false : formula_error(e, p->path, s->at->line, s->at->column,
				"expected a definition that has a derivative; %s has none", what);
	}
	return true;
}

/* The axes of each input whose index is an index of the pieces: axes[i][v] bit k. All at first. */
struct own { unsigned axes[MAX_IN][MAX_EACH]; bool loaded[MAX_IN]; };

static void axes_of(const struct program *p, struct ex *x, struct own *o)
{
	if (!x) return;
	axes_of(p, x->a, o), axes_of(p, x->b, o), axes_of(p, x->c, o);
	if (x->kind == EX_INVERSE && x->site >= 0) x->site = p->grad->of->site[x->site];
	if (x->kind != EX_LOAD) return;
	o->loaded[x->slice->tensor] = true;
	const struct slice *s = x->slice;
	for (int v = 0; v < p->n_each; v++) {
		unsigned axes = 0;
		for (int k = 0; k < s->rank; k++) {
			bool kept = (s->n_kept > 0 && s->kept[0] == k) || (s->n_kept > 1 && s->kept[1] == k);
			const struct ix *first = s->axis[k].first;
			if (!kept && first && first->kind == IX_VAR && first->var == v) axes |= 1u << k;
		}
		o->axes[s->tensor][v] &= axes;
	}
}

static void steps(struct program *p, struct step *s, struct own *o)
{
	const struct backward *b = p->grad->of;

	for (; s; s = s->next) {
		int site = s->site;
		if (s->kind == STEP_LOOP) {
			steps(p, s->loop->body, o);
			continue;
		}
		axes_of(p, s->value, o);
		s->site = site < 0 ? -1 : b->site[site];
		if (s->kind == STEP_SET) p->grad->adjoint[s->reg] = site < 0 ? -1 : b->adjoint[site];
	}
}

/* The plan of the call of NAME.backward in the numbers of NAME's own sites and faults. A value whose gradient is rounded is one of its own, as if it were
 * rounded itself. */
static struct plan plan_of(const struct backward *b, const struct call *call, const struct plan *plan)
{
	struct plan own = *plan;

	own.faults = 0;
	memset(own.round, 0, sizeof own.round);
	for (int i = 0; i < MAX_SITE; i++) {
		if (b->site[i] >= 0) own.round[i] = plan->round[b->site[i]];
		if (b->adjoint[i] >= 0 && !own.round[i].on) own.round[i] = plan->round[b->adjoint[i]];
	}
	for (int i = 0; i < MAX_FAULT && b->op.faults[i].name; i++)
		if (plan->faults >> i & 1) own.faults |= UINT64_C(1) << b->fault[i], own.value[b->fault[i]] = fault_value_in(call, i, plan->value[i]);
	return own;
}

/* One program of those that run pieces of one form; `loaded`: inputs that those before it read. */
static bool prepare(struct program *p, const struct backward *b, bool *shared, bool *loaded, struct error *e)
{
	struct own o = { 0 };
	struct grad *g = p->grad = pool_make(&p->pool, sizeof *g);

	if (!g) return error_set(e, E_MEMORY, b->op.name, NO_OFFSET, "preparing a derivative");
	g->of = b;
	while (mark(g, p->step)) ;
	if (!all_differentiable(g, p, p->step, e)) return false;
	memset(o.axes, 0xff, sizeof o.axes);
	memset(g->adjoint, 0xff, sizeof g->adjoint);
	steps(p, p->step, &o);
	for (int i = 0; b->op.out[i].name; i++) {
		int in = b->gradient_of[i];
		for (int v = 0; v < p->n_each; v++)
			if (p->each[v] > 1 && !o.axes[in][v]) shared[i] = true;
		if (o.loaded[in] && loaded[in]) shared[i] = true;
		loaded[in] = loaded[in] || o.loaded[in];
	}
	return true;
}

struct program *grad_prepare(const struct call *call, const struct plan *plan, struct error *e)
{
	const struct backward *b = backward_of(call->op);
	struct plan own = plan_of(b, call, plan);
	struct call view = *call;
	bool shared[MAX_OUT] = { 0 }, loaded[MAX_IN] = { 0 };

	/* an output is asked for where its gradient is given */
	for (int i = 0; i < b->n_out; i++) view.out_count[i] = call->in[b->n_in + i] != NULL;
	struct program *all = program_make_kept(&b->of->tree, &b->of->op, &view, &own, e);
	for (struct program *p = all; p; p = p->next) {
		p->call = call;
		if (prepare(p, b, shared, loaded, e)) continue;
		program_free(all);
		return NULL;
	}
	for (struct program *p = all; p; p = p->next) memcpy(p->grad->shared, shared, sizeof shared);
	return all;
}
