/* Inside `use`: the values of one op in the terms of another. */
#ifndef ETALON_USE_PRIVATE_H
#define ETALON_USE_PRIVATE_H

#include "ref/parse/tree.h"

struct user {
	struct tree *to;                /* the one that uses */
	const struct tree *of;          /* the one that is used */
	const struct use *use;
	const struct macro *macro;      /* the function whose body is being taken: its arguments come before all else of their names; or NULL */
	const char *once;               /* the variable of a loop of one turn, 0; or NULL */
	const char *before[MAX_BY];     /* what that loop carries and has not defined yet: NAME.x.before */
	int n_before;
	struct error *e;
};

void *use_make(struct user *s, size_t n);       /* zero bytes of s->to; NULL with an error */
const char *use_name(struct user *s, const char *name);         /* NAME.name; NULL with an error */
/* What the line gives for it, with indices of its own where so, else whole; NULL: nothing. */
const struct definition *use_given(const struct user *s, const char *name, bool indexed);
bool use_has_size(const char *shape, const char *name);
/* A value of the op that is used; NULL with an error. */
struct node *use_value(struct user *s, const struct node *x);
struct node *use_named(struct user *s, const char *name);       /* what the op calls so */

#endif
