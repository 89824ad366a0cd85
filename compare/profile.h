/* The profile of a kernel: which of its intermediates it rounds, and to what, read from its outputs
 * alone. See docs/x-ray.md. */
#ifndef ETALON_PROFILE_H
#define ETALON_PROFILE_H

#include "xray.h"

enum reading_state { NOT_VISIBLE, NOT_ROUNDED, ROUNDED };
extern const char *const reading_name[];        /* "not visible", "not rounded", "rounded" */

/* What the outputs say of one site. */
struct reading {
	int site;
	enum format format;             /* the type it is rounded to; else the one that was tried */
	enum rounding rounding;
	double coefficient, error;      /* 1: rounded, 0: not; one standard error */
	enum reading_state state;
};

struct profile {
	int form;
	size_t chunk;                   /* 0 where the form has none */
	struct site_rounding round[MAX_SITE];   /* the replica: all sites read as rounded */
	struct reading reading[MAX_SITE];
	int n;
	struct { double explained, bit_equal, rms; } out[MAX_OUT];      /* rms: of the residual, in units of what float32 leaves */
};

/* Reads the profile of a bound call with outputs. tick as in verdict.h. The only error is E_MEMORY. */
bool profile_make(struct profile *p, const struct call *call, void (*tick)(const char *, size_t, size_t), struct error *e);

/* The plan that computes as the profile says. */
struct plan profile_plan(const struct profile *p);

/* Does the contract allow every rounding of the profile? A store in the output's own dtype always is. */
bool profile_within(const struct profile *p, const struct call *call, const struct contract *k);

#endif
