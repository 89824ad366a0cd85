/* An op made of others: `use OP as NAME: ...`. */
#ifndef ETALON_USE_H
#define ETALON_USE_H

#include "ref/parse/tree.h"

/* The text of the op of that name, which stays, or NULL. */
typedef const char *use_text(const char *op);

/* `use` lines of *t become the statements of the ops that they name: text_of has them. False with an error (E_FORMULA in that line). */
bool formula_use(struct tree *t, use_text *text_of, struct error *e);

#endif
