/* Values of cells on a call's first tokens, kept as long as there is room. */
#ifndef ETALON_CELLS_EVALUATE_H
#define ETALON_CELLS_EVALUATE_H

#include "lower.h"

enum { MAX_STAGE = 8, MAX_CHUNK_OPTION = 8 };

/* One turn of a loop, or a piece: its numbers, which get their values when first read, the lengths of its chunks, the turn of the loop
 * around it (or the piece) that it is in, and the piece. Only one thread at a time looks at a piece. */
struct turn { struct numbers *now; size_t len[MAX_PROGRAM_CHUNK]; int up, piece; };

/* What a stage computes with one form in one chunk size. of[i]: all turns, in order, of loop i of the symbols', with those of tokens below
 * `tokens` alone; of[0]: the pieces, where they are no tokens every `step`-th. first[i][u]: the first in turn u of the loop around; [n[up]]: how many. */
struct stage_turns { struct turn *of[MAX_LOOP]; int n[MAX_LOOP], *first[MAX_LOOP]; bool whole; size_t most[MAX_PROGRAM_CHUNK]; };
/* whole: all of each piece; most: the longest of each chunk */

/* A value: for each turn of loop `in` (where it is kept for one turn alone, of a piece or of a thread) n elements. age: when it was last used. */
enum { OF_THREAD = -1 };
struct value { double *at; size_t n; int in; uint64_t age; };

/* recurrence: what those follow from that the cell depends on */
struct kept_key { int cell; uint64_t recurrence; };
struct kept_value { struct kept_key key; struct value v; };

enum { MAX_SPARE = 256 };
struct spare { double *at; size_t bytes; };

/* By cell: 1 + the one that stands for it in this call, 0: not known yet; plain: its value is there without a loop. Values by their hash. */
struct stand_in { int cell; bool plain; };
struct same_value { uint64_t hash; int cell; };
struct same { struct stand_in *of; int room; struct same_value *slot; int slots, n; };

/* What a schedule made at `age` has seen of a cell (schedule.c). */
struct cell_mark { uint64_t age; uint32_t by; unsigned char seen; };

struct evaluator {
	struct form_symbols *f;
	int rounded;                    /* not 0: of the iterated loop so many turns are rounded, the others exact */
	struct cells *cells;
	struct stage_turns turns;
	struct kept_value *kept;        /* by open addressing */
	int slots, n_kept;
	int n_spare;
	struct spare spare[MAX_SPARE];
	struct same same;
	struct cell_mark *mark;         /* by cell */
	int marks;
	size_t bytes, budget;
	int threads;
	uint64_t age;
	double work;                    /* what evaluate() has done, as schedule.h weighs it */
};

/* The turns of the first `tokens` tokens in every `step`-th piece. */
bool turns_make(struct stage_turns *s, const struct form_symbols *f, size_t tokens, size_t step);
void turns_free(struct stage_turns *s, const struct form_symbols *f);
/* The turns of loop `in` in turn `turn` of loop `around`, which is around it or itself: [*first, *last). */
void turns_in(const struct stage_turns *s, const struct form_symbols *f, int in, int around, int turn, int *first, int *last);
/* The turn of loop `around` that turn `turn` of loop `in` is in. */
int turn_around(const struct stage_turns *s, const struct form_symbols *f, int in, int turn, int around);

bool evaluator_make(struct evaluator *v, struct form_symbols *f, struct cells *cells, size_t tokens, size_t step, size_t budget);
void evaluator_clear(struct evaluator *v);      /* forgets all values */
void evaluator_free(struct evaluator *v);

/* Computes the puts of `to` that are wanted (NULL: all), and what is carried as far as they read it; then put_value finds each. False: no
 * memory. */
bool evaluate(struct evaluator *v, const struct lowered *to, const bool *wanted);
/* A cell that nothing carried is in, nor is kept for one turn alone. */
bool evaluate_cell(struct evaluator *v, int cell);
/* Cells that stand for those of the puts that are wanted, and in what loops carry; false: no memory. */
bool same_lowered(struct evaluator *v, struct lowered *l, const bool *wanted);
const struct value *put_value(struct evaluator *v, const struct lowered *to, int cell);
/* x as it is in that turn of the loop. */
const double *value_in(const struct evaluator *v, const struct value *x, int in, int turn);

/* The elements of tensor or output that a slice means in that turn, in order: calls with where each line begins, its step and length. */
typedef void slice_line(size_t at, size_t step, size_t n, void *with);
bool slice_lines(const struct slice *s, const struct turn *t, slice_line *line, void *with);

/* ---- inside: values by cell and recurrence ---- */
int same_cell(struct evaluator *v, int cell);
void same_free(struct same *s);
struct value *kept_find(const struct evaluator *v, struct kept_key k);  /* NULL: none */
bool kept_there(const struct evaluator *v, struct kept_key k);          /* for all turns? */
bool kept_is_transient(const struct evaluator *v, const struct cell *c);        /* too much to keep for each turn: there for the one that is computed */
bool loops_inside(const struct form_symbols *f, int in);
bool kept_make(struct evaluator *v, struct kept_key k);                 /* room for it, if there is none; false: no memory */

/* ---- inside: one cell in one turn; a[i]: its arguments, shaped as they are now ---- */
struct block { double *at; size_t rows, cols; };
/* A vector goes along, a number everywhere: how far one step is in rows and in columns. */
static inline size_t step_down(struct block a) { return a.rows > 1 ? a.cols : 0; }
static inline size_t step_along(struct block a) { return a.cols > 1 ? 1 : 0; }
double cell_function(enum fn f, double x);
double cell_binary(enum binary op, double a, double b);
void cell_zip(int op, struct block y, struct block a, struct block b);
void cell_zip_floats(int op, struct block y, struct block a, struct block b);
void cell_select(struct block y, struct block a, struct block b, struct block where);   /* a where that is not 0, else b */
void cell_compare(int op, struct block y, struct block a, struct block b);
void compute(const struct evaluator *v, const struct cell *c, const struct block *a, struct block y, const struct turn *t);
void load_slice(const struct program *p, const struct ex *x, struct block y, const struct turn *t);
void load_memory(const struct program *p, const struct ex *x, struct block y, const struct turn *t);
void sum_scan(const struct cell *c, struct block y, struct block a);
void sum_narrow(const struct cell *c, struct block y, struct block a);
void by_element(const struct cell *c, struct block y, const struct block *a);   /* a CELL_GEMM of a vector */
void invert(struct block y, struct block a, const int *how, size_t full, bool exact);
static inline size_t len_in(const struct turn *t, struct len l) { return l.chunk < 0 ? l.n : t->len[l.chunk]; }

#endif
