/* What came of the laws of isolation, for people and for programs. */
#ifndef ETALON_ISOLATE_REPORT_H
#define ETALON_ISOLATE_REPORT_H

#include <jansson.h>

#include "isolate_laws.h"

struct isolate_run {
	const char *backend,
		*inject; /* its name; inject: NULL where no fault was made on purpose */
	const char *asked;                      /* the backend, as the command line has it */
	int prefill, decode;                    /* ranks; 0: none */
	uint64_t first_seed, seeds;
	int steps;
	const char *play;                       /* the scenario given, or NULL */
	struct isolation laws;
	bool visible[64];                       /* faults of mixed_batch that would have shown in the plays */
	/* where a law was broken: */
	uint64_t seed;
	bool heads;                     /* of 128, scenarios stretched */
	enum dtype state, data;
	struct explanation why;
	struct scenario shortest;
	bool shrunk;                            /* false: a law with shapes of its own */
};
void isolate_text(FILE *to, const struct isolate_run *r);
json_t *isolate_json(const struct isolate_run *r);      /* a new reference; NULL: out of memory */

#endif
