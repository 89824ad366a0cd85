/* What etalon logits would take with a model, before any of it is taken: memory of each rank, and time from a short measurement. */
#ifndef ETALON_LOGITS_PLAN_H
#define ETALON_LOGITS_PLAN_H

#include "logits_model.h"

enum { HOST = 40 };
struct rank_plan { char host[HOST]; uint64_t free; int threads; };

/* Seconds of a run of all layers and of the head, and how often there is one. */
struct run_plan { const char *what, *arith; double layers, head; size_t times; };
enum { RUNS_PLANNED = 3 };

struct logits_plan {
	int ranks;
	struct rank_plan *rank;                 /* [ranks] */
	size_t tokens;
	uint64_t weights, copied;               /* bytes of a rank: mapped, its share; experts that were copied together, all of them */
	uint64_t held, hidden, rows, pieces;    /* between a layer's pieces; hidden states; rows of logits; inside of pieces */
	uint64_t kept;                          /* bytes of a layer's result in a checkpoint folder */
	uint64_t round;                         /* bytes that come to a rank from others in a run of all layers, */
	uint64_t measured;                      /* and came in the measurement */
	struct run_plan run[RUNS_PLANNED];
	double seconds;                         /* of all that a quick run does */
	bool fits;                              /* on each host, what its ranks take is there */
};

/* Freed with plan_free. Runs a layer of each kind, and the head, on a few tokens. */
bool plan_make(struct logits_plan *p, const struct model_question *q, struct error *e);
void plan_free(struct logits_plan *p);
void plan_print(FILE *to, const struct logits_plan *p, const struct model *m);
json_t *plan_json(const struct logits_plan *p);

#endif
