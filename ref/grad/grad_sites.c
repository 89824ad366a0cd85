/* Sites, faults, contracts and cases of NAME.backward. A value of NAME that a kernel may round it may round when it computes it again,
 * and so its gradient; a kernel of a wrong formula computes the wrong formula's gradients. */
#include <limits.h>
#include <string.h>

#include "grad_private.h"

#define TABLE(b, type, n) ((type *)pool_make(&(b)->pool, ((n) + 1) * sizeof(type)))

/* Is it of outputs alone? They are not computed again. */
static bool only_stored(const struct formula *f, int site)
{
	const struct site_decl *x = f->tree.sites;
	bool only = true;

	if (!x) return declared(f->tree.out, f->op.sites[site].name) != NULL;
	for (int i = 0; i < site; i++) x = (const struct site_decl *)x->d.next;
	for (int i = 0; i < x->n; i++) only = only && declared(f->tree.out, x->of[i]);
	return only;
}

static int add(struct backward *b, struct site_spec *sites, int *n, struct site_spec s)
{
	if (!s.name || *n == MAX_SITE) return -1;
	if (op_site(&b->op, s.name) >= 0) return -1;
	sites[*n] = s;
	return (*n)++;
}

static bool rounded_by_contract(const struct op *op, int site)
{
	bool yes = false;

	for (const struct contract *k = op->contracts; k->name; k++) yes = yes || k->site[site].on;
	return yes;
}

bool grad_sites(struct backward *b)
{
	struct site_spec *sites = TABLE(b, struct site_spec, MAX_SITE);
	const struct site_spec *of = b->of->op.sites;
	int n = 0;

	if (!(b->op.sites = sites)) return false;
	for (int i = 0; i < MAX_SITE; i++) b->site[i] = b->adjoint[i] = -1;
	for (int i = 0; of[i].name; i++)
		if (!only_stored(b->of, i)) b->site[i] = add(b, sites, &n, (struct site_spec){ of[i].name, of[i].what, of[i].forms, 0 });
	for (int i = 0; b->op.out[i].name; i++) b->store[i] = add(b, sites, &n, (struct site_spec){ b->op.out[i].name, "the output", UINT_MAX, i + 1 });
	for (int i = 0; of[i].name; i++) {
		const char *name = grad_name(b, of[i].name);
		if (name && op_site(&b->op, name) >= 0) name = rounded_by_contract(&b->of->op, i) ? grad_name_inside(b, of[i].name) : NULL;
		if (b->site[i] >= 0) b->adjoint[i] = add(b, sites, &n, (struct site_spec){ name, "its gradient", of[i].forms, 0 });
	}
	return true;
}

/* Is it none of the functions that have no derivative, and made of none? depth: of functions of the file. */
static bool has_derivative(const struct tree *t, const struct node *x, int depth)
{
	static const char *const none[] = { "memory", "power_of_two", "fast_angle", "bf16", "f16", "f32" };
	const struct macro *m = x->kind == NODE_CALL ? declared(t->macros, x->name) : NULL;
	bool yes = !m || depth > 8 || has_derivative(t, m->value, depth + 1);

	for (size_t i = 0; x->kind == NODE_CALL && i < sizeof none / sizeof *none; i++) yes = yes && strcmp(x->name, none[i]);
	for (int i = 0; i < x->n; i++) yes = yes && has_derivative(t, x->arg[i], depth);
	return yes;
}

bool grad_faults(struct backward *b)
{
	const struct op *of = &b->of->op;
	struct fault_spec *m = TABLE(b, struct fault_spec, MAX_FAULT);
	const struct fault_decl *x = b->of->tree.faults;

	for (int i = 0, n = 0; m && x; x = (const struct fault_decl *)x->d.next, i++) {
		bool yes = !x->site || b->site[of->faults[i].site] >= 0;
		for (int k = 0; k < x->n; k++) yes = yes && (x->define[k].kind == 't' || has_derivative(&b->of->tree, x->define[k].value, 0));
		if (!yes) continue;
		m[n] = of->faults[i];
		if (x->site) m[n].site = b->site[of->faults[i].site];
		b->fault[n++] = i;
	}
	b->op.faults = m;
	return m != NULL;
}

/* What a contract of NAME rounds as: gradients in the place of outputs. NULL where it says nothing. */
static const char *const *called_for(struct backward *b, const char *const *as)
{
	size_t n = 0;

	while (as && as[n]) n++;
	const char **names = n ? TABLE(b, const char *, n) : NULL;
	for (size_t i = 0; names && i < n; i++) {
		names[i] = as[i];
		for (int o = 0; b->of->op.out[o].name; o++)
			if (!strcmp(as[i], b->of->op.out[o].name)) names[i] = grad_name(b, as[i]);
	}
	return names;
}

bool grad_contracts(struct backward *b)
{
	const struct contract *of = b->of->op.contracts;
	size_t n = 0;

	while (of[n].name) n++;
	struct contract *k = TABLE(b, struct contract, n);
	for (size_t i = 0; k && i < n; i++) {
		k[i] = (struct contract){ .name = of[i].name, .what = of[i].what, .form = of[i].form, .chunk = of[i].chunk, .as = called_for(b, of[i].as) };
		for (int s = 0; s < MAX_SITE; s++) {
			if (b->site[s] >= 0) k[i].site[b->site[s]] = of[i].site[s];
			if (b->adjoint[s] >= 0) k[i].site[b->adjoint[s]] = of[i].site[s];
		}
	}
	b->op.contracts = k;
	return k != NULL;
}

/* The inputs of a case of NAME, and gradients of its outputs. */
static bool one_case(struct backward *b, const struct test_case *of, struct test_case *k)
{
	struct case_tensor *in = TABLE(b, struct case_tensor, MAX_IN), *out = TABLE(b, struct case_tensor, MAX_OUT);
	int n = 0, n_out = 0;

	if (!in || !out) return false;
	for (; of->in[n].name; n++) in[n] = of->in[n];
	for (int i = 0; of->out[i].name && n < MAX_IN; i++, n++)
		in[n] = (struct case_tensor){ grad_name(b, of->out[i].name), of->out[i].shape, of->out[i].dtype, DRAW_NORMAL, 0, 1 };
	for (int i = 0; of->in[i].name; i++) {
		const struct tensor_spec *spec = b->op.in;
		while (spec->name && strcmp(spec->name, of->in[i].name)) spec++;
		if (!spec->name || spec->flags & INTEGER || n_out == MAX_OUT) continue;
		out[n_out++] = (struct case_tensor){ .name = grad_name(b, spec->name), .shape = of->in[i].shape, .dtype = of->in[i].dtype };
	}
	*k = *of;
	k->op = b->op.name;
	k->rung = NULL;
	k->in = in;
	k->out = out;
	return true;
}

bool grad_cases(struct backward *b)
{
	const struct op *of = &b->of->op;
	const struct test_case *all = of->cases ? of->cases : test_cases;
	size_t n = 0;

	for (const struct test_case *x = all; x->op; x++) n += !strcmp(x->op, of->name);
	struct test_case *k = TABLE(b, struct test_case, n);
	b->op.cases = k;
	for (const struct test_case *x = all; k && x->op; x++)
		if (!strcmp(x->op, of->name) && !one_case(b, x, k++)) return false;
	return k != NULL;
}
