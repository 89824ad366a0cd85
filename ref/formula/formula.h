/* An op that is a formula: a text file (docs/formula.md). */
#ifndef ETALON_FORMULA_H
#define ETALON_FORMULA_H

#include "ref/op.h"

struct formula;

/* Reads and checks the file, or its text [n]; NULL with an error that has line and column. Freed with formula_end, its op with it. */
struct formula *formula_read(const char *path, struct error *e);
struct formula *formula_of_text(const char *path, const char *text, size_t n, struct error *e);
void formula_end(struct formula *f);

/* Its op: tables as those of any other, `cases` too. */
const struct op *formula_op(const struct formula *f);

#endif
