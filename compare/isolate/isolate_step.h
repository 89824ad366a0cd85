/* One batch of a play. */
#ifndef ETALON_ISOLATE_STEP_H
#define ETALON_ISOLATE_STEP_H

#include "isolate_private.h"

enum { NO_FAMILY = -1 };

struct run {
	const struct setup *setup;
	const struct scenario *scenario;
	const struct play_how *how;
	struct play *play;
	struct executor *x;
	struct model model;
	struct job *job;                /* [max_rows] */
	size_t jobs;
	int step, pad;
	bool replay;
	unsigned char *now, *then;      /* all slots after and before the batch */
	unsigned char *part[PARTS], *y; /* [max_tokens] */
	int *order;                     /* [max_rows] */
	int *family;                    /* [events]: the least request of a fork's or checkpoint's family, else NO_FAMILY */
	size_t rows_room, tokens_room, y_room;
};

/* Opens the executor and makes room; run_close also after a failure. */
bool run_open(struct run *r, struct error *e);
void run_close(struct run *r);

/* Runs the jobs as one batch, records it, and holds it against the laws of a step. */
bool run_batch(struct run *r, struct error *e);

/* A family is a request and all that began at its checkpoints; those whose least request is even are chosen. */
bool play_chosen(const struct run *r, int request);

/* False. The executor's slots, requests or checkpoints ran out: E_USAGE, for a scenario asked for them. */
bool asks_too_much(const struct run *r, struct error *e);

/* Names the input of a request's token; that of padding has the request -1. */
uint64_t token_key(const struct run *r, int request, uint64_t number, bool chosen);

#endif
