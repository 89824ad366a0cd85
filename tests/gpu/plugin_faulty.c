/* A plugin that fails in another way for each op, and has no name. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "gpu/host/plugin.h"

/* rope: the device fails. rmsnorm: nothing is written. causal_conv1d: the end of y is not written.
 * gated_delta_rule: a code without a meaning, and a message that is not ended. */
int etalon_plugin_run(const struct etalon_plugin_call *call)
{
	if (!strcmp(call->op, "rope")) {
		snprintf(call->message, call->message_size, "the cat sat on the device");
		return 2;
	}
	if (!strcmp(call->op, "rmsnorm")) return 0;
	if (!strcmp(call->op, "gated_delta_rule")) {
		memset(call->message, 'x', call->message_size);
		return 7;
	}
	for (size_t i = 0; i < call->n; i++) {
		const struct etalon_tensor *t = &call->tensor[i];
		size_t n = strcmp(t->dtype, "F32") ? 2 : 4;
		if (strncmp(t->name, "out.", 4)) continue;
		for (int r = 0; r < t->rank; r++) n *= t->shape[r];
		memset(t->data, 0, strcmp(t->name, "out.y") ? n : n - 4);
	}
	return 0;
}
