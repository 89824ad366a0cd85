/* How far an output is too large or too small as a whole: its error projected on the exact answer.
 *
 * A group is a set of n elements with answers t and errors u, both in sigma. Its gain is
 * c = sum u t / sum t^2, and the gain in sigma is c sqrt(sum t^2 / n): what the projection adds to the
 * rms error. A kernel that multiplies everything by 1 + c has this value, however large n is; errors
 * that are independent have one of about 1 / sqrt(n).
 *
 * The groups of an output are the whole, and for each axis but the last the blocks of its indices: single
 * indices of an axis of up to GAIN_BLOCKS, else GAIN_BLOCKS blocks of equal size. */
#ifndef ETALON_GAIN_H
#define ETALON_GAIN_H

#include "ref/call/op.h"

enum { GAIN_BLOCKS = 64, GAIN_GROUPS = 1 + GAIN_BLOCKS * (MAX_RANK - 1) };

/* stride: rows from one index of the axis to the next; group: of its first block. */
struct gain_axis { size_t stride, size, block; int group; };
struct gain_axes { size_t row; int n, groups; struct gain_axis axis[MAX_RANK]; };
struct gain_axes gain_axes_of(const struct call *call, int out);

/* "Hv = 3", "R from 64 to 127" or "" of the whole. */
void gain_place(const struct gain_axes *a, const struct call *call, int out, int group, char *text, size_t size);

struct gain_sum { double cross, power, n; };
double gain_in_sigma(const struct gain_sum *s);         /* with its sign; 0 of an empty group */
double gain_of(const struct gain_sum *s);               /* c */

/* One pass over elements in order; sum [groups]. */
struct gain_pass { const struct gain_axes *axes; struct gain_sum *sum, row; size_t at, left; };
struct gain_pass gain_begin(const struct gain_axes *a, struct gain_sum *sum, size_t first);
void gain_end(struct gain_pass *p);                     /* what was added of the last row counts */

/* The next element, which counts or does not. */
static inline void gain_add(struct gain_pass *p, bool counts, double u, double t)
{
	if (counts) p->row.cross += u * t, p->row.power += t * t, p->row.n++;
	if (--p->left == 0) gain_end(p);
}

#endif
