/* Slices: what an index in brackets takes of a tensor. */
#include "lower.h"

#include <math.h>
#include <string.h>

/* first:first + n, which begins where only a run knows */
static bool part(struct lower *l, struct slice *s, int i, const struct node *x, struct ix *first)
{
	const struct node *end = x->arg[1];
	double n;

	if (x->n > 2 || end->kind != NODE_ADD || !same_node(x->arg[0], end->arg[0]))
		return low_error(l, x, "expected a range whose ends are known before the call runs, or first:first + n, or 'for c in chunks of a:b by 128'");
	if (!low_known(l, end->arg[1], &n)) return false;
	if (!(n >= 0 && n <= (double)s->axis[i].size)) return low_error(l, x, "expected at most %zu elements, got %g", s->axis[i].size, n);
	s->axis[i].first = first;
	s->axis[i].len.n = (size_t)n;
	return true;
}

/* Before there is a call, sizes are tried: with which letter the range was compared. */
static bool outside(struct lower *l, const struct slice *s, int i, const struct node *x, double first, double last)
{
	size_t size = s->axis[i].size;
	char text[64];

	if (l->call->capture) return low_error(l, x, "expected a range within 0:%zu, got %g:%g", size, first, last);
	size_said(l->call, size, text, sizeof text);
	return low_error(l, x, "expected a range within 0:%s, got %g:%g where that is 0:%zu", text, first, last, size);
}

/* first:last, or every step-th from first on below last */
static bool range(struct lower *l, struct slice *s, int i, const struct node *x)
{
	struct ix *end = low_ix(l, x->arg[1]), *by = x->n > 2 ? low_ix(l, x->arg[2]) : ix_number(l, 1);
	double first, last, step;

	if (!end || !by || !(s->axis[i].first = low_ix(l, x->arg[0]))) return false;
	if (!ix_known(s->axis[i].first, &first)) return part(l, s, i, x, s->axis[i].first);
	if (!ix_known(end, &last) || !ix_known(by, &step)) return low_error(l, x, "expected a range whose ends are known before the call runs; 'for c in chunks of a:b by 128' takes others");
	if (!(first >= 0 && last >= first && last <= (double)s->axis[i].size))
		return outside(l, s, i, x, first, last);
	if (!(step >= 1 && step == floor(step))) return low_error(l, x, "expected a step of 1 or more, got %g", step);
	s->axis[i].step = (size_t)fmin(step, 0x1p32);
	s->axis[i].len.n = (size_t)ceil((last - first) / step);
	return true;
}

/* An index made of a chunk's: one element for each of them. */
static bool gathered(struct lower *l, struct slice *s, int i, const struct node *x, bool out)
{
	int chunk = s->axis[i].first->each - 1;

	if (out || s->n_kept) return low_error(l, x, "expected a chunk's own name%s", out ? " where something is stored" : ", or this on the first axis that is kept");
	s->gather = 1 + l->p->chunk_var[chunk];
	s->kept[s->n_kept++] = i;
	s->axis[i].len = (struct len){ l->p->chunk_size[chunk], chunk };
	return true;
}

static bool axis(struct lower *l, struct slice *s, int i, const struct node *x, bool out)
{
	const struct symbol *c = x->kind == NODE_NAME ? symbol_find(l, x->name) : NULL;

	s->axis[i].step = 1;
	if (x->kind == NODE_ALL || (c && c->kind == SYMBOL_CHUNK) || x->kind == NODE_RANGE) {
		if (s->n_kept == 2) return low_error(l, x, "expected at most two axes that are kept, a matrix");
		s->kept[s->n_kept++] = i;
		s->axis[i].len = x->kind == NODE_ALL ? (struct len){ s->axis[i].size, -1 } : c ? c->s.rows : (struct len){ 0, -1 };
	}
	if (x->kind == NODE_ALL) return true;
	if (x->kind == NODE_RANGE) return range(l, s, i, x);
	if (!(s->axis[i].first = low_ix(l, x))) return false;
	return (c && c->kind == SYMBOL_CHUNK) || !s->axis[i].first->each || gathered(l, s, i, x, out);
}

/* Indices that are known and lie in their axes are counted now, those of chunks and all others at each use. */
static void fix(struct slice *s)
{
	for (int i = 0; i < s->rank; i++) {
		double k = 0;
		bool kept = (s->n_kept > 0 && s->kept[0] == i) || (s->n_kept > 1 && s->kept[1] == i);
		bool known = !s->axis[i].first || (ix_known(s->axis[i].first, &k) && s->axis[i].len.chunk < 0);
		if (known && k >= 0 && k + (kept ? 0 : 1) <= (double)s->axis[i].size && k == floor(k)) s->base += (size_t)k * s->axis[i].stride;
		else s->moving[s->n_moving++] = i;
	}
}

static bool is_rest(const struct node *x) { return x->kind == NODE_ALL && x->name && x->name[0] == '.'; }

/* The sizes of a tensor's axes; ".." as the last index makes one axis of those from there on. */
static void axes(struct lower *l, struct slice *s, const char *shape, const struct node *x, int missing)
{
	size_t size[MAX_RANK], stride = 1;
	const struct len one = { 1, -1 };

	s->rank = call_shape(l->call, shape, size);
	int n = x->n - missing;
	if (n > 0 && n <= s->rank && is_rest(x->arg[x->n - 1])) {
		for (int i = n; i < s->rank; i++) size[n - 1] *= size[i];
		s->rank = n;
	}
	for (int i = s->rank; i-- > 0; stride *= size[i]) s->axis[i].size = size[i], s->axis[i].stride = stride, s->axis[i].len = one;
}

bool low_held(struct lower *l, const struct node *x, int held, bool stored)
{
	uint32_t bit = UINT32_C(1) << held;

	if (!l->of_held) return low_error(l, x, "expected no tensor that pieces hold here");
	if (stored) l->p->writes |= bit;
	else l->p->reads |= bit;
	return stored || l->held & bit || low_error(l, x, "expected that pieces above store '%s'", x->name);
}

struct slice *low_slice(struct lower *l, const struct node *x, bool out, struct shape *shape)
{
	const struct tensor_decl *all = out ? l->t->out : l->t->in, *t = declared(all, x->name);
	struct slice *s = low_make(l, sizeof *s);
	const struct len one = { 1, -1 };

	if (!s) return NULL;
	if (!t && (t = declared(l->t->held, x->name))) all = l->t->held;
	if (!t) {
		low_error(l, x, "expected an %s; nothing is named '%s'", out ? "output" : "input", x->name);
		return NULL;
	}
	*s = (struct slice){ .tensor = declared_index(all, x->name), .held = all == l->t->held, .at = x };
	if (s->held && !low_held(l, x, s->tensor, out)) return NULL;
	int missing = l->call->no_batch && strchr(t->shape, '?');       /* and so is its index */
	axes(l, s, t->shape, x, missing);
	if (x->n > s->rank + missing) {
		low_error(l, x, "expected at most %d indices of %s [%s], got %d", s->rank, x->name, t->shape, x->n);
		return NULL;
	}
	if (!out && !s->held && !l->call->in[s->tensor]) {
		low_error(l, x, "expected that this is not read where %s is missing, as in '%s[...] if has(%s) else 0'", x->name, x->name, x->name);
		return NULL;
	}
	const struct node whole = { NODE_ALL, x->line, x->column, NULL, 0, 0, NULL };
	for (int i = 0; i < s->rank; i++)
		if (!axis(l, s, i, i + missing < x->n ? x->arg[i + missing] : &whole, out && !s->held)) return NULL;
	fix(s);
	struct len k0 = s->n_kept ? s->axis[s->kept[0]].len : one;
	*shape = s->n_kept == 2 ? (struct shape){ MATRIX, k0, s->axis[s->kept[1]].len }
		: s->n_kept ? (struct shape){ COLUMN, k0, one } : scalar;
	return s;
}
