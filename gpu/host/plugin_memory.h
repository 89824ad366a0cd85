/* What a plugin is lent: copies of a call's tensors, each between guards. It may be anybody's, and may have faults of any kind. */
#ifndef ETALON_PLUGIN_MEMORY_H
#define ETALON_PLUGIN_MEMORY_H

#include "fixtures/cases/capture.h"
#include "gpu/host/plugin.h"

struct loan {
	size_t n;
	struct etalon_tensor *tensor;   /* as the plugin sees them */
	struct lent { char *memory; size_t shape[MAX_RANK]; } *lent;
};

/* Copies of c's tensors. E_MEMORY. */
bool loan_make(struct loan *l, const struct capture *c, struct error *e);
/* Takes the outputs over into c. E_DEVICE where an input has changed, or what lies beside a tensor. */
bool loan_take_back(const struct loan *l, struct capture *c, const char *library, struct error *e);
void loan_free(struct loan *l);

#endif
