/* Where a trace comes from. */
#ifndef ETALON_EIGEN_SOURCE_H
#define ETALON_EIGEN_SOURCE_H

#include "fixtures/cases/capture.h"
#include "ref/eigen/iterate.h"

/* The parameters of a newton_schulz capture. E_OP, E_PARAM. */
bool iteration_of(struct iteration *how, const struct capture *c, struct error *e);

/* Matrix `batch` of the capture: its trace, which is recorded where out.X is there (with out.R and out.Q in the Gram
 * forms), else emulated from in.x; *y is out.y turned to [s,l], NULL where there is none, the caller's to free. */
bool trace_of(struct trace *t, double **y, const struct capture *c, size_t batch, struct error *e);

/* Steps "2,5" as bits; false unless each is in 1 … K-1. "" is none. */
bool restarts_parse(uint64_t *restarts, const char *text, size_t K);

#endif
