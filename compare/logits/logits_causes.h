/* Which layer went wrong, and how: from the hidden states beside an engine's logits, or from the logits alone. */
#ifndef ETALON_LOGITS_CAUSES_H
#define ETALON_LOGITS_CAUSES_H

#include "logits_model.h"
#include "compare/layers/model_reading.h"

enum { MAX_CAUSES = 5 };

/* Zero-initialised; freed with causes_free. */
struct logit_causes {
	bool has_layers;                /* hidden states were there: */
	struct model_reading layers;
	bool tried;                     /* suspects were, each in all layers of its kind: */
	struct model_suspect suspect[MAX_CAUSES];
	int n;
	double alone;                   /* share of the logits' error that the contract explains */
	char look[200];                 /* what is plain about the logits, or empty */
};

/* What stands before "logits" in the tensor's name, up to size; false where that does not end it. */
bool causes_prefix(const struct tensor *logits, char *text, size_t size);
/* Are there hidden states? "NAMEhidden.0" is, where the logits are "NAMElogits". */
bool causes_readable(const struct tensors *file, const struct tensor *logits);
/* Reads them, to "NAMEhidden.L", sets q->sums to what came nearest in the first layer of each kind, and lends q the runs that were
 * made. Does nothing where there are none; where only some are missing that is an error. */
bool causes_read(struct logit_causes *x, const struct tensors *file, const struct tensor *logits, struct model_question *q,
	struct error *e);

/* What is plain about logits that fail (logits_looks.c): text, or "". False: out of memory. */
bool logits_look(const struct model_reference *m, const struct model_question *q, const struct logit_source *got,
	struct logit_report *r, char *text, size_t size);

/* Tries each fault in all layers of its kind. */
bool causes_try(struct logit_causes *x, const struct tensor *logits, const struct model_question *q, struct error *e);
/* Was one tried that is no rounding and explains more than half of the logits' error? */
bool causes_explain(const struct logit_causes *x);
/* Is a fault detected in a layer, or said of the dump? */
bool causes_name(const struct logit_causes *x);
void causes_free(struct logit_causes *x);

/* Adds what was found to the verdict: a layer that its contract does not explain fails, whatever the logits say. */
void causes_judge(const struct logit_causes *x, struct logit_report *to);

void causes_text(FILE *to, const struct logit_causes *x);
json_t *causes_json(const struct logit_causes *x);
void causes_html(FILE *to, const struct logit_causes *x);

#endif
