/* Fuzz target: whatever the bytes, npy_parse refuses them or finds one tensor that ends with them. */
#include "tests/fuzz.h"

static void check(const struct tensors *t, const uint8_t *bytes, size_t n)
{
	require(t->n == 1 && !t->n_meta && !*t->item->name);
	require(t->item->offset + t->item->bytes == n);
	check_tensor(t->item, bytes, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n)
{
	return fuzz(npy_parse, check, bytes, n);
}
