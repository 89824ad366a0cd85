/* What elements add to sums, many at a time: over four lanes, which are added up at the end, whatever the vectors' width. */
#ifndef ETALON_XRAY_TERMS_H
#define ETALON_XRAY_TERMS_H

#include <stddef.h>
#include <stdint.h>

enum { TERMS = 256 };
/* Runs of float32's noise; see xray.h. */
enum { NOISE_RUNS = 5 };

/* Of one step of Fisher's scoring, from one block, of this scale; added to both. */
void sums_of_step(const double *r, const double *shape2, const double *floor2, double scale, size_t n, double *term, double *weight);

/* Of elements with floor2 > 0, where d is finite: over floor2, d² and the square of what it makes of what is stored. */
struct sums_of_size { double d2, stored2; };
void sums_of_size(const double *d, const double *with, const double *without, const double *floor2, size_t n, struct sums_of_size *s);

/* Of elements with w > 0, Σ w y². */
double sum_of_squares(const double *w, const double *y, size_t n);

/* Of these Σ w d y, Σ w d², and of each run's noise, which begin `apart` each other, Σ w d noise. */
struct sums_of_fit { double dy, dd, noise[NOISE_RUNS]; };
void sums_of_fit(const double *w, const double *y, const double *d, const float *noise, size_t apart, size_t n, struct sums_of_fit *s);

/* Of each element how it votes (see xray.h): 1 for `all`, FOR_BASE and FOR_CLOSE for those of the kernel's that are base's. */
enum { FOR_BASE = 1 << 10, FOR_CLOSE = 1 << 20, VOTES_OF = FOR_BASE - 1 };
void terms_of_votes(const double *got, const double *d, const double *with, const double *without, const double *floor2, const float *noise,
	size_t apart, size_t n, int64_t *vote);

#endif
