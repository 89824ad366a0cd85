/* A kernel's outputs and the reference's answers as flat vectors over all outputs: what the profile
 * and the suspects are fitted on. */
#ifndef ETALON_XRAY_H
#define ETALON_XRAY_H

#include "fit.h"
#include "verdict.h"

struct xray {
	const struct call *call;
	size_t n, first[MAX_OUT + 1];   /* output i is elements first[i] .. first[i+1] */
	double *got;                    /* [n] the kernel's outputs */
	double *floor2;                 /* [n] variance that no rounding site explains: xray_floor */
	double *shape2;                 /* [n] relative size of what roundings would do: xray_shape */
	double *weight;                 /* [n] xray_weigh */
	uint8_t *block;                 /* [n] */
	int blocks;
};

/* Reads the outputs of a bound call. All below have E_MEMORY as their only error. */
bool xray_make(struct xray *x, const struct call *call, struct error *e);
void xray_free(struct xray *x);

/* floor2 from a few noisy runs of the model around its own answer y [n], each of them stored. Elements
 * that are not finite, or that no site reaches (shape2 is 0), get 0 and take no part. */
bool xray_floor(struct xray *x, const struct plan *model, const double *y, struct error *e);

/* shape2: the squared effect of a rounding at each site of the base's form but the stores, one at a
 * time (to bf16, or taken out where the base has one), summed over sites and pooled over rows. y [n] is
 * the base's answer. */
bool xray_shape(struct xray *x, const struct plan *base, const double *y, struct error *e);

bool site_in_form(const struct op *op, int site, int form);

/* The reference's answer under the plan: y [n]. */
bool xray_run(const struct xray *x, const struct plan *p, double *y, struct error *e);

/* y [n] rounded to the outputs' dtypes; may be in place. */
void xray_store(const struct xray *x, const double *y, double *stored);

/* Weights for a residual r [n]: 1/v with v = floor2 + a shape2, where a <= 1 is what makes a block's
 * residual have that size. Returns Σ log v + r²/v, minus twice the log likelihood of r: it falls as a
 * replica explains more. */
double xray_weigh(struct xray *x, const double *r);
struct sample xray_sample(const struct xray *x);

#endif
