/* Which turns a stage has, and what a slice means in one. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "evaluate.h"

static bool ends(const struct program *p, const struct program_loop *l, const double *var, size_t *first, size_t *last)
{
	double a = ix_value(l->first, var), b = ix_value(l->last, var), n;

	if (l->cuts >= 0) {
		const struct tensor *t = p->call->in[l->cuts];
		double cut[2];
		n = ix_value(l->sequence, var);
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

static struct turn turn_of(const struct program *p, const double *var)
{
	struct turn t = { .var = malloc((size_t)(p->n_var + 1) * sizeof *t.var) };

	if (t.var) memcpy(t.var, var, (size_t)p->n_var * sizeof *var);
	return t;
}

static bool add_turns(struct stage_turns *s, const struct program *p, const struct program_loop *l, int piece, size_t tokens, int *n, int *room)
{
	size_t first = 0, last = 0, end;

	if (!ends(p, l, s->piece[piece].var, &first, &last)) return false;
	end = over_tokens(p, l) && last - first > tokens ? first + tokens : last;
	s->complete[piece] = end == last;
	for (size_t t = first; t < end; t += l->by, ++*n) {
		if (*n == *room) {
			struct turn *more = realloc(s->turn, (size_t)(*room = 2 * *room + 16) * sizeof *more);
			if (!more) return false;
			s->turn = more;
		}
		s->turn[*n] = turn_of(p, s->piece[piece].var);
		if (!s->turn[*n].var) return false;
		s->turn[*n].var[l->var] = (double)t;
		if (l->chunk >= 0) {
			size_t len = end - t < l->by ? end - t : l->by;
			s->turn[*n].len[l->chunk] = len;
			if (len > s->most[l->chunk]) s->most[l->chunk] = len;
		}
		ix_compute(p, l->index, s->turn[*n].var);
	}
	return true;
}

bool turns_make(struct stage_turns *s, const struct program *p, const struct program_loop *loop, size_t tokens)
{
	size_t pieces = p->pieces, along = p->n_each && p->each[0] == p->call->dim[0] && !over_tokens(p, loop) ? p->each[0] : 0;
	double *var = calloc((size_t)p->n_var + 1, sizeof *var);
	int n = 0, room = 0;
	bool ok = var != NULL;

	*s = (struct stage_turns){ 0 };
	if (along > tokens) pieces = pieces / along * tokens;
	s->piece = calloc(pieces + 1, sizeof *s->piece);
	s->first = calloc(pieces + 1, sizeof *s->first);
	s->complete = calloc(pieces + 1, sizeof *s->complete);
	ok = ok && s->piece && s->first && s->complete;
	for (size_t i = 0; i < pieces && ok; i++) {
		size_t rest = i;
		for (int k = p->n_each; k-- > 0; rest /= p->each[k]) var[k] = (double)(rest % p->each[k]);
		ix_compute(p, p->index, var);
		s->piece[i] = turn_of(p, var);
		ok = s->piece[i].var != NULL;
		s->pieces++;
		s->complete[i] = true;
		if (ok && loop) ok = add_turns(s, p, loop, (int)i, tokens, &n, &room);
		s->first[i + 1] = n;
	}
	free(var);
	return ok;
}

void turns_free(struct stage_turns *s)
{
	for (int i = 0; s->first && i < s->first[s->pieces]; i++) free(s->turn[i].var);
	for (int i = 0; i < s->pieces; i++) free(s->piece[i].var);
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
		double k = ix_value(s->axis[i].first, t->var);
		if (!(k >= 0 && k + (double)len_in(t, s->axis[i].len) <= (double)s->axis[i].size && k == floor(k))) return false;
		*at += (size_t)k * s->axis[i].stride;
	}
	return true;
}

static bool gathered(const struct program *p, const struct slice *s, const struct turn *t, slice_line *line, void *with)
{
	int axis = s->kept[0];
	double *var = malloc((size_t)(p->n_var + 1) * sizeof *var);
	size_t at, rows = len_in(t, s->axis[axis].len), n = s->n_kept > 1 ? len_in(t, s->axis[s->kept[1]].len) : 1;
	size_t step = s->n_kept > 1 ? s->axis[s->kept[1]].stride * s->axis[s->kept[1]].step : 1;
	bool ok = var && offset(s, t, &at);

	if (ok) memcpy(var, t->var, (size_t)p->n_var * sizeof *var);
	for (size_t i = 0; i < rows && ok; i++) {
		var[s->gather - 1] = t->var[s->gather - 1] + (double)i;
		double k = ix_again(p, s->axis[axis].first, var);
		ok = k >= 0 && k < (double)s->axis[axis].size && k == floor(k);
		if (ok) line(at + (size_t)k * s->axis[axis].stride, step, n, with);
	}
	free(var);
	return ok;
}

bool slice_lines(const struct program *p, const struct slice *s, const struct turn *t, slice_line *line, void *with)
{
	int n = s->n_kept, last = n ? s->kept[n - 1] : 0, before = n == 2 ? s->kept[0] : 0;
	size_t inner = n ? s->axis[last].stride * s->axis[last].step : 1, length = n ? len_in(t, s->axis[last].len) : 1, at;
	size_t outer = n == 2 ? s->axis[before].stride * s->axis[before].step : 0, rows = n == 2 ? len_in(t, s->axis[before].len) : 1;

	if (s->gather) return gathered(p, s, t, line, with);
	if (!offset(s, t, &at)) return false;
	for (size_t i = 0; i < rows; i++) line(at + i * outer, inner, length, with);
	return true;
}
