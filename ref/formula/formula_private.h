/* Inside an op that is a formula. */
#ifndef ETALON_FORMULA_PRIVATE_H
#define ETALON_FORMULA_PRIVATE_H

#include "fixtures/cases/cases.h"
#include "formula.h"
#include "program.h"

struct formula {
	struct op op;
	struct tree tree;
};

/* Of an op that is a formula. */
static inline const struct formula *formula_of(const struct op *op)
{
	return (const struct formula *)(const void *)((const char *)op - offsetof(struct formula, op));
}

/* As formula_of_text, of a text that passes formula_check. */
struct formula *formula_of_sound_text(const char *path, const char *text, size_t n, struct error *e);
/* The text of an op of etalon's own, or NULL. */
const char *formula_builtin_text(const char *name);
bool formula_tables(struct formula *f, struct error *e);        /* f->op from f->tree */
/* The sites that the file lists, if it does; those of the statements of a form, or where they stand in it; do all that are listed stand
 * somewhere? */
/* Are all values that the forms store in that output indices, as they were found? */
bool formula_names(const struct tree *t, const char *out);
bool formula_listed_sites(struct formula *f, struct site_spec *sites, struct error *e);
bool formula_sites_of(struct formula *f, struct site_spec *sites, size_t *n, const struct statement *s, int form, struct error *e);
bool formula_sites_stand(struct formula *f, const struct site_spec *sites, struct error *e);
/* The cases of a file, which are its pool's: of this op, whose tensors, sizes and parameters they name. They end with a NULL op; NULL
 * where the file has none. */
bool cases_of_tree(struct tree *t, const struct op *op, const struct test_case **cases, struct error *e);
/* Whose cases are made, and what all share. What is expected of a setting: an error, and false; whole numbers from 1 on; a parameter's
 * value as JSON; type and draw of an input or, of an output, which is not drawn, the type; functions of what is drawn; the type's number,
 * or DT_COUNT. */
struct made { struct tree *t; const struct op *op; const struct case_decl *common; struct error *e; };
bool case_wrong(const struct made *m, const struct setting *s, const char *what);
bool case_size(const struct made *m, const struct setting *s, size_t *n);
bool case_param(const struct made *m, const struct setting *s, const struct param_spec *p, char *text, size_t room);
bool case_drawn(const struct made *m, const struct setting *s, struct case_tensor *t, bool integer);
bool case_mapped(const struct made *m, const struct setting *s, struct case_map *map);
enum dtype case_type(const char *name);
/* A setting of nothing that the op has: an error, and false. Of one's own op: has the case all parameters, and does it keep the `where`
 * lines that need no numbers of inputs? */
bool case_no_such(const struct made *m, const struct setting *s);
bool case_is_call(const struct made *m, const struct case_decl *c, const struct test_case *k);
/* Sizes that a `let` gives; has the call this trace; is this form another way of the call than those above it? */
void formula_derive(const struct formula *f, struct call *call);
bool formula_has_trace(const struct formula *f, const struct call *call, int out);
bool formula_has_form(const struct formula *f, const struct call *call, const struct form_decl *d);
/* A number that is known before the call runs; false with an error where it is none. */
bool formula_number(const struct formula *f, const struct call *call, const struct node *x, double *value, struct error *e);
/* The number that fault `fault` has another one for; NAN where it has none. */
double formula_right(const struct formula *f, const struct call *call, int fault);
/* Does the call keep the file's `where` lines? *e says which not. */
bool formula_rules(const struct formula *f, const struct call *call, struct error *e);
/* Do all forms and faults fit, for every set of optional inputs and choices that `where` allows, in sizes that differ? */
bool formula_check(const struct formula *f, struct error *e);
/* Does each form store something in each output, and does each index of pieces tell them apart? In sizes that all differ: is it an index
 * of the sizes that it is put for? */
bool formula_stores(const struct formula *f, struct error *e);
bool formula_stores_fit(const struct formula *f, const struct call *call, struct error *e);
extern const struct sharing formula_sharing;
const struct cut *formula_cut(const struct formula *f);         /* how its calls are cut into strips, if they are */
/* Are the integer inputs that cut loops into sequences cut points? */
bool formula_cuts_sound(const struct formula *f, const struct call *call, struct error *e);
bool formula_format(const char *name, enum format *format, enum rounding *rounding);

/* ---- inside formula_check: calls of no numbers ---- */
/* Sets of inputs that are looked at; sizes are below LARGEST. */
enum { SETS = 1024, LARGEST = 32, SCATTER = 7919 /* a prime above SETS: each set comes once */ };

/* How many lines the call keeps: all, or up to the first that it does not; and how many there are. */
int rules_kept(const struct formula *f, const struct call *call, bool all, struct error *e);
int rules_of(const struct formula *f);

/* Number `set` of the ways to give optional inputs, switches and choices; false where there are fewer. */
bool check_set(const struct formula *f, struct call *call, size_t set);
/* Has the set two options whose values stood together in no set before it? Faults are checked in such sets alone, as all faults in
 * all sets are too many programs (attention: 65,280). A run finds a mistake that needs three options. */
enum { OPTIONS = MAX_IN + MAX_PARAM, OPTION_VALUES = 8 };
struct pairs_seen { bool met[OPTIONS * OPTION_VALUES][OPTIONS * OPTION_VALUES]; };
bool check_new_pair(const struct formula *f, const struct call *call, struct pairs_seen *seen);
/* Sizes that all differ and that the lines allow, for some set of inputs. */
bool check_sizes(const struct formula *f, struct call *call);
/* Do they allow this set of inputs in these sizes, or in others, which *call then has? */
bool check_allowed(const struct formula *f, struct call *call);

#endif
