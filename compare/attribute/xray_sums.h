/* What a direction adds up to, block by block. */
#ifndef ETALON_XRAY_SUMS_H
#define ETALON_XRAY_SUMS_H

#include "xray_private.h"

/* What is asked of a look, and of its fit that of r alone. */
enum { LOOK_FIT_STORED = 8 };

/* Votes; elements that the direction would make infinite or NaN, of which the kernel has a number and has none; of each block, beside
 * what the direction adds up to, what strips have (struct held_sums). All doubles. */
struct block_sums { struct sums_of_size size; struct sums_of_fit stored, raw; double reached, yy, raw_yy; };
struct look_sums {
	double all, of_base, close, numbers, none;
	struct block_sums of[MAX_BLOCKS];
};

/* Of the strip held and x->d, all of them. */
void look_sums_add(const struct xray *x, struct look_sums *s, unsigned what);

/* Of the same: the first different numbers that vote; and the votes. */
void look_sums_different(const struct xray *x, struct votes *v);
void look_sums_votes(const struct look_sums *s, struct votes *v);

/* What they say: the direction's size, and how well it explains r and raw; memory is short where false. */
double look_sums_size(const struct xray *x, const struct look_sums *s);
bool look_sums_fit(const struct xray *x, const struct look_sums *s, bool raw, struct coefficient *c);

#endif
