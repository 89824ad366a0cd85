/* How far etalon logits has come with a model, and so how long it will take: at real width minutes. */
#ifndef ETALON_LOGITS_PACE_H
#define ETALON_LOGITS_PACE_H

#include "logits_model.h"

/* layers: hidden states are there too, and each layer is read. Borrows the model. */
struct logits_pace { const struct model *model; size_t tokens, positions, runs; bool layers; };

/* The share of the whole work that is done, 0 to 1, where `stage` ("layers", "noisy runs", "positions", as the readings'
 * ticks call them) stands at done of total. Work is counted in weights times tokens, with what a run, a noisy run and slow
 * sums cost beside a run in f64, as measured (docs/models.md). Layers that do not keep their contract take longer, as
 * suspects are tried in them. */
double logits_pace_share(const struct logits_pace *p, const char *stage, size_t done, size_t total);

/* What is at work: "layer 2 of 0 to 7, linear_attention". Returns text. */
const char *logits_pace_text(const struct logits_pace *p, const char *stage, size_t done, size_t total, char *text, size_t size);

#endif
