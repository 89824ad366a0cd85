/* What one candidate computes: cells, each an operation on others, each there once. Two candidates that compute the same have the same
 * cells, so that a value is computed once for all of them. */
#ifndef ETALON_CELLS_CELLS_H
#define ETALON_CELLS_CELLS_H

#include "compare/symbols/symbols.h"

/* Rounded on the way out: CELL_ROUND by p[0], others to f32 unless p[3] says that they are not. */
enum type { AS_IT_IS, IN_F32, IN_BF16, IN_F16, IN_TF32, IN_TF32_RN, IN_E4M3, TYPES };
extern const char *const type_names[TYPES];

enum cell_op {
	CELL_NUMBER, CELL_OP, CELL_CARRY, CELL_FINAL, CELL_ROUND, CELL_ZIP, CELL_GEMM, CELL_NEG, CELL_PER_LN2, CELL_SCAN, CELL_INVERSE, CELL_NARROW
};
enum { SCAN_WARP, SCAN_IN_TURN };
struct inverse_how { int base, store, columns, high, low, halves; };

/* CELL_OP: `ex` says which. CELL_CARRY: p[0] the carry. CELL_FINAL: p[0] the carry, p[1] the recurrence that it ends; no rounding.
 * CELL_GEMM: p[0], p[1]: is the operand transposed? p[2]: how sums are added, arg[2]: onto what; p[3]: how it is made element by element
 * (lower.h), in the type p[4], by layout p[5] of those. CELL_INVERSE: how[]. EX_MAP: p[2]: a way of the function. Each is [rows, cols]. */
struct cell {
	enum cell_op op;
	int arg[3], p[6];
	bool exact;             /* no rounding to f32 */
	double number;
	const struct ex *ex;
	struct len rows, cols;
	int in;                 /* another value for each turn of this loop of the symbols' (0: of each piece) */
	uint32_t carried;       /* bit i: depends on what loop i carries */
	bool stored;            /* an output's: kept for all turns */
	uint64_t hash;
	enum type grid;         /* all its values are numbers of this type: IN_F32, IN_BF16, IN_F16, or nothing is known */
};

/* What a loop carries from turn to turn follows from these cells. */
struct recurrence { int loop, first[MAX_CARRY], next[MAX_CARRY]; };

/* Both are found by tables of open addressing, whose slots hold a part of the hash beside the number, -1 where there is none. */
struct cell_slot { uint32_t tag; int at; };
struct cell_table { struct cell_slot *slot; int slots; };
struct cells { struct cell *at; int n, room; struct recurrence *recurrence; int n_recurrence, room_recurrence; struct cell_table by_cell, by_recurrence; bool failed; };

/* A sum's: elements of a thread, threads of a warp, warps. each_second: of a thread's products every second one is rounded, not the second alone. */
struct threads { size_t vector, lanes, warps; bool each_second; };

int cell_add(struct cells *c, const struct cell *x);            /* its number; -1: no memory */
/* The number of a recurrence, the same for the same; -1: no memory. */
int cells_recurrence(struct cells *c, const struct recurrence *r);
void cells_free(struct cells *c);

static inline struct cell cell_of(enum cell_op op, int a, int b, struct len rows, struct len cols)
{
	return (struct cell){ .op = op, .arg = { a, b, -1 }, .rows = rows, .cols = cols };
}

int cell_round(struct cells *c, int x, enum type t);            /* x, where that changes nothing */
/* The ways, 1 … MAX_WAY, in which GPUs' programs compute f to the last bit; NULL: f has no such way. Way 0: rounded right. */
enum { MAX_WAY = 3 };
const char *way_name(enum fn f, int way);
double way_value(enum fn f, int way, double x);         /* x: a float */

/* y [m, n] = a [m, k] b [k, n], or onto + a b, added in way `sums`; ta: a is stored [k, m], tb: b is stored [n, k] */
struct product { int sums; double *y; const double *a, *b, *onto; bool ta, tb; size_t m, k, n; };
void multiply(const struct product *p);
const char *sums_name(int way);                         /* NULL: there is no such way. 0: exact */
const struct arith *sums_arith(int way);                /* NULL of 0, exact */
bool sums_of_half(int way);                             /* only of operands in float16 */

double round_one(double x, enum type t);
void round_into(double *y, const double *x, size_t n, enum type t);
void round_cells(double *x, size_t n, enum type t);

#endif
