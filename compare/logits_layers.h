/* Which layer went wrong first, from an engine's hidden states. See docs/logits.md. */
#ifndef ETALON_LOGITS_LAYERS_H
#define ETALON_LOGITS_LAYERS_H

#include "layer_reading.h"
#include "logits_model.h"

/* A hidden state, or the logits. Free-running: its error against the exact model's, started from the ids. Anchored: what
 * `reading` says, started from the engine's own state before it. */
struct layer_line {
	double error;                   /* rms of the error over that of the exact state (of the logits: over that of the largest) */
	double explained;               /* of the error's square, by the replica that runs from the ids too; NaN without one */
	struct layer_reading reading;   /* not of the embedding */
};

struct layer_lines {
	size_t n;                       /* layers + 2: the embedding, the layers, the head */
	struct layer_line *line;
	size_t embedding_wrong;         /* elements of hidden.0 that are not the embedding's, rounded to the type of the dump */
	size_t first;                   /* the first layer (the head: their number) that the contract does not explain; SIZE_MAX: none */
};

/* Anchored: reads the engine's hidden states beside its logits, "NAMEhidden.0" to "NAMEhidden.L" where the logits are
 * "NAMElogits", and sets q->sums to what came nearest in the first layer of each kind. *found is false, and *r empty, where there
 * is no hidden.0 or the logits have another name; where only some are missing that is an error. Freed with layer_lines_free. */
bool layer_lines_read(struct layer_lines *r, bool *found, const struct tensors *file, const struct tensor *logits, struct model_question *q,
	struct error *e);
/* Free-running: from the same hidden states and a reference that kept all of its own. */
bool layer_lines_follow(struct layer_lines *r, const struct tensors *file, const struct tensor *logits, const struct model_reference *runs,
	struct error *e);
void layer_lines_free(struct layer_lines *r);

/* Adds what the layers say to the verdict. */
void layer_lines_judge(struct layer_lines *r, struct logit_report *to);

int layer_lines_text(const struct layer_lines *r);              /* an exit code */
json_t *layer_lines_json(const struct layer_lines *r);
void layer_lines_html(FILE *to, const struct layer_lines *r);

#endif
