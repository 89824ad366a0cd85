/* Inside the way from tree to program. */
#ifndef ETALON_FORMULA_LOWER_H
#define ETALON_FORMULA_LOWER_H

#include "program.h"

enum symbol_kind { SYMBOL_REG, SYMBOL_VAR, SYMBOL_CHUNK, SYMBOL_NUMBER };
/* SYMBOL_NUMBER: index is its value. A chunk: index is the variable of its first index, s.rows its length. */
struct symbol {
	const char *name;
	enum symbol_kind kind;
	int index, level;
	bool carried;
	struct shape s;
	const struct node *product;     /* of names that stay, and not rounded: a sum of it is one of products; else NULL */
	struct symbol *outer;
};

/* Arguments of a macro, and where theirs are looked up. */
struct binding { const char *name; struct ex *value; struct ix *ix; struct binding *next; };    /* ix: NULL where it is no index */

/* What a name of the file's own is within this loop, the innermost. */
struct known { const struct alias *of; const struct symbol *scope; struct ix *value; struct known *next; };

struct lower {
	const struct tree *t;
	const struct op *op;
	const struct call *call;
	const struct plan *plan;
	int form;
	const struct form_decl *anew;   /* the form, where it is another one with some things defined anew, or NULL */
	size_t part, parts;     /* of pieces that may have shapes of their own; parts: not 0: so many, all of one shape */
	bool keep;              /* the program is one in which values stay */
	struct program *p;
	struct symbol *symbols;
	struct binding *bindings;
	struct known *known;
	const struct node *called;      /* where a def was called last, or NULL */
	double turns;                   /* of the loops and folds around what is read, where numbers say how many */
	struct step **end;      /* where the next step goes */
	struct ix *same[MAX_LEVEL];     /* the numbers of each level: what is computed alike is one of them */
	struct program_loop *outermost; /* of the loops around what is read, or NULL */
	int level;              /* loops around what is read */
	int depth;              /* levels of values */
	int site_of[MAX_REG];   /* 1 + the site at which the register's value is rounded, or 0 */
	bool index[MAX_REG];    /* struct ex has it, too */
	struct held *of_held;   /* [n_held], of all pieces */
	int n_held;
	uint32_t held;          /* bit i: pieces before these store held tensor i */
	uint64_t used;          /* bit i: definition i of the plan's faults was put in place of another */
	struct error *e;
};

bool low_error(struct lower *l, const struct node *at, const char *what, ...) __attribute__((format(printf, 3, 4)));
void *low_make(struct lower *l, size_t n);      /* NULL with an error */
/* The turns of a loop or fold within those around it. A file that is read without a call has small sizes, so that many turns are the
 * file's own: false with an error. The turns around are then *around, to be put back. */
bool low_turns(struct lower *l, const struct node *at, const struct ix *first, const struct ix *last, double *around);
/* A program may take this many bytes. Those of etalon take less than 200 KiB; definitions that call each other twice double it with each. */
enum { MAX_PREPARED = 16 << 20 };

/* The faults that the plan makes: what one of them puts in place of this declaration or definition, or NULL. `kind`: '=' a
 * definition, 'f' from, 't' to. */
const struct definition *redefined(struct lower *l, const char *name, const struct node *target, char kind);

struct symbol *symbol_find(const struct lower *l, const char *name);
struct symbol *symbol_add(struct lower *l, const char *name, enum symbol_kind kind, int index, struct shape s);
int new_reg(struct lower *l, const struct node *at, struct shape s);    /* -1 with an error */
int new_var(struct lower *l, const struct node *at);               /* the same */
struct step *add_step(struct lower *l, enum step_kind kind, const struct node *at);

struct step *add_set(struct lower *l, const struct node *at, int reg, struct ex *value);

struct ix *low_ix(struct lower *l, const struct node *x);
struct ix *ix_make(struct lower *l, enum ix_kind kind, const struct node *at);
struct ix *ix_only(struct lower *l, struct ix *x);      /* the one number that is computed so: x, or one like it */
bool low_folds(const struct node *x);   /* is it fold, count, first or last of a range? */
struct ix *low_fold(struct lower *l, const struct node *x);     /* that */
struct ix *ix_number(struct lower *l, double number);
bool ix_known(const struct ix *x, double *value);       /* not depending on anything that a run knows */
bool low_held(struct lower *l, const struct node *x, int held, bool stored);     /* may these pieces read or store it? */
struct slice *low_slice(struct lower *l, const struct node *x, bool out, struct shape *s);

struct ex *low_value(struct lower *l, const struct node *x);
struct ex *low_chain(struct lower *l, const struct node *x);
struct ex *low_call(struct lower *l, const struct node *x);
struct ex *low_reshape(struct lower *l, const struct node *x);
struct ex *low_shifted(struct lower *l, const struct node *x);
struct ex *low_element(struct lower *l, const struct node *x);
struct ex *low_part(struct lower *l, const struct node *x);
struct ex *low_axpy(struct lower *l, const struct node *x);
struct ex *low_mirrored(struct lower *l, const struct node *x);
struct ex *low_rounded(struct lower *l, const struct node *x, enum format f);
struct ex *low_with_row(struct lower *l, const struct node *x);
struct ex *low_joined(struct lower *l, const struct node *x);
struct ex *low_iota(struct lower *l, const struct node *x);
struct ex *low_floor(struct lower *l, const struct node *x);
struct ex *low_compared(struct lower *l, const struct node *x);
struct ex *low_where(struct lower *l, const struct node *x);
struct ex *low_chosen(struct lower *l, const struct node *x);
struct ex *low_replaced(struct lower *l, const struct node *x);
struct ex *low_wrong(struct lower *l, const struct node *x, const char *what);  /* an error: what is expected of this function; NULL */
bool low_known(struct lower *l, const struct node *x, double *value);           /* false with an error where only a run knows it */
struct ex *ex_make(struct lower *l, enum ex_kind kind, struct shape s, struct ex *a, struct ex *b);
struct ex *ex_zip(struct lower *l, const struct node *at, enum binary op, struct ex *a, struct ex *b);
struct ex *ex_map(struct lower *l, enum fn f, struct ex *a);
struct ex *ex_flip(struct lower *l, struct ex *a);
bool ex_index(const struct lower *l, struct ex *x);      /* x->index, which this sets in x and in what it is made of */
struct ex *ex_reg(struct lower *l, int reg);
struct ex *ex_number(struct lower *l, double x);
struct ex *ex_filled(struct lower *l, struct shape s, struct ex *x);     /* a number, everywhere in that shape */
struct ex *ex_shaped(struct lower *l, struct shape s, struct ex *x);     /* the same numbers, row by row, as a matrix of that shape */
struct ex *ex_hold(struct lower *l, const struct node *at, struct ex *x);       /* made once, before this statement */
struct ex *ex_product(struct lower *l, const struct node *at, struct ex *a, struct ex *b);

bool rounds(const struct lower *l, int site);   /* does the plan round there, to what the arithmetic has not anyway? */

/* The indices of the pieces of f, and how many there are. */
bool low_each(struct lower *l, const struct form_decl *f);
bool low_body(struct lower *l, const struct statement *body);
/* Has the call this output? -1 with an error. */
/* What pieces hold for others, of all pieces of a call; false with an error. */
bool held_make(struct lower *l);
void held_free(struct held *h, int n);
int low_has_output(struct lower *l, const char *name);
struct ix *low_in_list(struct lower *l, const struct node *x);          /* i in LIST */
struct ix *low_list(struct lower *l, const struct node *x, int param);  /* LIST[row, column] */
struct ix *low_of_list(struct lower *l, const struct node *x);          /* sum(LIST) and the like; NULL, with no error, where it is none */
/* Drops what is not read, and says which values may take over the memory of one that is not read again. `carried`: registers that are read after the last step. */
void reuse(struct program *p, struct step **body, const int *carried, int n);
void places(struct program *p);         /* room for what the steps read and write */

static const struct shape scalar = { SCALAR, { 1, -1 }, { 1, -1 } };

#endif
