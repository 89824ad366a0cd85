#include "pool.h"

#include <stdlib.h>
#include <string.h>

struct pool_block { struct pool_block *next; size_t used, size; _Alignas(16) char at[]; };

void *pool_make(struct pool *p, size_t n)
{
	size_t need = (n + 15) / 16 * 16 + 16;

	if (!p->block || p->block->size - p->block->used < need) {
		size_t size = need > 4096 ? need : 4096;
		struct pool_block *b = calloc(1, sizeof *b + size);
		if (!b) {
			p->failed = true;
			return NULL;
		}
		*b = (struct pool_block){ p->block, 0, size };
		p->block = b;
		p->total += size;
	}
	void *at = p->block->at + p->block->used;
	p->block->used += need;
	return at;
}

const char *pool_text(struct pool *p, const char *text, size_t n)
{
	char *at = pool_make(p, n + 1);

	return at ? memcpy(at, text, n) : NULL;
}

void pool_join(struct pool *p, struct pool *of)
{
	struct pool_block **end = &of->block;

	while (*end) end = &(*end)->next;
	*end = p->block;
	*p = (struct pool){ of->block, p->failed || of->failed, p->total + of->total };
	*of = (struct pool){ 0 };
}

void pool_free(struct pool *p)
{
	while (p->block) {
		struct pool_block *b = p->block;
		p->block = b->next;
		free(b);
	}
	*p = (struct pool){ 0 };
}
