/* A form of an op as one graph of values: names that are used once are put where they are used, products are chains, sums are lists,
 * so that what kernels do differently (where a factor goes, what is multiplied first) is a choice at a node and no other formula. */
#ifndef ETALON_STRUCTURE_SYMBOLS_H
#define ETALON_STRUCTURE_SYMBOLS_H

#include "ref/formula/program.h"

enum sym_kind {
	SYM_OP,         /* any operation of program.h on arg[] */
	SYM_SUM,        /* of sign[i] arg[i] */
	SYM_PRODUCT,    /* of matrices, diagonals and numbers: role[i] */
	SYM_TIMES,      /* element by element */
	SYM_NAME,       /* arg[0], under a name of the formula's */
	SYM_CARRY,      /* what a loop carries, before its turn */
	SYM_FINAL,      /* and after its last */
	SYM_EXP,        /* e^arg[0], however the exponent is scaled */
	SYM_UNDECAYED,  /* arg[0], an inverse (I + A e^(g_i - g_j))^-1, as (I + A)^-1; made where a product is lowered */
};
enum role { DENSE, DIAGONAL, NUMBER };

struct sym {
	enum sym_kind kind;
	int index, in, id;      /* counted; the loop around it, of form_symbols, 0: none; by line and number in the line, the same for every chunk size and with a fault elsewhere */
	struct shape s;
	const struct ex *ex;    /* SYM_OP */
	bool exponent;          /* an input that is read as a term of exponents: it may have come as e^x */
	int n;
	struct sym **arg;
	signed char *sign;
	enum role *role;
	const char *name;       /* SYM_NAME, SYM_CARRY, SYM_FINAL */
	struct sym *other;      /* SYM_NAME: that of what is no longer scaled, where one was made */
	int reg, def;           /* what is carried: its number in carry[]; SYM_NAME: number of the definition */
	int site, operand;      /* the op's, which a definition of this value is; which another name of it is, that a product reads; -1: none */
};

/* What a form computes: its outputs, and what it carries from turn to turn. */
struct sym_put { struct sym *value; const struct slice *slice; int in; };       /* in: the loop around it */
struct sym_carry { int reg, loop; struct sym *first, *next; const char *name; };
/* A loop, or statements under a condition (a loop of one turn or none): the one around it, how deep it is, its first carry and how many. */
struct sym_loop { const struct program_loop *of; int up, level, carry, n_carry; };
enum { MAX_LINE = 1024, MAX_PUT = 24, MAX_DEF = 64, MAX_CARRY = 48, MAX_LOOP = 24 };
struct form_symbols {
	struct program *program;        /* these pieces alone */
	const struct tree *tree;
	const struct program_loop *loop;        /* that over tokens, or the first, or of those in it the first in chunks; NULL: none */
	struct sym_loop in[MAX_LOOP];             /* in[0]: the piece; each behind those around it */
	int n_in, now_in, iterated;             /* iterated: the last that carries anything and is in no other; 0: none */
	struct pool pool;
	struct sym_put put[MAX_PUT];
	int n_put;
	struct sym_carry carry[MAX_CARRY];
	int n_carry, n_sym, n_def, line;        /* line: of the statement that is read */
	unsigned short in_line[MAX_LINE];
	const char *def_name[MAX_DEF];
	uint64_t def_uses[MAX_DEF];     /* bit i: reads definition i */
	struct sym *scaled[MAX_DEF];    /* sites that are one matrix between diagonals and numbers: in a longer chain these go where they like */
	struct sym *product[MAX_DEF];   /* sites that are products of matrices alone */
	int n_scaled, n_product;
	uint64_t in_exponents;          /* bit f: enum fn's f is computed in an exponent, element by element */
	const char *missing;            /* what the formula has that is not read here; NULL: nothing */
	bool failed;                    /* memory is short */
};

/* Of the pieces of `p`, which are the tree's; freed with symbols_free, before the program. Look at `missing` first. */
void symbols_make(struct form_symbols *f, const struct tree *tree, struct program *p);
void symbols_free(struct form_symbols *f);

/* Does the loop (NULL: none) go along the call's tokens? */
static inline bool over_tokens(const struct program_loop *l) { return l && l->along; }

/* ---- inside ---- */
struct sym *sym_make(struct form_symbols *f, enum sym_kind kind, struct shape s, int n);
struct sym *sym_op(struct form_symbols *f, const struct ex *like, struct shape s, struct sym *a, struct sym *b, struct sym *c);
struct sym *sym_times(struct form_symbols *f, struct shape s, struct sym *a, struct sym *b);
struct sym *sym_chain(struct form_symbols *f, struct shape s, struct sym *a, struct sym *b);     /* product of matrices */
struct sym *sym_add(struct form_symbols *f, struct shape s, struct sym *a, struct sym *b, int sign);
struct sym *sym_trans(struct form_symbols *f, struct sym *a);
struct sym *sym_exp(struct form_symbols *f, struct sym *a, bool base2);         /* NULL: no exponent that was scaled */
const struct ex *op_like(struct form_symbols *f, enum ex_kind kind, struct shape s, int op);
bool is_ex(const struct sym *x, enum ex_kind kind);
/* The loop of that level around, or at, loop `in`. */
int in_level(const struct form_symbols *f, int in, int level);

#endif
