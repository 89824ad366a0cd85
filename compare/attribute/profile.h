/* The profile of a kernel: which of its intermediates it rounds, and to what, read from its outputs
 * alone. See docs/x-ray.md. */
#ifndef ETALON_PROFILE_H
#define ETALON_PROFILE_H

#include "accumulators.h"
#include "emulation.h"

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
