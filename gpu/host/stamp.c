/* What all backends write into a capture. */
#include <string.h>

#include "gpu/host/backend.h"

/* Replaces one metadata string and returns the copy that is kept. */
static const char *stamp(struct capture *c, const char *key, const char *value, struct error *e)
{
	if (meta_set(&c->tensors, key, value))
		return meta_get(&c->tensors, key);
	error_set(e, E_MEMORY, key, NO_OFFSET, "%zu bytes of metadata", strlen(value));
	return NULL;
}

bool backend_stamp(struct capture *c, const char *producer, const char *device, const char *sha256,
                   struct error *e)
{
	const char *by = stamp(c, "etalon.producer", producer, e);
	if (!by)
		return false;
	c->producer = by;

	const char *on = stamp(c, "etalon.device", device, e);
	if (!on)
		return false;
	c->device = on;

	if (!sha256)
		return true;
	const char *of = stamp(c, "etalon.source_sha256", sha256, e);
	if (of)
		c->sha256 = of;
	return of != NULL;
}
