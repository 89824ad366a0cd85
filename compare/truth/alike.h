/* How often numbers come again. A kernel rounds equal ones alike, where noise draws each by itself: where a number of n comes m times the mean
 * of n errors has not 1/n² of an error's variance from it m times, but m²; nor has that of their squares, of which there are as many fewer degrees of freedom. */
#ifndef ETALON_ALIKE_H
#define ETALON_ALIKE_H

/* So many numbers are remembered, by what is found first; another is as if it came once. */
enum { ALIKE = 1024 };

/* squares: Σ m² over numbers that came m times. All 0 at first. */
struct alike { double number[ALIKE], times[ALIKE], squares; };
void alike_add(struct alike *a, double x);

#endif
