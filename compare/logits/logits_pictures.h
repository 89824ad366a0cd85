/* The pictures of `etalon logits --html`. */
#ifndef ETALON_LOGITS_PICTURES_H
#define ETALON_LOGITS_PICTURES_H

#include "logits.h"

/* SVG elements, made by gnuplot from plots/logits.gp; freed with pictures_free. */
struct pictures { char *kl, *errors, *histogram; };

/* E_NO_BACKEND where gnuplot is missing or fails. Uses a folder of its own under TMPDIR and removes it. */
bool pictures_draw(struct pictures *p, const struct logit_report *r, struct error *e);
void pictures_free(struct pictures *p);

#endif
