/* Which turns a stage has, what a slice means in one, and what is read of the call's tensors there. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

static bool ends(const struct program *p, const struct program_loop *l, struct numbers *now, size_t *first, size_t *last)
{
	double a = ix_value(l->first, now), b = ix_value(l->last, now), n;

	if (l->cuts >= 0) {
		const struct tensor *t = p->call->in[l->cuts];
		double cut[2];
		n = ix_value(l->sequence, now);
		if (!(n >= 0 && n + 1 < (double)t->count)) return false;
		dtype_load(t->dtype, (const char *)t->data + (size_t)n * dtype_info[t->dtype].size, 2, cut);
		a = cut[0], b = cut[1];
	}
	if (!(a >= 0 && b < 0x1p40)) return false;
	*first = (size_t)a;
	*last = b > a ? (size_t)b : (size_t)a;
	return true;
}

/* Numbers as they are in `now`, or none yet; NULL: no memory. Freed with free. */
static struct numbers *numbers_of(const struct program *p, const struct numbers *now)
{
	struct numbers *n = calloc(1, sizeof *n + numbers_bytes(p));

	if (!n) return NULL;
	numbers_begin(n, p, n + 1);
	if (!now) return n;
	memcpy(n + 1, now->var, numbers_bytes(p));
	memcpy(n->turn, now->turn, sizeof n->turn);
	n->turns = now->turns;
	return n;
}

static bool add_turn(struct stage_turns *s, const struct program *p, int in, const struct turn *up, int *room, struct turn **new)
{
	if (s->n[in] == *room) {
		struct turn *more = realloc(s->of[in], (size_t)(*room = 2 * *room + 16) * sizeof *more);
		if (!more) return false;
		s->of[in] = more;
	}
	struct turn *t = *new = &s->of[in][s->n[in]];
	*t = (struct turn){ .now = numbers_of(p, up ? up->now : NULL) };
	if (up) memcpy(t->len, up->len, sizeof t->len), t->piece = up->piece;
	return t->now != NULL && ++s->n[in];
}

/* The turns of loop `in` in turn u of that around it. */
static bool add_turns(struct stage_turns *s, const struct form_symbols *f, int in, int u, size_t tokens, int *room)
{
	const struct program *p = f->program;
	const struct program_loop *l = f->in[in].of;
	size_t first = 0, last = 0, end;

	const struct turn *up = &s->of[f->in[in].up][u];
	if (!ends(p, l, up->now, &first, &last)) return false;
	end = l == f->loop && over_tokens(l) && last - first > tokens ? first + tokens : last;
	s->whole = s->whole && end == last;
	for (size_t k = first; k < end; k += l->by) {
		struct turn *t;
		if (!add_turn(s, p, in, up, room, &t)) return false;
		size_t at = l->backwards ? first + (end - 1 - first) / l->by * l->by - (k - first) : k;
		t->up = u;
		t->now->var[l->var] = (double)at;
		numbers_turn(t->now, l->level);
		if (l->chunk < 0) continue;
		size_t len = end - at < l->by ? end - at : l->by;
		t->len[l->chunk] = len;
		t->now->var[first_of(l->var)] = (double)at;
		if (len > s->most[l->chunk]) s->most[l->chunk] = len;
	}
	return true;
}

/* Of a piece that has an index in chunks: its first one, and how many. */
static void in_chunks(struct stage_turns *s, const struct program *p, struct turn *t)
{
	for (int i = 0; i < p->n_each; i++) {
		size_t by = p->in_chunks[i].by, first = (size_t)t->now->var[i] * by;
		int chunk = p->in_chunks[i].chunk;
		if (!by) continue;
		t->now->var[i] = t->now->var[first_of(i)] = (double)first;
		t->len[chunk] = p->in_chunks[i].of - first < by ? p->in_chunks[i].of - first : by;
		if (t->len[chunk] > s->most[chunk]) s->most[chunk] = t->len[chunk];
	}
}

static bool add_pieces(struct stage_turns *s, const struct program *p, size_t pieces, size_t step)
{
	int room = 0;

	for (size_t i = 0; i < pieces; i += step) {
		size_t rest = i;
		struct turn *t;
		if (!add_turn(s, p, 0, NULL, &room, &t)) return false;
		t->piece = (int)i;
		for (int k = p->n_each; k-- > 0; rest /= p->each[k]) t->now->var[k] = (double)(rest % p->each[k]);
		in_chunks(s, p, t);
	}
	return true;
}

bool turns_make(struct stage_turns *s, const struct form_symbols *f, size_t tokens, size_t step)
{
	const struct program *p = f->program;
	bool tokens_first = p->n_each && p->each[0] == p->call->dim[0] && !p->in_chunks[0].by && !over_tokens(f->loop);
	size_t pieces = p->pieces;

	*s = (struct stage_turns){ 0 };
	if (tokens_first && p->each[0] > tokens) pieces = pieces / p->each[0] * tokens;
	s->whole = pieces == p->pieces;
	if (tokens_first) step = 1;
	else if (step > 1 && p->n_each && step % p->each[p->n_each - 1] == 0) step++; /* not the same head of each sequence */
	bool ok = add_pieces(s, p, pieces, step);
	for (int in = 1; in < f->n_in && ok; in++) {
		int up = f->in[in].up, room = 0;
		ok = (s->first[in] = calloc((size_t)s->n[up] + 1, sizeof *s->first[in])) != NULL;
		for (int u = 0; u < s->n[up] && ok; u++) {
			ok = add_turns(s, f, in, u, tokens, &room);
			s->first[in][u + 1] = s->n[in];
		}
	}
	return ok;
}

void turns_free(struct stage_turns *s, const struct form_symbols *f)
{
	for (int in = 0; in < f->n_in; in++) {
		for (int i = 0; i < s->n[in]; i++) free(s->of[in][i].now);
		free(s->of[in]);
		free(s->first[in]);
	}
	*s = (struct stage_turns){ 0 };
}

void turns_in(const struct stage_turns *s, const struct form_symbols *f, int in, int around, int turn, int *first, int *last)
{
	*first = turn, *last = turn + 1;
	if (in == around) return;
	turns_in(s, f, f->in[in].up, around, turn, first, last);
	*first = s->first[in][*first], *last = s->first[in][*last];
}

int turn_around(const struct stage_turns *s, const struct form_symbols *f, int in, int turn, int around)
{
	for (; in > around; in = f->in[in].up) turn = s->of[in][turn].up;
	return turn;
}

/* ---- slices ---- */

static bool offset(const struct slice *s, const struct turn *t, size_t *at)
{
	*at = s->base;
	for (int m = 0; m < s->n_moving; m++) {
		int i = s->moving[m];
		if (s->gather && s->kept[0] == i) continue;
		double k = ix_value(s->axis[i].first, t->now);
		if (!(k >= 0 && k + (double)len_in(t, s->axis[i].len) <= (double)s->axis[i].size && k == floor(k))) return false;
		*at += (size_t)k * s->axis[i].stride;
	}
	return true;
}

static bool gathered(const struct slice *s, const struct turn *t, slice_line *line, void *with)
{
	int axis = s->kept[0];
	struct numbers *now = t->now;
	double first = now->var[s->gather - 1];
	size_t at, rows = len_in(t, s->axis[axis].len), n = s->n_kept > 1 ? len_in(t, s->axis[s->kept[1]].len) : 1;
	size_t step = s->n_kept > 1 ? s->axis[s->kept[1]].stride * s->axis[s->kept[1]].step : 1;
	bool ok = offset(s, t, &at);

	ix_settle(now, s->axis[axis].first);
	for (size_t i = 0; i < rows && ok; i++) {
		now->var[s->gather - 1] = first + (double)i;
		double k = ix_again(now, s->axis[axis].first);
		ok = k >= 0 && k < (double)s->axis[axis].size && k == floor(k);
		if (ok) line(at + (size_t)k * s->axis[axis].stride, step, n, with);
	}
	now->var[s->gather - 1] = first;
	ix_again(now, s->axis[axis].first);
	return ok;
}

bool slice_lines(const struct slice *s, const struct turn *t, slice_line *line, void *with)
{
	int n = s->n_kept, last = n ? s->kept[n - 1] : 0, before = n == 2 ? s->kept[0] : 0;
	size_t inner = n ? s->axis[last].stride * s->axis[last].step : 1, length = n ? len_in(t, s->axis[last].len) : 1, at;
	size_t outer = n == 2 ? s->axis[before].stride * s->axis[before].step : 0, rows = n == 2 ? len_in(t, s->axis[before].len) : 1;

	if (s->gather) return gathered(s, t, line, with);
	if (!offset(s, t, &at)) return false;
	for (size_t i = 0; i < rows; i++) line(at + i * outer, inner, length, with);
	return true;
}

struct loading { const struct tensor *t; double *to; };
static void load_line(size_t at, size_t step, size_t n, void *with)
{
	struct loading *l = with;
	size_t size = dtype_info[l->t->dtype].size;

	dtype_load_every(l->t->dtype, (const char *)l->t->data + at * size, step, n, l->to);
	l->to += n;
}

void load_slice(const struct program *p, const struct ex *x, struct block y, const struct turn *t)
{
	struct loading l = { (x->slice->trace ? p->call->out : p->call->in)[x->slice->tensor], y.at };

	if (!slice_lines(x->slice, t, load_line, &l))
		for (size_t i = 0; i < y.rows * y.cols; i++) y.at[i] = (double)NAN;
}

/* Of an input from there on; zeros beyond its end and before its first. */
static void memory_from(const struct tensor *in, double first, size_t by, size_t n, double *y)
{
	memset(y, 0, n * sizeof *y);
	if (!(first >= 0 && first < (double)in->count && first == floor(first))) return;
	size_t at = (size_t)first, there = (in->count - at + by - 1) / by;
	dtype_load_every(in->dtype, (const char *)in->data + at * dtype_info[in->dtype].size, by, there < n ? there : n, y);
}

void load_memory(const struct program *p, const struct ex *x, struct block y, const struct turn *t)
{
	const struct tensor *in = p->call->in[x->op];
	size_t by = x->by ? x->by : 1;

	if (!x->ix->each) {
		memory_from(in, ix_value(x->ix, t->now), by, y.rows * y.cols, y.at);
		return;
	}
	int var = p->chunk_var[x->ix->each - 1];
	double first = t->now->var[var];
	ix_settle(t->now, x->ix);
	for (size_t i = 0; i < y.rows; i++) {
		t->now->var[var] = first + (double)i;
		memory_from(in, ix_again(t->now, x->ix), by, y.cols, y.at + i * y.cols);
	}
	t->now->var[var] = first;
	ix_again(t->now, x->ix);
}
