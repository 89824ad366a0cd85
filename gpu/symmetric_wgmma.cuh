/* The symmetric product on Hopper (sm_90a), in f16 or bf16: the copy engine fills a ring of slices
 * in shared memory, warpgroups multiply from there, sums stay in their registers.
 *
 * Tiles of 64 GROUPS x BN: GROUPS warpgroups of 64 rows each, one warp more that asks for copies.
 * SPLIT blocks (a cluster) share a tile where tiles are too few to fill the device: each sums a
 * part of K, then adds up BN / SPLIT columns of all of them, in the order of the parts, and stores
 * those. The same call gives the same bits each time. */
#ifndef ETALON_SYMMETRIC_WGMMA_CUH
#define ETALON_SYMMETRIC_WGMMA_CUH

#include <cooperative_groups.h>

#include "gpu/hopper.cuh"
#include "gpu/symmetric.cuh"

namespace wgmma_form {

enum { DEPTH = 64, RING = 196608 };     /* a slice's columns; bytes of all slices */

template <class F, int GROUPS, int BN, int SPLIT> struct memory {
	static constexpr int BM = 64 * GROUPS, CONSUMERS = 128 * GROUPS, SUMS = BN / 2, PART = SUMS / SPLIT;
	static constexpr unsigned SLICE = (BM + BN) * DEPTH * sizeof(F);
	static constexpr int STAGES = RING / (int)SLICE;

	struct slice { F A[BM * DEPTH], B[BN * DEPTH]; };
	struct ending {
		float sums[SPLIT > 1 ? SUMS - PART : 1][CONSUMERS];     /* for the other blocks, in their order */
		staged_tile<F, BM, BN / SPLIT> out;
	};
	union {
		slice stage[STAGES];
		ending end;
	};
	uint64_t full[STAGES], empty[STAGES];
};

/* The consumers' own barrier. */
template <int THREADS> __device__ void sync_consumers() { asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory"); }

/* One thread: the slices [first, last) of the tile at `at`. */
template <class M>
__device__ void produce(M &m, const CUtensorMap &A, const CUtensorMap &B, corner at, int batch, int first, int last)
{
	for (int n = 0; n < last - first; n++) {
		int stage = n % M::STAGES, turn = n / M::STAGES;

		hopper::wait(m.empty[stage], (turn & 1) ^ 1);
		hopper::arrive_expecting(m.full[stage], M::SLICE);
		hopper::copy_box(m.stage[stage].A, A, (first + n) * DEPTH, at.row, batch, m.full[stage]);
		hopper::copy_box(m.stage[stage].B, B, (first + n) * DEPTH, at.column, batch, m.full[stage]);
	}
}

template <class F, class M> __device__ void consume(float (&sum)[M::SUMS], M &m, int group, int slices)
{
	hopper::hold(sum);
	for (int n = 0; n < slices; n++) {
		int stage = n % M::STAGES;
		uint64_t a = hopper::matrix_descriptor(m.stage[stage].A + group * 64 * DEPTH);
		uint64_t b = hopper::matrix_descriptor(m.stage[stage].B);

		hopper::wait(m.full[stage], n / M::STAGES & 1);
		hopper::products_begin();
#pragma unroll
		for (int k = 0; k < DEPTH / 16; k++)
			hopper::multiply<F>(sum, a + 2 * k, b + 2 * k);
		hopper::products_commit();
		hopper::products_wait<1>();     /* those of slice n - 1 are done */
		if (n > 0 && threadIdx.x % 32 == 0)
			hopper::arrive(m.empty[(n - 1) % M::STAGES]);
	}
	hopper::products_wait<0>();
	hopper::hold(sum);
}

/* Sums of columns that other blocks of the cluster store are laid out for them; the first PART
 * sums become this block's own, of columns [2 PART rank, 2 PART (rank + 1)). */
template <class M> __device__ void give_parts(float (&sum)[M::SUMS], M &m, int rank)
{
#pragma unroll
	for (int i = 0; i < M::SUMS; i++)
		if (i / M::PART != rank)
			m.end.sums[i / M::PART < rank ? i : i - M::PART][threadIdx.x] = sum[i];
#pragma unroll
	for (int r = 1; r < M::SUMS / M::PART; r++)
		if (r == rank)
#pragma unroll
			for (int i = 0; i < M::PART; i++)
				sum[i] = sum[r * M::PART + i];
}

/* Adds the other blocks' sums to this one's: the next block's, and so on round. */
template <class M> __device__ void take_parts(float (&sum)[M::SUMS], M &m, cooperative_groups::cluster_group cluster)
{
	constexpr int SPLIT = M::SUMS / M::PART;
	int rank = (int)cluster.block_rank();

#pragma unroll
	for (int r = 1; r < SPLIT; r++) {
		int other = (rank + r) % SPLIT;
		int place = (rank < other ? rank : rank - 1) * M::PART;
		const float *theirs = cluster.map_shared_rank(m.end.sums[place], other) + threadIdx.x;
#pragma unroll
		for (int i = 0; i < M::PART; i++)
			sum[i] += theirs[i * M::CONSUMERS];
	}
}

/* Grid: SPLIT, lower tiles, batch; clusters of SPLIT. */
template <class F, int GROUPS, int BN, int SPLIT>
__global__ void __launch_bounds__(128 * GROUPS + 32, 1)
symmetric_wgmma(const __grid_constant__ CUtensorMap A, const __grid_constant__ CUtensorMap B, symmetric_product<F> all)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	using M = memory<F, GROUPS, BN, SPLIT>;
	extern __shared__ char bytes[];
	M &m = *reinterpret_cast<M *>((reinterpret_cast<uintptr_t>(bytes) + 1023) & ~(uintptr_t)1023);
	corner at = lower_tile<M::BM, BN>((int)blockIdx.y, all.s);
	int slices = (all.K + DEPTH - 1) / DEPTH, rank = (int)blockIdx.x, thread = (int)threadIdx.x;
	int first = slices * rank / SPLIT, last = slices * (rank + 1) / SPLIT;
	bool consumer = thread < M::CONSUMERS;
	float sum[M::SUMS] = {};

	if (thread == 0) {
		for (int i = 0; i < M::STAGES; i++) {
			hopper::barrier_init(m.full[i], 1);
			hopper::barrier_init(m.empty[i], M::CONSUMERS / 32);
		}
		hopper::barrier_fence();
	}
	__syncthreads();
	hopper::wait_for_earlier_grid();
	hopper::let_later_grid_begin();
	if (consumer)
		consume<F>(sum, m, thread / 128, last - first);
	else if (thread == M::CONSUMERS)
		produce(m, A, B, at, (int)blockIdx.z, first, last);
	__syncwarp();
	auto cluster = cooperative_groups::this_cluster();
	if (!consumer) {
		if (SPLIT > 1) {        /* the copy warp has no sums, but the cluster waits for it */
			cluster.sync();
			cluster.sync();
		}
		return;
	}

	symmetric_product<F> p = one_of(all, blockIdx.z);
	int row = thread / 32 * 16 + thread % 32 / 4, column = thread % 4 * 2;
	pair<F> c[M::PART / 2];
	at.column += rank * BN / SPLIT;
	auto row_of = [&](int i) { return row + i % 4 / 2 * 8; };
	auto column_of = [&](int i) { return column + i / 4 * 8; };
	sync_consumers<M::CONSUMERS>();         /* the ring is no longer read */
	if (SPLIT > 1) {
		give_parts(sum, m, rank);
#pragma unroll
		for (int i = 0; i < M::PART; i += 2)    /* under way while the parts are added up */
			c[i / 2] = earlier(p, at.row + row_of(i), at.column + column_of(i));
		cluster.sync();
		take_parts(sum, m, cluster);
		cluster.barrier_arrive();
	}
#pragma unroll
	for (int i = 0; i < M::PART; i += 2) {
		int r = row_of(i), k = column_of(i);
		pair<F> before = SPLIT > 1 ? c[i / 2] : earlier(p, at.row + r, at.column + k);
		finish(p, at.row + r, at.column + k, before, sum[i], sum[i + 1]);
		m.end.out.put(r, k, sum[i], sum[i + 1]);
	}
	sync_consumers<M::CONSUMERS>();
	m.end.out.store(p, at, thread, M::CONSUMERS);
	__syncwarp();
	if (SPLIT > 1)
		cluster.barrier_wait();         /* until no block reads another's sums */
#else
	__trap();
#endif
}

/* ---- host ---- */

/* A grid's blocks may be placed, and wait, while the grid before it ends. */
inline bool overlap = true;

/* cuTensorMapEncodeTiled of the driver, NULL if it has none. */
inline decltype(&cuTensorMapEncodeTiled) map_encoder()
{
	static void *encode = [] {
		void *found = nullptr;
		cudaDriverEntryPointQueryResult result;

		cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result);
		return result == cudaDriverEntryPointSuccess ? found : nullptr;
	}();
	return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode);
}

/* Boxes of `rows` x DEPTH of the matrices X [batch,s,K]; zeros are read beyond them. */
template <class F> bool make_map(CUtensorMap &map, const F *X, const symmetric_product<F> &p, int rows)
{
	cuuint64_t sizes[] = { (cuuint64_t)p.K, (cuuint64_t)p.s, (cuuint64_t)p.batch };
	cuuint64_t strides[] = { p.ld_in * sizeof(F), (cuuint64_t)p.s * p.ld_in * sizeof(F) };
	cuuint32_t box[] = { DEPTH, (cuuint32_t)rows, 1 }, steps[] = { 1, 1, 1 };

	return map_encoder()(&map, std::is_same_v<F, f16> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 3,
		const_cast<F *>(X), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
		CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int GROUPS, int BN, int SPLIT, class F> cudaError_t launch_symmetric(const symmetric_product<F> &p, cudaStream_t stream)
{
	using M = memory<F, GROUPS, BN, SPLIT>;
	auto kernel = symmetric_wgmma<F, GROUPS, BN, SPLIT>;
	int bytes = sizeof(M) + 1023;
	CUtensorMap A, B;
	cudaLaunchAttribute attributes[2] = {};
	cudaLaunchConfig_t config = {};

	if (!make_map(A, p.A, p, M::BM) || !make_map(B, p.B, p, BN))
		return cudaErrorInvalidValue;
	cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
	if (status != cudaSuccess)
		return status;
	attributes[0].id = cudaLaunchAttributeClusterDimension;
	attributes[0].val.clusterDim = { SPLIT, 1, 1 };
	attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
	attributes[1].val.programmaticStreamSerializationAllowed = 1;
	config.gridDim = dim3(SPLIT, lower_tiles<M::BM, BN>(p.s), p.batch);
	config.blockDim = dim3(M::CONSUMERS + 32);
	config.dynamicSmemBytes = bytes;
	config.stream = stream;
	config.attrs = attributes;
	config.numAttrs = overlap ? 2 : 1;
	return cudaLaunchKernelEx(&config, kernel, A, B, p);
}

}
#endif
