/* The cases of an op's file: sizes, parameters, and how each input is drawn. */
#include "formula_private.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "fixtures/io/file.h"

#define NEXT(x) ((void *)(x)->d.next)
#define TABLE(m, type, n) ((type *)pool_make(&(m)->t->pool, ((n) + 1) * sizeof(type)))

static bool is_tensor(const struct op *op, const char *name)
{
	for (const struct tensor_spec *t = op->in; t->name; t++)
		if (!strcmp(t->name, name)) return true;
	for (const struct tensor_spec *t = op->out; t->name; t++)
		if (!strcmp(t->name, name)) return true;
	return false;
}

static bool is_param(const struct op *op, const char *name)
{
	const struct param_spec *p = op->params;

	while (p->name && strcmp(p->name, name)) p++;
	return p->name != NULL;
}

/* Of a name that is a parameter's and a tensor's: is it said of the tensor? */
static bool of_tensor(const struct setting *s)
{
	return s->bare || s->draw || s->list || (s->dtype && case_type(s->dtype) < DT_COUNT);
}

/* What the case itself says of a tensor, or of a parameter or a size. */
static const struct setting *set_in(const struct made *m, const struct case_decl *c, const char *name, bool tensor)
{
	bool both = is_tensor(m->op, name) && is_param(m->op, name);

	for (int i = 0; i < c->n; i++)
		if (!strcmp(c->set[i].name, name) && (!both || of_tensor(&c->set[i]) == tensor)) return &c->set[i];
	return NULL;
}

/* What follows c: the case that it is as, and at last what all cases share. */
static const struct case_decl *behind(const struct made *m, const struct case_decl *c)
{
	return c->base ? c->base : c->common ? NULL : m->common;
}

/* The setting of a size or a parameter, or NULL. */
static const struct setting *setting_of(const struct made *m, const struct case_decl *c, const char *name)
{
	const struct setting *s = NULL;

	for (; c && !s; c = behind(m, c)) s = set_in(m, c, name, false);
	return s;
}

/* What a case says of a tensor; what it leaves out, of type and draw, says what it is as, and at last `draw`. named: not by
 * `draw` alone. False: nothing is said. */
static bool tensor_setting(const struct made *m, const struct case_decl *c, const char *name, struct setting *all, bool *named)
{
	*all = (struct setting){ .name = NULL };
	*named = false;
	for (; c; c = behind(m, c)) {
		const struct setting *s = set_in(m, c, name, true);
		if (!s) continue;
		*named = *named || !c->common;
		if (!all->name) all->name = s->name, all->line = s->line, all->column = s->column;
		if (!all->dtype) all->dtype = s->dtype;
		if (all->draw || all->list) continue;
		all->draw = s->draw, all->list = s->list, all->n_list = s->n_list, all->times = s->times, all->n_map = s->n_map;
		memcpy(all->number, s->number, sizeof s->number);
		memcpy(all->map, s->map, sizeof s->map);
	}
	return all->name != NULL;
}

static bool sizes(const struct made *m, const struct case_decl *c, struct test_case *k)
{
	struct case_dim *d = TABLE(m, struct case_dim, MAX_DIM);
	int n = 0;

	if (!(k->dims = d)) return false;
	for (int i = 0; m->op->dims[i]; i++) {
		const struct setting *s = setting_of(m, c, m->op->dims[i]);
		if (!s) continue;
		d[n].name = m->op->dims[i];
		if (!case_size(m, s, &d[n++].size)) return false;
	}
	return true;
}

static bool has_size(const struct test_case *k, const char *symbol, size_t n)
{
	const struct case_dim *d = k->dims;

	while (d->name && (strlen(d->name) != n || strncmp(d->name, symbol, n))) d++;
	return d->name != NULL;
}

/* Sizes that a `let` gives follow from the others, the parameters and which inputs the case gives; said, they must be those. */
static bool derived_sizes(const struct made *m, const struct case_decl *c, struct test_case *k)
{
	struct capture capture = { .params = json_loads(k->params, 0, NULL) };
	struct call call = { .op = m->op, .capture = &capture };
	static const struct tensor given;
	struct case_dim *d = (struct case_dim *)(void *)k->dims;        /* room for all: sizes() */
	struct setting s;
	bool named, ok = true;
	int n = 0;

	for (; d[n].name; n++) call.dim[op_size(m->op, d[n].name)] = d[n].size;
	for (int i = 0; m->op->in[i].name; i++)
		if ((tensor_setting(m, c, m->op->in[i].name, &s, &named) && named) || !(m->op->in[i].flags & OPTIONAL)) call.in[i] = &given;
	struct call said = call;
	if (m->op->derive && call_bind_params(&call, NULL)) m->op->derive(&call);
	for (int i = 0; m->op->dims[i] && ok; i++) {
		if (call.dim[i] == said.dim[i]) continue;
		if (said.dim[i]) ok = formula_error(m->e, m->t->path, c->d.line, c->d.column, "expected %s = %zu, or nothing of it, got %zu", m->op->dims[i], call.dim[i], said.dim[i]);
		else d[n++] = (struct case_dim){ m->op->dims[i], call.dim[i] };
	}
	json_decref(capture.params);
	return ok;
}

/* The shape without a first symbol that may be missing and is; NULL with an error where there is no size for another. */
static const char *shape_in(const struct made *m, const struct case_decl *c, const struct test_case *k, const char *shape)
{
	size_t batch = strcspn(shape, "?,");
	char text[128];

	if (shape[batch] == '?' && has_size(k, shape, batch)) {
		int n = snprintf(text, sizeof text, "%.*s%s", (int)batch, shape, shape + batch + 1);
		if (n >= (int)sizeof text || !(shape = pool_text(&m->t->pool, text, (size_t)n))) return NULL;
	} else if (shape[batch] == '?') shape += batch + 2;
	for (const char *s = shape; *s; s += strcspn(s, ","), s += *s == ',') {
		size_t n = strcspn(s, ",+-");
		if (has_size(k, s, n)) continue;
		formula_error(m->e, m->t->path, c->d.line, c->d.column, "expected a size for %.*s", (int)n, s);
		return NULL;
	}
	return shape;
}

static bool params(const struct made *m, const struct case_decl *c, struct test_case *k)
{
	char text[4096] = "{", value[2048];
	size_t n = 1;

	for (int i = 0; m->op->params[i].name; i++) {
		const struct setting *s = setting_of(m, c, m->op->params[i].name);
		if (!s) continue;
		if (!case_param(m, s, &m->op->params[i], value, sizeof value)) return false;
		n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s\": %s", n > 1 ? ", " : "", s->name, value);
		if (n + 2 > sizeof text) return case_wrong(m, s, "shorter parameters");
	}
	k->params = pool_text(&m->t->pool, strcat(text, "}"), n + 1);
	return k->params != NULL;
}

static bool inputs(const struct made *m, const struct case_decl *c, struct test_case *k)
{
	struct case_tensor *in = TABLE(m, struct case_tensor, MAX_IN);
	struct case_list *lists = TABLE(m, struct case_list, MAX_IN);
	struct case_map *maps = TABLE(m, struct case_map, MAX_IN);
	struct setting s;
	bool named;
	int n = 0, n_lists = 0, n_maps = 0;

	if (!in || !lists || !maps) return false;
	for (const struct tensor_spec *t = m->op->in; t->name; t++) {
		bool said = tensor_setting(m, c, t->name, &s, &named), integer = t->flags & INTEGER;
		if (t->flags & OPTIONAL && !named) continue;
		in[n] = (struct case_tensor){ .name = t->name, .shape = shape_in(m, c, k, t->shape) };
		if (!in[n].shape) return false;
		if (integer && !said) return formula_error(m->e, m->t->path, c->d.line, c->d.column, "expected %s = [its numbers]", t->name);
		if (!case_drawn(m, &s, &in[n++], integer)) return false;
		if (s.list) lists[n_lists++] = (struct case_list){ t->name, s.list, (size_t)s.n_list };
		if (s.draw && (s.n_map || s.times != 1) && !s.list && !case_mapped(m, &s, &maps[n_maps++])) return false;
	}
	k->in = in;
	k->lists = lists;
	k->maps = maps;
	return true;
}

static bool is_given(const struct test_case *k, const char *input)
{
	for (const struct case_tensor *t = k->in; t->name; t++)
		if (!strcmp(t->name, input)) return true;
	return false;
}

static bool whole_numbers(const struct made *m, const struct setting *s, struct case_tensor *t)
{
	t->dtype = s->dtype ? case_type(s->dtype) : DT_I32;
	return (!s->draw && !s->list && (t->dtype == DT_I32 || t->dtype == DT_I64)) || case_wrong(m, s, "i32 or i64");
}

static bool outputs(const struct made *m, const struct case_decl *c, struct test_case *k)
{
	struct case_tensor *out = TABLE(m, struct case_tensor, MAX_OUT);
	struct setting s;
	bool named;
	int n = 0;

	if (!out) return false;
	for (const struct tensor_spec *t = m->op->out; t->name; t++) {
		tensor_setting(m, c, t->name, &s, &named);
		if ((t->flags & (OPTIONAL | TRACE) && !named) || (t->with && !is_given(k, t->with))) continue;
		out[n] = (struct case_tensor){ .name = t->name, .shape = shape_in(m, c, k, t->shape) };
		if (!out[n].shape) return false;
		if (!(t->flags & INTEGER ? whole_numbers(m, &s, &out[n]) : case_drawn(m, &s, &out[n], false))) return false;
		n++;
	}
	k->out = out;
	return true;
}

/* A name that is a parameter's and a tensor's may stand once for each. */
static bool says_the_same(const struct made *m, const struct setting *a, const struct setting *b)
{
	const bool both = is_tensor(m->op, a->name) && is_param(m->op, a->name);

	return !strcmp(a->name, b->name) && !(both && of_tensor(a) != of_tensor(b));
}

static bool all_known(const struct made *m, const struct case_decl *c)
{
	for (int i = 0; i < c->n; i++) {
		const struct setting *s = &c->set[i];
		if (!is_tensor(m->op, s->name) && !is_param(m->op, s->name) && op_size(m->op, s->name) < 0)
			return case_no_such(m, s);
		for (int k = 0; k < i; k++)
			if (says_the_same(m, s, &c->set[k])) return case_wrong(m, s, "one mention in a case, not a second one");
	}
	if (!c->contract || op_contract(m->op, c->contract) >= 0) return true;
	return formula_error(m->e, m->t->path, c->contract_line, c->contract_column, "expected a contract's name, got '%s'", c->contract);
}

static const char *place_of(const struct made *m, const struct case_decl *c)
{
	char at[512];

	snprintf(at, sizeof at, "%s:%d:%d", m->t->path, c->d.line, c->d.column);
	return pool_text(&m->t->pool, at, strlen(at));
}

/* The case whose numbers c has. */
static const char *numbers_of(const struct case_decl *c)
{
	while (c->alike) c = c->base;
	return c->d.name;
}

bool cases_of_tree(struct tree *t, const struct op *op, const struct test_case **cases, struct error *e)
{
	struct made m = { t, op, NULL, e };
	struct test_case *k;
	size_t n = 0;

	*cases = NULL;
	for (const struct case_decl *c = t->cases; c; c = NEXT(c), n++) {
		if (c->common) m.common = c;
		if (!all_known(&m, c)) return false;
	}
	if (!n) return true;
	if (!(*cases = k = TABLE(&m, struct test_case, n))) return error_set(e, E_MEMORY, t->path, NO_OFFSET, "reading a formula");
	for (const struct case_decl *c = t->cases; c; c = NEXT(c)) {
		if (c->common) continue;
		*k = (struct test_case){ .op = op->name,
			.name = c->d.name,
			.drawn_as = numbers_of(c),
			.what = c->d.what,
			.at = place_of(&m, c),
			.large = c->large,
			.rung = c->variant,
			.contract = c->contract };
		if (!sizes(&m, c, k) || !params(&m, c, k) || !derived_sizes(&m, c, k) || !inputs(&m, c, k) || !outputs(&m, c, k) || !case_is_call(&m, c, k++))
			return t->pool.failed ? error_set(e, E_MEMORY, t->path, NO_OFFSET, "reading a formula") : false;
	}
	return true;
}

/* ---- a file of more cases of an op ---- */



struct case_file { struct tree tree; const struct op *op; const struct test_case *cases; };

static bool read_text(struct case_file *f, const char *path, const char *text, size_t n, struct error *e)
{
	if (!formula_parse_cases(&f->tree, path, text, n, e)) return false;
	if (!(f->op = op_find(f->tree.name)))
		return formula_error(e, f->tree.path, 1, 1, "expected the name of an op, which '%s' is not; see `etalon list ops`", f->tree.name);
	if (!cases_of_tree(&f->tree, f->op, &f->cases, e)) return false;
	return (f->cases && f->cases->op) || formula_error(e, f->tree.path, 1, 1, "expected a line 'case NAME: ...'");
}

struct case_file *case_file_read(const char *path, struct error *e)
{
	struct case_file *f = calloc(1, sizeof *f);
	void *map;
	size_t n;

	if (!f) error_set(e, E_MEMORY, path, NO_OFFSET, "reading cases");
	if (!f || !file_map(path, &map, &n, e)) {
		free(f);
		return NULL;
	}
	bool read = read_text(f, path, map ? map : "", n, e);
	file_unmap(map, n);
	if (read) return f;
	case_file_free(f);
	return NULL;
}

void case_file_free(struct case_file *f)
{
	if (f) formula_free(&f->tree);
	free(f);
}

const struct op *case_file_op(const struct case_file *f) { return f->op; }
const struct test_case *case_file_cases(const struct case_file *f) { return f->cases; }
