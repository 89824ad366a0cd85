/* Memory that is freed all at once. */
#ifndef ETALON_FORMULA_POOL_H
#define ETALON_FORMULA_POOL_H

#include <stdbool.h>
#include <stddef.h>

#include "fixtures/io/error.h"

struct pool_block;
struct pool { struct pool_block *block; bool failed; size_t total; };        /* total: bytes that were taken for it */

/* n zero bytes, at least one; where memory is short `failed` is set and NULL returned. */
void *pool_make(struct pool *p, size_t n);
/* A copy of n bytes of text, with a zero behind them. */
const char *pool_text(struct pool *p, const char *text, size_t n);
void pool_join(struct pool *p, struct pool *of);        /* p has all that `of` had, which is empty then */
void pool_free(struct pool *p);

#endif
