/* Which turns a stage has, and what a slice means in one. */
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

bool over_tokens(const struct program *p, const struct program_loop *l)
{
	return l && (l->cuts >= 0 || (l->last->kind == IX_NUMBER && l->last->number == (double)p->call->dim[0]));
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

static bool add_turns(struct stage_turns *s, const struct program *p, const struct program_loop *l, int piece, size_t tokens, int *n, int *room)
{
	size_t first = 0, last = 0, end;

	if (!ends(p, l, s->piece[piece].now, &first, &last)) return false;
	end = over_tokens(p, l) && last - first > tokens ? first + tokens : last;
	s->complete[piece] = end == last;
	for (size_t t = first; t < end; t += l->by, ++*n) {
		if (*n == *room) {
			struct turn *more = realloc(s->turn, (size_t)(*room = 2 * *room + 16) * sizeof *more);
			if (!more) return false;
			s->turn = more;
		}
		struct numbers *now = numbers_of(p, s->piece[piece].now);
		s->turn[*n] = (struct turn){ .now = now };
		if (!now) return false;
		now->var[l->var] = (double)t;
		numbers_turn(now, l->level);
		if (l->chunk >= 0) {
			size_t len = end - t < l->by ? end - t : l->by;
			s->turn[*n].len[l->chunk] = len;
			now->var[first_of(l->var)] = (double)t;
			if (len > s->most[l->chunk]) s->most[l->chunk] = len;
		}
	}
	return true;
}

bool turns_make(struct stage_turns *s, const struct program *p, const struct program_loop *loop, size_t tokens)
{
	size_t pieces = p->pieces, along = p->n_each && p->each[0] == p->call->dim[0] && !over_tokens(p, loop) ? p->each[0] : 0;
	int n = 0, room = 0;

	*s = (struct stage_turns){ 0 };
	if (along > tokens) pieces = pieces / along * tokens;
	s->piece = calloc(pieces + 1, sizeof *s->piece);
	s->first = calloc(pieces + 1, sizeof *s->first);
	s->complete = calloc(pieces + 1, sizeof *s->complete);
	bool ok = s->piece && s->first && s->complete;
	for (size_t i = 0; i < pieces && ok; i++) {
		size_t rest = i;
		struct numbers *now = s->piece[i].now = numbers_of(p, NULL);
		ok = now != NULL;
		for (int k = p->n_each; k-- > 0 && ok; rest /= p->each[k]) now->var[k] = (double)(rest % p->each[k]);
		s->pieces++;
		s->complete[i] = true;
		if (ok && loop) ok = add_turns(s, p, loop, (int)i, tokens, &n, &room);
		s->first[i + 1] = n;
	}
	return ok;
}

void turns_free(struct stage_turns *s)
{
	for (int i = 0; s->first && i < s->first[s->pieces]; i++) free(s->turn[i].now);
	for (int i = 0; i < s->pieces; i++) free(s->piece[i].now);
	free(s->turn);
	free(s->piece);
	free(s->first);
	free(s->complete);
	*s = (struct stage_turns){ 0 };
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
