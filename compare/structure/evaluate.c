/* All cells of a candidate that are not known yet: pieces in parallel, what is carried turn by turn, all else for all turns. */
#include "evaluate.h"

#include <stdlib.h>
#include <string.h>

bool evaluator_make(struct evaluator *v, struct form_symbols *f, struct cells *cells, size_t tokens, size_t budget)
{
	*v = (struct evaluator){ .f = f, .cells = cells, .budget = budget, .whole = true };
	if (!turns_make(&v->turns, f->program, f->loop, tokens)) return false;
	for (int i = 0; i < v->turns.pieces; i++) v->whole = v->whole && v->turns.complete[i];
	v->whole = v->whole && (size_t)v->turns.pieces == f->program->pieces;
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
	free(v->recurrence);
	turns_free(&v->turns);
	*v = (struct evaluator){ 0 };
}

/* ---- a run ---- */

struct job { int cell; struct value y, a[3]; int n_arg; };
/* phase 0: for all turns, before; 1: of a turn of the recurrence; 2: for all turns, after it; 3: after the loop */
enum { PHASES = 4 };
struct jobs { struct job *at[PHASES]; int n[PHASES]; };
struct carry_values { struct value first, next, carry, final; bool ends; };      /* ends: `final` is wanted */

static int recurrence_of(struct evaluator *v, const struct lowered *to)
{
	struct recurrence r;
	int n = v->f->n_carry;

	memset(&r, 0, sizeof r);
	memcpy(r.first, to->first, (size_t)n * sizeof *r.first);
	memcpy(r.next, to->next, (size_t)n * sizeof *r.next);
	for (int i = 0; i < v->n_recurrence; i++)
		if (!memcmp(&v->recurrence[i], &r, sizeof r)) return i + 1;
	struct recurrence *more = realloc(v->recurrence, (size_t)(v->n_recurrence + 1) * sizeof *more);
	if (!more) return -1;
	v->recurrence = more;
	v->recurrence[v->n_recurrence++] = r;
	return v->n_recurrence;
}

static struct kept_key key_of(const struct evaluator *v, int cell, int recurrence)
{
	const struct cell *c = &v->cells->at[cell];

	return (struct kept_key){ cell, c->carried || c->after ? recurrence : 0 };
}

/* Cells that a run looks at: bits by cell, and which have any. */
struct marks { unsigned char *seen; int *at, n; };

/* The cells that are needed for it, down to what is there. */
static void mark(const struct evaluator *v, int cell, int r, struct marks *m, unsigned char bit)
{
	if (cell < 0 || (m->seen[cell] & bit)) return;
	if (!m->seen[cell]) m->at[m->n++] = cell;
	m->seen[cell] |= bit;
	if (kept_there(v, key_of(v, cell, r))) return;
	for (int i = 0; i < 3; i++) mark(v, v->cells->at[cell].arg[i], r, m, bit);
}

static int in_order(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }

static struct block block_of(const struct evaluator *v, const struct cell *c, const struct value *x, int piece, int turn)
{
	const struct turn *t = turn >= 0 ? &v->turns.turn[turn] : &v->turns.piece[piece];

	return (struct block){ x->at + x->n * (size_t)(x->by_turn ? turn : piece), len_in(t, c->rows), len_in(t, c->cols) };
}

static void work(const struct evaluator *v, const struct job *j, int piece, int turn)
{
	const struct cell *c = &v->cells->at[j->cell];
	struct block a[3] = { { 0 } };

	for (int i = 0; i < j->n_arg; i++) a[i] = block_of(v, &v->cells->at[c->arg[i]], &j->a[i], piece, turn);
	compute(v, c, a, block_of(v, c, &j->y, piece, turn), turn >= 0 ? &v->turns.turn[turn] : &v->turns.piece[piece]);
}

static void for_all(const struct evaluator *v, const struct jobs *js, int phase, int piece)
{
	for (int i = 0; i < js->n[phase]; i++) {
		const struct job *j = &js->at[phase][i];
		if (!j->y.by_turn) work(v, j, piece, -1);
		else for (int t = v->turns.first[piece]; t < v->turns.first[piece + 1]; t++) work(v, j, piece, t);
	}
}

static void copy(double *to, const double *from, size_t n) { memcpy(to, from, n * sizeof *to); }

static void one_piece(const struct evaluator *v, const struct jobs *js, const struct carry_values *c, int n_carry, bool again, int piece)
{
	int first = v->turns.first[piece], last = v->turns.first[piece + 1];

	for_all(v, js, 0, piece);
	for (int t = first; t < last && again; t++) {
		for (int i = 0; i < n_carry; i++) {
			const struct value *x = &c[i].next;
			const double *from = t == first ? c[i].first.at + c[i].first.n * (size_t)piece
				: x->at + x->n * (size_t)(x->by_turn ? t - 1 : piece);
			copy(c[i].carry.at + c[i].carry.n * (size_t)(c[i].carry.by_turn ? t : piece), from, c[i].carry.n);
		}
		for (int i = 0; i < js->n[1]; i++) work(v, &js->at[1][i], piece, t);
	}
	for (int i = 0; i < n_carry && again && c[i].ends; i++) {
		const struct value *x = first == last ? &c[i].first : &c[i].next;
		copy(c[i].final.at + c[i].final.n * (size_t)piece, x->at + x->n * (size_t)(first == last || !x->by_turn ? piece : last - 1), c[i].final.n);
	}
	for_all(v, js, 2, piece);
	for_all(v, js, 3, piece);
}

static bool add_job(struct evaluator *v, struct jobs *js, int phase, int cell, int r)
{
	if (!kept_make(v, key_of(v, cell, r))) return false;
	js->at[phase][js->n[phase]++].cell = cell;
	return true;
}

/* Values lie still from here on: the table no longer moves. */
static void resolve(const struct evaluator *v, struct jobs *js, int r)
{
	for (int p = 0; p < PHASES; p++) {
		for (int i = 0; i < js->n[p]; i++) {
			struct job *j = &js->at[p][i];
			const struct cell *c = &v->cells->at[j->cell];
			j->y = *kept_find(v, key_of(v, j->cell, r));
			j->n_arg = 0;
			for (int k = 0; k < 3 && c->arg[k] >= 0; k++) j->a[j->n_arg++] = *kept_find(v, key_of(v, c->arg[k], r));
		}
	}
}

static int special(struct evaluator *v, enum cell_op op, int reg)
{
	const struct program *p = v->f->program;
	struct shape s = p->reg[v->f->carry[reg].reg];
	struct cell c = cell_of(op, -1, -1, s.rows, s.cols);

	c.p[0] = reg;
	c.grid = IN_F32;
	c.turns = c.carried = op == CELL_CARRY;
	c.after = op == CELL_FINAL;
	c.exact = false;
	return cell_add(v->cells, &c);
}

static void age_all(struct evaluator *v, const struct marks *m, int r)
{
	for (int i = 0; i < m->n; i++) {
		struct value *x = kept_find(v, key_of(v, m->at[i], r));
		if (x) x->age = v->age;
	}
}

static size_t weight(const struct evaluator *v, const struct jobs *js)
{
	size_t n = 0;

	for (int p = 0; p < PHASES; p++)
		for (int i = 0; i < js->n[p]; i++) {
			const struct cell *c = &v->cells->at[js->at[p][i].cell];
			n += js->at[p][i].y.n * (c->op == CELL_GEMM || c->op == CELL_INVERSE ? 16 : 1);
		}
	return n * (size_t)(v->turns.pieces ? v->turns.first[v->turns.pieces] + v->turns.pieces : 0);
}

static bool run(struct evaluator *v, const struct lowered *to, const bool *wanted, struct jobs *js, struct marks *m, int r)
{
	enum { OUT = 1, STATE = 2 };
	struct carry_values c[MAX_CARRY];
	int n = v->f->n_carry, carry[MAX_CARRY], final[MAX_CARRY];
	bool again = false, ok = true, ends = false, turns = false;

	for (int i = 0; i < v->f->n_put; i++)
		if (!wanted || wanted[i]) mark(v, to->put[i], r, m, OUT);
	for (int i = 0; i < n; i++) {
		if ((carry[i] = special(v, CELL_CARRY, i)) < 0 || (final[i] = special(v, CELL_FINAL, i)) < 0) return false;
		ends = ends || m->seen[final[i]];
		again = again || (m->seen[carry[i]] && !kept_there(v, key_of(v, carry[i], r))) || (m->seen[final[i]] && !kept_there(v, key_of(v, final[i], r)));
	}
	for (int i = 0; i < v->turns.pieces; i++) turns = turns || v->turns.first[i + 1] - v->turns.first[i] > 1;
	for (int i = 0; i < n && again; i++) {
		if (turns || ends) mark(v, to->next[i], r, m, STATE);
		mark(v, to->first[i], r, m, OUT);
		for (int k = 0; k < 2 && ok; k++) {
			int x = k ? final[i] : carry[i];
			if (!k || ends) ok = kept_make(v, key_of(v, x, r));
		}
	}
	qsort(m->at, (size_t)m->n, sizeof *m->at, in_order);    /* arguments before what reads them */
	age_all(v, m, r);
	for (int k = 0; k < m->n && ok; k++) {
		const int i = m->at[k];
		const struct cell *x = &v->cells->at[i];
		if (x->op == CELL_CARRY || x->op == CELL_FINAL) continue;
		if (kept_there(v, key_of(v, i, r))) continue;
		bool by_turn = (m->seen[i] & STATE) || (again && v->f->loop->chunk < 0);
		ok = add_job(v, js, x->after ? 3 : !x->carried ? 0 : by_turn ? 1 : 2, i, r);
	}
	if (!ok) return false;
	resolve(v, js, r);
	for (int i = 0; i < n && again; i++) {
		c[i] = (struct carry_values){ .first = *kept_find(v, key_of(v, to->first[i], r)), .carry = *kept_find(v, key_of(v, carry[i], r)), .ends = ends };
		if (turns || ends) c[i].next = *kept_find(v, key_of(v, to->next[i], r));
		if (ends) c[i].final = *kept_find(v, key_of(v, final[i], r));
	}
	bool worth = weight(v, js) > 30000000;
	#pragma omp parallel for schedule(dynamic, 1) if (worth)
	for (int p = 0; p < v->turns.pieces; p++) one_piece(v, js, c, n, again, p);
	return true;
}

bool evaluate(struct evaluator *v, const struct lowered *to, const bool *wanted)
{
	int r = v->f->n_carry ? recurrence_of(v, to) : 0, room;
	struct jobs js = { 0 };

	for (int i = 0; i < v->f->n_carry; i++) { special(v, CELL_CARRY, i); special(v, CELL_FINAL, i); }
	room = v->cells->n + 1;
	struct marks m = { calloc((size_t)room, 1), malloc((size_t)room * sizeof *m.at), 0 };
	bool ok = r >= 0 && m.seen && m.at && !v->cells->failed;
	v->age++;
	for (int p = 0; p < PHASES; p++) ok = (js.at[p] = malloc((size_t)room * sizeof *js.at[p])) && ok;
	if (v->bytes > v->budget) ok = kept_trim(v, v->slots, v->age > 3 ? v->age - 3 : 0) && ok;
	ok = ok && run(v, to, wanted, &js, &m, r);
	for (int p = 0; p < PHASES; p++) free(js.at[p]);
	free(m.seen);
	free(m.at);
	v->failed = v->failed || !ok;
	return ok;
}

const struct value *put_value(struct evaluator *v, const struct lowered *to, int cell)
{
	return kept_find(v, key_of(v, cell, v->f->n_carry ? recurrence_of(v, to) : 0));
}
