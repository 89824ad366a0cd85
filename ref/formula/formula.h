/* An op that is a formula: a text file (docs/formula.md). */
#ifndef ETALON_FORMULA_H
#define ETALON_FORMULA_H

#include "ref/call/op.h"

struct formula;

/* Reads and checks the file, or its text [n]; NULL with an error that has line and column. Freed with formula_end, its op with it. */
struct formula *formula_read(const char *path, struct error *e);
struct formula *formula_of_text(const char *path, const char *text, size_t n, struct error *e);
void formula_end(struct formula *f);

/* Those of etalon's own ops that are formulas, 0 to formula_builtins(). Whether all shapes fit is asked by the second alone: that takes
 * longer than reading. */
size_t formula_builtins(void);
struct formula *formula_builtin(size_t i, struct error *e);
bool formula_builtin_check(size_t i, struct error *e);
/* A part of a model, of ref/ops/layers: no op of the lists. NULL with an error. */
struct formula *formula_layer(const char *name, struct error *e);

/* A file of more cases of an op that there is: `cases OP`, then lines `draw` and `case` (docs/formula.md). Its op, and its cases, which
 * end with a NULL op, are there until it is freed; NULL with an error that has line and column. */
struct case_file;
struct case_file *case_file_read(const char *path, struct error *e);
void case_file_free(struct case_file *f);
const struct op *case_file_op(const struct case_file *f);
const struct test_case *case_file_cases(const struct case_file *f);

/* How many numbers a run of the call holds between its pieces, and at most in one; false with an error. */
bool formula_sizes(const struct call *call, const struct plan *plan, size_t *held, size_t *piece, struct error *e);

/* The text of the op's file; NULL where the op is none. */
const char *formula_source(const struct op *op);

/* Its op: tables as those of any other, `cases` too. */
const struct op *formula_op(const struct formula *f);

#endif
