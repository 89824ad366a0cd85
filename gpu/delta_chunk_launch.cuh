/* Prefill in chunks on the device: the list of chunks, the records between its two kernels, the launches. */
#ifndef ETALON_DELTA_CHUNK_LAUNCH_CUH
#define ETALON_DELTA_CHUNK_LAUNCH_CUH

#include <algorithm>

#include "gpu/cuda.cuh"
#include "gpu/delta_carry.cuh"

namespace chunked {

/* Sequences are cut where cuts [N+1] say, from 0 to the call's tokens. */
template <int PARTS> class prefill {
public:
	/* Sizes of m: Dk = Dv = D. Refuses with E_DIM others, and with E_DEVICE a device before sm_90. */
	prefill(const rule &m, const std::vector<int64_t> &cuts);

	/* q, k, v, o and states as in gated_delta_rule.cu; on the device, 16-byte aligned. */
	void enqueue(const tokens<bf16> &x, const operand &initial, const result &final_state, cudaStream_t stream);

private:
	rule m_;
	std::vector<extent> extents_;
	std::vector<int> firsts_;
	buffer device_extents_, device_firsts_, keys_, heads_;
};

template <int PARTS> prefill<PARTS>::prefill(const rule &m, const std::vector<int64_t> &cuts) : m_(m), firsts_(1, 0)
{
	int device = 0, major = 0;

	if (m.Dk != D || m.Dv != D)
		refuse(E_DIM, "Dk, Dv", "%d, %d; the chunked kernel has heads of %d", m.Dk, m.Dv, D);
	check(cudaGetDevice(&device), "device");
	check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "device");
	if (major < 9)
		refuse(E_DEVICE, nullptr, "the chunked kernel needs compute capability 9.0");
	for (size_t n = 0; n + 1 < cuts.size(); n++) {
		for (int64_t t = cuts[n]; t < cuts[n + 1]; t += CHUNK)
			extents_.push_back({ t, (int)std::min<int64_t>(CHUNK, cuts[n + 1] - t) });
		firsts_.push_back(small(extents_.size(), "chunks"));
	}
	device_extents_ = uploaded(extents_);
	device_firsts_ = uploaded(firsts_);
	keys_ = buffer(extents_.size() * m.Hk * sizeof(key_record));
	heads_ = buffer(extents_.size() * m.Hv * sizeof(head_record<PARTS>));
	check(cudaFuncSetAttribute(delta_chunks<PARTS>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(workspace)), "delta_chunks");
	check(cudaFuncSetAttribute(delta_carry<PARTS>, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof(ring<PARTS>)), "delta_carry");
}

template <int PARTS>
void prefill<PARTS>::enqueue(const tokens<bf16> &x, const operand &initial, const result &final_state, cudaStream_t stream)
{
	dim3 chunks((unsigned)extents_.size(), (unsigned)m_.Hv), slices((unsigned)firsts_.size() - 1, (unsigned)m_.Hv, SLICES);

	if (chunks.x)
		launch_on(stream, "delta_chunks", delta_chunks<PARTS>, chunks, WARPS * 32, sizeof(workspace), m_, x,
		          device_extents_.as<const extent>(), keys_.as<key_record>(), heads_.as<head_record<PARTS>>());
	launch_on(stream, "delta_carry", delta_carry<PARTS>, slices, WARPS * 32, sizeof(ring<PARTS>), m_, x,
	          device_extents_.as<const extent>(), device_firsts_.as<const int>(), keys_.as<const key_record>(),
	          heads_.as<const head_record<PARTS>>(), initial, final_state);
}

}
#endif
