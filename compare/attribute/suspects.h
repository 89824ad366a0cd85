/* Suspects: the roundings and faults that could explain a kernel's error, what the outputs say of each,
 * and, where none does, where the error sits. See docs/x-ray.md. */
#ifndef ETALON_SUSPECTS_H
#define ETALON_SUSPECTS_H

#include "profile.h"

/* NOT_POSSIBLE: with it an index of these inputs leaves its axis. */
enum suspect_state { RULED_OUT, DETECTED, ALLOWED, NOT_IDENTIFIABLE, NOT_POSSIBLE };
extern const char *const suspect_name[];        /* "ruled out", "detected", "allowed", "not identifiable", "not possible" */

/* A fault of the op, or a rounding at a site. */
struct suspect {
	const char *name, *what;
	int site;                       /* -1: a fault */
	enum format format;
	enum rounding rounding;
	double coefficient, error;      /* 1: made, 0: not; one standard error */
	double size;                    /* its effect on these outputs: rms over elements, in units of float32's noise */
	struct votes votes;             /* of a rounding's elements for it, */
	bool told;                      /* and whether they tell it: by its coefficient and the votes (struct look), or by close ones alone */
	enum suspect_state state;
	const char *alike;              /* of a fault that is not made: one that is, in whose place it gives the same answer; or NULL */
	/* the same, of one with another answer that explains the outputs as well */
	const char *as_well;
	const char *parameter;          /* of a fault that is made at a value of it: from `value` to `last`, where these explain as well; or NULL */
	double value, last;
	/* of a fault that is made: what tells it where no coefficient does (struct earned) */
	bool not_finite, by_rules;
	/* of one that is not named: the rules hold with it, but too little tells it */
	bool would_do;
	double number;                  /* not 0: any number from value to last explains as well, this one best */
};

/* A gain or an offset of an output, throughout or at one index of an axis: no fault that is known, but what
 * an unknown one amounts to. */
struct generic {
	/* "o at Hv = 3 is 2.000 ± 0.001 times what it should be", "0.1 ± 0.01 is added to o" */
	char name[160];
	double value, error;            /* of a gain: the factor; one standard error */
	double share;                   /* of what is left that it explains */
};

enum { MAX_SUSPECT = MAX_SITE + 64 };
struct examination {
	struct profile profile;
	struct structure_said structure;
	struct suspect suspect[MAX_SUSPECT];    /* those that are made come first, by size */
	int n, count[NOT_POSSIBLE + 1];    /* suspects by state */
	double left;                    /* mean square of what is left, in units of float32's noise: near or below 1 */
	bool identified;                /* the structure: see emulation_identified; of another no rounding is said */
	bool runs_free;                 /* an iteration that is not anchored and rounds inside: noise is amplified, and need not be explained */
	char where[256];                /* where what is left sits, if not identified, */
	struct generic generic;         /* and what it amounts to; share 0: to nothing simple */
	double *answer[MAX_OUT];        /* of a structure that was read, is as_named and has no fault, not stored, where the rules may be asked about it; or NULL. Freed with examine_free */
};
void examine_free(struct examination *x);

/* What an examination asks of the rules. */
struct rules_say {
	bool hold;                      /* those of the contract, for the call as it is */
	/* *yes: would they, were these faults in the reference? plan: its form and its faults count. */
	bool (*hold_with)(const struct rules_say *r, const struct plan *plan, bool *yes, struct error *e);
	const struct call *call;
	const struct contract *contract;        /* the tightest whose rules hold, else the nearest, of */
	const struct contract *first, *last;
	void (*tick)(const char *, size_t, size_t);
	bool few;                       /* the contract's errors scatter as fewer numbers than least_votes would: chance explains much of them */
};

/* Its name, "token_skipped(token = 37)" of one that has a value. */
enum { SUSPECT_TEXT = 128 };
void suspect_said(const struct suspect *s, char *text, size_t size);

/* Is its coefficient 1, within an error that is known? Else it is not to be printed of one that
 * is made. */
bool suspect_has_coefficient(const struct suspect *s);
/* What tells it: "coefficient 1.000 ± 0.002", or, where that is not known or not 1, the
 * elements. */
void suspect_evidence(const struct suspect *s, char *text, size_t size);

/* Examines the call under the contract: finds the emulation and says of each suspect whether it is made (detected), ruled out, or not
 * identifiable on these inputs. A fault is made if its coefficient is 1 within its error and within 0.05, and, where the structure is not
 * identified, if the rules hold with it that did not without, or if no rounding explains as well. A rounding that the contract does
 * not allow is made if the structure is identified, none that a contract of those to be tried allows explains as well, and it is told. E_MEMORY is the only error. */
bool examine(struct examination *x, const struct rules_say *rules, struct error *e);

/* Of a call that is not looked at so: nothing is told of any suspect. */
void examine_nothing(struct examination *x, const struct call *call);

/* Turns detected roundings that the contract allows into allowed ones, and back. A contract excuses
 * roundings, never a fault. */
void examine_under(struct examination *x, const struct call *call, const struct contract *k);

/* The gain or offset that explains most of what is left around the emulation, if that is more than half, else g's share is 0;
 * x->d is lost. E_MEMORY is the only error of both. */
bool generic_suspect(struct xray *x, struct generic *g);

/* Where r²/floor2 sits, as text: "97 % of it in o, which is 0 at H = 1 to 3", or "at T = 5". */
bool where_left(struct xray *x, char *text, size_t size);

#endif
