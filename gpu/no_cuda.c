/* The cuda backend of a build without nvcc: it says so. */
#include "gpu/host/backend.h"
#include "gpu/host/nccl.h"
#include "gpu/executor/executor.h"
#include "gpu/engine/model.h"

static bool absent(const char *item, struct error *e)
{
	return error_set(e, E_NO_BACKEND, item, NO_OFFSET,
	                 "this etalon was built without nvcc and has no kernels; install the CUDA Toolkit,"
	                 " put nvcc into PATH and build again, or give --backend plugin:LIB.so");
}

bool cuda_run(struct capture *c, struct error *e) { return absent(c->op, e); }

bool nccl_run(struct capture *c, struct error *e) { return absent(c->op, e); }

const struct executor_backend *executor_cuda(struct error *e)
{
	absent("cuda", e);
	return NULL;
}

bool engine_run(const char *folder, const struct tensor *ids, size_t decoded, struct tensors *dump, struct engine_times *times,
	struct error *e)
{
	(void)ids, (void)decoded, (void)times;
	*dump = (struct tensors){ 0 };
	return absent(folder, e);
}
