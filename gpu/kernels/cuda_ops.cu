/* The cuda backend: from a capture's op to its launcher. No header of kernels names an op, so that a new one makes no other's
 * captures stale. */
#include "gpu/host/backend.h"
#include "gpu/host/cuda.cuh"

#include <cstring>

/* Each runs its kernel on c's inputs, fills c's outputs and returns the kernel's name, a constant. */
const char *run_gated_delta_rule(capture &c);
const char *run_rmsnorm(capture &c);
const char *run_rope(capture &c);
const char *run_causal_conv1d(capture &c);
const char *run_newton_schulz(capture &c);
const char *run_muon_step(capture &c);
const char *run_mixed_batch(capture &c);
const char *run_qk_norm_rope(capture &c);
const char *run_rmsnorm_fp8(capture &c);
const char *run_gated_product(capture &c);
const char *run_ssd(capture &c);
const char *run_mamba3(capture &c);
const char *run_mamba3_mimo(capture &c);
const char *run_kda(capture &c);
const char *run_gdn2(capture &c);
const char *run_attention(capture &c);
const char *run_conv_ssd_norm(capture &c);

static const struct {
	const char *op;
	const char *(*run)(capture &);
} kernels[] = {
	{ "gated_delta_rule", run_gated_delta_rule },
	{ "rmsnorm", run_rmsnorm },
	{ "rope", run_rope },
	{ "causal_conv1d", run_causal_conv1d },
	{ "newton_schulz", run_newton_schulz },
	{ "muon_step", run_muon_step },
	{ "mixed_batch", run_mixed_batch },
	{ "qk_norm_rope", run_qk_norm_rope },
	{ "rmsnorm_fp8", run_rmsnorm_fp8 },
	{ "gated_product", run_gated_product },
	{ "ssd", run_ssd },
	{ "mamba3", run_mamba3 },
	{ "mamba3_mimo", run_mamba3_mimo },
	{ "kda", run_kda },
	{ "gdn2", run_gdn2 },
	{ "attention", run_attention },
	{ "conv_ssd_norm", run_conv_ssd_norm },
};

static void run_on_first_device(capture &c)
{
	for (const auto &k : kernels) {
		if (strcmp(k.op, c.op) != 0)
			continue;
		cudaDeviceProp device = first_device();
		const char *name = k.run(c);
		check(cudaDeviceSynchronize(), name);

		char producer[128];
		struct error e = {};
		snprintf(producer, sizeof producer, "etalon %s, CUDA %d.%d", name,
		         CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
		if (!backend_stamp(&c, producer, device.name, gpu_source_sha256(c.op), &e))
			throw e;
		return;
	}
	refuse(E_OP, c.op, "this op has no CUDA kernel");
}

bool cuda_run(struct capture *c, struct error *e)
{
	return caught(c->op, e, [&] { run_on_first_device(*c); });
}
