/* The kill matrix: every fault, and every rounding that no contract allows, put into clean model
 * kernels and judged. See docs/kill-matrix.md. */
#ifndef ETALON_KILL_MATRIX_H
#define ETALON_KILL_MATRIX_H

#include "compare/verdict/verdict.h"
#include "fixtures/cases/cases.h"

/* A model kernel computes in float32 and rounds where its contract lets it. */
struct model {
	const struct op *op;
	const struct contract *contract;
	int structure;          /* of the contract's known ones */
	bool narrow;            /* y, o and residual_out are stored in bf16, else in float32 */
};

/* What is done wrong: a fault of the op, at a value if it has a parameter, or, where fault is -1, a site rounded to bf16. */
struct fault { const char *name; int fault, site; double value; };
/* The fault at a value that is drawn for this call of the model; one without a parameter as it is. */
struct fault fault_drawn(const struct model *m, const struct fault *f, const struct call *call);

enum { MAX_PLANTED = 96, MAX_OUTPUT = 2 };

/* What a case costs, roughly: element operations, and so many for each token of a head and each
 * element of a state. */
double case_cost(const struct test_case *k);

/* All of an op: faults, then sites that no fault rounds already; returns how many. */
int faults_of(const struct op *op, struct fault *list);

/* The model's plan with the fault; NULL: clean. */
/* The structure's name, or the contract's where it has one only. */
const char *model_name(const struct model *m);
static inline const char *stores(const struct model *m) { return m->narrow ? "bf16" : "f32"; }

struct plan model_plan(const struct model *m, const struct fault *f);

/* A fault that the model cannot have: of another form, allowed by its contract, or no more than its store. */
/* An iteration's model stores its iterates in the type that the case asks for, and where that rounds the case records
 * them: what runs free and rounds inside is judged by the contract's rules alone (docs/x-ray.md). */
bool model_fits(const struct model *m, const struct test_case *k);
bool fault_is_foreign(const struct model *m, const struct fault *f, const struct call *call);

/* The case with the model's output types and outputs of NaN; call is bound to it. */
bool model_case(const struct model *m, const struct test_case *k, uint64_t seed, struct capture *c, struct call *call, struct error *e);

/* The type in which the model stores this output. */
enum dtype model_out_type(const struct model *m, const struct case_tensor *t);

/* The bytes of all outputs as one number. */
uint64_t outputs_fingerprint(const struct call *call);

/* Fills the outputs with the plan's answer; what iterates runs free. */
bool model_answer(const struct call *call, const struct plan *p, struct error *e);

/* Rms effect of the fault on the model's outputs, in units of float32's noise around the clean model;
 * infinite where it makes an element infinite or NaN. x is settled around the clean model. */
bool fault_size(struct xray *x, const struct model *m, const struct fault *f, double *size);
bool model_xray(struct xray *x, const struct model *m, const struct fault *f, const struct call *call, struct error *e);

/* ---- the matrix ---- */

enum fate { FOREIGN, UNSEEN, RIGHT, ALIAS, WRONG, UNNAMED, MISSED, FATES };
extern const char fate_letter[FATES + 1];
extern const char *const fate_name[FATES];

struct cell {
	enum fate fate;
	double size;
	int detected;                  /* suspects detected; the first is: */
	char first[64];
	double coefficient, error;
	double left;                    /* what the x-ray leaves unexplained; NaN: it was not made */
	char reason[160];               /* the verdict's first */
	double seconds;                 /* of processor time */
};

/* A model on a case: its faults, and clean calls. */
struct unit {
	struct model model;
	const struct test_case *kase;
	int seeds, clean, alarms;
	int n_fault;
	const struct fault *fault;
	struct cell *cell;              /* [n_fault] */
	char alarm[160];                /* the first alarm's reason */
	double seconds;                 /* of processor time, all in all */
	int parts;                      /* that are done */
	int round;                      /* of the run */
	const char *commit;             /* of the program that did it */
};

/* A unit's faults and clean calls go in so many parts, each by one thread: the dearest unit takes minutes. */
enum { PARTS = 4 };

/* Judges every parts-th fault of the unit in this call, from number `part` on: the cells. The call's outputs are written over. */
bool unit_faults(struct unit *u, int part, int parts, const struct call *call, struct yardstick *y, struct error *e);

/* Fills the part's cells of the unit and judges its clean calls, which are added to the unit's. */
bool unit_run(struct unit *u, int part, struct error *e);

/* Adds a finished unit to the file. */
void unit_keep(FILE *to, const struct unit *u);

/* Fills the units that the file holds and says that all their parts are done; returns how many. No file: none. */
int units_kept(const char *path, struct unit *u, int n);

/* The page's name in docs, and how many units its ops have. */
struct page { const char *name; int wanted; };

/* The page on stdout; whether every visible fault is caught somewhere, 97 % of what is caught is named, and no
 * clean call fails. The cells as a table for gnuplot. */
bool print_matrix(const struct unit *unit, int n, const struct page *page);
void print_failed(const struct unit *u, int n);
void print_aliases(const struct unit *u, int n);
bool write_table(const char *path, const struct unit *unit, int n);

#endif
