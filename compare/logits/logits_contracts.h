/* Which contracts `--contract auto` tries on a dump, by its types. */
#ifndef ETALON_LOGITS_CONTRACTS_H
#define ETALON_LOGITS_CONTRACTS_H

#include "logits_model.h"

enum { MAX_CONTRACTS = 12, CONTRACT_NAME = 64 };
struct logits_contracts { int n; char name[MAX_CONTRACTS][CONTRACT_NAME]; };

/* In the order in which they are tried. Of float32: all in float32 first, then half precisions. Of half precision: that of the dump's
 * own kind. With hidden states the contract whose emulation is nearest, and the one that rounds the most; with logits alone all of
 * the kind, from the tightest. */
void logits_contracts(struct logits_contracts *c, const struct model *m, size_t tokens, const struct tensors *file,
	const struct tensor *logits);

#endif
