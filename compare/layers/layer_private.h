/* Shared by layer_*.c. */
#ifndef ETALON_LAYER_PRIVATE_H
#define ETALON_LAYER_PRIVATE_H

#include "compare/truth/expected.h"
#include "layer_reading.h"
#include "ref/model/model.h"

struct reader {
	const struct call *call;
	size_t n, row;
	double *got, *unit;             /* [n] the engine's; u of the score */
	double *plain, *now, *other;    /* [n] stored answers: of the exact layer; of the emulation in f64; of a trial */
	struct distance exact;          /* of the engine from now */
	double error;                   /* Σ of the engine's squared error */
	uint64_t work;                  /* element operations of one run */
	bool large;                     /* runs go one after the other, each in parallel */
};

/* A score this many times that of the farthest correct layer is beyond the limit. */
#define LAYER_BEYOND 2.0
/* So is a single element, this many times as far off: where few elements flip, but far, the largest of six scatters by
 * more than the score does. */
#define LAYER_BEYOND_WORST 4.0

/* How many first tokens a run of that work has, from 2 to all. */
size_t layer_tokens(const struct reader *d, uint64_t work);
/* The reader of the first n tokens, in the same memory; *part must outlive it. */
struct reader layer_first(const struct reader *d, size_t n, struct first_tokens *part);

/* y [n] <- an answer, stored as the engine stores. */
void layer_stored(const struct reader *d, const struct answer *a, double *y);
/* The plan's answer, stored; false when memory is short. */
bool layer_answer(const struct reader *d, const struct plan *p, double *y);
struct distance layer_distance(const struct reader *d, const double *x, const double *y);

/* Tries kinds of sums on the emulation and takes the nearest: r->left, r->sums, r->few. */
bool layer_sums(struct reader *d, struct layer_reading *r);
/* r->truth_error and r->truth_upwards, of the exact layer's answer in f64, in units of the score. */
bool layer_truth(const struct reader *d, const struct answer *exact, struct layer_reading *r);

/* now and unit of the emulation, and the farthest of correct layers that follow it but for float32's noise; other is lost.
 * explained: the least share of such a layer's error that the emulation explains. */
bool layer_noise(struct reader *d, const struct plan *emulation, int runs, struct distance *most, double *explained);

/* All that is said of a suspect: how far it moves the emulation, and what it leaves of the engine's error. */
struct trial { struct layer_suspect suspect; struct distance moved, left; };
enum { MAX_TRIALS = 3 * MAX_SITE + 2 * MAX_FAULT };
/* The suspects beside what r detects; returns how many. */
int layer_suspects(const struct layer_reading *r, struct trial list[MAX_TRIALS]);
struct plan layer_plan_with(const struct layer_reading *r, const struct layer_suspect *s);
bool layer_try(const struct reader *d, const struct layer_reading *r, struct trial *list, int n);

#endif
