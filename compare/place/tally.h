/* Wrong elements of one output, counted by index of each axis, or those within places on some axes. */
#ifndef ETALON_TALLY_H
#define ETALON_TALLY_H

#include "fixtures/io/error.h"
#include "fixtures/io/tensor.h"
#include "place.h"

/* What is counted: wrong elements that are 0, those that are not finite, all of each grade; and
 * zeros that are right. An element is wrong where its error, squared and in units of float32's
 * noise, is above place_wrong; of each further grade where it is also above tally_share of the
 * larger of what it is and what it should be. */
enum {
	HIT_ZERO, HIT_NOT_FINITE, HIT_GRADE, HIT_GRADES = 5, HIT_KINDS = HIT_GRADE + HIT_GRADES,
	HIT_RIGHT_ZERO = HIT_KINDS, HIT_COUNTS
};
enum { TALLY_SAMPLE = 64, TALLY_FEW = 3 };

struct tally {
	int rank;
	size_t shape[MAX_RANK], inner[MAX_RANK], row;   /* row: elements in one */
	double *hit[MAX_RANK][HIT_COUNTS];      /* [shape]; NULL where the axis is too long */
	double total[HIT_COUNTS];
	double in_row[HIT_KINDS], squares[HIT_KINDS];   /* squares: of the hits in each row */
	size_t nan;                             /* of those that are not finite */
	size_t sample[TALLY_SAMPLE], few[TALLY_FEW];    /* wrong elements: drawn, and the first */
	uint64_t random;
	struct place in[MAX_RANK];
	bool fixed[MAX_RANK];                   /* what is not in in[axis] is not counted */
};

/* Of an output of this shape. Freed with tally_free, also where false: E_MEMORY. */
bool tally_make(struct tally *t, int rank, const size_t *shape, struct error *e);
void tally_free(struct tally *t);

/* All elements in order, from the first: the output has `got` at number `at`. size: of its error,
 * squared and in units of noise; share: of the larger number. */
void tally_begin(struct tally *t);
void tally_add(struct tally *t, size_t at, double got, double size, double share);

/* What errors of a grade are above, as a share; 0 of the first. */
double tally_share(int kind);

/* The index on the axis of element `at`. */
static inline size_t tally_index(const struct tally *t, int axis, size_t at)
{
	return at / t->inner[axis] % t->shape[axis];
}

/* Elements in all places; with one index on the axis. */
double tally_elements(const struct tally *t);

/* The best place for the kind on an axis that is not fixed; false: none. */
bool tally_best(const struct tally *t, int kind, int *axis, struct place *best);

/* Hits of a row that has any: the mean over hits, as they come together. */
double tally_cluster(const struct tally *t, int kind);

#endif
