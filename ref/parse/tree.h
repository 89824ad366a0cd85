/* What a formula file says, as it is written. Texts are the pool's; lists are counted. */
#ifndef ETALON_FORMULA_TREE_H
#define ETALON_FORMULA_TREE_H

#include <string.h>

#include "lex.h"

/* NODE_IF: condition, value, else. NODE_INDEX: name[arg...]; NODE_CALL: name(arg...); NODE_RANGE a:b; NODE_ALL ":".
 * NODE_ALL: all that is left of an axis, named "..": of all axes from here on. An argument of a function may be a NODE_RANGE that is
 * named: `i in a:b`, `n from a`. NODE_GIVEN: the parameter of fault `number`. NODE_IN: i in LIST. NODE_CHAIN: factors side by side, a
 * product. NODE_ALT: a | b, equal by algebra. */
enum node_kind {
	NODE_NUMBER, NODE_NAME, NODE_INDEX, NODE_CALL, NODE_NEG, NODE_ADD, NODE_SUB, NODE_MUL, NODE_DIV, NODE_IDIV, NODE_MOD, NODE_POW,
	NODE_TRANS, NODE_CHAIN, NODE_IF, NODE_ALT, NODE_EQ, NODE_NE, NODE_LT, NODE_LE, NODE_GT, NODE_GE, NODE_AND, NODE_OR, NODE_NOT,
	NODE_RANGE, NODE_ALL, NODE_GIVEN, NODE_IN
};

struct node {
	enum node_kind kind;
	int line, column;
	const char *name;
	double number;
	int n;
	struct node **arg;
};

/* name = value, or name[index] = value; in a fault also what is carried: name from value, name to target[index]. kind: '=', 'f' or 't'. */
struct definition { const char *name; char kind; bool indexed; struct node *target, *value; const char *text; int line, column; };

/* name from `from`, and at the end to the output `to` (NULL: to none). */
struct carry { const char *name; struct node *from, *to; };

/* for var in range: one value after the other; in chunks of it: `var` is a range of up to by[i] values. Of the integer input
 * `cuts`, if any: the values of sequence `sequence`. backwards: the last of them first. */
enum { MAX_BY = 8 };
struct loop {
	const char *var;
	struct node *range;
	bool chunks, backwards;
	size_t by[MAX_BY];
	int n_by;
	struct node *cuts;
	struct carry *carry;
	int n_carry;
};

/* use OP as NAME: what its inputs, sizes, parameters and indices are. Statements of NAME.name stand in its place (ref/use). */
enum { MAX_GIVEN = 32 };
struct use { const char *op, *as; struct definition given[MAX_GIVEN]; int n, line, column; };

/* if CONDITION: those of `body` where it, 0 or 1, holds. */
struct statement {
	struct statement *next;
	struct definition define;       /* where loop, condition and use are NULL */
	struct loop *loop;
	struct node *condition;
	struct statement *body;
	struct use *use;
};

struct declared { struct declared *next; const char *name; int line, column; const char *what; };

/* trace: of a call for which `traced` holds (NULL: of all). */
struct tensor_decl { struct declared d; const char *shape; bool optional, integer, trace; const char *with; struct node *traced; };
/* value NULL: required, of a choice or a list too where `required`. names: "a|b" of a choice; rows: "a,b,c" of a list. */
struct param_decl { struct declared d; struct node *value; const char *names, *rows; bool is_bool, required; };
struct alias { struct declared d; struct node *value; };        /* let, and those in each */
struct macro { struct declared d; const char **param; int n; struct node *value; };
/* def NAME, statements below: forms that have NAME on a line of its own have copies of them there. */
struct lines { struct declared d; struct statement *body; int n; };
/* dim NULL: in 0:last, each number with pieces of shapes of their own. by: chunks of so many of dim; 0: one index after the other. */
struct each { struct declared d; const char *dim; struct node *last; size_t by; };
/* where VALUE [for VAR in RANGE], for each of which it reads integer inputs; its name is a parameter's, or "" */
struct rule { struct declared d; struct node *value, *range; const char *var; };
/* each: of this form alone, NULL: those of the file; more: other pieces, with their own; of: they are those of that op (ref/use), NULL:
 * written here; define: of a form that is another one with some things defined anew. */
struct form_decl {
	struct declared d;
	struct each *each;
	struct statement *body;
	struct form_decl *more;
	const char *of;
	struct definition *define;
	struct node *when;      /* another way only of a call for which it holds; NULL: of each */
	int n;
};
/* site NULL: the definitions are others; else the site is rounded to the format named `format`. parameter NULL: none; its values are
 * those below a size, or n of a list, or n whole numbers from `first` on, or numbers within the factor `by` of what `near` is. */
struct fault_decl {
	struct declared d;
	const char *form, *seen, *site, *format, *parameter, *size;
	struct definition *define;
	double *list, first, by;
	struct node *near;
	int n, values;
};
struct round_decl { const char *site, *format; int line, column; };
/* A site by name: where each of these definitions is made. */
struct site_decl { struct declared d; const char **of, *stores; int n; };
/* Sites, or faults, of the op that these names use: as the first name's. */
struct taken { struct declared d; const char **as, **names; int n_as, n; unsigned met; bool faults; };     /* met: bit i: as[i] stands in a use */
/* A kernel that is known to lie in these contracts; another contract's may have its name. */
struct structure_decl { struct declared d; const char **of; int n_of, of_line, of_column; struct round_decl *round; int n; };
struct contract_decl { struct declared d; const char *form, **as; size_t by; struct round_decl *round; int n, n_as; };
/* NAME = VALUE: a size, a parameter (json text), a tensor's type and draw, of which functions are taken, the outermost first, and a
 * multiple; `bare`: NAME alone, a tensor that is given. */
enum { MAX_MAPS = 4 };
struct setting {
	const char *name, *dtype, *draw, *json, *map[MAX_MAPS];
	double number[2], times, *list;
	int n_list, n_map, line, column;
	bool is_text, bare;
};
/* base: the case whose settings hold where this one has none, or NULL. */
struct case_decl {
	struct declared d;
	const struct case_decl *base;
	struct setting *set;
	int n, contract_line, contract_column;
	bool common, large, alike;              /* alike: with the numbers of the case `base` */
	const char *variant, *contract;         /* of etalon's own kernels; NULL: the usual one, the tightest */
};

struct tree {
	const char *path, *source, *name, *what;
	struct tensor_decl *in, *out, *held;   /* held: what pieces store for those behind them */
	struct param_decl *params;
	struct alias *lets, *aliases;
	struct each *each;
	struct macro *macros;
	struct lines *lines;
	struct rule *rules;
	struct form_decl *forms;
	struct site_decl *sites;        /* NULL: each name that is defined is one */
	struct fault_decl *faults;
	struct taken *taken;
	struct contract_decl *contracts;
	struct structure_decl *structures;
	struct case_decl *cases;
	bool iterates;          /* errors inside are amplified */
	struct pool pool;
};

/* Reads the file's text [n] into *t, which is ended with formula_free whether it succeeds or not. */
bool formula_parse(struct tree *t, const char *path, const char *text, size_t n, struct error *e);
/* The same of a file that begins with `cases NAME` and has the lines `draw` and `case` alone: cases of an op that stands elsewhere. */
bool formula_parse_cases(struct tree *t, const char *path, const char *text, size_t n, struct error *e);
void formula_free(struct tree *t);

static inline bool same_name(const char *a, const char *b) { return *a == *b && !strcmp(a, b); }

bool same_node(const struct node *a, const struct node *b);      /* the same, wherever it is written */

/* In a list of declarations: the one of that name, or NULL. */
void *declared(const void *list, const char *name);
int declared_index(const void *list, const char *name);         /* or -1 */

#endif
