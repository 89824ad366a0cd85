/* Scenarios: what a serving load asks of an executor of mixed batches, step by step, as a short text:
 *
 *   steps are separated by '/', what happens in a step by blanks, in this order of effect:
 *   c1.      checkpoint 1 is forgotten          r3.    request 3 ends
 *   r3~      request 3 is preempted: its memory goes, and what it had read is read again when it runs next
 *   r4=c1    request 4 begins where checkpoint 1 was taken (a prefix-cache hit)
 *   @8       the decode part is padded to 8 rows
 *   g        the decode part is replayed from a graph
 *   r3:5     request 3 runs 5 tokens (the first time: from zeros)
 *   r3?4:2   request 3 speculates on 4 tokens, of which the first 2 are accepted after the step
 *   c1=r3    after the step, checkpoint 1 keeps request 3's memory
 *
 * An event whose request or checkpoint is not there does nothing, so that whatever is left out of a scenario, the
 * rest is one. */
#ifndef ETALON_SCENARIO_H
#define ETALON_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fixtures/io/error.h"

enum event_kind {
	EVENT_FORGET, EVENT_END, EVENT_PREEMPT, EVENT_FORK, EVENT_PAD, EVENT_REPLAY, EVENT_RUN, EVENT_SPECULATE, EVENT_CHECKPOINT
};
struct event { int step; enum event_kind kind; int request, checkpoint, tokens, accepted; };    /* tokens: rows of EVENT_PAD */

struct scenario { int steps; size_t n; struct event *event; };  /* events by step, then by kind */

/* No more than this many of a drawn scenario at once, nor numbers in a text. */
enum { LIVE_REQUESTS = 6, LIVE_CHECKPOINTS = 3, DRAFTS = 4, CHUNK = 12, STRETCH = 13, MOST_PADDED = 8, MOST_NUMBER = 1 << 20 };

/* Arrivals, prefills in chunks, decodes, speculation, preemption, prefix hits, slot reuse and padding, all drawn from
 * the seed: the same on every machine. Freed with scenario_free. The only error is E_MEMORY. */
bool scenario_draw(struct scenario *s, uint64_t seed, int steps, struct error *e);

/* Runs of several tokens get STRETCH times as many: the longest then has CHUNK STRETCH. */
void scenario_stretch(struct scenario *s);

/* From text; E_USAGE tells the byte. */
bool scenario_parse(struct scenario *s, const char *text, struct error *e);
void scenario_print(FILE *to, const struct scenario *s);

/* A copy of those events for which keep is true, and of the steps that still have any that is not padding or replay. */
bool scenario_select(struct scenario *to, const struct scenario *from, const bool *keep, struct error *e);
void scenario_free(struct scenario *s);

#endif
