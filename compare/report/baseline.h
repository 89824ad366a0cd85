/* The ratchet: each capture's figures as they were, and whether they got worse.
 * A baseline is a JSON object, {"version": 2, "captures": {NAME: ENTRY}}. NAME is the capture's path
 * below the folder that was named. ENTRY's "call" is a digest of shapes, types and parameters. The producer and the device stand in ENTRY for people to read. */
#ifndef ETALON_BASELINE_H
#define ETALON_BASELINE_H

#include "report.h"

/* Version 1 had no key "version", and entries by "CAPTURE | PRODUCER | DEVICE". */
enum { BASELINE_VERSION = 2 };

/* The baseline's captures, a new reference. NULL with *e filled when the file is no baseline of
 * this version. */
json_t *baseline_read(const char *path, struct error *e);
json_t *baseline_parse(const char *text, size_t n, const char *path, struct error *e);

/* Fails those findings whose kernel got worse: an output's rms error grew by more than its scatter
 * explains (mean_square_bound with the output's degrees of freedom and 1e-6), or a site is rounded that
 * was not. A capture fails too that is judged under another contract, is another call, has other outputs or no
 * entry. */
void baseline_compare(const json_t *captures, const char *path, struct finding *f, size_t n);

/* The record of a capture that the baseline at path has and the folders named do not. */
json_t *baseline_gone(const json_t *captures, const char *path, const char *name,
	char *const *folder, size_t folders);

/* What a baseline holds of a finding that passes. A new reference. */
json_t *baseline_entry(const struct finding *f);

/* Writes the entries of the findings that pass into the file, which keeps its others, or with
 * `only`, an object whose keys are names, those of these names. Updates of one file wait for each
 * other. Returns what the file holds now, a new reference. */
json_t *baseline_update(
	const char *path, const json_t *only, const struct finding *f, size_t n, struct error *e);

#endif
