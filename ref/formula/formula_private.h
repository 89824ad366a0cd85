/* Inside an op that is a formula. */
#ifndef ETALON_FORMULA_PRIVATE_H
#define ETALON_FORMULA_PRIVATE_H

#include "fixtures/cases/cases.h"
#include "formula.h"
#include "program.h"

struct formula {
	struct op op;
	struct tree tree;
	struct test_case *cases;        /* ends with a NULL op; parameters, sizes and draws are the file's */
};

/* Of an op that is a formula. */
static inline const struct formula *formula_of(const struct op *op)
{
	return (const struct formula *)(const void *)((const char *)op - offsetof(struct formula, op));
}

/* As formula_of_text, of a text that passes formula_check. */
struct formula *formula_of_sound_text(const char *path, const char *text, size_t n, struct error *e);
/* `use` lines become the statements of the ops that they name; the text of an op of etalon's own, or NULL. */
bool formula_use(struct tree *t, struct error *e);
const char *formula_builtin_text(const char *name);
bool formula_tables(struct formula *f, struct error *e);        /* f->op from f->tree */
/* The sites that the file lists, if it does; those of the statements of a form, or where they stand in it; do all that are listed stand
 * somewhere? */
bool formula_listed_sites(struct formula *f, struct site_spec *sites, struct error *e);
bool formula_sites_of(struct formula *f, struct site_spec *sites, size_t *n, const struct statement *s, int form, struct error *e);
bool formula_sites_stand(struct formula *f, const struct site_spec *sites, struct error *e);
bool formula_cases(struct formula *f, struct error *e);         /* f->cases */
/* Does the call keep the file's `where` lines? *e says which not. */
bool formula_rules(const struct formula *f, const struct call *call, struct error *e);
/* Do all forms and faults fit, for every set of optional inputs and choices that `where` allows, in sizes that differ? */
bool formula_check(const struct formula *f, struct error *e);
const struct cut *formula_cut(const struct formula *f);         /* how its calls are cut into strips, if they are */
/* Are the integer inputs that cut loops into sequences cut points? */
bool formula_cuts_sound(const struct formula *f, const struct call *call, struct error *e);
bool formula_format(const char *name, enum format *format, enum rounding *rounding);

#endif
