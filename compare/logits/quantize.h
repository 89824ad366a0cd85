/* What rounding a model's weights to FP8 does to its logits, class by class. See docs/quantize.md. */
#ifndef ETALON_QUANTIZE_H
#define ETALON_QUANTIZE_H

#include <jansson.h>

#include "logits_model.h"

/* How far one scale reaches. */
enum grain { GRAIN_TENSOR, GRAIN_BLOCK, GRAINS };
extern const char *const grain_name[GRAINS];    /* "tensor", "128x128" */

/* A tensor rounded to e4m3 (OCP, saturating), as float64: each block of `side` x `side` elements of a matrix has the scale
 * max |x| / 448, rounded to float32, and x becomes scale * e4m3(x / scale); side 0: one scale for the matrix. A matrix is the
 * last two axes (of [n], [n,1,m]: the whole tensor). Blocks of zeros stay. NULL when memory is short or x is not finite: *e
 * says which. Freed with quantized_free. */
struct tensor *quantized(const struct tensor *x, size_t side, struct error *e);
void quantized_free(struct tensor *t);

/* What rounding did to the logits. */
struct quantize_effect { double kl, kl_max, rms, max; size_t agree; };

/* The weights of one name in all layers; the last two rows are sets of classes. */
struct quantize_class {
	char name[64];
	bool kept;                      /* on the published lists of what stays out of FP8 */
	size_t tensors, elements;
	struct quantize_effect effect[GRAINS];
};
struct quantize {
	struct quantize_class *row;
	size_t n, positions, vocabulary;
};

/* Runs the model in float64 as it is, and with the weights of each row rounded. q->contract, runs: not used. Freed with
 * quantize_free. On failure *r is zero. */
bool quantize_make(struct quantize *r, const struct model_question *q, struct error *e);
void quantize_free(struct quantize *r);

/* The class of a weight by its name in the folder: what follows the layer's number, without ".weight". */
const char *quantize_class_name(const char *tensor, char *text, size_t size);
bool quantize_kept(const char *class_name);

#endif
