/* An op that is a formula: read, checked and made an op. etalon's own, ref/ops/NAME.op, and those of models' layers, ref/ops/layers/NAME.op,
 * are in the program as text. */
#include "formula_private.h"
#include "builtin_ops.h"

#include <stdlib.h>
#include <string.h>

#include "fixtures/io/file.h"
#include "ref/use/use.h"

#define NEXT(x) ((void *)(x)->d.next)

static size_t pieces(const struct call *call)
{
	const struct tree *t = &formula_of(call->op)->tree;
	struct plan plan = plan_plain(&arith_f64, 0);
	size_t all = 0;

	for (const struct form_decl *f = t->forms; f; f = f->more) {
		size_t n = 1;
		if (!program_parts(t, call->op, call, &plan, f, &n, NULL)) return 0;
		for (const struct each *x = f->each ? f->each : t->each; x; x = NEXT(x))
			if (x->dim && op_size(call->op, x->dim) >= 0) {
				size_t all_of = call->dim[op_size(call->op, x->dim)];
				n *= x->by ? (all_of + x->by - 1) / x->by : all_of;
			}
		all += n;
	}
	return all;
}

static void derive(struct call *call) { formula_derive(formula_of(call->op), call); }

static double right(const struct call *call, int fault) { return formula_right(formula_of(call->op), call, fault); }

static bool has_trace(const struct call *call, int out) { return formula_has_trace(formula_of(call->op), call, out); }

static bool check(const struct call *call, struct error *e)
{
	const struct formula *f = formula_of(call->op);

	if (!formula_rules(f, call, e) || !formula_cuts_sound(f, call, e)) return false;
	for (int i = 0; i < MAX_FORM && f->op.forms[i].name; i++) {
		struct plan plan = plan_plain(&arith_f64, 0);
		plan.form = i;
		struct program *p = program_make(&f->tree, &f->op, call, &plan, e);
		if (!p) return false;
		program_free(p);
	}
	return true;
}

/* Are there pieces that are chunks? */
static bool in_chunks(const struct tree *t)
{
	bool yes = false;

	for (const struct each *x = t->each; x; x = NEXT(x)) yes = yes || x->by;
	for (const struct form_decl *f = t->forms; f; f = NEXT(f))
		for (const struct form_decl *g = f; g; g = g->more)
			for (const struct each *x = g->each; x; x = NEXT(x)) yes = yes || x->by;
	return yes;
}

static struct program *prepare(const struct call *call, const struct plan *plan, struct error *e)
{
	struct program *p = program_make(&formula_of(call->op)->tree, call->op, call, plan, e);

	if (!p || program_hold(p, plan, e)) return p;
	program_free(p);
	return NULL;
}

static bool make_op(struct formula *f, struct error *e)
{
	f->op.name = f->tree.name;
	f->op.what = f->tree.what;
	f->op.check = check;
	f->op.pieces = pieces;
	f->op.prepare = prepare;
	f->op.finish = program_done;
	f->op.runs = program_beside;
	f->op.sharing = &formula_sharing;
	f->op.holds = f->tree.held || in_chunks(&f->tree);
	f->op.derive = derive;
	f->op.right = right;
	f->op.iterates = f->tree.iterates;
	for (const struct tensor_decl *x = f->tree.out; x; x = NEXT(x))
		if (x->trace) f->op.has_trace = has_trace;
	if (!formula_tables(f, e)) return false;
	f->op.cut = formula_cut(f);
	return true;
}

static struct formula *of_text(const char *path, const char *text, size_t n, bool sound, struct error *e)
{
	struct formula *f = calloc(1, sizeof *f);

	if (!f) {
		error_set(e, E_MEMORY, path, NO_OFFSET, "reading a formula");
		return NULL;
	}
	bool read = formula_parse(&f->tree, path, text, n, e) && formula_use(&f->tree, formula_builtin_text, e) && make_op(f, e);
	f->op.file = sound ? NULL : f->tree.path;
	if (read && (sound || formula_check(f, e)) && cases_of_tree(&f->tree, &f->op, &f->op.cases, e)) return f;
	formula_end(f);
	return NULL;
}

struct formula *formula_of_text(const char *path, const char *text, size_t n, struct error *e) { return of_text(path, text, n, false, e); }
struct formula *formula_of_sound_text(const char *path, const char *text, size_t n, struct error *e) { return of_text(path, text, n, true, e); }

struct formula *formula_read(const char *path, struct error *e)
{
	struct formula *f = NULL;
	void *map;
	size_t n;

	if (!file_map(path, &map, &n, e)) return NULL;
	f = formula_of_text(path, map ? map : "", n, e);
	file_unmap(map, n);
	return f;
}

void formula_end(struct formula *f)
{
	if (f) formula_free(&f->tree);
	free(f);
}

bool formula_sizes(const struct call *call, const struct plan *plan, size_t *held, size_t *piece, struct error *e)
{
	struct program *p = program_make(&formula_of(call->op)->tree, call->op, call, plan, e);

	*held = *piece = 0;
	if (!p) return false;
	for (int i = 0; i < p->n_held; i++) *held += p->held[i].count;
	for (const struct program *x = p; x; x = x->next) *piece = x->room > *piece ? x->room : *piece;
	program_free(p);
	return true;
}

const char *formula_source(const struct op *op) { return op->prepare == prepare ? formula_of(op)->tree.source : NULL; }

const struct op *formula_op(const struct formula *f) { return &f->op; }

/* ---- etalon's own ---- */

enum { OPS = sizeof builtin_ops / sizeof *builtin_ops, LAYERS = sizeof builtin_layers / sizeof *builtin_layers };

size_t formula_builtins(void) { return OPS; }

struct formula *formula_builtin(size_t i, struct error *e)
{
	return formula_of_sound_text(builtin_ops[i].path, builtin_ops[i].text, strlen(builtin_ops[i].text), e);
}

/* Is it the file of the op of that name? */
static bool is_of(const char *path, const char *name)
{
	const char *file = strrchr(path, '/') + 1;

	return strlen(file) == strlen(name) + strlen(".op") && !strncmp(file, name, strlen(name));
}

const char *formula_builtin_text(const char *name)
{
	for (size_t i = 0; i < OPS; i++)
		if (is_of(builtin_ops[i].path, name)) return builtin_ops[i].text;
	for (size_t i = 0; i < LAYERS; i++)
		if (is_of(builtin_layers[i].path, name)) return builtin_layers[i].text;
	return NULL;
}

struct formula *formula_layer(const char *name, struct error *e)
{
	size_t i = 0;

	while (i < LAYERS && !is_of(builtin_layers[i].path, name)) i++;
	if (i < LAYERS) return formula_of_sound_text(builtin_layers[i].path, builtin_layers[i].text, strlen(builtin_layers[i].text), e);
	error_set(e, E_OP, name, NO_OFFSET, "no layer");
	return NULL;
}

bool formula_builtin_check(size_t i, struct error *e)
{
	struct formula *f = formula_of_text(builtin_ops[i].path, builtin_ops[i].text, strlen(builtin_ops[i].text), e);

	formula_end(f);
	return f != NULL;
}
