/* What a case's settings say: a size, a parameter, a type and a draw; and whether all of it is a call of the op. */
#include "formula_private.h"
#include "ref/parse/nearest.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool case_wrong(const struct made *m, const struct setting *s, const char *what)
{
	return formula_error(m->e, m->t->path, s->line, s->column, "expected %s for '%s'", what, s->name);
}

enum dtype case_type(const char *name)
{
	size_t i = 0;

	while (i < DT_COUNT && strcasecmp(dtype_info[i].name, name)) i++;
	return (enum dtype)i;
}

bool case_size(const struct made *m, const struct setting *s, size_t *n)
{
	double x = s->number[0];

	if (s->bare || s->dtype || s->list || s->json || !(x >= 1 && x < 1e9) || x != (double)(size_t)x) return case_wrong(m, s, "a size, 1 or more");
	*n = (size_t)x;
	return true;
}

/* The shortest decimal that reads back as x. */
static int number_said(char *text, size_t room, double x)
{
	int n = 0;

	for (int digits = 15; digits <= 17; digits++)
		if ((n = snprintf(text, room, "%.*g", digits, x)), strtod(text, NULL) == x) break;
	return n;
}

bool case_param(const struct made *m, const struct setting *s, const struct param_spec *p, char *text, size_t room)
{
	size_t width = 1, n = 1;

	if (s->bare) return case_wrong(m, s, "= and its value");
	if (p->kind == PARAM_BOOL) {
		if (!s->json || s->is_text) return case_wrong(m, s, "true or false");
		return snprintf(text, room, "%s", s->json) > 0;
	}
	if (p->kind == PARAM_CHOICE) {
		if (!s->dtype && !s->is_text) return case_wrong(m, s, p->choices);
		return snprintf(text, room, "\"%s\"", s->dtype ? s->dtype : s->json) > 0;
	}
	if (p->kind == PARAM_REAL) {
		if (s->dtype || s->json || s->list) return case_wrong(m, s, "a number");
		return number_said(text, room, s->number[0]) > 0;
	}
	for (const char *c = p->choices; *c; c++) width += *c == ',';
	if (!s->list || s->n_list % (int)width) return case_wrong(m, s, "[numbers], in whole rows");
	text[0] = '[';
	for (int i = 0; i < s->n_list && n + 64 < room; i++) {
		n += (size_t)snprintf(text + n, room - n, "%s%s", i ? ", " : "", width > 1 && i % (int)width == 0 ? "[" : "");
		n += (size_t)number_said(text + n, room - n, s->list[i]);
		if (width > 1 && (i + 1) % (int)width == 0) text[n++] = ']';
	}
	return snprintf(text + n, room - n, "]") > 0;
}

static bool list_draw(const struct made *m, const struct setting *s, struct case_tensor *t)
{
	t->draw = s->draw ? DRAW_CUTS : DRAW_LIST;
	if (!s->list || (s->draw && strcmp(s->draw, "cuts"))) return case_wrong(m, s, "[its numbers] or cuts [lengths]");
	for (int i = 0; t->dtype == DT_I32 && i < s->n_list; i++)
		if (s->list[i] != floor(s->list[i]) || fabs(s->list[i]) > INT32_MAX) return case_wrong(m, s, "whole numbers below 2^31");
	return s->n_list > 0 || case_wrong(m, s, "a number at least");
}

/* The functions of the draw, the innermost first. */
bool case_mapped(const struct made *m, const struct setting *s, struct case_map *map)
{
	*map = (struct case_map){ .tensor = s->name, .times = s->times };
	for (int i = 0; i < s->n_map; i++) {
		enum draw_map k = MAP_NONE + 1;
		while (k < MAPS && strcmp(draw_map_name[k], s->map[s->n_map - 1 - i])) k++;
		if (k == MAPS) return case_wrong(m, s, "unit, cumsum, sigmoid, log_sigmoid, softplus, log, exp or abs of a draw");
		map->map[i] = k;
	}
	return true;
}

bool case_drawn(const struct made *m, const struct setting *s, struct case_tensor *t, bool integer)
{
	size_t i = 0;

	*t = (struct case_tensor){ .name = t->name, .shape = t->shape, .dtype = integer ? DT_I32 : DT_F32, .draw = DRAW_NORMAL, .b = 1 };
	if (!s->name) return true;
	if (s->json || (integer && s->dtype)) return case_wrong(m, s, integer ? "[its numbers] or cuts [lengths]" : "TYPE or TYPE DRAW(a, b)");
	if (integer) return list_draw(m, s, t);
	if (s->dtype) t->dtype = case_type(s->dtype);
	if (t->dtype == DT_COUNT || !dtype_info[t->dtype].is_float) return case_wrong(m, s, "a floating-point type");
	if (s->list) return list_draw(m, s, t);
	if (!s->draw) return true;
	while (i < DRAWS && (i == DRAW_CUTS || i == DRAW_LIST || strcmp(draw_name[i], s->draw))) i++;
	if (i == DRAWS) return case_wrong(m, s, "normal, uniform, log_uniform, graded or cuts");
	t->draw = (enum draw)i;
	t->a = s->number[0];
	t->b = s->number[1];
	return true;
}

static bool has(const struct case_tensor *t, const char *name)
{
	while (t->name && strcmp(t->name, name)) t++;
	return t->name != NULL;
}

bool case_no_such(const struct made *m, const struct setting *s)
{
	struct nearest near = nearest_to(s->name);
	char meant[NEAREST_SAID];

	for (const struct tensor_spec *t = m->op->in; t->name; t++) nearest_try(&near, t->name);
	for (const struct tensor_spec *t = m->op->out; t->name; t++) nearest_try(&near, t->name);
	for (const struct param_spec *p = m->op->params; p->name; p++) nearest_try(&near, p->name);
	for (int i = 0; m->op->dims[i]; i++) nearest_try(&near, m->op->dims[i]);
	return formula_error(m->e, m->t->path, s->line, s->column, "expected a size, a parameter or a tensor; nothing is named '%s'%s", s->name,
		nearest_said(&near, meant));
}

/* Has an input of the case this size? One that none has is 1. */
static bool has_input(const struct test_case *k, const char *size)
{
	for (const struct case_tensor *t = k->in; t->name; t++)
		for (const char *s = t->shape; *s; s += *s == ',') {
			if (strcspn(s, ",+-?") == strlen(size) && !strncmp(s, size, strlen(size))) return true;
			s += strcspn(s, ",");
		}
	return false;
}

bool case_is_call(const struct made *m, const struct case_decl *c, const struct test_case *k)
{
	if (!m->op->file || !formula_source(m->op)) return true;
	struct capture capture = { .params = json_loads(k->params, 0, NULL) };
	struct call call = { .op = m->op, .capture = &capture };
	static const struct tensor given;
	struct error why = { 0 };

	for (int i = 0; m->op->dims[i]; i++) call.dim[i] = 1;
	for (const struct case_dim *d = k->dims; d->name; d++)
		if (has_input(k, d->name)) call.dim[op_size(m->op, d->name)] = d->size;
	for (int i = 0; m->op->in[i].name; i++) call.in[i] = has(k->in, m->op->in[i].name) ? &given : NULL;
	for (int i = 0; m->op->out[i].name; i++) call.out_count[i] = has(k->out, m->op->out[i].name);
	bool ok = call_bind_params(&call, &why);
	call.capture = NULL;
	if (ok) m->op->derive(&call);
	ok = ok && formula_rules(formula_of(m->op), &call, &why);
	json_decref(capture.params);
	if (ok) return true;
	return formula_error(m->e, m->t->path, c->d.line, c->d.column, "expected a call of the op%s%s%s: %s", why.code == E_PARAM ? ", with its '" : "",
		why.code == E_PARAM ? why.item : "", why.code == E_PARAM ? "'" : "", why.detail);
}
