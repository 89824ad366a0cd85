/* Calls cut into strips along the first of the sizes, dims[0]: pieces that lie along it, or forms that are one loop over it, whose carried
 * values go on from strip to strip. */
#include "formula_private.h"

#include <string.h>

#define NEXT(x) ((void *)(x)->d.next)

static bool begins_with(const char *shape, const char *dim)
{
	size_t n = strlen(dim);

	return !strncmp(shape, dim, n) && (shape[n] == ',' || !shape[n]);
}

/* ---- pieces along dims[0] ---- */

static span pieces_along(const struct call *call, span along)
{
	size_t inner = call->dim[0] ? call->op->pieces(call) / call->dim[0] : 0;

	return (span){ along.first * inner, along.last * inner };
}
static span rows_along(const struct call *call, int out, span along) { (void)call; (void)out; return along; }
static size_t nothing(const struct call *call) { (void)call; return 0; }
static const struct cut by_rows = { pieces_along, rows_along, nothing };

static bool in_rows(const struct formula *f)
{
	bool first = f->tree.each && f->tree.each->dim && !strcmp(f->tree.each->dim, f->op.dims[0]);

	for (const struct tensor_decl *x = f->tree.out; first && x; x = NEXT(x))
		first = begins_with(x->shape, f->op.dims[0]) && strcmp(x->shape, f->op.dims[0]);
	return first;
}

/* ---- one loop over dims[0], of all of it or of sequence n ---- */

static bool is_name(const struct node *x, const char *name) { return x->kind == NODE_NAME && !strcmp(x->name, name); }

bool loop_along(const struct loop *l, const struct op *op)
{
	return is_name(l->range->kind == NODE_RANGE ? l->range->arg[1] : l->range, op->dims[0]);
}

/* The loop of a form; NULL where it has another one beside, or none. */
static const struct statement *only_loop(const struct formula *f, const struct form_decl *form)
{
	const struct statement *loop = NULL;

	for (const struct statement *s = form->body; s; s = s->next) {
		if (s->condition) return NULL;
		if (!s->loop) continue;
		if (loop || s->loop->backwards || !is_name(s->loop->range, f->op.dims[0])) return NULL;
		loop = s;
	}
	return loop;
}

/* The input whose values cut dims[0] into the sequences that the first of the pieces' indices counts, or -1. */
static int cuts_of(const struct formula *f)
{
	const struct statement *s = only_loop(f, f->tree.forms);

	return s && s->loop->cuts ? declared_index(f->tree.in, s->loop->cuts->name) : -1;
}

/* Is each output along dims[0] stored in the loop where the loop is, and each other one at its end, for the first of the pieces' indices? */
static bool stores(const struct formula *f, const struct node *target, const char *var)
{
	const struct tensor_decl *out = declared(f->tree.out, target->name);
	bool along = out && begins_with(out->shape, f->op.dims[0]);

	if (var) return along && target->n && is_name(target->arg[0], var);
	return out && !along && (!f->tree.each || (f->tree.each->dim && begins_with(out->shape, f->tree.each->dim) && target->n && is_name(target->arg[0], f->tree.each->d.name)));
}

static bool all_store(const struct formula *f, const struct statement *s, const char *var)
{
	for (; s; s = s->next) {
		for (int i = 0; s->loop && i < s->loop->n_carry; i++)
			if (s->loop->carry[i].to && !stores(f, s->loop->carry[i].to, var)) return false;
		if (s->body ? !all_store(f, s->body, var ? var : s->loop->var) : s->define.indexed && !stores(f, s->define.target, var)) return false;
	}
	return true;
}

static bool in_a_loop(const struct formula *f)
{
	const struct each *first = f->tree.each;
	int cuts = cuts_of(f);

	if (!first || !first->dim || (cuts >= 0 && op_size(&f->op, first->dim) < 0)) return false;
	for (const struct form_decl *x = f->tree.forms; x; x = NEXT(x)) {
		const struct statement *s = only_loop(f, x);
		if (!s || !all_store(f, x->body, NULL)) return false;
		const struct node *c = s->loop->cuts;
		if (!c != (cuts < 0)) return false;
		if (c && (declared_index(f->tree.in, c->name) != cuts || c->n != 1 || !is_name(c->arg[0], first->d.name))) return false;
	}
	return true;
}

/* Where sequence n begins, and the one before ends. */
static size_t cut_point(const struct call *call, size_t n)
{
	int cuts = cuts_of(formula_of(call->op));
	const struct tensor *t = cuts < 0 ? NULL : call->in[cuts];
	double x;

	if (!t) return n ? call->dim[0] : 0;
	dtype_load(t->dtype, (const char *)t->data + n * dtype_info[t->dtype].size, 1, &x);
	return (size_t)x;
}

static size_t sequences_of(const struct call *call) { return call->dim[op_size(call->op, formula_of(call->op)->tree.each->dim)]; }

/* Sequences that end in this part of dims[0], and with `begun` those that go on after it too. An empty one ends where it begins. */
static span sequences(const struct call *call, span along, bool begun)
{
	size_t N = sequences_of(call), first = 0, last;

	if (cuts_of(formula_of(call->op)) < 0) return (span){ 0, begun || along.last == call->dim[0] ? N : 0 };
	while (along.first && first < N && cut_point(call, first + 1) <= along.first) first++;
	last = first;
	while (last < N && (cut_point(call, last + 1) <= along.last || (begun && cut_point(call, last) < along.last))) last++;
	return (span){ first, last };
}

static span pieces_of_sequences(const struct call *call, span along)
{
	size_t N = sequences_of(call), inner = N ? call->op->pieces(call) / N : 0;
	span n = sequences(call, along, true);

	return (span){ n.first * inner, n.last * inner };
}

static span rows_of_sequences(const struct call *call, int out, span along)
{
	return begins_with(call->op->out[out].shape, call->op->dims[0]) ? along : sequences(call, along, false);
}

/* What the loop carries, of one sequence, or of all pieces where there are none; nothing where each is one index long. */
static size_t carried(const struct call *call)
{
	struct plan plan = plan_plain(&arith_f64, 0);
	size_t N = sequences_of(call), n = 0, pieces = call->op->pieces(call);
	bool cut = cuts_of(formula_of(call->op)) < 0;

	for (size_t i = 0; !cut && i < N; i++) cut = cut_point(call, i + 1) - cut_point(call, i) > 1;
	struct program *p = cut ? program_make(&formula_of(call->op)->tree, call->op, call, &plan, NULL) : NULL;
	for (const struct step *s = p ? p->step : NULL; s; s = s->next)
		for (int i = 0; s->kind == STEP_LOOP && i < s->loop->n_carry; i++) {
			const struct shape *x = &p->reg[s->loop->carry[i]];
			n += x->rows.n * x->cols.n;
		}
	program_free(p);
	return cuts_of(formula_of(call->op)) < 0 ? n * pieces : N ? n * (pieces / N) : 0;
}

static const struct cut by_loop = { pieces_of_sequences, rows_of_sequences, carried };

const struct cut *formula_cut(const struct formula *f) { return f->op.holds ? NULL : in_rows(f) ? &by_rows : in_a_loop(f) ? &by_loop : NULL; }
bool formula_cut_in_loop(const struct op *op) { return op->cut == &by_loop; }

/* Do the values of this input begin at 0, never fall, and end where the tokens do? */
static bool cuts_sound(const struct call *call, int cuts, int tokens, struct error *e)
{
	const struct tensor *t = cuts < 0 ? NULL : call->in[cuts];

	for (int i = 0; t && tokens >= 0 && t->rank == 1 && call->op->dims[i]; i++) {
		size_t n = strlen(call->op->dims[i]);
		const char *shape = call->op->in[cuts].shape;
		if (strncmp(shape, call->op->dims[i], n) || strcmp(shape + n, "+1")) continue;
		if (!call_check_cuts(call, cuts, tokens, i, e)) return false;
	}
	return true;
}

static bool sound(const struct formula *f, const struct call *call, const struct statement *s, struct error *e)
{
	for (; s; s = s->next) {
		if (s->condition && !sound(f, call, s->body, e)) return false;
		if (!s->loop) continue;
		int cuts = s->loop->cuts ? declared_index(f->tree.in, s->loop->cuts->name) : -1;
		int tokens = cuts >= 0 && s->loop->range->kind == NODE_NAME ? op_size(call->op, s->loop->range->name) : -1;
		if (!cuts_sound(call, cuts, tokens, e) || !sound(f, call, s->body, e)) return false;
	}
	return true;
}

/* n = sequence(CUTS, t) of t in TOKENS: the same */
static bool sequences_sound(const struct formula *f, const struct call *call, const struct form_decl *form, struct error *e)
{
	for (const struct alias *a = f->tree.aliases; a; a = NEXT(a)) {
		const struct node *x = a->value;
		if (x->kind != NODE_CALL || strcmp(x->name, "sequence") || x->n != 2 || x->arg[1]->kind != NODE_NAME) continue;
		const struct each *t = declared(form->each ? form->each : f->tree.each, x->arg[1]->name);
		if (t && t->dim && !cuts_sound(call, declared_index(f->tree.in, x->arg[0]->name), op_size(call->op, t->dim), e)) return false;
	}
	return true;
}

bool formula_cuts_sound(const struct formula *f, const struct call *call, struct error *e)
{
	for (const struct form_decl *x = f->tree.forms; x; x = NEXT(x))
		for (const struct form_decl *y = x; y; y = y->more)
			if (!sound(f, call, y->body, e) || !sequences_sound(f, call, y, e)) return false;
	return true;
}
