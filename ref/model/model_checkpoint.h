/* A model's runs in a checkpoint folder (ref/call/checkpoint.h). */
#ifndef ETALON_MODEL_CHECKPOINT_H
#define ETALON_MODEL_CHECKPOINT_H

#include "model.h"

/* The folder is one of this model's runs on these tokens, in this arithmetic, under this contract. Of the weights their files' sizes and
 * times are told apart, and some KiB of each tensor: not every byte. */
bool model_checkpoint(const struct model *m, const char *folder, const size_t *ids, size_t n, const char *arithmetic, const char *contract,
	struct error *e);

#endif
