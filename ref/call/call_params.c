/* Parameters: kinds, defaults, lists. */
#include <math.h>
#include <string.h>

#include "call_private.h"

/* The index of text in "a|b|c", or -1. */
static int choice(const char *choices, const char *text)
{
	for (int i = 0;; i++) {
		size_t n = strcspn(choices, "|");
		if (strlen(text) == n && !strncmp(choices, text, n)) return i;
		if (!choices[n]) return -1;
		choices += n + 1;
	}
}

/* A number of JSON that is, as it is written, a double's: whole ones beyond 2^53 may be none. */
static bool is_number(const json_t *x)
{
	const double d = json_is_number(x) ? json_number_value(x) : (double)NAN;

	return isfinite(d) && (!json_is_integer(x) || (fabs(d) < 0x1p63 && (json_int_t)d == json_integer_value(x)));
}

/* The numbers of one row of a list onto the end of the call's. */
static bool list_row(struct call *call, json_t *row, size_t width, bool plain)
{
	for (size_t i = 0; i < width; i++) {
		json_t *x = plain ? row : json_array_get(row, i);
		if (!is_number(x)) return false;
		call->list[call->list_n++] = json_number_value(x);
	}
	return plain || json_array_size(row) == width;
}

static bool param_list(struct call *call, int i, json_t *v, struct error *e)
{
	const struct param_spec *p = &call->op->params[i];
	size_t width = (size_t)symbols_in(p->choices), n = json_array_size(v);

	call->list_first[i] = call->list_n;
	call->param[i] = (double)n;
	if (!json_is_array(v))
		return error_set(e, E_PARAM, p->name, NO_OFFSET, "expected a list of %s%s%s",
			width > 1 ? "[" : "numbers, ", p->choices, width > 1 ? "]" : "");
	if (n * width > MAX_LIST - call->list_n)
		return error_set(e, E_PARAM, p->name, NO_OFFSET, "expected at most %zu rows, got %zu", (MAX_LIST - call->list_n) / width, n);
	for (size_t r = 0; r < n; r++)
		if (!list_row(call, json_array_get(v, r), width, width == 1))
			return error_set(e, E_PARAM, p->name, NO_OFFSET, "element %zu: expected %s%s%s", r, width > 1 ? "numbers [" : "a number, ",
				p->choices, width > 1 ? "]" : "");
	return true;
}

double call_list(const struct call *call, int p, size_t row, size_t width, size_t i)
{
	return call->list[call->list_first[p] + row * width + i];
}

static bool param_value(const struct param_spec *p, json_t *v, double *x, struct error *e)
{
	if (!v) {
		*x = p->absent;
		return !p->required || error_set(e, E_PARAM, p->name, NO_OFFSET, "missing; %s", p->what);
	}
	switch (p->kind) {
	case PARAM_BOOL:
		*x = json_is_true(v);
		return json_is_boolean(v) || error_set(e, E_PARAM, p->name, NO_OFFSET, "expected true or false");
	case PARAM_REAL:
		*x = json_number_value(v);
		return is_number(v) || error_set(e, E_PARAM, p->name, NO_OFFSET, "expected a number%s", json_is_integer(v) ? " that a double holds" : "");
	case PARAM_CHOICE:
		*x = json_is_string(v) ? choice(p->choices, json_string_value(v)) : -1;
		return *x >= 0 || error_set(e, E_PARAM, p->name, NO_OFFSET, "expected one of %s", p->choices);
	case PARAM_LIST: break;         /* param_list */
	}
	return false;
}

bool call_bind_params(struct call *call, struct error *e)
{
	const struct param_spec *p = call->op->params;
	const char *key;
	json_t *v;

	for (int i = 0; p[i].name; i++) {
		v = json_object_get(call->capture->params, p[i].name);
		if (!(v && p[i].kind == PARAM_LIST ? param_list(call, i, v, e) : param_value(&p[i], v, &call->param[i], e))) return false;
	}
	json_object_foreach(call->capture->params, key, v) {
		int i = 0;
		while (p[i].name && strcmp(p[i].name, key)) i++;
		if (!p[i].name) return error_set(e, E_PARAM, key, NO_OFFSET, "%s has no such parameter", call->op->name);
	}
	return true;
}
