/* Which backend a name means, and the sources of its kernels. */
#include "gpu/host/backend.h"
#include "gpu/host/nccl.h"

#include <string.h>

#include "gpu/executor/mixed_batch.h"

#include "gpu_sources.h"        /* gpu_sources[]: op and SHA-256, made at build time */

bool backend_run(const char *spec, struct capture *c, struct error *e)
{
	static const char prefix[] = "plugin:";
	size_t n = sizeof prefix - 1;

	if (strcmp(spec, "cuda") == 0)
		return cuda_run(c, e);
	if (strcmp(spec, "nccl") == 0)
		return nccl_run(c, e);
	if (strcmp(spec, "cpu") == 0)
		return mixed_batch_cpu(c, e);
	if (strncmp(spec, prefix, n) == 0 && spec[n])
		return plugin_run(spec + n, c, e);
	return error_set(e, E_USAGE, spec, NO_OFFSET, "a backend is cuda, nccl, cpu or plugin:LIB.so");
}

const char *gpu_source_sha256(const char *op)
{
	for (size_t i = 0; i < sizeof gpu_sources / sizeof *gpu_sources; i++)
		if (strcmp(gpu_sources[i].op, op) == 0)
			return gpu_sources[i].sha256;
	return NULL;
}
