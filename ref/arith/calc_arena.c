/* Temporaries: an arena of blocks, which grows, and is freed with its calc. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "calc_private.h"

enum { HUGE_PAGE = 1 << 21, ZEROED = 1 << 18 };

/* A layer's fields of real width are hundreds of MB: a fault for each 4 KiB of them would take as long as some stages do. */
static void advise(void *block, size_t bytes)
{
	uintptr_t first = ((uintptr_t)block + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, end = ((uintptr_t)block + bytes) / HUGE_PAGE
		* HUGE_PAGE;

	if (first < end) madvise((void *)first, end - first, MADV_HUGEPAGE);
}

static void *arena(calc *c, size_t bytes)
{
	bytes = (bytes + 63) / 64 * 64;
	if (!c->blocks || c->used + bytes > c->blocks->size) {
		size_t size = c->blocks ? 2 * c->blocks->size : 1 << 16;
		if (size < bytes) size = bytes;
		size_t all = sizeof(struct block) + size + (c->arith->split ? size + BLOCK_GAP : 0);
		struct block *b = aligned_alloc(64, (all + 63) / 64 * 64);
		if (!b) longjmp(c->no_memory, 1);
		advise(b, all);
		b->next = c->blocks;
		b->size = size;
		c->blocks = b;
		c->used = 0;
	}
	void *at = c->blocks->at + c->used;
	c->used += bytes;
	return at;
}

num c_num(calc *c) { return c_vec(c, 1); }
vec c_vec(calc *c, size_t n)
{
	vec x = { arena(c, n * c->element), n };

	c->arith->init(c, x.at, n);
	return x;
}
vec c_room(calc *c, size_t n)
{
	vec x = { arena(c, n * c->element), n };

	if (c->arith->moved) c->arith->init(c, x.at, n);
	return x;
}
mat c_mat(calc *c, size_t rows, size_t cols) { return (mat){ c_vec(c, rows * cols).at, rows, cols }; }

void *c_bytes(calc *c, size_t n)
{
	char *at = arena(c, n);

	if (n <= 16 * ZEROED) return memset(at, 0, n);
	#pragma omp parallel for
	for (size_t i = 0; i < n; i += ZEROED) memset(at + i, 0, n - i < ZEROED ? n - i : ZEROED);
	return at;
}

vec c_part(const calc *c, vec x, size_t first, size_t n) { return (vec){ (char *)x.at + first * c->element, n }; }
size_t c_element(const calc *c) { return c->element; }
vec c_row(const calc *c, mat A, size_t i) { return c_part(c, flat(A), i * A.cols, A.cols); }

size_t c_mark(const calc *c) { return c->used; }

/* A mark is a place in the newest block: when blocks were added since, all of the newest is free. */
void c_release(calc *c, size_t mark) { c->used = mark < c->used ? mark : c->used; }
