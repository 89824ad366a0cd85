/* Which known faults of an op a test would pass: each fault, made in the reference, through the test's tolerances on the test's inputs.
 * See docs/audit.md. */
#ifndef ETALON_AUDIT_H
#define ETALON_AUDIT_H

#include "change.h"
#include "compare/attribute/suspects.h"
#include "subject.h"
#include "tolerance.h"

enum { MAX_RULES = 8, MAX_VALUES = 5, HONEST_RUNS = 5 };

struct audit_how {
	const struct tolerance *rule;           /* the test's, n_rule of them */
	size_t n_rule;
	const char *contract;                   /* what the kernels with a fault round; NULL: the op's tightest */
	struct reference reference;
	const struct test_case *from;           /* the case that the inputs are of; NULL: a capture's */
	bool quick;                             /* the rules alone: no changes, nothing of etalon */
	bool here;                              /* the inputs as they are alone: no changes, none of etalon's cases */
	void (*tick)(const char *stage, size_t done, size_t total);     /* may be NULL */
};

/* One fault at one value of its parameter. What a rule says of it: it stores other bits, or it shows nothing here. */
enum audit_fate { FATE_NONE, FATE_CAUGHT, FATE_PASSED };
extern const char *const fate_text[];           /* "no effect", "caught", "passes" */
struct audited_fault {
	int fault;
	double value;
	char name[SUSPECT_TEXT];
	double effect;                          /* of its outputs, in units of the correct kernel's: see answers_apart */
	enum audit_fate fate[MAX_RULES];
	const char *change[MAX_RULES];          /* of a fault that is not caught: the first change that has the rule catch it; NULL: none */
	bool checked, fails;                    /* does `etalon check` fail it here? */
	const char *own;                        /* a case of etalon's on which it does; NULL: none */
};

/* Correct kernels of one contract: HONEST_RUNS noisy runs of random structures of it, how many each rule passed, and whether `etalon
 * check` failed the first: by all that it does where the contract is the audit's, else by the contract's rules alone. */
struct audited_contract { const struct contract *contract; int passed[MAX_RULES]; bool fails; };

struct audit {
	struct subject subject;
	const struct contract *contract;
	struct audited_fault *fault;            /* [n] */
	size_t n;
	struct audited_contract *honest;        /* [n_honest] */
	size_t n_honest;
	struct change *change;
	size_t n_change;
};

/* Takes c, the inputs, over, whether it succeeds or not. Freed with audit_free, also when false. */
bool audit_make(struct audit *a, struct capture *c, const struct audit_how *how, struct error *e);
void audit_free(struct audit *a);

/* By fault: all; those that store other bits here at a value at least; those that rule r passes at such a value; those of these that
 * `etalon check` fails there; those that it fails here at a value at least; those that it fails on a case of etalon's. */
struct audit_count { int faults, effect, passed[MAX_RULES], missed[MAX_RULES], here, own; };
struct audit_count audit_count(const struct audit *a, const struct audit_how *how);

/* EXIT_FAIL where a rule passes a fault or fails correct kernels of the contract. */
int audit_exit(const struct audit *a, const struct audit_how *how);

/* `inputs`: what the command line called them. Text and JSON on stdout; a row a fault and rule to `path`, tab-separated: op, rule, the rule's
 * number, fault, its number, fate. Exit codes; the second one's is an error's. */
int audit_text(const struct audit *a, const struct audit_how *how, const char *inputs);
int audit_json(const struct audit *a, const struct audit_how *how, const char *inputs);
bool audit_rows(const struct audit *a, const struct audit_how *how, const char *path, struct error *e);

#endif
