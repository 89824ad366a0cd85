/* Shared by xray*.c. */
#ifndef ETALON_XRAY_PRIVATE_H
#define ETALON_XRAY_PRIVATE_H

#include "xray.h"

/* The plan's answer: y [n]. */
bool xray_run(struct xray *x, const struct plan *plan, double *y);

/* y [n] rounded to the outputs' dtypes; may be in place. */
void xray_store(const struct xray *x, const double *y, double *stored);

/* noise, raw_noise and floor2 of the replica, whose base and shape2 are there; raw and r are lost. */
bool xray_floor(struct xray *x);

#endif
