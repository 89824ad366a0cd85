/* Prefill in chunks on the device: the list of chunks, the records between its two kernels, the launches. Made for PARTS 1 and 2
 * in gated_delta_rule.cu alone: a kernel that two objects hold is two kernels, and what one is allowed the other is not. */
#ifndef ETALON_DELTA_CHUNK_LAUNCH_CUH
#define ETALON_DELTA_CHUNK_LAUNCH_CUH

#include "gpu/host/cuda.cuh"
#include "gpu/kernels/delta_carry.cuh"

namespace chunked {

/* What one call's kernels work on, all of it on the device. */
struct call_memory {
	const extent *extents;          /* [chunks], sequence by sequence */
	const int *firsts;              /* [sequences+1]: each sequence's first chunk */
	unsigned chunks, sequences;
	key_record *keys;               /* [chunks,Hk] */
	void *heads;                    /* [chunks,Hv] of head_record<PARTS> */
	places states;
};

/* Refuses with E_DIM what the kernels are not made for (Dk = Dv = D), and with E_DEVICE a device before sm_90. */
template <int PARTS> void make_ready(const rule &m);

/* The launches, after make_ready. q, k, v, o and states as in gated_delta_rule.cu; on the device, 16-byte aligned. */
template <int PARTS>
void enqueue(const rule &m, const call_memory &memory, const tokens<bf16> &x, const operand &initial, const result &final_state,
             cudaStream_t stream);

/* Sequences are cut where cuts [N+1] say, from 0 to the call's tokens. */
template <int PARTS> class prefill {
public:
	prefill(const rule &m, const std::vector<int64_t> &cuts);       /* refuses as make_ready does */
	void enqueue(const tokens<bf16> &x, const operand &initial, const result &final_state, cudaStream_t stream);

private:
	rule m_;
	std::vector<extent> extents_;
	std::vector<int> firsts_;
	buffer device_extents_, device_firsts_, keys_, heads_;
};

}
#endif
