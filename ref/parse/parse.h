/* Inside the parser: where it stands, and what its parts call of each other. */
#ifndef ETALON_FORMULA_PARSE_H
#define ETALON_FORMULA_PARSE_H

#include <string.h>

#include "tree.h"

/* Brackets and statements may be this deep. */
enum { MAX_DEPTH = 64, MAX_ARGS = 32, MAX_VALUES = 32, MAX_RANGE = 4096, MAX_COPIED = 4096 };

struct parser { struct tree *t; struct pool *p; struct words w; size_t at; int depth, copied; struct error *e; };

static inline const struct word *peek(const struct parser *s) { return &s->w.word[s->at]; }
bool is(const struct parser *s, const char *op);        /* an operator or a keyword stands here */
bool take(struct parser *s, const char *op);            /* and is passed over */
bool need(struct parser *s, const char *op);            /* or an error */
bool need_end(struct parser *s, const char *op, const struct word *open);       /* the same, of a bracket that was opened there */
const char *name_here(struct parser *s, const char *what);      /* a name, passed over; NULL with an error */
bool number_here(struct parser *s, double *x);          /* one that may be negative, passed over; false with an error */
bool chunk_size_here(struct parser *s, size_t *n);
bool wrong(struct parser *s, const char *what);         /* "expected WHAT, got ..."; returns false */
bool no_room(struct parser *s);                         /* out of memory; returns false */
/* The text from one word to before another, without the ':' that it may begin with, in one line; NULL: out of memory. */
const char *as_written(struct parser *s, const struct word *first, const struct word *end);
/* Whatever ends here, WORD_END, and its comment. */
bool line_end(struct parser *s, const char **comment);

struct node *parse_value(struct parser *s);             /* all that may stand on the right of '='; NULL with an error */
struct node *parse_truth(struct parser *s);             /* the same, as 0 or 1 */
struct node *parse_target(struct parser *s);            /* name or name[index] */
struct statement *parse_body(struct parser *s, int column, bool *ok);   /* statements that begin at this column */
bool parse_begins_line(const char *name);               /* is it a word that lines of a file begin with? */
bool parse_is_op(const struct parser *s);                /* `use OP`, and no more? */
bool parse_is_statement(const struct parser *s);        /* does one begin here? */
bool parse_definition(struct parser *s, struct definition *d, bool may_carry);        /* also name from, name to */

/* What stands behind the first word of a line. */
bool parse_tensors(struct parser *s, struct tensor_decl **list, bool output);
bool parse_params(struct parser *s);
bool parse_alias(struct parser *s, struct alias **list);        /* NAME = VALUE, a whole number */
bool parse_each(struct parser *s, struct each **list);
bool parse_macro(struct parser *s);
bool parse_lines(struct parser *s);                     /* def NAME, and statements in the lines below */
bool parse_rule(struct parser *s);
bool parse_site(struct parser *s);
bool parse_definitions(struct parser *s, struct definition **define, int *n, bool may_carry);    /* DEFINITION; ... */
bool parse_fault(struct parser *s);
bool parse_taken(struct parser *s, bool faults);         /* of NAME, ...: NAME, ... */
bool parse_contract(struct parser *s);
bool parse_structure(struct parser *s);         /* a known kernel of a contract */
bool parse_case(struct parser *s, bool common);         /* case NAME: ..., and draw ..., what all cases share */

/* One more at the end of a list of declarations of this size; NULL with an error where one has its name already (in this list). */
void *append(struct parser *s, void *list, size_t size);        /* one more, whatever its name */
void *declare(struct parser *s, void *list, size_t size, const struct word *name);

#endif
