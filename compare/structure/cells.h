/* What one candidate computes: cells, each an operation on others, each there once. Two candidates that compute the same have the same
 * cells, so that a value is computed once for all of them. */
#ifndef ETALON_STRUCTURE_CELLS_H
#define ETALON_STRUCTURE_CELLS_H

#include "symbols.h"

/* Rounded on the way out: CELL_ROUND by p[0], others to f32 unless p[3] says that they are not. */
enum type { AS_IT_IS, IN_F32, IN_BF16, IN_F16, IN_TF32, IN_TF32_RN, TYPES };
extern const char *const type_names[TYPES];

enum cell_op {
	CELL_NUMBER, CELL_OP, CELL_CARRY, CELL_FINAL, CELL_ROUND, CELL_ZIP, CELL_GEMM, CELL_NEG, CELL_PER_LN2, CELL_SCAN, CELL_INVERSE, CELL_NARROW
};
enum { SCAN_WARP, SCAN_IN_TURN };
struct inverse_how { int base, store, columns, high, low, halves; };

/* CELL_OP: `ex` says which. CELL_GEMM: p[0], p[1]: is the operand transposed? CELL_INVERSE: how[]. EX_MAP: p[2]: a way of the function. Each is [rows, cols]. */
struct cell {
	enum cell_op op;
	int arg[3], p[6];
	bool exact;             /* no rounding to f32 */
	double number;
	const struct ex *ex;
	struct len rows, cols;
	bool turns, carried, after;     /* another value for each turn; depends on what is carried; on what is left after the loop */
	uint64_t hash;
	enum type grid;         /* all its values are numbers of this type: IN_F32, IN_BF16, IN_F16, or nothing is known */
};

struct cells { struct cell *at; int n, room, *table, slots; bool failed; };

int cell_add(struct cells *c, const struct cell *x);            /* its number; -1: no memory */
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

double round_one(double x, enum type t);
void round_cells(double *x, size_t n, enum type t);

#endif
