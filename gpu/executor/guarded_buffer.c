#include "gpu/executor/guarded_buffer.h"

#include <sys/mman.h>

enum { BAND = 4096 };

/* The byte at `offset` from data: no value that a kernel would store for long, and never the same twice in a row. */
static unsigned char pattern(ptrdiff_t offset) { return (unsigned char)((size_t)offset * 37 ^ 0xA5); }

static void fill(struct guarded_buffer *b, ptrdiff_t from, ptrdiff_t to)
{
	for (ptrdiff_t i = from; i < to; i++) b->data[i] = pattern(i);
}

bool guarded_open(struct guarded_buffer *b, const char *name, size_t bytes, size_t lead, struct error *e)
{
	size_t all = lead + 2 * BAND + bytes;
	void *map = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED) return error_set(e, E_MEMORY, name, NO_OFFSET, "%zu bytes", all);
	*b = (struct guarded_buffer){ name, map, all, lead, bytes, (unsigned char *)map + lead + BAND, bytes };
	fill(b, -BAND, 0);
	fill(b, (ptrdiff_t)bytes, (ptrdiff_t)bytes + BAND);
	return true;
}

void guarded_close(struct guarded_buffer *b)
{
	if (b->map) munmap(b->map, b->map_bytes);
	b->map = NULL;
}

void guarded_resize(struct guarded_buffer *b, size_t bytes)
{
	b->bytes = bytes;
	fill(b, (ptrdiff_t)bytes, (ptrdiff_t)b->room + BAND);
}

static bool band_intact(const struct guarded_buffer *b, ptrdiff_t from, ptrdiff_t to, struct error *e)
{
	for (ptrdiff_t i = from; i < to; i++)
		if (b->data[i] != pattern(i))
			return error_set(e, E_VALUE, b->name, NO_OFFSET, "the guard band %s it is broken: byte %td of %zu is %02x, not %02x",
			                 i < 0 ? "before" : "behind", i, b->bytes, b->data[i], pattern(i));
	return true;
}

bool guarded_intact(const struct guarded_buffer *b, struct error *e)
{
	return band_intact(b, -BAND, 0, e) && band_intact(b, (ptrdiff_t)b->bytes, (ptrdiff_t)b->room + BAND, e);
}
