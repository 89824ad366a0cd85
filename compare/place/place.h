/* Where along an axis something sits that was counted index by index, as a person would say it. */
#ifndef ETALON_PLACE_H
#define ETALON_PLACE_H

#include <stdbool.h>
#include <stddef.h>

/* hit [n] of all elements at each index. cluster: as many hits as come together in a row, by the
 * same cause. some: other elements are wrong as well, so that a place without hits is not free
 * of errors. */
struct counted {
	size_t n;
	const double *hit;
	double all, cluster, row; /* row: elements in one; 1 where rows lie along the axis */
	bool some;
};

enum place_kind { NOWHERE, SOME_INDICES, A_RANGE, A_REMAINDER };
enum { MOST_INDICES = 6 };
struct place {
	enum place_kind kind;
	size_t n;           /* of the axis */
	size_t first, last; /* of a range; first also the remainder of a division by: */
	size_t modulus;
	size_t index[MOST_INDICES], indices; /* rising */
	double evidence;        /* log of the likelihood ratio, less that of the sets tried */
	double inside, outside; /* shares of the elements there and elsewhere that are hit */
};

/* The set of indices that the hits single out beyond chance: one, a few, a range, or those with the
 * same remainder. false: none. The constants are place_chance, place_denser and place_clean. */
bool place_find(struct place *p, const struct counted *c);

/* Exactly the indices that are in; false if they are no such set. */
bool place_of(struct place *p, const bool *in, size_t n);

bool place_has(const struct place *p, size_t i);
size_t place_size(const struct place *p);

/* "H = 1 to 3", "T from 131 on", "the last 4 of D", "D = 5 mod 64". Returns text. */
const char *place_say(const struct place *p, const char *axis, char *text, size_t size);

#endif
