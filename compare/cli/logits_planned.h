#ifndef ETALON_LOGITS_PLANNED_H
#define ETALON_LOGITS_PLANNED_H

#include "cli.h"

/* What so many tokens of the model would take, on stdout; the exit code, EXIT_MACHINE where memory is too little. */
int logits_planned(const char *model, size_t tokens, const char *truth, size_t runs, bool json);

#endif
