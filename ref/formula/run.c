/* One piece of a program: its steps. */
#include "run.h"

#include <math.h>

/* Index k of axis i is none. */
static void beyond(struct frame *f, const struct slice *s, const struct tensor_spec *of, int i)
{
	char size[64], tensor[SHAPE_SAID], what[SHAPE_SAID + 96];
	double last = (double)s->axis[i].size - (s->gather && s->kept[0] == i ? 1 : (double)len_now(f, s->axis[i].len));

	snprintf(what, sizeof what, "an index of %s in %s", size_said(f->p->call, s->axis[i].size, size, sizeof size),
		tensor_said(f->p->call, of, tensor));
	run_beyond(f, s->at, s->axis[i].first, 0, last, what);
}

/* The first element, as an offset; false where an index leaves its axis. */
bool run_offset(struct frame *f, const struct slice *s, const struct tensor_spec *of, size_t *at)
{
	*at = s->base;
	for (int m = 0; m < s->n_moving; m++) {
		int i = s->moving[m];
		bool gathered = s->gather && s->kept[0] == i;
		double k = gathered ? ix_again(&f->now, s->axis[i].first) : ix_value(s->axis[i].first, &f->now);
		double last = k + (gathered ? 1 : (double)len_now(f, s->axis[i].len));
		if (!(k >= 0 && last <= (double)s->axis[i].size && k == (double)(size_t)k)) {
			beyond(f, s, of, i);
			return false;
		}
		*at += (size_t)k * s->axis[i].stride;
	}
	return true;
}

/* The chunk's indices one by one, each an element, or a row, of its own. */
static bool gathered(struct frame *f, const struct slice *s, const struct tensor_spec *of, vec y, run_line *line, void *with)
{
	double first = f->now.var[s->gather - 1];
	size_t rows = len_now(f, s->axis[s->kept[0]].len), n = rows ? y.n / rows : 0, at;
	size_t step = s->n_kept > 1 ? s->axis[s->kept[1]].stride * s->axis[s->kept[1]].step : 1;
	bool ok = true;

	for (int m = 0; m < s->n_moving; m++) ix_settle(&f->now, s->axis[s->moving[m]].first);
	for (size_t i = 0; i < rows && ok; i++) {
		f->now.var[s->gather - 1] = first + (double)i;
		if ((ok = run_offset(f, s, of, &at))) line(f, s->tensor, at, step, part(f, y, i * n, n), with);
	}
	f->now.var[s->gather - 1] = first;
	ix_again(&f->now, s->axis[s->kept[0]].first);
	return ok;
}

bool run_lines(struct frame *f, const struct slice *s, const struct tensor_spec *of, vec y, run_line *line, void *with)
{
	int n = s->n_kept, last = n ? s->kept[n - 1] : 0, before = n == 2 ? s->kept[0] : 0;
	size_t inner = n ? s->axis[last].stride * s->axis[last].step : 1, length = n ? len_now(f, s->axis[last].len) : 1, at;
	size_t outer = n == 2 ? s->axis[before].stride * s->axis[before].step : 0, rows = n == 2 ? len_now(f, s->axis[before].len) : 1;

	if (s->gather) return gathered(f, s, of, y, line, with);

	if (!run_offset(f, s, of, &at)) return false;
	if (n == 2 && inner == 1 && outer == length) length *= rows, rows = 1;
	for (size_t i = 0; i < rows; i++) line(f, s->tensor, at + i * outer, inner, part(f, y, i * length, length), with);
	return true;
}

static void load(struct frame *f, int in, size_t at, size_t step, vec x, void *with) { (void)with; c_load(f->c, x, in, at, step); }
static void load_trace(struct frame *f, int out, size_t at, size_t step, vec x, void *with) { (void)with; c_load_trace(f->c, x, out, at, step); }
static void store(struct frame *f, int out, size_t at, size_t step, vec x, void *with) { (void)with; f->stored[out] += c_store(f->c, out, at, step, x); }

void run_load(struct frame *f, const struct slice *s, vec y)
{
	if (s->held) {
		run_held(f, s, y, false);
		return;
	}
	const struct tensor_spec *of = s->trace ? f->p->call->op->out : f->p->call->op->in;

	if (!run_lines(f, s, &of[s->tensor], y, s->trace ? load_trace : load, NULL)) c_set(f->c, y, (double)NAN);
}

/* Zeros beyond its end and before its first. */
static void memory_from(struct frame *f, const struct ex *x, double first, vec y)
{
	double all = (double)f->p->call->in[x->op]->count, by = (double)x->by;

	c_set(f->c, y, 0);
	if (!(first >= 0 && first < all && first == floor(first))) return;
	double there = ceil((all - first) / by);
	c_load(f->c, part(f, y, 0, there < (double)y.n ? (size_t)there : y.n), x->op, (size_t)first, x->by);
}

void run_memory(struct frame *f, const struct ex *x, vec y)
{
	if (!x->ix->each) {
		memory_from(f, x, ix_value(x->ix, &f->now), y);
		return;
	}
	int var = f->p->chunk_var[x->ix->each - 1];
	double first = f->now.var[var];
	size_t rows = rows_now(f, x), n = cols_now(f, x);
	ix_settle(&f->now, x->ix);
	for (size_t i = 0; i < rows; i++) {
		f->now.var[var] = first + (double)i;
		memory_from(f, x, ix_again(&f->now, x->ix), part(f, y, i * n, n));
	}
	f->now.var[var] = first;
	ix_again(&f->now, x->ix);
}

void run_store(struct frame *f, const struct slice *s, vec y)
{
	if (s->held) run_held(f, s, y, true);
	else run_lines(f, s, &f->p->call->op->out[s->tensor], y, store, NULL);
}

bool run_ends(struct frame *f, const struct step *s, span *all)
{
	struct program_loop *l = s->loop;
	double a = ix_value(l->first, &f->now), b = ix_value(l->last, &f->now), n;

	if (l->cuts >= 0) {
		n = ix_value(l->sequence, &f->now);
		const struct tensor *t = f->p->call->in[l->cuts];
		if (!(n >= 0 && n + 1 < (double)t->count && n == floor(n))) {
			run_beyond(f, s->at, l->sequence, 0, (double)t->count - 2, "a sequence");
			return false;
		}
		a = (double)c_int(f->c, l->cuts, (size_t)n);
		b = (double)c_int(f->c, l->cuts, (size_t)n + 1);
	}
	if (!(a >= 0 && b < 0x1p48 && a == floor(a) && b == floor(b))) {
		run_beyond(f, s->at, a >= 0 && a == floor(a) ? l->last : l->first, 0, (double)INFINITY, "an end of a loop, a whole number");
		return false;
	}
	*all = (span){ (size_t)a, b > a ? (size_t)b + l->shift : (size_t)a };
	return true;
}

static size_t turn_first(const struct program_loop *l, size_t t, span all) { return t == all.first ? t : t - l->shift; }
static size_t turn_last(const struct program_loop *l, size_t t, span all) { return (all.last - t < l->by ? all.last : t + l->by) - l->shift; }

void run_turn(struct frame *f, const struct program_loop *l, size_t t, span all)
{
	if (l->backwards) t = all.first + (all.last - 1 - all.first) / l->by * l->by - (t - all.first);
	size_t first = turn_first(l, t, all);
	f->now.var[l->var] = (double)first;
	if (l->chunk >= 0) f->len[l->chunk] = turn_last(l, t, all) - first, f->now.var[first_of(l->var)] = (double)first;
	numbers_turn(&f->now, l->level);
}

static void turn(struct frame *f, const struct program_loop *l, size_t t, span all)
{
	run_turn(f, l, t, all);
	for (const struct step *x = l->body; x; x = x->next) run_step(f, x);
}

/* What the loop carries, all in one: out of it, or back. */
static vec carried(struct frame *f, const struct program_loop *l, vec all, bool back)
{
	size_t at = 0;

	for (int i = 0; i < l->n_carry; i++) {
		vec x = { f->reg[l->carry[i]], most(f->p, l->carry[i]) }, y = part(f, all, at, x.n);
		c_copy(f->c, back ? x : y, back ? y : x);
		at += x.n;
	}
	return all;
}

static vec room_of(struct frame *f, const struct program_loop *l)
{
	size_t n = 0;

	for (int i = 0; i < l->n_carry; i++) n += most(f->p, l->carry[i]);
	return c_vec(f->c, n);
}

/* From t on, as far as this strip goes; a chunk that reaches beyond is computed in the next strip again. */
static void in_strip(struct frame *f, const struct program_loop *l, span all)
{
	size_t t = all.first, last = all.last, end = c_strip(f->c).last, mark = c_mark(f->c);
	vec kept = room_of(f, l);
	bool again = false;

	if (c_resume(f->c, kept, &t)) carried(f, l, kept, true);
	for (; t < last && turn_first(l, t, all) < end && !again; t += l->by) {
		if ((again = turn_last(l, t, all) > end)) c_suspend(f->c, carried(f, l, kept, false), t);
		turn(f, l, t, all);
	}
	if (t < last && !again) c_suspend(f->c, carried(f, l, kept, false), t);
	f->stopped = again || t < last;
	c_release(f->c, mark);
}

/* The random stream of an anchored loop's turn; 0: what is before the loop, turns + 1: what is behind it. */
static void stream_of(struct frame *f, size_t turn) { c_stream(f->c, f->piece * (f->turns + 2) + turn); }

static void turns(struct frame *f, const struct program_loop *l, span all)
{
	for (size_t t = all.first; t < all.last; t += l->by) {
		if (l->anchored) stream_of(f, 1 + (t - all.first) / l->by);
		turn(f, l, t, all);
	}
}

static void loop(struct frame *f, const struct step *s)
{
	const struct program_loop *l = s->loop;
	span all;

	if (!run_ends(f, s, &all)) return;
	if (l->strips) in_strip(f, l, all);
	else turns(f, l, all);
	if (l->anchored) stream_of(f, f->turns + 1);
}

void run_step(struct frame *f, const struct step *s)
{
	if (s->kind == STEP_LOOP) {
		loop(f, s);
		return;
	}
	size_t mark = s->leaves ? 0 : c_mark(f->c), n = count_now(f, s->value);
	if (s->swap >= 0) {
		void *x = f->reg[s->reg];
		f->reg[s->reg] = f->reg[s->swap];
		f->reg[s->swap] = x;
	}
	vec y = { f->reg[s->reg], n }, made = s->apart ? c_room(f->c, n) : y;
	run_into(f, s->value, made);
	if (s->apart) c_copy(f->c, y, made);
	if (s->site >= 0) c_site(f->c, s->site, y);
	if (s->kind == STEP_PUT) run_store(f, s->slice, y);
	if (!s->leaves) c_release(f->c, mark);
}

void run_begin(struct frame *f, struct program *p, calc *c, size_t piece)
{
	size_t number = piece;

	for (; piece >= p->pieces && p->next; p = p->next) piece -= p->pieces;
	*f = (struct frame){ .p = p, .c = c, .element = c_element(c), .piece = number };
	vec room = c_room(c, p->room);
	f->reg = c_bytes(c, (size_t)p->n_reg * sizeof *f->reg + numbers_bytes(p));
	numbers_begin(&f->now, p, f->reg + p->n_reg);
	for (int i = p->n_each; i-- > 0; piece /= p->each[i]) f->now.var[i] = (double)(piece % p->each[i]);
	for (int i = 0; i < p->n_each; i++) {
		size_t by = p->in_chunks[i].by, first = (size_t)f->now.var[i] * by;
		if (!by) continue;
		f->now.var[i] = f->now.var[first_of(i)] = (double)first;
		f->len[p->in_chunks[i].chunk] = p->in_chunks[i].of - first < by ? p->in_chunks[i].of - first : by;
	}
	for (int i = 0; i < p->n_reg; i++) {
		vec x = part(f, room, p->place[i], 1);
		f->reg[i] = x.at;
		if (p->is_constant[i]) c_set(c, x, p->constant[i]);
	}
}

void program_piece(struct program *p, calc *c, size_t piece)
{
	struct frame f;

	run_begin(&f, p, c, piece);
	const struct program_loop *l = f.p->anchored;
	if (l) f.turns = (size_t)(ix_value(l->last, &f.now) - ix_value(l->first, &f.now)) / l->by, stream_of(&f, 0);
	for (const struct step *s = f.p->step; s && !f.stopped; s = s->next) run_step(&f, s);
	for (int i = 0; i < MAX_OUT; i++) {
		if (!f.stored[i]) continue;
		#pragma omp atomic
		f.p->stored[i] += f.stored[i];
	}
	for (int i = 0; i < f.p->n_held; i++) {
		if (!f.stored[MAX_OUT + i]) continue;
		#pragma omp atomic
		f.p->held[i].stored += f.stored[MAX_OUT + i];
	}
}

bool program_done(struct program *p, const struct strip *s, const struct plan *plan, bool ok, struct error *e)
{
	for (const struct program *x = p; x && ok; x = x->next) {
		if (!x->failed) continue;
		if (e) *e = x->error;
		ok = false;
	}
	for (int i = 0; ok && plan->stride <= 1 && i < MAX_OUT && p->call->op->out[i].name; i++) {
		size_t stored = 0;
		for (const struct program *x = p; x; x = x->next) stored += x->stored[i];
		if (stored != s->count[i])
			ok = formula_error(e, p->path, 1, 1, "expected that each element of %s is stored once; %zu of %zu are", p->call->op->out[i].name,
				stored, s->count[i]);
	}
	if (ok && plan->stride <= 1) ok = held_done(p, e);
	program_free(p);
	return ok;
}
