/* The verdict on a capture: pass, fail or undecided, with its figures and reasons. See docs/verdict.md. */
#ifndef ETALON_VERDICT_H
#define ETALON_VERDICT_H

#include "compare/eigen/eigen_cause.h"
#include "compare/attribute/suspects.h"
#include "traces.h"
#include "compare/truth/yardstick.h"

enum outcome { PASS, FAIL, UNDECIDED };
extern const char *const outcome_name[];        /* "pass", "fail", "undecided" */
int outcome_exit(enum outcome o);               /* EXIT_PASS, EXIT_FAIL, EXIT_UNDECIDED */

enum { RULE_WORST, RULE_EXCESS, RULE_P99, RULE_RMS, RULE_BIAS, RULE_GAIN, RULE_COUNT };
extern const char *const rule_name[RULE_COUNT];

/* A rule holds while value <= limit. All are in sigma, but excess: the largest error beyond half an
 * ulp of the output's dtype, in units of the upstream error alone (infinite where that is 0 and the element is not exact). gain: of the group that is
 * nearest to its limit (compare/truth/gain.h). */
struct rule { double value, limit; };

struct element {
	size_t index;
	double expected, got, sigma, ulp;       /* error in sigma and in ulp */
	bool unscaled;                          /* sigma is 0 */
};

struct output_verdict {
	int out;                        /* index in the op's outputs */
	size_t count;
	size_t bit_equal;               /* elements equal to the truth rounded once to the dtype */
	bool exact;                     /* float32 moves no element: each is that or wrong, and there is no sigma */
	size_t unscaled;                /* elements whose sigma is 0; */
	size_t unscaled_wrong;          /* of these, such as excess does not allow */
	size_t not_finite;              /* NaN or infinite where the truth is a number that fits */
	size_t boundless;               /* whose error the contract's roundings alone may make infinite: no finite number is held against them */
	/* Of indices: does a run move any of them? how many; of the kernel's those that no run has and no size has room for; others that no run has in their
	 * row, or that none moves; rows with one twice, as no run has. They are held against that, not against sigma. */
	bool names;
	size_t moving, outside, foreign, repeated, unmoved;     /* unmoved: of the foreign those in a row in which no run moves any */
	double missed;                  /* how many a correct kernel may name that no run happened to (compare/truth/members.h) */
	struct element first_outside, first_foreign, first_repeated;
	struct element first_not_finite, worst, beyond;          /* beyond: of the rule excess */
	char worst_at[96], beyond_at[96];       /* "[12,3,44]" */
	struct rule rule[RULE_COUNT];   /* p99, rms and bias: over the elements whose sigma is not 0 */
	double gain;                    /* of the rule gain: what the group is too large by, as a part of it, */
	char gain_at[64];               /* and the group: "Hv = 3", or "" of the whole output */
	struct rule answer[RULE_COUNT]; /* the rules for an output of zeros, or of twice the exact answer; value 0: not asked */
	bool answer_sure;               /* an element that has no sigma has an answer that is not 0 */
	double freedom;                 /* degrees of freedom of the mean square error; see expected.h */
	double truth_error;             /* largest distance between the truth and its second opinion, in sigma */
	struct sample_figures sample;   /* between the truth in dd and MPFR */
};

enum { MAX_REASON = 12 };
struct verdict {
	enum outcome outcome;
	const struct op *op;
	const struct contract *contract;
	bool as_read;                   /* sigma is also what the structure answers that was read (expected.h) */
	bool unnamed;                   /* the op's tightest of several, as none is named or declared */
	const struct contract *instead; /* of such a failure: another one that the types call for and whose rules hold; or NULL */
	char truth[32], second[32];     /* arithmetics */
	bool sampled;                   /* the truth is dd, and MPFR judged a sample of it */
	uint64_t operations;            /* or this many elements of one piece's operations */
	int runs;                       /* noisy runs behind sigma */
	int n_out;
	struct output_verdict out[MAX_OUT];
	int n_trace;                    /* of an anchored call */
	struct trace_entries trace[MAX_OUT];
	struct eigen_cause cause;       /* by judge_cause */
	bool says_nothing;              /* the rules would hold for an output of zeros */
	bool required;                  /* its error had to be explained, and is not */
	bool examined;                  /* the x-ray was made: see suspects.h */
	struct examination x;
	int n_reason;
	char reason[MAX_REASON][256];
};

/* Whose error must be explained to pass: nobody's, that of etalon's own kernels, all captures'. */
enum explained { NONE_EXPLAINED, OWN_EXPLAINED, ALL_EXPLAINED };

struct judging {
	const char *contract;           /* for contract_said; an op that it does not name, or NULL: the capture's own, else the op's tightest */
	const char *truth;              /* an arithmetic, or NULL: dd where the work allows, else f64 */
	bool quick;                     /* the contract's rules only, no x-ray */
	enum explained explained;
	size_t at_hand;                 /* elements of outputs at a time; 0: as many as is usual (compare/truth/expected.h) */
	void (*tick)(const char *stage, size_t done, size_t total);     /* may be NULL */
};

/* The contract that `said` names for calls of the op: in "NAME,OP=NAME,..." that of OP=NAME, else
 * NAME. *name is the op's, or "auto", or NULL where nothing is said of this op. */
bool contract_said(const char *said, const struct op *op, const char **name, struct error *e);

/* Judges c. false: bad input or a failing machine, told in *e; *v is then without meaning. */
bool judge(const struct capture *c, const struct judging *how, struct verdict *v, struct error *e);

/* The same with a yardstick that captures of one call share, whose truth how->truth is; NULL: none. Not for two threads at once. */
bool judge_by(struct yardstick *y, const struct capture *c, const struct judging *how, struct verdict *v, struct error *e);

/* Where a matrix iteration leaves the exact curve, and why; changes no outcome. Other ops: nothing. */
void judge_cause(const struct capture *c, const struct judging *how, struct verdict *v);

/* Fails the verdict, with a reason. */
void verdict_fail(struct verdict *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Fails the verdict when the capture carries a hash of its kernel's sources that is not today's; NULL: the kernel is gone. */
void judge_stale(const struct capture *c, const char *today, struct verdict *v);

/* "[12,3,44]", the element's place in output i of the call's op. */
const char *index_text(const struct call *call, int i, size_t index, char *text, size_t size);

#endif
