/* etalon record --model: our engine's run of a whole model, as a file that `etalon logits` judges. */
#ifndef ETALON_RECORD_MODEL_H
#define ETALON_RECORD_MODEL_H

#include <stdbool.h>
#include <stddef.h>

struct record_model { const char *folder, *ids, *file; size_t decoded; bool time, json; };

/* Runs the engine and writes the file; prints what it wrote. Returns an exit code. */
int record_model(const struct record_model *a);

#endif
