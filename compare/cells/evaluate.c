/* All cells of a candidate that are not known yet: pieces in parallel, what is carried turn by turn, all else for all turns. Values are kept,
 * found by cell and recurrence; when there are too many, those that lay idle longest go. */
#include "evaluate.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "schedule.h"

static int slot_of(const struct kept_value *kept, int slots, struct kept_key k)
{
	int s = (int)(random_mix((uint64_t)(unsigned)k.cell << 32 ^ k.recurrence) & (uint64_t)(slots - 1));

	while (kept[s].v.at && (kept[s].key.cell != k.cell || kept[s].key.recurrence != k.recurrence)) s = (s + 1) & (slots - 1);
	return s;
}

struct value *kept_find(const struct evaluator *v, struct kept_key k)
{
	if (!v->slots) return NULL;
	struct kept_value *x = &v->kept[slot_of(v->kept, v->slots, k)];
	return x->v.at ? &x->v : NULL;
}

/* Memory that lay in use before is there already: no pages are made anew. */
static void spare(struct evaluator *v, double *at, size_t bytes)
{
	if (v->n_spare == MAX_SPARE) {
		free(at);
		return;
	}
	v->spare[v->n_spare++] = (struct spare){ at, bytes };
}

static double *room(struct evaluator *v, size_t bytes)
{
	for (int i = 0; i < v->n_spare; i++) {
		if (v->spare[i].bytes != bytes) continue;
		double *at = v->spare[i].at;
		v->spare[i] = v->spare[--v->n_spare];
		return at;
	}
	return malloc(bytes + 1);
}

/* The same on every machine: what is a thread's counts once. */
static size_t bytes_of(const struct evaluator *v, const struct value *x)
{
	return x->n * (size_t)(x->in == OF_THREAD ? 1 : v->turns.n[x->in]) * sizeof(double);
}

static size_t bytes_there(const struct evaluator *v, const struct value *x) { return bytes_of(v, x) * (size_t)(x->in == OF_THREAD ? v->threads : 1); }

/* Into a table of that size, but what was not used since `oldest`. */
static bool kept_trim(struct evaluator *v, int slots, uint64_t oldest)
{
	struct kept_value *kept = calloc((size_t)slots, sizeof *kept);

	if (!kept) return false;
	v->n_kept = 0;
	v->bytes = 0;
	for (int i = 0; i < v->slots; i++) {
		struct kept_value *x = &v->kept[i];
		if (!x->v.at) continue;
		if (x->v.age < oldest) {
			spare(v, x->v.at, bytes_there(v, &x->v));
			continue;
		}
		kept[slot_of(kept, slots, x->key)] = *x;
		v->n_kept++;
		v->bytes += bytes_of(v, &x->v);
	}
	free(v->kept);
	v->kept = kept;
	v->slots = slots;
	return true;
}

static size_t most_of(const struct evaluator *v, struct len l) { return l.chunk < 0 ? l.n : v->turns.most[l.chunk]; }

bool loops_inside(const struct form_symbols *f, int in)
{
	bool any = false;

	for (int i = in + 1; i < f->n_in; i++) any = any || f->in[i].up == in;
	return any;
}

/* Of a loop over chunks that has none inside, where all turns are mostly made at once, only what would take 8 MiB, as the keys of each query do. */
bool kept_is_transient(const struct evaluator *v, const struct cell *c)
{
	size_t n = most_of(v, c->rows) * most_of(v, c->cols);

	if (!c->in || c->stored || n < 256 || n * (size_t)v->turns.n[c->in] <= (size_t)1 << (v->f->in[c->in].of->chunk < 0 ? 18 : 20)) return false;
	return v->f->in[c->in].of->chunk < 0 || !loops_inside(v->f, c->in);
}

/* Loops hand on what they carry at a place of the piece's. */
static bool is_of_thread(const struct evaluator *v, const struct cell *c)
{
	return c->op != CELL_CARRY && c->op != CELL_FINAL && v->f->in[c->in].of->chunk >= 0;
}

static int kept_in(const struct evaluator *v, const struct cell *c) { return !kept_is_transient(v, c) ? c->in : is_of_thread(v, c) ? OF_THREAD : 0; }

/* Is the value there, for all turns? What was kept for one turn may have become an output's since. */
bool kept_there(const struct evaluator *v, struct kept_key k)
{
	const struct cell *c = &v->cells->at[k.cell];
	const struct value *x = kept_find(v, k);

	return x && !kept_is_transient(v, c) && x->in == c->in;
}

bool kept_make(struct evaluator *v, struct kept_key k)
{
	const struct cell *c = &v->cells->at[k.cell];
	struct value x = { .n = most_of(v, c->rows) * most_of(v, c->cols), .age = v->age };
	struct value *old = kept_find(v, k);

	x.in = kept_in(v, c);
	if (old && old->in == x.in) {
		old->age = v->age;
		return true;
	}
	if (!old && 2 * (v->n_kept + 1) >= v->slots && !kept_trim(v, v->slots ? 2 * v->slots : 1024, 0)) return false;
	if (!(x.at = room(v, bytes_there(v, &x)))) return false;
	if (old) {
		v->bytes -= bytes_of(v, old);
		spare(v, old->at, bytes_there(v, old));
		*old = x;
	} else {
		v->kept[slot_of(v->kept, v->slots, k)] = (struct kept_value){ k, x };
		v->n_kept++;
	}
	v->bytes += bytes_of(v, &x);
	return true;
}

bool evaluator_make(struct evaluator *v, struct form_symbols *f, struct cells *cells, size_t tokens, size_t step, size_t budget)
{
	*v = (struct evaluator){ .f = f, .cells = cells, .budget = budget, .threads = omp_get_max_threads() };
	if (!turns_make(&v->turns, f, tokens, step)) return false;
	if (v->turns.n[0] < v->threads) v->threads = v->turns.n[0] > 0 ? v->turns.n[0] : 1;
	return true;
}

void evaluator_clear(struct evaluator *v)
{
	for (int i = 0; i < v->slots; i++) free(v->kept[i].v.at);
	for (int i = 0; i < v->n_spare; i++) free(v->spare[i].at);
	free(v->kept);
	v->kept = NULL;
	v->slots = v->n_kept = v->n_spare = 0;
	v->bytes = 0;
}

void evaluator_free(struct evaluator *v)
{
	evaluator_clear(v);
	turns_free(&v->turns, v->f);
	same_free(&v->same);
	free(v->mark);
	*v = (struct evaluator){ 0 };
}

/* ---- a run ---- */

/* Where a run is: the turn of each loop around it, and of its own; who makes it. */
struct place { int at[MAX_LOOP], thread; };

static void enter(const struct evaluator *v, struct place *p, int in, int turn)
{
	for (;; in = v->f->in[in].up) {
		p->at[in] = turn;
		if (!in) return;
		turn = v->turns.of[in][turn].up;
	}
}

static double *at_place(const struct value *x, const struct place *p)
{
	return x->at + x->n * (size_t)(x->in == OF_THREAD ? p->thread : p->at[x->in]);
}

static struct block block_of(const struct cell *c, const struct value *x, const struct place *p, const struct turn *t)
{
	return (struct block){ at_place(x, p), len_in(t, c->rows), len_in(t, c->cols) };
}

static void work(const struct evaluator *v, const struct job *j, const struct place *p)
{
	const struct cell *c = &v->cells->at[j->cell];
	const struct turn *t = &v->turns.of[c->in][p->at[c->in]];
	struct block a[3] = { { 0 } };

	for (int i = 0; i < j->n_arg; i++) a[i] = block_of(&v->cells->at[c->arg[i]], &j->a[i], p, t);
	compute(v, c, a, block_of(c, &j->y, p, t), t);
}

static void copy(double *to, const double *from, size_t n) { memcpy(to, from, n * sizeof *to); }

static void run_list(const struct evaluator *v, const struct schedule *s, int list, struct place *p);

/* The loop's turns in the one of the loop around it that p is in. */
static void run_loop(const struct evaluator *v, const struct schedule *s, const struct loop_run *l, struct place *p)
{
	int up = p->at[v->f->in[l->in].up], first = v->turns.first[l->in][up], last = v->turns.first[l->in][up + 1];

	for (int t = first; t < last; t++) {
		for (int i = 0; i < l->n_carry; i++) {
			const struct carry_values *c = &l->carry[i];
			const double *from = at_place(t == first ? &c->first : &c->next, p);
			p->at[l->in] = t;
			copy(at_place(&c->carry, p), from, c->carry.n);
			p->at[l->in] = t - 1;
		}
		p->at[l->in] = t;
		run_list(v, s, l->in, p);
	}
	for (int i = 0; i < l->n_carry && l->ends; i++) {
		const struct carry_values *c = &l->carry[i];
		copy(at_place(&c->final, p), at_place(first == last ? &c->first : &c->next, p), c->final.n);
	}
}

/* Jobs of loop `list` in one of its turns; those of loops in it for all of their turns there. */
static void run_list(const struct evaluator *v, const struct schedule *s, int list, struct place *p)
{
	for (int i = 0; i < s->n[list]; i++) {
		const struct job *j = &s->job[list][i];
		int in = j->loop ? v->f->in[j->loop->in].up : v->cells->at[j->cell].in, first, last;
		turns_in(&v->turns, v->f, in, list, p->at[list], &first, &last);
		for (int t = first; t < last; t++) {
			if (in != list) enter(v, p, in, t);
			if (j->loop) run_loop(v, s, j->loop, p);
			else work(v, j, p);
		}
	}
}

static void run(const struct evaluator *v, const struct schedule *s)
{
	#pragma omp parallel for schedule(dynamic, 1) num_threads(v->threads) if (v->turns.n[0] > 1 && s->work > WORK_HEAVY)
	for (int p = 0; p < v->turns.n[0]; p++) {
		struct place place = { { p }, omp_get_thread_num() };
		run_list(v, s, 0, &place);
	}
}

bool schedule_begin(struct schedule *s, struct evaluator *v, const struct lowered *to, const bool *wanted)
{
	bool ok = !v->cells->failed;

	v->age++;
	if (v->bytes > v->budget) ok = kept_trim(v, v->slots, v->age > 3 ? v->age - 3 : 0) && ok;
	return schedule_make(s, v, to, wanted) && ok;
}

void schedule_run(const struct schedule *s, struct evaluator *v)
{
	run(v, s);
	v->work += s->work;
}

bool evaluate(struct evaluator *v, const struct lowered *to, const bool *wanted)
{
	struct schedule s;
	bool ok = schedule_begin(&s, v, to, wanted);

	if (ok) schedule_run(&s, v);
	schedule_free(&s);
	return ok;
}

/* Its arguments, if any is no longer there. */
static bool arguments_there(struct evaluator *v, const struct cell *c)
{
	for (int i = 0; i < 3 && c->arg[i] >= 0; i++)
		if (!kept_find(v, (struct kept_key){ c->arg[i], 0 }) && !evaluate_cell(v, c->arg[i])) return false;
	return true;
}

bool evaluate_cell(struct evaluator *v, int cell)
{
	const struct kept_key k = { cell, 0 };
	const struct cell *c = &v->cells->at[cell];
	struct job j = { .cell = cell };

	if (kept_find(v, k)) return true;
	if (!arguments_there(v, c) || !kept_make(v, k)) return false;
	j.y = *kept_find(v, k);
	for (; j.n_arg < 3 && c->arg[j.n_arg] >= 0; j.n_arg++) j.a[j.n_arg] = *kept_find(v, (struct kept_key){ c->arg[j.n_arg], 0 });
	const struct schedule one = { .job = { &j }, .n = { 1 }, .work = work_of(c, &j) * (double)v->turns.n[c->in] };
	run(v, &one);
	v->work += one.work;
	return true;
}

const struct value *put_value(struct evaluator *v, const struct lowered *to, int cell)
{
	return kept_find(v, key_of(v, to, cell));
}

const double *value_in(const struct evaluator *v, const struct value *x, int in, int turn)
{
	return x->at + x->n * (size_t)turn_around(&v->turns, v->f, in, turn, x->in);
}
