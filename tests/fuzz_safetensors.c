/* Fuzz target: whatever the bytes, safetensors_parse refuses them or tiles the data exactly. */
#include <string.h>

#include "tests/fuzz.h"

static void check(const struct tensors *t, const uint8_t *bytes, size_t n)
{
	size_t header = 8, total = 0;

	for (int i = 0; i < 8; i++)
		header += (size_t)bytes[i] << 8 * i;
	for (size_t i = 0; i < t->n; i++) {
		const struct tensor *x = &t->item[i];
		require(*x->name && strcmp(x->name, SAFETENSORS_METADATA));
		require(x->offset >= header);
		require(tensors_find(t, x->name) == x);
		check_tensor(x, bytes, n);
		total += x->bytes;
	}
	require(header + total == n);
	for (size_t i = 0; i < t->n_meta; i++)
		require(meta_get(t, t->meta[i].key) == t->meta[i].value);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	return fuzz(safetensors_parse, check, bytes, n);
}
