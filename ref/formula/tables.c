/* The tables of an op, from its formula. */
#include "formula_private.h"
#include "ref/parse/nearest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* "expected WHAT", at a declaration */
__attribute__((format(printf, 4, 5)))
static bool wrong(const struct formula *f, const struct declared *d, struct error *e, const char *what, ...)
{
	char text[256];
	va_list more;

	va_start(more, what);
	vsnprintf(text, sizeof text, what, more);
	va_end(more);
	return formula_error(e, f->tree.path, d->line, d->column, "expected %s", text);
}

static size_t length(const void *list)
{
	size_t n = 0;

	for (const struct declared *d = list; d; d = d->next) n++;
	return n;
}

/* Room for n entries and the one that ends the table. */
#define TABLE(f, type, n) ((type *)pool_make(&(f)->tree.pool, ((n) + 1) * sizeof(type)))
#define NEXT(x) ((void *)(x)->d.next)

bool formula_format(const char *name, enum format *format, enum rounding *rounding)
{
	for (int i = 0; i < FMT_COUNT; i++) {
		size_t n = strlen(format_info[i].name);
		if (strncmp(name, format_info[i].name, n) || (name[n] && strcmp(name + n, "_rz"))) continue;
		*format = (enum format)i;
		*rounding = name[n] ? ROUND_ZERO : ROUND_NEAREST_EVEN;
		return true;
	}
	return false;
}

static bool has_symbol(const char *shape, const char *symbol, size_t n)
{
	for (const char *s = shape; *s; s += *s == ',') {
		if (strcspn(s, ",+-?") == n && !strncmp(s, symbol, n)) return true;
		s += strcspn(s, ",");
	}
	return false;
}

static bool sizes(struct formula *f, const struct tensor_decl *t, struct error *e)
{
	for (; t; t = NEXT(t))
		for (const char *s = t->shape; *s;) {
			size_t n = strcspn(s, ",+-?"), i = 0;
			while (f->op.dims[i] && (strlen(f->op.dims[i]) != n || strncmp(f->op.dims[i], s, n))) i++;
			if (i == MAX_DIM) return wrong(f, &t->d, e, "at most 16 sizes");
			if (!f->op.dims[i]) f->op.dims[i] = pool_text(&f->tree.pool, s, n);
			s += strcspn(s, ",");
			s += *s == ',';
		}
	return true;
}

/* Each size of what is stored is an input's, or a `let` says it. */
static bool sizes_bound(struct formula *f, const struct tensor_decl *t, struct error *e)
{
	for (; t; t = NEXT(t))
		for (const char *s = t->shape; *s; s += *s == ',') {
			size_t n = strcspn(s, ",+-?");
			bool bound = false;
			for (const struct tensor_decl *in = f->tree.in; in && !bound; in = NEXT(in)) bound = has_symbol(in->shape, s, n);
			for (const struct alias *a = f->tree.lets; a && !bound; a = NEXT(a)) bound = strlen(a->d.name) == n && !strncmp(a->d.name, s, n);
			if (!bound && !t->trace) return wrong(f, &t->d, e, "a size of an input in %s [%s], or 'let %.*s = ...'; no input has %.*s", t->d.name, t->shape, (int)n, s, (int)n, s);
			s += strcspn(s, ",");
		}
	return true;
}

static bool tensors(struct formula *f, struct error *e)
{
	const struct tree *t = &f->tree;
	size_t n_in = length(t->in), n_out = length(t->out), i = 0;
	struct tensor_spec *in = TABLE(f, struct tensor_spec, n_in), *out = TABLE(f, struct tensor_spec, n_out);

	if (n_in > MAX_IN) return wrong(f, &t->in->d, e, "at most 24 inputs");
	if (n_out > MAX_OUT) return wrong(f, &t->out->d, e, "at most 16 outputs");
	if (!in || !out) return false;
	for (const struct tensor_decl *x = t->in; x; x = NEXT(x), i++)
		in[i] = (struct tensor_spec){ x->d.name, x->shape, (x->optional ? OPTIONAL : 0) | (x->integer ? INTEGER : 0), x->d.what, NULL };
	i = 0;
	for (const struct tensor_decl *x = t->out; x; x = NEXT(x), i++) {
		if (x->with[0] && !declared(t->in, x->with)) return wrong(f, &x->d, e, "an input's name after 'with', got '%s'", x->with);
		const int whole = x->integer ? INTEGER | (formula_names(t, x->d.name) ? NAMES : 0) : 0;
		out[i] = (struct tensor_spec){ x->d.name, x->shape, (x->optional ? OPTIONAL : 0) | whole | (x->trace ? TRACE : 0), x->d.what,
			x->with[0] ? x->with : NULL };
	}
	f->op.in = in;
	f->op.out = out;
	return sizes(f, t->in, e) && sizes(f, t->out, e) && sizes(f, t->held, e) && sizes_bound(f, t->out, e) && sizes_bound(f, t->held, e);
}

static bool params(struct formula *f, struct error *e)
{
	size_t n = length(f->tree.params), i = 0;
	struct param_spec *p = TABLE(f, struct param_spec, n);

	if (n > MAX_PARAM) return wrong(f, &f->tree.params->d, e, "at most 16 parameters");
	if (!p) return false;
	for (const struct param_decl *x = f->tree.params; x; x = NEXT(x), i++) {
		enum param_kind kind = x->is_bool ? PARAM_BOOL : x->names ? PARAM_CHOICE : x->rows ? PARAM_LIST : PARAM_REAL;
		const struct node *v = x->value;
		bool minus = v && v->kind == NODE_NEG && v->arg[0]->kind == NODE_NUMBER;
		double absent = minus ? -v->arg[0]->number : v && v->kind == NODE_NUMBER ? v->number : v ? (double)NAN : 0;
		p[i] = (struct param_spec){ x->d.name, kind, x->names ? x->names : x->rows,
			x->rows || x->names ? x->required : !v, x->rows ? (double)NAN : absent, x->d.what };
	}
	f->op.params = p;
	return true;
}

static bool chunked(const struct statement *s)
{
	for (; s; s = s->next)
		if (s->loop && (s->loop->chunks || chunked(s->body))) return true;
	return false;
}

static void piece(calc *c, size_t i) { program_piece(c_program(c), c, i); }

static bool forms(struct formula *f, struct error *e)
{
	struct site_spec *sites = TABLE(f, struct site_spec, MAX_SITE);
	size_t n = 0;
	int i = 0;

	if (!sites || !formula_listed_sites(f, sites, e)) return false;
	f->op.sites = sites;
	for (const struct form_decl *x = f->tree.forms; x; x = NEXT(x), i++) {
		if (i == MAX_FORM) return wrong(f, &x->d, e, "at most %d forms", MAX_FORM);
		f->op.forms[i] = (struct form){ x->d.name, piece, chunked(x->body) };
		for (const struct form_decl *y = x; y; y = y->more)
			if (!formula_sites_of(f, sites, &n, y->body, i, e)) return false;
	}
	return formula_sites_stand(f, sites, e);
}

static int form_of(const struct formula *f, const char *name) { return name[0] ? declared_index(f->tree.forms, name) : f->tree.forms->d.next ? -1 : 0; }

static bool defines(const struct statement *s, const char *name)
{
	for (; s; s = s->next) {
		if (s->loop && same_name(s->loop->var, name)) return true;
		if (s->body ? defines(s->body, name) : same_name(s->define.name, name)) return true;
		for (int i = 0; s->loop && i < s->loop->n_carry; i++)
			if (same_name(s->loop->carry[i].name, name)) return true;
	}
	return false;
}

static bool is_taken(const struct formula *f, const char *name)
{
	const struct tree *t = &f->tree;
	const void *const lists[] = { t->in, t->out, t->held, t->params, t->lets, t->aliases, t->each, t->macros };

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
		if (declared(lists[i], name)) return true;
	if (op_size(&f->op, name) >= 0) return true;
	for (const struct form_decl *x = t->forms; x; x = NEXT(x))
		for (const struct form_decl *y = x; y; y = y->more)
			if (declared(y->each, name) || defines(y->body, name)) return true;
	return false;
}

/* What the definitions of a fault take a value for, and which. */
static bool parameter(const struct formula *f, const struct fault_decl *x, struct fault_spec *m, struct error *e)
{
	if (x->site) return wrong(f, &x->d, e, "definitions of a fault that has a parameter");
	if (is_taken(f, x->parameter)) return wrong(f, &x->d, e, "a name of its own for the parameter; '%s' is another's", x->parameter);
	if (x->size && op_size(&f->op, x->size) < 0) return wrong(f, &x->d, e, "the name of a size, a:b or numbers after 'in', got '%s'", x->size);
	m->parameter = x->parameter;
	m->size = x->size;
	m->list = x->list;
	m->first = x->first;
	m->n = (size_t)x->values;
	m->by = x->by;
	return true;
}

static const char *near_site(const struct op *op, const char *name, char meant[NEAREST_SAID])
{
	struct nearest near = nearest_to(name);

	for (const struct site_spec *s = op->sites; s->name; s++) nearest_try(&near, s->name);
	return nearest_said(&near, meant);
}

static bool faults(struct formula *f, struct error *e)
{
	size_t n = length(f->tree.faults), i = 0;
	struct fault_spec *m = TABLE(f, struct fault_spec, n);
	char meant[NEAREST_SAID];
	enum rounding r;

	if (!m) return false;
	for (const struct fault_decl *x = f->tree.faults; x; x = NEXT(x), i++) {
		int form = form_of(f, x->form);
		m[i] = (struct fault_spec){ x->d.name, x->d.what[0] ? x->d.what : x->site ? x->format : x->define[0].text, x->seen, form, x->site != NULL, 0, 0, NULL, NULL, NULL, 0, 0, 0 };
		if (i >= MAX_FAULT && !x->site) return wrong(f, &x->d, e, "at most 64 faults, or those that only round behind them");
		if (x->form[0] && form < 0) return wrong(f, &x->d, e, "a form's name after 'in', got '%s'", x->form);
		if (x->parameter && !parameter(f, x, &m[i], e)) return false;
		if (!x->site) continue;
		m[i].site = op_site(&f->op, x->site);
		if (m[i].site < 0) return wrong(f, &x->d, e, "a name that is defined and read, after 'round'; nothing is named '%s'%s", x->site, near_site(&f->op, x->site, meant));
		if (!formula_format(x->format, &m[i].format, &r) || r) return wrong(f, &x->d, e, "bf16, f16, tf32, f32, e4m3 or e5m2 after 'to', got '%s'", x->format);
	}
	f->op.faults = m;
	return true;
}

static bool roundings(struct formula *f, const struct round_decl *r, int n, struct site_rounding *site, struct error *e)
{
	char meant[NEAREST_SAID];

	for (int i = 0; i < n; i++, r++) {
		int at = op_site(&f->op, r->site);
		if (at < 0) return formula_error(e, f->tree.path, r->line, r->column, "expected a name that is defined and read, got '%s'%s", r->site, near_site(&f->op, r->site, meant));
		site[at].on = true;
		if (!formula_format(r->format, &site[at].format, &site[at].rounding))
			return formula_error(e, f->tree.path, r->line, r->column, "expected bf16, f16, tf32, tf32_rz, f32, bf16x2, e4m3 or e5m2, got '%s'", r->format);
	}
	return true;
}

static bool lies_in(const struct structure_decl *x, const char *contract)
{
	bool yes = false;

	for (int i = 0; i < x->n_of; i++) yes = yes || !strcmp(x->of[i], contract);
	return yes;
}

/* The kernels that are known to lie in a contract; NULL where the file has none. */
static bool structures(struct formula *f, const char *of, const struct structure **all, struct error *e)
{
	struct structure *k = TABLE(f, struct structure, length(f->tree.structures));
	size_t n = 0;

	if (!k) return false;
	for (const struct structure_decl *x = f->tree.structures; x; x = NEXT(x)) {
		if (!lies_in(x, of)) continue;
		k[n].name = x->d.name;
		if (!roundings(f, x->round, x->n, k[n++].site, e)) return false;
	}
	*all = n ? k : NULL;
	return true;
}

/* What a contract rounds as; NULL where the file says nothing. */
static bool called_for(struct formula *f, const struct contract_decl *x, const char *const **as, struct error *e)
{
	const char **names = TABLE(f, const char *, (size_t)x->n_as);

	if (!names) return false;
	for (int i = 0; i < x->n_as; i++) {
		bool known = !strcmp(x->as[i], "operands") || declared(f->tree.in, x->as[i]) || declared(f->tree.out, x->as[i]);
		if (!known) return wrong(f, &x->d, e, "a tensor's name, or operands, after 'as', got '%s'", x->as[i]);
		names[i] = x->as[i];
	}
	*as = x->n_as ? names : NULL;
	return true;
}

static bool contracts(struct formula *f, struct error *e)
{
	size_t n = length(f->tree.contracts), i = 0;
	struct contract *k = TABLE(f, struct contract, n ? n : 1);

	if (!k) return false;
	if (!n) k[0] = (struct contract){ .name = "f32", .what = "all in float32" };
	for (const struct structure_decl *x = f->tree.structures; x; x = NEXT(x))
		for (int k_of = 0; k_of < x->n_of; k_of++)
			if (!declared(f->tree.contracts, x->of[k_of])) return formula_error(e, f->tree.path, x->of_line, x->of_column, "expected a contract's name after 'of', got '%s'", x->of[k_of]);
	for (const struct contract_decl *x = f->tree.contracts; x; x = NEXT(x), i++) {
		int form = x->form[0] ? form_of(f, x->form) : 0;
		if (form < 0) return wrong(f, &x->d, e, "a form's name after 'in', got '%s'", x->form);
		k[i] = (struct contract){ .name = x->d.name, .what = x->d.what, .form = form, .chunk = x->by };
		if (f->op.forms[form].chunked && !k[i].chunk) k[i].chunk = DEFAULT_CHUNK;
		if (!called_for(f, x, &k[i].as, e)) return false;
		if (!roundings(f, x->round, x->n, k[i].site, e) || !structures(f, x->d.name, &k[i].structures, e)) return false;
	}
	f->op.contracts = k;
	return true;
}

bool formula_tables(struct formula *f, struct error *e)
{
	if (tensors(f, e) && params(f, e) && forms(f, e) && faults(f, e) && contracts(f, e)) return true;
	if (f->tree.pool.failed) error_set(e, E_MEMORY, f->tree.path, NO_OFFSET, "reading a formula");
	return false;
}
