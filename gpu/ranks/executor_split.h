/* What a rank has of an executor's heads: of its weights, of a memory, of the data of a step. */
#ifndef ETALON_EXECUTOR_SPLIT_H
#define ETALON_EXECUTOR_SPLIT_H

#include "gpu/executor/executor.h"

/* Rank r has value heads r part.Hv on, and the key heads that these read. */
struct split { int ranks; struct executor_shape whole, part; };
/* E_DIM: heads that the ranks do not share out evenly. */
bool split_make(struct split *s, const struct executor_shape *whole, int ranks, struct error *e);

/* A slot's states and rings: rank r's part of `all` into `part`; back: the other way. */
void split_memory(const struct split *s, int r, void *all, void *part, bool back);

/* *mine is freed with split_weights_close. */
bool split_weights(const struct split *s, int r, const struct executor_weights *all,
	struct executor_weights *mine, struct error *e);
void split_weights_close(struct executor_weights *mine);

/* Some rows of a step, in their order, with tables of their own. token: [max_tokens], where each
 * token stands in the whole step. */
struct step_part { struct executor_step now; int32_t *table, *token; };
bool step_part_open(struct step_part *p, const struct executor_shape *s, struct error *e);
void step_part_close(struct step_part *p);
/* Those that prefill, or all others. */
void step_part_take(struct step_part *p, const struct executor_step *of, bool prefill);

/* Rank r's part of the data of those rows, y included; back: y alone, the other way. */
bool split_data_open(struct executor_data *mine, const struct executor_shape *s, struct error *e);
void split_data_close(struct executor_data *mine);
void split_data(const struct split *s, int r, const struct step_part *p,
	const struct executor_data *all, struct executor_data *mine, bool back);

#endif
