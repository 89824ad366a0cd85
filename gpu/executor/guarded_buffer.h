/* Memory of the host between guard bands: bytes of a known pattern before and behind it, that nobody may change.
 * Pages that are never touched cost nothing, however large the buffer. */
#ifndef ETALON_GUARDED_BUFFER_H
#define ETALON_GUARDED_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

#include "fixtures/io/error.h"

struct guarded_buffer {
	const char *name;
	void *map;
	size_t map_bytes, lead, room;   /* lead: before the first band; room: what was asked for */
	unsigned char *data;
	size_t bytes;                   /* the band behind starts here; at most room */
};

/* Zeros. lead: bytes of address space before the first band that may be touched, too. The name is borrowed. E_MEMORY. */
bool guarded_open(struct guarded_buffer *b, const char *name, size_t bytes, size_t lead, struct error *e);
void guarded_close(struct guarded_buffer *b);
/* The band behind now starts at `bytes` <= room; it ends where it ended. */
void guarded_resize(struct guarded_buffer *b, size_t bytes);
/* E_VALUE: name, and the offset from data of the first byte that changed: negative before it. */
bool guarded_intact(const struct guarded_buffer *b, struct error *e);

#endif
