/* Which backend a name means, and what all of them write into a capture. */
#include "gpu/host/backend.h"

#include <string.h>

#include "gpu_sources.h"        /* gpu_sources[]: op and SHA-256, made at build time */

bool backend_run(const char *spec, struct capture *c, struct error *e)
{
	static const char prefix[] = "plugin:";
	size_t n = sizeof prefix - 1;

	if (strcmp(spec, "cuda") == 0)
		return cuda_run(c, e);
	if (strcmp(spec, "cpu") == 0)
		return mixed_batch_cpu(c, e);
	if (strncmp(spec, prefix, n) == 0 && spec[n])
		return plugin_run(spec + n, c, e);
	return error_set(e, E_USAGE, spec, NO_OFFSET, "a backend is cuda, cpu or plugin:LIB.so");
}

const char *gpu_source_sha256(const char *op)
{
	for (size_t i = 0; i < sizeof gpu_sources / sizeof *gpu_sources; i++)
		if (strcmp(gpu_sources[i].op, op) == 0)
			return gpu_sources[i].sha256;
	return NULL;
}

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
