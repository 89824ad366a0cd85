#include <string.h>

#include "answered.h"

/* All but what no longer holds. */
static bool copy_meta(struct tensors *t, const struct tensors *from)
{
	for (size_t i = 0; i < from->n_meta; i++)
		if (strcmp(from->meta[i].key, "etalon.source_sha256") && !meta_set(t, from->meta[i].key, from->meta[i].value)) return false;
	return true;
}

static bool copy_inputs(struct tensors *t, const struct tensors *from)
{
	for (size_t i = 0; i < from->n; i++) {
		const struct tensor *x = &from->item[i];
		if (strncmp(x->name, "in.", 3)) continue;
		struct tensor *y = tensors_add(t, x->name, x->dtype, x->rank, x->shape);
		if (!y) return false;
		if (x->bytes) memcpy(y->data, x->data, x->bytes);
	}
	return true;
}

static bool add_output(struct tensors *t, const struct call *call, const struct answer *answer, int i)
{
	size_t shape[MAX_RANK], n = call->out_count[i];
	char name[64];

	snprintf(name, sizeof name, "out.%s", call->op->out[i].name);
	int rank = call_out_shape(call, i, shape);
	struct tensor *y = tensors_add(t, name, out_dtype(call, i), rank, shape);
	if (!y) return false;
	for (size_t k = 0; answer->lo[i] && k < n; k++)
		answer->hi[i][k] = stored_as(y->dtype, answer->hi[i][k], answer->lo[i][k]);
	dtype_store(y->dtype, answer->hi[i], n, y->data);
	return true;
}

bool answered(struct tensors *t, const struct call *call, const struct answer *answer, const char *by)
{
	const struct tensors *from = &call->capture->tensors;
	bool ok = copy_meta(t, from) && meta_set(t, "etalon.producer", by) && meta_set(t, "etalon.device", "CPU") && copy_inputs(t, from);

	for (int i = 0; ok && call->op->out[i].name; i++)
		if (call->out_count[i]) ok = add_output(t, call, answer, i);
	return ok;
}
