#include "change.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

static const struct case_dim *dim_of(const struct case_dim *d, const char *name)
{
	while (d->name && strcmp(d->name, name)) d++;
	return d->name ? d : NULL;
}

static const struct case_tensor *tensor_of(const struct case_tensor *t, const char *name)
{
	while (t->name && strcmp(t->name, name)) t++;
	return t->name ? t : NULL;
}

static const struct case_list *list_of(const struct test_case *k, const char *name)
{
	for (const struct case_list *l = k->lists; l && l->tensor; l++)
		if (!strcmp(l->tensor, name)) return l;
	return NULL;
}

static const struct case_map *map_of(const struct test_case *k, const char *name)
{
	for (const struct case_map *m = k->maps; m && m->tensor; m++)
		if (!strcmp(m->tensor, name)) return m;
	return NULL;
}

/* *c as `from`, in tables of its own. */
static void begin(struct change *c, const struct test_case *from)
{
	int n = 0;

	*c = (struct change){ .k = *from };
	for (n = 0; from->dims[n].name && n < MAX_DIM; n++) c->dims[n] = from->dims[n];
	for (n = 0; from->in[n].name && n < MAX_IN; n++) c->in[n] = from->in[n];
	for (n = 0; from->out[n].name && n < MAX_OUT; n++) c->out[n] = from->out[n];
	for (n = 0; from->lists && from->lists[n].tensor && n < MAX_IN; n++) c->lists[n] = from->lists[n];
	for (n = 0; from->maps && from->maps[n].tensor && n < MAX_IN; n++) c->maps[n] = from->maps[n];
}

/* All sizes that the tensor's shape names, from `of` where the change has none. */
static void fill_sizes(struct change *c, const struct test_case *of)
{
	for (const struct case_dim *d = of->dims; d->name; d++) {
		int n = 0;
		while (c->dims[n].name && strcmp(c->dims[n].name, d->name)) n++;
		if (!c->dims[n].name && n < MAX_DIM) c->dims[n] = *d;
	}
}

/* The input as `of` has it, numbers and functions too. */
static void take_input(struct change *c, const struct case_tensor *t, const struct test_case *of)
{
	const struct case_list *list = list_of(of, t->name);
	const struct case_map *map = map_of(of, t->name);
	int i = 0, l = 0, m = 0;

	while (c->in[i].name && strcmp(c->in[i].name, t->name)) i++;
	while (c->lists[l].tensor && strcmp(c->lists[l].tensor, t->name)) l++;
	while (c->maps[m].tensor && strcmp(c->maps[m].tensor, t->name)) m++;
	if (i >= MAX_IN || l >= MAX_IN || m >= MAX_IN) return;
	c->in[i] = *t;
	if (list) c->lists[l] = *list;
	if (map) c->maps[m] = *map;
	else if (c->maps[m].tensor) c->maps[m] = (struct case_map){ t->name, { MAP_NONE }, 1 };
	fill_sizes(c, of);
}

static void drop_input(struct change *c, const char *name)
{
	int i = 0;

	while (c->in[i].name && strcmp(c->in[i].name, name)) i++;
	for (; c->in[i].name; i++) c->in[i] = c->in[i + 1];
}

/* The list while its changes are made: each is said once. */
struct changes { struct change *c; size_t n; const struct test_case *from; };

static struct change *next(struct changes *s)
{
	if (s->n == MAX_CHANGE) return NULL;
	begin(&s->c[s->n], s->from);
	return &s->c[s->n];
}

static void keep(struct changes *s)
{
	struct change *c = &s->c[s->n];

	c->settings = 1;
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->c[i].said, c->said)) {
			free(c->params);
			return;
		}
	s->n++;
}

static void sizes(struct changes *s, const struct test_case *of)
{
	for (const struct case_dim *d = of->dims; d->name; d++) {
		const struct case_dim *own = dim_of(s->from->dims, d->name);
		struct change *c = own && own->size != d->size ? next(s) : NULL;
		for (int i = 0; c && c->dims[i].name; i++)
			if (!strcmp(c->dims[i].name, d->name)) c->dims[i].size = d->size;
		if (!c) continue;
		snprintf(c->said, sizeof c->said, "%s = %zu", d->name, d->size);
		keep(s);
	}
}

static bool same_input(const struct test_case *a, const struct case_tensor *x, const struct test_case *b, const struct case_tensor *y)
{
	const struct case_list *p = list_of(a, x->name), *q = list_of(b, y->name);
	const struct case_map *m = map_of(a, x->name), *n = map_of(b, y->name);
	bool drawn = x->draw != DRAW_LIST && x->draw != DRAW_CUTS;

	if (x->dtype != y->dtype || x->draw != y->draw || (drawn && (x->a != y->a || x->b != y->b))) return false;
	if (!drawn && (!p || !q || p->n != q->n || memcmp(p->list, q->list, p->n * sizeof *p->list))) return false;
	return !m == !n && (!m || (!memcmp(m->map, n->map, sizeof m->map) && m->times == n->times));
}

static void inputs(struct changes *s, const struct test_case *of)
{
	char text[CHANGE_TEXT];
	struct change *c;

	for (const struct case_tensor *t = of->in; t->name; t++) {
		const struct case_tensor *own = tensor_of(s->from->in, t->name);
		if ((own && same_input(s->from, own, of, t)) || !(c = next(s))) continue;
		take_input(c, t, of);
		snprintf(c->said, sizeof c->said, "%s%s = %.*s", own ? "" : "with ", t->name, CHANGE_TEXT - 64, draw_said(of, t, text, sizeof text));
		if (t->draw == DRAW_LIST || t->draw == DRAW_CUTS) snprintf(c->said, sizeof c->said, "%s of case %s", t->name, of->name);
		keep(s);
	}
	for (const struct case_tensor *t = s->from->in; t->name; t++) {
		if (tensor_of(of->in, t->name) || !(c = next(s))) continue;
		drop_input(c, t->name);
		snprintf(c->said, sizeof c->said, "without %s", t->name);
		keep(s);
	}
}

static void outputs(struct changes *s, const struct test_case *of)
{
	for (const struct case_tensor *t = of->out; t->name; t++) {
		const struct case_tensor *own = tensor_of(s->from->out, t->name);
		struct change *c = own && own->dtype != t->dtype ? next(s) : NULL;
		for (int i = 0; c && c->out[i].name; i++)
			if (!strcmp(c->out[i].name, t->name)) c->out[i].dtype = t->dtype;
		if (!c) continue;
		snprintf(c->said, sizeof c->said, "%s stored as %s", t->name, dtype_info[t->dtype].name);
		keep(s);
	}
}

static void param(struct changes *s, json_t *own, const char *name, json_t *value)
{
	struct change *c = next(s);
	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

	if (c && text) {
		json_t *changed = json_copy(own);
		json_object_set(changed, name, value);
		c->params = json_dumps(changed, JSON_REAL_PRECISION(17));
		json_decref(changed);
		snprintf(c->said, sizeof c->said, "%s = %.*s", name, CHANGE_TEXT - 64, text);
		if (c->params) keep(s);
	}
	free(text);
}

static void params(struct changes *s, const struct test_case *of)
{
	json_t *own = json_loads(s->from->params, 0, NULL), *other = json_loads(of->params, 0, NULL), *value;
	const char *name;

	json_object_foreach(own ? other : NULL, name, value) {
		const json_t *is = json_object_get(own, name);
		if (!is || !json_equal(is, value)) param(s, own, name, value);
	}
	json_decref(own);
	json_decref(other);
}

/* What of->lengths, types and lists go with: all sizes and integer inputs at once. */
static void shape(struct changes *s, const struct op *op, const struct test_case *of)
{
	struct change *c = next(s);

	if (!c) return;
	for (int i = 0; c->dims[i].name; i++) {
		const struct case_dim *d = dim_of(of->dims, c->dims[i].name);
		if (d) c->dims[i].size = d->size;
	}
	for (const struct tensor_spec *t = op->in; t->name; t++) {
		const struct case_tensor *other = tensor_of(of->in, t->name);
		if (!(t->flags & INTEGER)) continue;
		if (other) take_input(c, other, of);
		else drop_input(c, t->name);
	}
	fill_sizes(c, of);
	snprintf(c->said, sizeof c->said, "sizes of case %s", of->name);
	keep(s);
}

static int by_settings(const void *a, const void *b)
{
	const struct change *x = a, *y = b;

	return x->settings != y->settings ? (x->settings > y->settings) - (x->settings < y->settings) : strcmp(x->said, y->said);
}

/* The case as it is; settings: how many changes it takes to come there. */
static void whole(struct changes *s, const struct test_case *of, int settings)
{
	struct change *c = s->n < MAX_CHANGE ? &s->c[s->n] : NULL;

	if (!c) return;
	begin(c, of);
	c->whole = true;
	c->settings = settings;
	snprintf(c->said, sizeof c->said, "case %s", of->name);
	s->n++;
}

/* Number i of the op's own cases that are not large, or NULL. */
static const struct test_case *own_case(const struct op *op, size_t i)
{
	for (const struct test_case *k = op->cases ? op->cases : test_cases; k->op; k++)
		if (!strcmp(k->op, op->name) && !k->large && !i--) return k;
	return NULL;
}

struct change *changes_of(const struct op *op, const struct test_case *from, size_t *n)
{
	struct changes s = { calloc(MAX_CHANGE, sizeof *s.c), 0, from }, apart = { calloc(MAX_CHANGE, sizeof *s.c), 0, from };
	const struct test_case *k;

	for (size_t i = 0; s.c && apart.c && from && (k = own_case(op, i)); i++) {
		size_t room = MAX_CHANGE - 64;
		if (s.n > room) break;
		sizes(&s, k), inputs(&s, k), outputs(&s, k), params(&s, k), shape(&s, op, k);
	}
	size_t single = s.n;
	for (size_t i = 0; s.c && apart.c && (k = own_case(op, i)); i++) {
		apart.n = 0;
		if (from) sizes(&apart, k), inputs(&apart, k), outputs(&apart, k), params(&apart, k);
		whole(&s, k, (int)apart.n + 1);
		for (size_t j = 0; j < apart.n; j++) free(apart.c[j].params);
	}
	free(apart.c);
	if (s.c) qsort(s.c + single, s.n - single, sizeof *s.c, by_settings);
	for (size_t i = 0; s.c && i < s.n; i++) {
		struct change *c = &s.c[i];
		c->k.dims = c->dims, c->k.in = c->in, c->k.out = c->out, c->k.lists = c->lists, c->k.maps = c->maps;
		if (c->params) c->k.params = c->params;
	}
	*n = s.n;
	return s.c;
}

void changes_free(struct change *c, size_t n)
{
	for (size_t i = 0; c && i < n; i++) free(c[i].params);
	free(c);
}
