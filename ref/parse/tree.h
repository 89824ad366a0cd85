/* What a formula file says, as it is written. Texts are the pool's; lists are counted. */
#ifndef ETALON_FORMULA_TREE_H
#define ETALON_FORMULA_TREE_H

#include <string.h>

#include "lex.h"

/* NODE_IF: condition, value, else. NODE_INDEX: name[arg...]; NODE_CALL: name(arg...); NODE_RANGE a:b; NODE_ALL ":".
 * NODE_ALL: all that is left of an axis, named "..": of all axes from here on. An argument of a function may be a NODE_RANGE that is
 * named: `i in a:b`, `n from a`. NODE_CHAIN: factors side by side, a product. NODE_ALT: a | b, equal by algebra. */
enum node_kind {
	NODE_NUMBER, NODE_NAME, NODE_INDEX, NODE_CALL, NODE_NEG, NODE_ADD, NODE_SUB, NODE_MUL, NODE_DIV, NODE_IDIV, NODE_MOD, NODE_POW,
	NODE_TRANS, NODE_CHAIN, NODE_IF, NODE_ALT, NODE_EQ, NODE_NE, NODE_LT, NODE_LE, NODE_GT, NODE_GE, NODE_AND, NODE_OR, NODE_NOT,
	NODE_RANGE, NODE_ALL
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
 * `cuts`, if any: the values of sequence `sequence`. */
enum { MAX_BY = 8 };
/* Of `when CONDITION`: a loop of one turn or none, with no name. */
struct loop {
	const char *var;
	struct node *range, *when;
	bool chunks;
	size_t by[MAX_BY];
	int n_by;
	struct node *cuts;
	struct carry *carry;
	int n_carry;
};

/* use OP as NAME: what its inputs, sizes, parameters and indices are. Statements of NAME.name stand in its place (ref/formula/use.c). */
enum { MAX_GIVEN = 32 };
struct use { const char *op, *as; struct definition given[MAX_GIVEN]; int n, line, column; };

struct statement {
	struct statement *next;
	struct definition define;       /* where loop and use are NULL */
	struct loop *loop;
	struct statement *body;
	struct use *use;
};

struct declared { struct declared *next; const char *name; int line, column; const char *what; };

struct tensor_decl { struct declared d; const char *shape; bool optional, integer; const char *with; };
/* value NULL: required. names: "a|b" of a choice; rows: "a,b,c" of a list. */
struct param_decl { struct declared d; struct node *value; const char *names, *rows; bool is_bool; };
struct alias { struct declared d; struct node *value; };        /* let, and those in each */
struct macro { struct declared d; const char **param; int n; struct node *value; };
struct each { struct declared d; const char *dim; };
/* where VALUE [for VAR in RANGE], for each of which it reads integer inputs */
struct rule { struct declared d; struct node *value, *range; const char *var; };
/* each: of this form alone, NULL: those of the file; more: other pieces, with their own. */
struct form_decl { struct declared d; struct each *each; struct statement *body; struct form_decl *more; };
/* site NULL: the definitions are others; else the site is rounded to the format named `format`. */
struct fault_decl { struct declared d; const char *form, *seen, *site, *format; struct definition *define; int n; };
struct round_decl { const char *site, *format; int line, column; };
/* A site by name: where each of these definitions is made. */
struct site_decl { struct declared d; const char **of; int n; };
struct structure_decl { struct declared d; const char *of; int of_line, of_column; struct round_decl *round; int n; };
struct contract_decl { struct declared d; const char *form; size_t by; struct round_decl *round; int n; };
/* NAME = VALUE: a size, a parameter (json text), a tensor's type and draw. */
struct setting { const char *name, *dtype, *draw, *json; double number[2]; double *list; int n_list; bool is_text; int line, column; };
struct case_decl { struct declared d; struct setting *set; int n; bool common; };

struct tree {
	const char *path, *source, *name, *what;
	struct tensor_decl *in, *out;
	struct param_decl *params;
	struct alias *lets, *aliases;
	struct each *each;
	struct macro *macros;
	struct rule *rules;
	struct form_decl *forms;
	struct site_decl *sites;        /* NULL: each name that is defined is one */
	struct fault_decl *faults;
	struct contract_decl *contracts;
	struct structure_decl *structures;
	struct case_decl *cases;
	struct pool pool;
};

/* Reads the file's text [n] into *t, which is ended with formula_free whether it succeeds or not. */
bool formula_parse(struct tree *t, const char *path, const char *text, size_t n, struct error *e);
void formula_free(struct tree *t);

static inline bool same_name(const char *a, const char *b) { return *a == *b && !strcmp(a, b); }

/* In a list of declarations: the one of that name, or NULL. */
void *declared(const void *list, const char *name);
int declared_index(const void *list, const char *name);         /* or -1 */

#endif
