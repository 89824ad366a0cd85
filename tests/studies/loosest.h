/* What the loosest contract lets pass: `make loosest`, docs/loosest.md. */
#ifndef ETALON_LOOSEST_H
#define ETALON_LOOSEST_H

#include "kill_matrix.h"

enum table { FAULTS, GAINS, LARGEST };

/* One measurement. A row is known by its table, op, kernel and what was done to the outputs. */
enum { NOT_ASKED = -1, MAX_NAME = 48 };
struct row {
	enum table table;
	char op[MAX_NAME], kernel[MAX_NAME], what[MAX_NAME], kase[MAX_NAME];
	double size;           /* of a fault, in units of float32's noise; 0: not visible */
	char own[MAX_NAME];    /* the tightest contract that allows the kernel's own roundings */
	int own_outcome;       /* under that contract; NOT_ASKED */
	char chosen[MAX_NAME]; /* the contract that auto reports */
	int chosen_outcome;    /* of auto; NOT_ASKED */
	double value;          /* FAULTS: the worst rule over its limit; LARGEST: what passes */
	double seconds;
};

/* A row of which nothing is known yet. */
struct row row_named(
	enum table t, const char *op, const char *kernel, const char *what, const char *kase);
double processor_seconds(void); /* of this thread */

/* Rows that are done, in memory and in the file. */
struct rows {
	struct row *row;
	int n, room;
	FILE *keep;
};
/* The rows of the file; with `keep`, those that are added go there too. */
bool rows_read(struct rows *r, const char *path, bool keep);
/* By op, table and contract, in whichever order they were measured. */
void rows_sort(struct rows *r);
const struct row *row_find(const struct rows *r, const struct row *like);
/* For several threads: is it there? Adds a copy, says so and keeps it; `start`: processor_seconds
 * before it was measured. */
bool row_is_done(const struct rows *r, const struct row *row);
bool row_add(struct rows *r, struct row *row, double start, struct error *e);

/* A kernel that is judged: a model, and whether its inputs are stored in float32. */
struct kernel {
	const char *name;
	struct model model;
	bool wide;
};
enum { MAX_KERNEL = 32 };
/* The float32, the bf16 and the chunked kernel of the op; returns how many it has. */
int kernels_of(const struct op *op, struct kernel *list);
/* A kernel of each contract, the first also stored in bf16. */
int kernels_of_contracts(const struct op *op, struct kernel *list);

struct setting {
	const struct kernel *kernel;
	const struct test_case *kase;
	struct capture capture;
	struct call call;
	struct yardstick y;
};
/* The call with the kernel's types, its yardstick, and the right kernel's outputs. Freed also when
 * false. */
bool setting_make(
	struct setting *s, const struct kernel *k, const struct test_case *t, struct error *e);
void setting_free(struct setting *s);
/* The outputs as they are, under a contract or "auto". */
bool setting_judge(
	struct setting *s, const char *contract, bool quick, struct verdict *v, struct error *e);

/* The cheapest cases that the kernel can run, cheapest first; returns how many. */
int cases_for(const struct kernel *k, const struct test_case **list, int most);

/* Judge faults of the kernel, gains and offsets of its outputs, and bisect what passes. */
bool fill_faults(struct rows *r, const struct kernel *k, bool small, struct error *e);
bool fill_gains(struct rows *r, const struct kernel *k, bool with_auto, struct error *e);
bool fill_largest(struct rows *r, const struct kernel *k, struct error *e);

/* The page, with what was before. False: auto passes what the kernel's own contract fails. */
bool print_page(struct rows *r, const struct rows *before, const char *commit, const char *date);

#endif
