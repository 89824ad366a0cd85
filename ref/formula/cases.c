/* The cases of a formula's file: sizes, parameters, and how each input is drawn. */
#include "formula_private.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NEXT(x) ((void *)(x)->d.next)
#define POOL(f) ((struct pool *)(uintptr_t)&(f)->tree.pool)
#define TABLE(f, type, n) ((type *)pool_make(POOL(f), ((n) + 1) * sizeof(type)))

static bool wrong(const struct formula *f, const struct setting *s, struct error *e, const char *what)
{
	return formula_error(e, f->tree.path, s->line, s->column, "expected %s for '%s'", what, s->name);
}

static const struct setting *set_in(const struct case_decl *c, const char *name)
{
	for (int i = 0; c && i < c->n; i++)
		if (!strcmp(c->set[i].name, name)) return &c->set[i];
	return NULL;
}

/* 1 or more of a whole number, or an error */
static bool size(const struct formula *f, const struct setting *s, size_t *n, struct error *e)
{
	double x = s->number[0];

	if (s->dtype || s->list || s->json || !(x >= 1 && x < 1e9) || x != (double)(size_t)x) return wrong(f, s, e, "a size, 1 or more");
	*n = (size_t)x;
	return true;
}

static bool sizes(const struct formula *f, const struct case_decl *c, const struct case_decl *common, struct test_case *k, struct error *e)
{
	struct case_dim *d = TABLE(f, struct case_dim, MAX_DIM);
	int n = 0;

	if (!(k->dims = d)) return false;
	for (int i = 0; f->op.dims[i]; i++) {
		const struct setting *s = set_in(c, f->op.dims[i]);
		if (!s) s = set_in(common, f->op.dims[i]);
		if (!s) continue;
		d[n].name = f->op.dims[i];
		if (!size(f, s, &d[n++].size, e)) return false;
	}
	return true;
}

/* Is there a size for each symbol of a shape? */
static bool all_sizes(const struct formula *f, const struct case_decl *c, const struct test_case *k, const char *shape, struct error *e)
{
	for (const char *s = shape; *s; s += strcspn(s, ","), s += *s == ',') {
		size_t n = strcspn(s, ",+-");
		const struct case_dim *d = k->dims;
		while (d->name && (strlen(d->name) != n || strncmp(d->name, s, n))) d++;
		if (!d->name) return formula_error(e, f->tree.path, c->d.line, c->d.column, "expected a size for %.*s", (int)n, s);
	}
	return true;
}

/* A parameter's value as JSON. */
static bool param(const struct formula *f, const struct setting *s, const struct param_spec *p, char *text, size_t room, struct error *e)
{
	size_t width = 1, n = 0;

	if (p->kind == PARAM_BOOL) {
		if (!s->json || s->is_text) return wrong(f, s, e, "true or false");
		return snprintf(text, room, "%s", s->json) > 0;
	}
	if (p->kind == PARAM_CHOICE) {
		if (!s->dtype) return wrong(f, s, e, p->choices);
		return snprintf(text, room, "\"%s\"", s->dtype) > 0;
	}
	if (p->kind == PARAM_REAL) {
		if (s->dtype || s->json || s->list) return wrong(f, s, e, "a number");
		return snprintf(text, room, "%.17g", s->number[0]) > 0;
	}
	for (const char *c = p->choices; *c; c++) width += *c == ',';
	if (!s->list || s->n_list % (int)width) return wrong(f, s, e, "[numbers], in whole rows");
	for (int i = 0; i < s->n_list && n + 64 < room; i++)
		n += (size_t)snprintf(text + n, room - n, "%s%s%.17g%s", i ? ", " : "[", width > 1 && i % (int)width == 0 ? "[" : "",
			s->list[i], width > 1 && (i + 1) % (int)width == 0 ? "]" : "");
	return snprintf(text + n, room - n, "]") > 0;
}

static bool params(const struct formula *f, const struct case_decl *c, const struct case_decl *common, struct test_case *k, struct error *e)
{
	char text[4096] = "{", value[2048];
	size_t n = 1;

	for (int i = 0; f->op.params[i].name; i++) {
		const struct setting *s = set_in(c, f->op.params[i].name);
		if (!s) s = set_in(common, f->op.params[i].name);
		if (!s) continue;
		if (!param(f, s, &f->op.params[i], value, sizeof value, e)) return false;
		n += (size_t)snprintf(text + n, sizeof text - n, "%s\"%s\": %s", n > 1 ? ", " : "", s->name, value);
		if (n + 2 > sizeof text) return wrong(f, s, e, "shorter parameters");
	}
	k->params = pool_text(POOL(f), strcat(text, "}"), n + 1);
	return k->params != NULL;
}

/* TYPE [DRAW(a, b)], or the numbers of an integer input. */
static bool drawn(const struct formula *f, const struct setting *s, struct case_tensor *t, bool integer, struct error *e)
{
	static const struct { const char *name; enum draw draw; } draws[] = {
		{ "normal", DRAW_NORMAL }, { "uniform", DRAW_UNIFORM }, { "log_uniform", DRAW_LOG_UNIFORM }, { "graded", DRAW_GRADED }
	};
	size_t i = 0;

	t->dtype = integer ? DT_I32 : DT_F32;
	t->draw = integer ? DRAW_LIST : DRAW_NORMAL;
	t->b = 1;
	if (!s) return !integer;
	if (integer) return s->list ? true : wrong(f, s, e, "[its numbers]");
	if (!s->dtype) return wrong(f, s, e, "TYPE or TYPE DRAW(a, b)");
	for (i = 0; i < DT_COUNT && strcasecmp(dtype_info[i].name, s->dtype); i++) ;
	if (i == DT_COUNT || !dtype_info[i].is_float) return wrong(f, s, e, "a floating-point type");
	t->dtype = (enum dtype)i;
	if (!s->draw) return true;
	for (i = 0; i < sizeof draws / sizeof *draws && strcmp(draws[i].name, s->draw); i++) ;
	if (i == sizeof draws / sizeof *draws) return wrong(f, s, e, "normal, uniform, log_uniform or graded");
	t->draw = draws[i].draw;
	t->a = s->number[0];
	t->b = s->number[1];
	return true;
}

static bool tensors(const struct formula *f, const struct case_decl *c, const struct case_decl *common, struct test_case *k, struct error *e)
{
	struct case_tensor *in = TABLE(f, struct case_tensor, MAX_IN), *out = TABLE(f, struct case_tensor, MAX_OUT);
	struct case_list *lists = TABLE(f, struct case_list, MAX_IN);
	int n_in = 0, n_out = 0, n_lists = 0;

	if (!in || !out || !lists) return false;
	for (const struct tensor_decl *t = f->tree.in; t; t = NEXT(t)) {
		const struct setting *own = set_in(c, t->d.name), *s = own ? own : set_in(common, t->d.name);
		if (t->optional && !own) continue;
		if (!all_sizes(f, c, k, t->shape, e)) return false;
		if (t->integer && !s) return formula_error(e, f->tree.path, c->d.line, c->d.column, "expected %s = [its numbers]", t->d.name);
		in[n_in] = (struct case_tensor){ .name = t->d.name, .shape = t->shape };
		if (!drawn(f, s, &in[n_in++], t->integer, e)) return false;
		if (t->integer) lists[n_lists++] = (struct case_list){ t->d.name, s->list, (size_t)s->n_list };
	}
	for (const struct tensor_decl *t = f->tree.out; t; t = NEXT(t)) {
		const struct setting *own = set_in(c, t->d.name), *s = own ? own : set_in(common, t->d.name);
		if (t->with[0] && !set_in(c, t->with)) continue;
		if (!all_sizes(f, c, k, t->shape, e)) return false;
		out[n_out] = (struct case_tensor){ .name = t->d.name, .shape = t->shape };
		if (!drawn(f, s, &out[n_out++], false, e)) return false;
	}
	k->in = in;
	k->out = out;
	k->lists = lists;
	return true;
}

static bool all_known(const struct formula *f, const struct case_decl *c, struct error *e)
{
	for (int i = 0; i < c->n; i++) {
		const struct setting *s = &c->set[i];
		bool known = declared(f->tree.in, s->name) || declared(f->tree.out, s->name) || declared(f->tree.params, s->name);
		for (int d = 0; f->op.dims[d]; d++) known = known || !strcmp(f->op.dims[d], s->name);
		if (!known) return formula_error(e, f->tree.path, s->line, s->column, "expected a size, a parameter or a tensor; nothing is named '%s'", s->name);
	}
	return true;
}

bool formula_cases(struct formula *f, struct error *e)
{
	const struct case_decl *common = NULL;
	size_t n = 0;

	for (const struct case_decl *c = f->tree.cases; c; c = NEXT(c), n++) {
		if (c->common) common = c;
		if (!all_known(f, c, e)) return false;
	}
	if (!n) return true;            /* those of fixtures/cases/case_table.c, if any */
	struct test_case *k = f->cases = TABLE(f, struct test_case, n);
	f->op.cases = k;
	for (const struct case_decl *c = f->tree.cases; k && c; c = NEXT(c)) {
		if (c->common) continue;
		*k = (struct test_case){ .op = f->op.name, .name = c->d.name, .what = c->d.what };
		if (!sizes(f, c, common, k, e) || !params(f, c, common, k, e) || !tensors(f, c, common, k, e)) return false;
		k++;
	}
	return f->cases != NULL || error_set(e, E_MEMORY, f->tree.path, NO_OFFSET, "reading a formula");
}
