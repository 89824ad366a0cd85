/* Prefill in chunks on the device: the list of chunks, the records between its two kernels, the launches. Made for PARTS 1 and 2
 * in gated_delta_rule.cu alone: a kernel that two objects hold is two kernels, and what one is allowed the other is not. */
#ifndef ETALON_DELTA_CHUNK_LAUNCH_CUH
#define ETALON_DELTA_CHUNK_LAUNCH_CUH

#include "gpu/host/cuda.cuh"
#include "gpu/kernels/delta_carry.cuh"

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

}
#endif
