/* The ratchet: figures of each capture's kernel as they were, and whether they got worse.
 * A baseline is a JSON object; its keys are "CAPTURE | PRODUCER | DEVICE", so that another toolkit (which
 * the producer names) or device has an entry of its own. */
#ifndef ETALON_BASELINE_H
#define ETALON_BASELINE_H

#include "report.h"

/* NULL with *e filled when the file is not a baseline. A new reference. */
json_t *baseline_read(const char *path, struct error *e);

/* Fails those findings whose kernel got worse: an output's rms error grew by more than its scatter
 * explains (mean_square_bound with the output's degrees of freedom and 1e-6), or a site is rounded that
 * was not. A judged capture that has no entry fails too. */
void baseline_compare(const json_t *baseline, struct finding *f, size_t n);

/* Writes the entries of all judged findings, and keeps the old baseline's others (NULL: none). */
bool baseline_write(const char *path, const json_t *old, const struct finding *f, size_t n, struct error *e);

#endif
