/* What the fuzz targets share. */
#ifndef ETALON_FUZZ_H
#define ETALON_FUZZ_H

#include <stdlib.h>
#include <string.h>

#include "fixtures/tensor.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static inline void require(bool truth)
{
	if (!truth)
		abort();
}

/* The tensor lies in the n bytes, its numbers agree, and all of its elements can be read. */
static inline void check_tensor(const struct tensor *x, const uint8_t *bytes, size_t n)
{
	size_t size = dtype_info[x->dtype].size, count = 1;

	require(x->rank >= 0 && x->rank <= MAX_RANK);
	for (int i = 0; i < x->rank; i++)
		count *= x->shape[i];
	require(count == x->count && x->bytes == count * size);
	require(x->offset <= n && x->bytes <= n - x->offset);
	require(x->bytes ? (const uint8_t *)x->data == bytes + x->offset : !x->data);
	for (size_t i = 0; i < count; i++) {
		double y, z;
		unsigned char back[8];
		const char *at = (const char *)x->data + i * size;
		dtype_load(x->dtype, at, 1, &y);
		dtype_store(x->dtype, &y, 1, back);
		dtype_load(x->dtype, back, 1, &z);
		require(y == z || (y != y && z != z));
	}
}

static inline int fuzz(bool (*parse)(struct tensors *, const void *, size_t, struct error *),
                       void (*check)(const struct tensors *, const uint8_t *, size_t),
                       const uint8_t *bytes, size_t n)
{
	struct tensors t;
	struct error e = { .code = E_NONE };

	if (parse(&t, bytes, n, &e)) {
		check(&t, bytes, n);
	} else {
		require(e.code > E_NONE && e.code < E_COUNT && e.code != E_MEMORY);
		require(e.offset <= n && !t.item && !t.meta && !t.n && !t.n_meta);
	}
	tensors_free(&t);
	return 0;
}

#endif
