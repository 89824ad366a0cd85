/* An op that is a formula: a text file (docs/formula.md). */
#ifndef ETALON_FORMULA_H
#define ETALON_FORMULA_H

#include "fixtures/cases.h"
#include "program.h"

struct formula {
	struct op op;
	struct tree tree;
	struct test_case *cases;        /* ends with a NULL op; parameters, sizes and draws are the file's */
};

/* Reads and checks the file; NULL with an error that has line and column. Freed with formula_end; the op lives as long. */
struct formula *formula_read(const char *path, struct error *e);
struct formula *formula_of_text(const char *path, const char *text, size_t n, struct error *e);
void formula_end(struct formula *f);

/* Of an op that is a formula. */
static inline const struct formula *formula_of(const struct op *op)
{
	return (const struct formula *)(const void *)((const char *)op - offsetof(struct formula, op));
}

/* ---- inside ---- */
bool formula_tables(struct formula *f, struct error *e);        /* f->op from f->tree */
bool formula_cases(struct formula *f, struct error *e);         /* f->cases */
/* Does the call keep the file's `where` lines? *e says which not. */
bool formula_rules(const struct formula *f, const struct call *call, struct error *e);
/* Do all forms and faults fit, for every set of optional inputs and choices that `where` allows, in sizes that differ? */
bool formula_check(const struct formula *f, struct error *e);
bool formula_format(const char *name, enum format *format, enum rounding *rounding);

#endif
