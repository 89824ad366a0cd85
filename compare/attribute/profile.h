/* The profile of a kernel: which of its intermediates it rounds, and to what, read from its outputs
 * alone. See docs/x-ray.md. */
#ifndef ETALON_PROFILE_H
#define ETALON_PROFILE_H

#include "emulation.h"

/* The accumulator of a kernel: in which order, and how, it adds. Read after the emulation is
 * found: its plan is run in every arithmetic that a GPU has, and the one whose stored answer is
 * equal to the kernel's to the bit most often is taken. */
enum { ACCUMULATORS = 8 };
struct accumulators {
	const struct arith *arith[ACCUMULATORS];        /* the first stands for exact sums */
	/* share of all elements that are equal to the bit */
	double equal[ACCUMULATORS];
	double output[ACCUMULATORS][MAX_OUT];           /* the same of each output */
	/* 0 where none is better than exact sums by more than chance */
	int best;
};

/* Around x->emulation. E_MEMORY is the only error. */
bool accumulators_read(struct accumulators *a, struct xray *x);

/* "exact" or the arithmetic's name. */
const char *accumulator_name(const struct accumulators *a, int i);

enum reading_state { UNIDENTIFIABLE, NOT_ROUNDED, ROUNDED };
extern const char *const reading_name[];        /* "not identifiable", "not rounded", "rounded" */

/* What the outputs say of one site. */
struct reading {
	int site;
	enum format format;             /* the type it is rounded to; else the one that was tried */
	enum rounding rounding;
	double coefficient, error;      /* 1: rounded, 0: not; one standard error */
	enum reading_state state;
};

struct profile {
	struct plan emulation;
	struct reading reading[MAX_SITE];
	int n;
	bool identified;                /* see emulation_identified; else no site is identifiable, */
	double amplified;               /* see xray_amplified; above `saturated` none is either */
	struct {
		double explained;       /* share of the square of the error that the emulation, stored, explains */
		double bit_equal;       /* share of elements equal to the emulation's, stored */
		double rms;             /* of what is left, in units of what float32 leaves */
	} out[MAX_OUT];
	struct accumulators sums;       /* see profile_sums */
};

/* Reads all sites around x->emulation, which is refreshed. E_MEMORY is the only error. */
bool profile_read(struct profile *p, struct xray *x);

/* How the kernel adds: sums, and with it bit_equal of the outputs. After profile_read. */
bool profile_sums(struct profile *p, struct xray *x);

/* Does the contract allow every rounding of the profile? A store in the output's own dtype always is. */
bool profile_within(const struct profile *p, const struct call *call, const struct contract *k);

#endif
