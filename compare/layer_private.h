/* Shared by layer_*.c. */
#ifndef ETALON_LAYER_PRIVATE_H
#define ETALON_LAYER_PRIVATE_H

#include "expected.h"
#include "layer_reading.h"

struct reader {
	const struct call *call;
	size_t n, row;
	double *got, *unit;             /* [n] the engine's; u of the score */
	double *now, *other;            /* [n] stored answers: of the replica in f64; of a trial */
	struct distance exact;          /* of the engine from now */
	double error;                   /* Σ of the engine's squared error */
};

/* The plan's answer, stored as the engine stores; false when memory is short. */
bool layer_answer(const struct reader *d, const struct plan *p, double *y);
struct distance layer_distance(const struct reader *d, const double *x, const double *y);

/* now and unit of the replica, and the farthest of correct layers that follow it but for float32's noise; other is lost. */
bool layer_noise(struct reader *d, const struct plan *replica, struct distance *most);

#endif
