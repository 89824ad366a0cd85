/* What a kernel computes, read from its outputs: the formula with the kernel's roundings in place, and the freedoms in which correct kernels
 * differ (design: association, factors along products, conjugation, inverses by blocks, chunk size, exponents, fused sums). Nothing here
 * knows an op; the op is a formula file (docs/formula.md). */
#ifndef ETALON_STRUCTURE_H
#define ETALON_STRUCTURE_H

#include <jansson.h>

#include "ref/call/op.h"

/* explained: 1 - (sum of squared errors that the emulation leaves) / (of those of the exact answer), 1 where neither is off;
 * by_size: of errors relative to each element's size, or its row's. equal: share of elements equal to the bit. noise: what is left is as small as float32's own roundings. */
struct structure_output { double explained, by_size, equal; size_t elements; bool noise; };

/* A rounding of the structure; site: the op's, or -1 where it is at none that has a name; arranged: at an operand or a result of a product
 * of matrices, or inside an inverse; products: bit i: in this formula the op's site i is at one too. needed: it is not allowed, and in every structure that explains as well; effect: what is then left of
 * outputs without it, as rms of relative errors in units of 2^-24. */
struct structure_rounding { int site; bool arranged; uint64_t products; struct site_rounding type; bool needed; double effect; };
enum { MAX_STRUCTURE_ROUNDING = 128 };

/* What was chosen, as far as the call tells it; another call of the same kernel has the same choices, however many iterations or tokens it has. */
struct structure_choices { int form, n; struct structure_choice { uint64_t id; unsigned char value; } *at; };

struct structure_reading {
	struct structure_rounding rounding[MAX_STRUCTURE_ROUNDING];
	int n_rounding;
	double *answer[MAX_OUT];        /* what the emulation answers, not stored; NULL unless it was asked for and is identified */
	double *without[MAX_SITE][MAX_OUT];     /* how much more the best answers that does without a needed rounding at a site, or NULL */
	bool identified;                /* >= 99 % of each output's error is explained, by either measure, or all of it but float32's noise */
	char *text;                     /* the formula, a definition a line; freed with structure_free */
	const char *form;
	size_t chunk, tries;            /* chunk: 0 where the form has none */
	double work;                    /* elementary operations, as schedule.h weighs them */
	bool stopped, given_up;         /* the budget was used up before the search was over; it was hopeless, and given up */
	bool as_named;                  /* it rounds what a loop carries at sites that have a name alone, and merges no blocks of an inverse in bf16 */
	bool iterates;                  /* an iteration that runs free, of which a call with fewer turns tells more */
	struct structure_output out[MAX_OUT];
	int fault;                      /* one of the op's that the kernel has too, or -1 */
	char *open;                     /* choices that the call cannot tell apart, one a line */
	struct structure_choices choices;       /* none where nothing is identified */
};

/* work: the budget in elementary operations, as schedule.h weighs them, so that a call's report is the same on every machine; seconds, where
 * not 0: of processor time, in place of it. log: gets each step of the search, NULL: nothing does. faults: bit i: fault i of the op is in the formula that is
 * read, at value[i] of its parameter; what is explained is then the error beside it. answer: is it asked for? order: choices are tried in
 * another order for each number, 0: as they are met; what is found should not depend on it. allows, with: is that rounding legal? Where
 * not it is said whether it is needed; NULL: nothing is said. known: what another call of the same kernel told, where the search begins; NULL: nothing.
 * lawless: the call breaks the rules, and the search is given up where it is hopeless (compare/limits). */
struct structure_search {
	double work, seconds;
	FILE *log;
	uint64_t faults;
	const double *value;
	bool answer;
	uint64_t order;
	bool (*allows)(const struct structure_rounding *r, const void *with);
	const void *with;
	const struct structure_choices *known;
	bool lawless;
};

/* Reads the structure of the bound call's kernel. *why: NULL, or what of the formula cannot be
 * read here (a constant text), and *r is then empty. False: no memory, with an error. The call has outputs. */
bool structure_read(struct structure_reading *r, const struct call *call, const struct structure_search *how, const char **why, struct error *e);
void structure_free(struct structure_reading *r);
/* What the reading chose takes the place of *known, whose `at` is then the caller's to free; false, and nothing is changed: it is not identified. */
bool structure_hand_on(struct structure_reading *r, struct structure_choices *known);

/* A text's lines: as an array, and with `before` in front of each. NULL: none. */
json_t *structure_lines_json(const char *text);
void structure_lines_print(const char *text, const char *before, FILE *to);
json_t *structure_json(const struct structure_reading *r, const struct call *call);
void structure_print(const struct structure_reading *r, const struct call *call, FILE *to);

#endif
