/* What the files of a model share. */
#ifndef ETALON_MODEL_PRIVATE_H
#define ETALON_MODEL_PRIVATE_H

#include "model.h"

enum { OUT_Y };         /* the first output of each part; what a layer remembers follows */

/* The input that takes what output `out` left behind the tokens before, or -1; is one a weight? */
int model_memory_of(const struct op *op, int out);
bool model_is_weight(const struct op *op, int in);

/* The call's sizes and parameters from the model's, for so many tokens behind others. */
void model_dims(const struct model_config *c, struct call *call, size_t tokens, size_t before);

/* Points input `in` to a copy of the layer's experts, if it is one of them and the folder has them one by one; else does
 * nothing. prefix: of names in the folder. */
bool model_fuse(struct model *m, size_t layer, int in, const char *prefix, const struct model_weight *w, struct error *e);
/* Was the tensor copied so? */
bool model_is_fused(const struct model *m, const char *name);

#endif
