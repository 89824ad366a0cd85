/* Inside the parser: where it stands, and what its parts call of each other. */
#ifndef ETALON_FORMULA_PARSE_H
#define ETALON_FORMULA_PARSE_H

#include <string.h>

#include "tree.h"

/* Brackets and statements may be this deep. */
enum { MAX_DEPTH = 64, MAX_ARGS = 32 };

struct parser { struct tree *t; struct pool *p; struct words w; size_t at; int depth; struct error *e; };

static inline const struct word *peek(const struct parser *s) { return &s->w.word[s->at]; }
bool is(const struct parser *s, const char *op);        /* an operator or a keyword stands here */
bool take(struct parser *s, const char *op);            /* and is passed over */
bool need(struct parser *s, const char *op);            /* or an error */
const char *name_here(struct parser *s, const char *what);      /* a name, passed over; NULL with an error */
bool wrong(struct parser *s, const char *what);         /* "expected WHAT, got ..."; returns false */
bool no_room(struct parser *s);                         /* out of memory; returns false */
/* Whatever ends here, WORD_END, and its comment. */
bool line_end(struct parser *s, const char **comment);

struct node *parse_value(struct parser *s);             /* all that may stand on the right of '='; NULL with an error */
struct node *parse_target(struct parser *s);            /* name or name[index] */
struct statement *parse_body(struct parser *s, int column, bool *ok);   /* statements that begin at this column */
bool parse_definition(struct parser *s, struct definition *d, bool may_carry);        /* also name from, name to */

/* One more at the end of a list of declarations of this size; NULL with an error where one has its name already (in this list). */
void *declare(struct parser *s, void *list, size_t size, const struct word *name);

#endif
