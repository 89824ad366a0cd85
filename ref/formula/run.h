/* Inside a run of a program: one piece. */
#ifndef ETALON_FORMULA_RUN_H
#define ETALON_FORMULA_RUN_H

#include "program.h"

struct frame {
	struct program *p;
	calc *c;
	size_t element;                 /* c's */
	void **reg;                     /* each with room for the longest that it holds */
	size_t piece, turns;            /* turns: of the loop that is anchored */
	bool stopped;                   /* the rest of the piece is of the next strip */
	struct numbers now;
	size_t stored[MAX_OUT + MAX_HELD];
	size_t len[MAX_PROGRAM_CHUNK];  /* of the present chunks */
};

static inline size_t len_now(const struct frame *f, struct len l) { return l.chunk < 0 ? l.n : f->len[l.chunk]; }
static inline size_t rows_now(const struct frame *f, const struct ex *x) { return len_now(f, x->s.rows); }
static inline size_t cols_now(const struct frame *f, const struct ex *x) { return len_now(f, x->s.cols); }
static inline size_t count_now(const struct frame *f, const struct ex *x) { return rows_now(f, x) * cols_now(f, x); }

static inline vec part(const struct frame *f, vec x, size_t first, size_t n) { return (vec){ (char *)x.at + first * f->element, n }; }

/* x's value: where it lies already, or in a new vector. */
vec run_value(struct frame *f, const struct ex *x);
/* x's value, into y; y may be where x's first operand lies, all the way down (see reuse.c). */
void run_into(struct frame *f, const struct ex *x, vec y);
void run_zip(struct frame *f, const struct ex *x, vec y);
void run_compare(struct frame *f, const struct ex *x, vec y);
void run_inverse(struct frame *f, const struct ex *x, vec y);
void run_shifted(struct frame *f, const struct ex *x, vec y);
void run_element(struct frame *f, const struct ex *x, vec y);
void run_axpy(struct frame *f, const struct ex *x, vec y);
void run_mirrored(struct frame *f, const struct ex *x, vec y);
void run_part(struct frame *f, const struct ex *x, vec y);
void run_replaced(struct frame *f, const struct ex *x, vec y);
/* EX_ELEMENT, or an EX_PART that lies in one piece, of n elements of x->a; none, and the run fails, where it leaves that. */
vec run_in_place(struct frame *f, const struct ex *x, size_t n);
/* EX_PART, EX_REPLACED: from the part to its place in all, or back. */
void run_place(struct frame *f, const struct ex *x, vec all, vec part, bool back);
/* Of y = a b the product of second parts is taken away. */
void run_without_second_parts(struct frame *f, const struct ex *x, mat y, mat a, mat b);
void run_where(struct frame *f, const struct ex *x, vec y);
void run_chosen(struct frame *f, const struct ex *x, vec y);
/* y <- the number x, which lies there, everywhere. */
void run_fill(struct frame *f, vec y, const struct ex *x, vec at);
/* Row i of v, x's value, that goes with a matrix of n columns: itself where it is a row, a number where it is a column. */
vec run_row(const struct frame *f, const struct ex *x, vec v, size_t i, size_t n);

/* A piece, before its first step; the ends of a loop, false where they are none; what is known of the turn that is the one at t, or
 * of a loop that goes backwards as far from the end; one step. Where a loop has a shift all turns but the first are so much earlier than at t. */
void run_begin(struct frame *f, struct program *p, calc *c, size_t piece);
bool run_ends(struct frame *f, const struct step *s, span *all);        /* with the loop's shift behind them */
void run_turn(struct frame *f, const struct program_loop *l, size_t t, span all);
void run_step(struct frame *f, const struct step *s);

/* A slice of a tensor, y, line by line: element `at`, then every step-th; false where an index leaves its axis. */
typedef void run_line(struct frame *f, int tensor, size_t at, size_t step, vec y, void *with);
bool run_lines(struct frame *f, const struct slice *s, const struct tensor_spec *of, vec y, run_line *line, void *with);
bool run_offset(struct frame *f, const struct slice *s, const struct tensor_spec *of, size_t *at);        /* that of the first element */
void run_load(struct frame *f, const struct slice *s, vec y);
void run_held(struct frame *f, const struct slice *s, vec y, bool stores);
/* What is held, n elements in one piece, not to be written to; none, where it is nothing held or lies elsewhere. */
vec run_held_in_place(struct frame *f, const struct slice *s, size_t n);
bool held_done(const struct program *p, struct error *e);
void run_memory(struct frame *f, const struct ex *x, vec y);
void run_store(struct frame *f, const struct slice *s, vec y);
/* The call is wrong in what no shape says: an index out of its axis. The first one stays in the program. */
void run_failed(struct program *p, const struct node *at, const char *what, ...) __attribute__((format(printf, 3, 4)));
/* The same of the number x, of which `what` was expected, from least to most: of an element of an integer input, which is then wrong,
 * where it is made of one. */
void run_beyond(struct frame *f, const struct node *at, const struct ix *x, double least, double most, const char *what);

#endif
