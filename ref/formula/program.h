/* A formula made ready for one call and one plan: names are registers, sizes are numbers, shapes fit. */
#ifndef ETALON_FORMULA_PROGRAM_H
#define ETALON_FORMULA_PROGRAM_H

#include "ref/call/op.h"
#include "ref/parse/tree.h"

enum { MAX_VAR = 512, MAX_EACH = 32, MAX_REG = 512, MAX_PROGRAM_CHUNK = 8, MAX_PART = 256 };

/* A length: n, or the present length, at most n, of chunk variable `chunk` (-1: none). */
struct len { size_t n; int chunk; };
enum rank { SCALAR, COLUMN, ROW, MATRIX };
struct shape { enum rank rank; struct len rows, cols; };

enum { MAX_LEVEL = 16, MAX_FREE = 4 };

/* A number that no arithmetic touches: an index, a condition. What is computed has a variable of its own, each such number one, which
 * gets its value when it is first read in a turn of the loop at this level (0: in a piece). each: 1 + the chunk for whose indices, one by
 * one, it is another number. tensor: an input, or what is held; IX_LIST, IX_IN: a parameter. IX_FOLD: variable `held`, first arg[0], becomes arg[3] for
 * each value of variable `over` from arg[1] up to arg[2], down where so, each of them a turn of level `inner`. finds: until that is a
 * number, first none. stays: where what is held makes that hold, it stays. free: all that it is made of, where they are few: for the same
 * numbers it is the same. */
enum ix_kind { IX_NUMBER, IX_VAR, IX_TENSOR, IX_SEQUENCE, IX_LIST, IX_IN, IX_OP, IX_FOLD };
struct ix {
	enum ix_kind kind;
	int var, level, tensor, n, each;
	int held, over, inner, n_free;
	bool down, finds, held_tensor;
	double number;
	enum node_kind op;
	struct ix *arg[4], *stays, *free[MAX_FREE], *next;      /* next: of the same level */
	const struct node *at;
};

/* Of a tensor: on each axis from first on (NULL: 0) one element, or every step-th of len of them where kept. Sizes, strides and the
 * element `base` in elements: that of all indices that are known before. gather: 1 + the variable of a chunk; for each of its indices what
 * is kept of the others, at the element of its own on axis kept[0]. trace: of an output, as the kernel recorded it. */
struct slice {
	bool trace, held;       /* held: not an input or output, but what pieces hold for others */
	int tensor, rank, kept[2], n_kept, moving[MAX_RANK], n_moving, gather;
	size_t base;
	struct { struct ix *first; size_t size, stride, step; struct len len; } axis[MAX_RANK];
	const struct node *at;
};

enum ex_kind {
	EX_REG, EX_NUMBER, EX_IX, EX_LOAD, EX_MEMORY, EX_FLIP, EX_MAP, EX_ZIP, EX_DOT, EX_GEMV, EX_GEMV_T, EX_OUTER, EX_GEMM, EX_TRANS, EX_SUM, EX_MAX,
	EX_SCAN, EX_PART, EX_REPLACED, EX_SHIFTED, EX_TRIL, EX_INVERSE, EX_LAST, EX_ELEMENT, EX_AXPY, EX_MIRRORED, EX_ROUNDED, EX_POWER, EX_ANGLE, EX_FLOOR, EX_TOP, EX_IOTA, EX_CMP, EX_WHERE, EX_IF
};

/* An expression. EX_OUTER and EX_GEMM: a b, added to c where there is one. EX_DOT: of each row, where a is a matrix. EX_FLIP: the same
 * numbers, a row for a column or in another matrix. EX_INVERSE: in blocks of op, merged by operands that pass `site`. two_parts: EX_GEMM of
 * operands that were rounded to two parts, without the product of the second ones. EX_PART: of a from `first` on, or ix, every by-th
 * element, of a matrix column; EX_REPLACED: a, but b there; in_rows: in row ix of a matrix. EX_AXPY: a + b c, b a number. EX_MIRRORED: by
 * tiles of op, 0: by elements. EX_ROUNDED: to the format op. */
struct ex {
	enum ex_kind kind;
	struct shape s;
	bool top, whole;        /* EX_ZIP, EX_CMP: a has this shape; so have both, but for numbers */
	bool index;             /* a whole number that comes of indices, or a comparison of such: the same in every algebra */
	struct ex *a, *b, *c;
	int reg, op;            /* op: of EX_MEMORY an input; enum fn, enum binary, enum trans, enum node_kind, a diagonal */
	int site;
	size_t first, by;
	bool two_parts, in_rows;
	double number;
	struct ix *ix;
	struct slice *slice;
};

enum step_kind { STEP_SET, STEP_PUT, STEP_LOOP };
struct step {
	struct step *next;
	enum step_kind kind;
	const struct node *at;
	struct ex *value;
	int reg, site, swap;    /* swap: the register whose memory this one takes over, or -1 */
	bool carried;           /* reg is what a loop carries */
	bool leaves;            /* the value's operands lie in registers */
	bool apart;             /* the value is made apart and then copied: it is read while it is made */
	struct slice *slice;    /* STEP_PUT */
	struct program_loop *loop;
};
struct program_loop {
	int var, chunk, cuts;   /* cuts: an input, or -1 */
	bool anchored;          /* its turns begin with what the kernel recorded: each has a random stream of its own */
	bool backwards;         /* the last turn first */
	bool strips;            /* over dims[0], which is cut into strips: what is carried goes on from one to the next */
	bool along;             /* over dims[0] by its name, or of it as `cuts` has it: not over what has as many by chance */
	int carry[MAX_BY], n_carry;     /* registers */
	size_t by;
	size_t shift;           /* by so much the first turn is shorter, and all others begin earlier; see run_turn */
	struct ix *first, *last, *sequence;
	int level;
	struct step *body;
};
/* A chunk's index moves, over each of its indices; its first one stays. */
static inline int first_of(int chunk_var) { return chunk_var + 1; }

/* What pieces store for those behind them. Room is made for a run alone. */
struct held { const struct tensor_decl *of; field values; int rank; size_t shape[MAX_RANK], count, stored; };

struct program {
	struct program *next;           /* of the pieces behind these */
	size_t pieces;
	struct held *held;              /* [n_held], of all programs of a call: the first one's own */
	int n_held;
	uint32_t reads, writes;         /* bit i: held[i] */
	struct pool pool;
	const char *path;
	const struct call *call;
	struct step *step;
	struct program_loop *anchored;  /* the loop that is, or NULL */
	struct folded *folded;          /* what folds were, for which numbers; NULL where there is none */
	int n_reg, n_var, n_chunk;
	int chunk_var[MAX_PROGRAM_CHUNK];      /* its variable, and how many indices a full one has */
	size_t chunk_size[MAX_PROGRAM_CHUNK];
	size_t chunk_most[MAX_PROGRAM_CHUNK];   /* no more than the whole range has */
	int n_each;                     /* the first variables, with these sizes */
	size_t each[MAX_EACH];
	/* by 0: one index; else in chunks of so many of `of`, with the first one's variable behind it */
	struct { size_t by, of; int chunk; } in_chunks[MAX_EACH];
	size_t stored[MAX_OUT];         /* elements of each output, by all pieces */
	struct error error;             /* what went wrong in a run, if `failed` */
	bool failed;
	bool keep;                      /* no value takes over the memory of another */
	struct grad *grad;              /* of NAME.backward: ref/grad */
	/* Of the registers [n_reg]: shape, whether it holds a number and which, and where it lies in a piece's room. */
	struct shape reg[MAX_REG];
	bool is_constant[MAX_REG];
	double constant[MAX_REG];
	size_t place[MAX_REG], room;
};

/* The program of the formula for this call and plan; NULL with an error that has line and column. Ended with program_free. */
struct program *program_make(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, struct error *e);
void program_free(struct program *p);
/* The same, in which each value stays until its name is defined again. */
struct program *program_make_kept(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, struct error *e);
/* After a run of this strip, which is `ok` so far: did all indices lie in their axes, and was all of each output stored? Frees p. */
bool program_done(struct program *p, const struct strip *s, const struct plan *plan, bool ok, struct error *e);
void program_piece(struct program *p, calc *c, size_t piece);
/* Pieces from `first` on know nothing of each other up to this one, the first behind them: what they hold is not read before. */
size_t program_beside(const struct program *p, size_t first);
bool program_hold(struct program *p, const struct plan *plan, struct error *e);        /* makes room for what a run holds */
/* Those of pieces of a form that have shapes of their own: how many; 1 where there are none. False with an error. */
bool program_parts(const struct tree *t, const struct op *op, const struct call *call, const struct plan *plan, const struct form_decl *f, size_t *n,
	struct error *e);
double ix_fold(enum node_kind op, double a, double b);         /* a op b */

/* Numbers in a run: the variables, and of each in which turn it was computed; of each level its present turn, of which no two are the same. */
struct numbers { const struct program *p; double *var; uint64_t *computed, turn[MAX_LEVEL], turns; };
static inline size_t numbers_bytes(const struct program *p) { return (size_t)p->n_var * (sizeof(double) + sizeof(uint64_t)); }
/* In this room, of numbers_bytes that are 0. */
void numbers_begin(struct numbers *s, const struct program *p, void *room);
static inline void numbers_turn(struct numbers *s, int level) { s->turn[level] = ++s->turns; }
double ix_computed(struct numbers *s, const struct ix *x);
double list_computed(struct numbers *s, const struct ix *x);    /* IX_LIST, IX_IN */
struct folded *folded_make(const struct call *call);       /* freed with free */
static inline double ix_value(const struct ix *x, struct numbers *s)
{
	if (x->kind == IX_NUMBER) return x->number;
	return x->kind == IX_VAR || s->computed[x->var] == s->turn[x->level] ? s->var[x->var] : ix_computed(s, x);
}
/* The value of one that has `each`, for the present value of that chunk's variable; before that has another than the chunk's first, what
 * is no other number for another one must have been computed. */
double ix_again(struct numbers *s, const struct ix *x);
void ix_settle(struct numbers *s, const struct ix *x);

/* Does the loop go along dims[0], of all of it or of each sequence? */
bool loop_along(const struct loop *l, const struct op *op);

/* Is the op cut into strips along the loop over dims[0] that each of its forms is? */
bool formula_cut_in_loop(const struct op *op);

/* The site of what is defined under this name, or -1. */
int formula_site(const struct tree *t, const struct op *op, const char *name);

/* ---- in words ---- */
/* With the letters that the call has for sizes: "a column [D]", of a call that was recorded "a column [D] = [96]"; "D = 96";
 * "x [R,D] = [48,96]". */
enum { SHAPE_SAID = 160 };
const char *shape_said(const struct call *call, struct shape s, char text[SHAPE_SAID]);
const char *size_said(const struct call *call, size_t n, char *text, size_t room);
const char *tensor_said(const struct call *call, const struct tensor_spec *of, char text[SHAPE_SAID]);

/* ---- inside ---- */
/* The most elements that a register holds. */
static inline size_t most(const struct program *p, int reg)
{
	struct len r = p->reg[reg].rows, c = p->reg[reg].cols;
	size_t rows = r.chunk < 0 || p->chunk_most[r.chunk] > r.n ? r.n : p->chunk_most[r.chunk];
	return rows * (c.chunk < 0 || p->chunk_most[c.chunk] > c.n ? c.n : p->chunk_most[c.chunk]);
}
static inline bool same_len(struct len a, struct len b) { return a.n == b.n && a.chunk == b.chunk; }
static inline bool same_shape(struct shape a, struct shape b)
{
	return a.rank == b.rank && same_len(a.rows, b.rows) && same_len(a.cols, b.cols);
}

#endif
