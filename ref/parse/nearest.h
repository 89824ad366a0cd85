/* A name that is not there, and the one of those that are that was probably meant. */
#ifndef ETALON_FORMULA_NEAREST_H
#define ETALON_FORMULA_NEAREST_H

#include <stddef.h>

struct nearest { const char *name, *best; size_t away; };

static inline struct nearest nearest_to(const char *name) { return (struct nearest){ name, NULL, 0 }; }
void nearest_try(struct nearest *n, const char *there);
/* All of a list of declarations. */
void nearest_declared(struct nearest *n, const void *list);

/* "; did you mean 'NAME'?", or "". */
enum { NEAREST_SAID = 96 };
const char *nearest_said(const struct nearest *n, char text[NEAREST_SAID]);

#endif
