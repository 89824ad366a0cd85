/* From symbols to cells: each freedom of a kernel is met here as a choice, and a candidate is what was chosen. */
#ifndef ETALON_CELLS_LOWER_H
#define ETALON_CELLS_LOWER_H

#include "cells.h"

/* What a choice is about. The defaults are those of every site of a kind that chooses 0. CHOOSE_LAST: of a function's last bits, when all
 * else is found; CHOOSE_SUMS: of the sums of products, when that is. */
enum choice_kind { CHOOSE_DEFAULT, CHOOSE_FORM, CHOOSE_OPERAND, CHOOSE_NAME, CHOOSE_INNER, CHOOSE_LAST, CHOOSE_SUMS, CHOICE_KINDS };
enum what {
	W_CHUNK, W_EVERY, W_OPERAND, W_NAME, W_INNER, W_DISTRIBUTED, W_ORDER, W_PLACE, W_FUSED, W_CONJUGATED, W_UNDECAYED, W_EXP, W_SCAN, W_BASE,
	W_STORE, W_COLUMNS, W_HIGH, W_LOW, W_HALVES, W_PAIR, W_NARROW, W_WARPS, W_GIVEN, W_WIDE, W_WAY, W_SUMS, W_ONTO, W_ALONE, W_UNSCALED, W_OVER, W_ELEMENTS_F16, W_ELEMENTS_BF16, W_THREADS
};

/* Sums in a type of 16 bits: bf16 or float16, in three orders each; 0: in float32. */
enum { NARROW_SUMS = 7 };
static inline enum type narrow_sum(int how) { return how > 3 ? IN_F16 : how ? IN_BF16 : IN_F32; }
static inline int narrow_elements(int how) { return 8 >> (how - 1) % 3; }        /* of a thread: 8, 4 or 2 */

/* A product of a matrix and a vector of 16 bits: on tensor cores, or element by element: each rounded to that type and added in float32, or added in that type by
 * fused multiply-adds: in threads of 8, 4, 2 or 1 elements of a row; in threads of 8 or 4 of which each second product is rounded; or in threads of one element of
 * a column, in each of so many lanes and warps. threads_ways: how many layouts each has. */
enum { BY_TENSOR_CORES, ADDED_IN_F32, BY_ROWS, BY_ROWS_IN_PAIRS, BY_COLUMNS };
extern const int threads_ways[BY_COLUMNS + 1];
enum type elements_type(enum what w);    /* IN_F32: it is no such choice */
struct threads element_threads(int by, int which);
enum { THREADS_ROOM = 128 };
const char *element_threads_said(int by, int which, char room[THREADS_ROOM]);         /* written to `room` */

/* A choice: n options, `value` one of them. The same key in all candidates. */
enum { MAX_KEY = 512, KEY_SLOTS = 2 * MAX_KEY };
/* arranged: a rounding is at an operand or a result of a product of matrices; carried: of what a loop carries, or of numbers times that */
struct key { uint64_t id; enum choice_kind kind; enum what what; int n, def; bool arranged, carried; uint64_t reads; };
/* W_THREADS is asked of each way to add in 16 bits by itself: its number is the product's and that way. */
static inline int threads_key(int range, int by) { return range * 8 + by; }
static inline int threads_by(const struct key *k) { return (int)(k->id & 7); }
struct keys { struct key at[MAX_KEY]; int n; bool full; short slot[KEY_SLOTS]; };     /* found by open addressing: 1 + its place, 0 where there is none */
struct config { unsigned char value[MAX_KEY]; };

/* The choices that a candidate meets; site: the op's that a rounding of it is at, or -1. */
struct met { int n, key[MAX_KEY]; short site[MAX_KEY]; };
int met_site(const struct met *m, int key);     /* -1 where it is not met */

/* What a candidate computes, as cells, in the order of the symbols'; recurrence: of each loop, -1 where nothing reads what it carries. */
/* wide: products of which an operand is float32; half: of which one is float16; on_operands: factors that stand on operands. */
struct lowered { int put[MAX_PUT], recurrence[MAX_LOOP], wide, half, on_operands; struct met met; };

/* exact: no rounding, no choice but the first. text: also what is computed, as lines. */
struct lowering { struct form_symbols *f; struct cells *cells; struct keys *keys; const struct config *config; int form; bool exact; FILE *text; };
/* false also where the formula has what cannot be read */
bool lower(const struct lowering *how, struct lowered *to);

int key_there(const struct keys *k, uint64_t id);        /* -1: it was not met yet */
int key_find(struct keys *k, uint64_t id, enum choice_kind kind, enum what what, int n, int def);
static inline uint64_t key_id(int form, int about, enum what what, int i)
{
	return (uint64_t)(unsigned)form << 56 | (uint64_t)(unsigned)what << 48 | (uint64_t)(unsigned)about << 16 | (uint64_t)(unsigned)i;
}

/* ---- inside ---- */
struct val { int cell; const char *text; bool whole; };         /* whole: needs no brackets in a product */
struct lowering_run {
	const struct lowering *h;
	struct lowered *to;
	struct pool pool;       /* texts */
	struct val *memo;       /* of names, by symbol */
	bool *done;
	const struct sym *skip; /* a factor that stands elsewhere */
	bool bare;              /* in a comparison of indices, where nothing is chosen */
	bool wide;              /* operations are more precise than float32, and are rounded at sites alone */
	int sums;               /* how products' sums are added */
	int def;                /* the definition that is lowered */
	bool failed;            /* a loop that needs itself, or no memory */
	enum { LOOP_NEW, LOOP_BEGUN, LOOP_DONE } loop[MAX_LOOP];
	int asked;              /* the choice that was asked for last, or -1 */
	uint64_t met[MAX_KEY / 64 + 1];
};
struct entry { struct sym *x; enum role role; };
enum { MAX_FACTORS = 24 };

int choose(struct lowering_run *l, int about, enum what what, int i, int n, enum choice_kind kind);
struct val low_sym(struct lowering_run *l, const struct sym *x, bool root);
struct val low_single(struct lowering_run *l, struct val v);            /* to f32, where it is a sum that was not rounded */
struct val low_site(struct lowering_run *l, struct val v, int about, enum what what, int i, enum choice_kind kind, const struct sym *of);
struct val low_product(struct lowering_run *l, const struct entry *e, int n, int about, struct shape s);
struct val low_stored(struct lowering_run *l, const struct sym *x);      /* what is put out, or carried, under no name */
struct val low_load(struct lowering_run *l, const struct sym *x);
struct val low_carried(struct lowering_run *l, const struct sym *x);
bool low_loop(struct lowering_run *l, int in);         /* its recurrence */
enum { MAX_TERMS = 16 };
struct val low_sum(struct lowering_run *l, const struct sym *x, bool root);
struct val low_added(struct lowering_run *l, const struct sym *x, struct val *t, int n, int about, struct shape s);
struct val low_times(struct lowering_run *l, const struct sym *x);
struct val low_quotient(struct lowering_run *l, const struct sym *x, struct val a, struct val b);
struct val low_inverse(struct lowering_run *l, const struct sym *x);
/* Of (I + x)^-1 the factor e^(g_i - g_j), where x has one for each element; NULL: none. And that inverse without it. */
const struct sym *low_conjugating(const struct sym *x);
struct val low_undecayed(struct lowering_run *l, const struct sym *x);
/* Of an input that is an exponent: as it is, or through e^x and its logarithm (in_2: of base 2), as kernels have it that take decays. */
struct val low_given(struct lowering_run *l, const struct sym *x, struct val v, bool in_2);
struct val low_exp(struct lowering_run *l, const struct sym *x);
struct val low_narrow(struct lowering_run *l, const struct sym *x, struct val a, int how);      /* a sum in a type of 16 bits */
/* Does the product of a matrix and a vector go element by element? g: a CELL_GEMM, which becomes that. */
bool low_by_element(struct lowering_run *l, struct cell *g, int about, int range);
const char *said_by_element(struct lowering_run *l, const struct cell *g, struct val a, struct val b);
int choose_way(struct lowering_run *l, enum fn f, struct val of, bool apart);
int choose_sums(struct lowering_run *l);         /* the way in which all products' sums are added */
/* A number that is read in loop `in` changes with the turns of one around it, or of that loop. */
void low_by_ix(const struct lowering_run *l, struct cell *c, const struct ix *x, int in);
struct val low_zip(struct lowering_run *l, enum binary op, struct val a, struct val b, struct shape s, const char *sign);
struct val low_cell(struct lowering_run *l, const struct cell *x, const char *text, bool whole);
const struct cell *cell_at(const struct lowering_run *l, struct val v);
const char *said(struct lowering_run *l, const char *form, ...) __attribute__((format(printf, 2, 3)));
const char *low_text(struct lowering_run *l, const struct sym *x, const struct val *a);         /* a SYM_OP of arguments that are said so */
const char *in_brackets(struct lowering_run *l, struct val v);

#endif
