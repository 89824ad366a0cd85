/* Which indices a correct kernel may name: of an output that holds indices, those that the exact answer or a run has in the same row. */
#ifndef ETALON_MEMBERS_H
#define ETALON_MEMBERS_H

#include "ref/call/op.h"

/* Of longer rows it is not kept what stands in each, but where a run moves them, and the range of all. */
enum { LONGEST_ROW = 128 };
/* A value of a row, and how many runs had it there. */
struct member { double value; int times; };
struct member_row { struct member *at; int n, room; };
/* first: the exact answer's; moves: does a run name another there? least, greatest: of all that is named, and of what the call's sizes make room for; repeats: a row
 * of a run has a value twice. */
struct members { double *first; unsigned char *moves; size_t count, rows, row; struct member_row *of; double least, greatest; int runs; bool repeats, failed; };

/* For `count` elements in rows of `row`, nothing in them yet, of a call whose largest size is `size`; what was there goes. False: no memory. Freed with
 * members_free. */
bool members_begin(struct members *m, size_t count, size_t row, size_t size);
void members_free(struct members *m);
void members_add(struct members *m, const double *run);         /* [count], the exact answer's first */
bool members_has(const struct members *m, size_t row, double value);
/* The first of x [n] that stands before, too; n: none does. */
size_t members_repeat(const double *x, size_t n);
/* How many elements of a correct kernel no run may have there: of all values that one run had in a row the share that one more run is expected to have (Good 1953). */
double members_missed(const struct members *m);

#endif
