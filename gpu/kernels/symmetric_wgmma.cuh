/* The symmetric product on Hopper (sm_90a), in f16 or bf16: the copy engine fills a ring of slices
 * in shared memory, warpgroups multiply from there, sums stay in their registers.
 *
 * Tiles of 64 GROUPS x BN: GROUPS warpgroups of 64 rows each, one warp more that asks for copies.
 * C's tile is copied while the last slices are multiplied and becomes D's where it lies. The main
 * loop takes what the tensor cores do (128 x 144: 591 cycles a slice of 576, on an H200), so a
 * tile's shape is chosen to fill the multiprocessors: 2048 rows are 128 tiles of 128 x 144. */
#ifndef ETALON_SYMMETRIC_WGMMA_CUH
#define ETALON_SYMMETRIC_WGMMA_CUH

#include "gpu/device/hopper.cuh"
#include "gpu/kernels/symmetric.cuh"

namespace wgmma_form {

enum { DEPTH = 64 };     /* a slice's columns */

template <class F, int GROUPS, int BN, int RING> struct memory {
	static constexpr int BM = 64 * GROUPS, CONSUMERS = 128 * GROUPS, SUMS = BN / 2, STAGES = RING;
	static constexpr unsigned SLICE = (BM + BN) * DEPTH * sizeof(F);

	struct slice { F A[BM * DEPTH], B[BN * DEPTH]; };
	union {
		slice stage[STAGES];
		tile<F, BN, BM> turned;         /* D */
		struct { slice before[STAGES - 1]; tile<F, BM, BN> straight; };         /* C, then D */
	};
	uint64_t full[STAGES], empty[STAGES], earlier;
	static_assert(sizeof turned <= sizeof before);
};

/* Where a slice is, and how often (mod 2) that stage was filled before: slice after slice round the
 * ring, begun so that the last stage is the first that is free at the end. */
template <class M> struct place {
	int first, stage, turn = 0;

	__device__ place(int slices) : first(M::STAGES - 1 - slices % M::STAGES), stage(first) {}
	__device__ void next()
	{
		stage = stage + 1 == M::STAGES ? 0 : stage + 1;
		turn ^= stage == first;
	}
};

/* The consumers' own barrier. */
template <int THREADS> __device__ void sync_consumers() { asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory"); }

struct maps { CUtensorMap A, B, C; };

/* One thread: the slices of the tile at `at`, then C's. */
template <class M> __device__ void produce(M &m, const maps &of, corner at, int batch, int slices, bool earlier)
{
	place<M> at_n(slices);

	for (int n = 0; n < slices; n++, at_n.next()) {
		auto &slice = m.stage[at_n.stage];
		uint64_t &full = m.full[at_n.stage];

		hopper::wait(m.empty[at_n.stage], at_n.turn ^ 1);
		hopper::arrive_expecting(full, M::SLICE);
		hopper::copy_box(slice.A, of.A, n * DEPTH, at.row, batch, full);
		hopper::copy_box(slice.B, of.B, n * DEPTH, at.column, batch, full);
	}
	if (earlier) {
		hopper::wait(m.empty[M::STAGES - 1], (slices / M::STAGES & 1) ^ 1);
		hopper::arrive_expecting(m.earlier, sizeof m.straight);
		hopper::copy_box(&m.straight, of.C, at.column, at.row, batch, m.earlier);
	}
}

template <class F, class M> __device__ void consume(float (&sum)[M::SUMS], M &m, int group, int slices)
{
	place<M> at_n(slices);
	uint64_t *before = nullptr;

	hopper::hold(sum);
	for (int n = 0; n < slices; n++, at_n.next()) {
		unsigned a = hopper::matrix_place(m.stage[at_n.stage].A + group * 64 * DEPTH);
		unsigned b = hopper::matrix_place(m.stage[at_n.stage].B);

		hopper::wait(m.full[at_n.stage], at_n.turn);
		hopper::products_begin();
#pragma unroll
		for (int k = 0; k < DEPTH / 16; k++)
			hopper::multiply<F>(sum, a + 2 * k, b + 2 * k);
		hopper::products_commit();
		hopper::products_wait<1>();     /* those of the slice before are done */
		if (before && threadIdx.x % 32 == 0)
			hopper::arrive(*before);
		before = &m.empty[at_n.stage];
	}
	hopper::products_wait<0>();
	hopper::hold(sum);
}

/* A warp's 16 rows of sums from row `rows` of the tile to D's values, straight and turned. */
template <class F, class M>
__device__ void finish_rows(const symmetric_product<F> &p, corner at, M &m, float (&sum)[M::SUMS], int rows, int lane)
{
	int row = at.row + rows + lane / 4, column = at.column + lane % 4 * 2;
	auto place = [&](int j) { return &m.straight.at[rows + lane % 16][8 * j]; };

#pragma unroll
	for (int i = 0; i < M::SUMS; i++)
		sum[i] *= p.alpha;
	if (p.C)
#pragma unroll
		for (int j = 0; j < M::SUMS / 4; j++) {
			pair<F> earlier[2];
			hopper::load_matrices(reinterpret_cast<unsigned (&)[2]>(earlier), place(j));
#pragma unroll
			for (int half = 0; half < 2; half++) {
				sum[4 * j + 2 * half] += p.beta * to_float(earlier[half].x);
				sum[4 * j + 2 * half + 1] += p.beta * to_float(earlier[half].y);
			}
		}
	if (p.diagonal != 0)
#pragma unroll
		for (int i = 0; i < M::SUMS; i++)
			if (row + i % 4 / 2 * 8 == column + i / 4 * 8 + i % 2 && row + i % 4 / 2 * 8 < p.s)
				sum[i] += p.diagonal;
#pragma unroll
	for (int j = 0; j < M::SUMS / 4; j++) {
		pair<F> value[2];
#pragma unroll
		for (int half = 0; half < 2; half++) {
			from_float(value[half].x, sum[4 * j + 2 * half]);
			from_float(value[half].y, sum[4 * j + 2 * half + 1]);
		}
		auto &bits = reinterpret_cast<const unsigned (&)[2]>(value);
		hopper::store_matrices(place(j), bits);
		hopper::store_turned(&m.turned.at[8 * j + lane % 8][rows + lane / 8 % 2 * 8], bits);
	}
}

/* Grid: lower tiles, batch. */
template <class F, int GROUPS, int BN, int RING> __global__ void __launch_bounds__(128 * GROUPS + 32, 1)
symmetric_wgmma(const __grid_constant__ maps of, symmetric_product<F> all)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	using M = memory<F, GROUPS, BN, RING>;
	extern __shared__ char bytes[];
	M &m = *reinterpret_cast<M *>((reinterpret_cast<uintptr_t>(bytes) + 1023) & ~(uintptr_t)1023);
	int slices = (all.K + DEPTH - 1) / DEPTH, thread = (int)threadIdx.x;
	bool consumer = thread < M::CONSUMERS;
	float sum[M::SUMS] = {};

	if (thread == M::CONSUMERS) {
		for (const CUtensorMap *map : { &of.A, &of.B, &of.C })
			hopper::prefetch_map(*map);
		for (int i = 0; i < M::STAGES; i++) {
			hopper::barrier_init(m.full[i], 1);
			hopper::barrier_init(m.empty[i], M::CONSUMERS / 32);
		}
		hopper::barrier_init(m.earlier, 1);
		hopper::barrier_fence();
	}
	corner at = lower_tile<M::BM, BN>((int)blockIdx.x, all.s);
	__syncthreads();
	hopper::wait_for_earlier_grid();
	hopper::let_later_grid_begin();
	if (!consumer) {
		if (thread == M::CONSUMERS)
			produce(m, of, at, (int)blockIdx.y, slices, all.C != nullptr);
		return;
	}
	consume<F>(sum, m, thread / 128, slices);
	if (all.C)
		hopper::wait(m.earlier, 0);
	sync_consumers<M::CONSUMERS>();         /* the ring is no longer read */
	symmetric_product<F> p = one_of(all, blockIdx.y);
	int rows = thread / 32 * 16, lane = thread % 32;
	finish_rows(p, at, m, sum, rows, lane);
	__syncwarp();
	store_rows<false, 32, 16>(p, at, m.straight, rows, lane);
	sync_consumers<M::CONSUMERS>();
	store_rows<true, M::CONSUMERS, BN>(p, { at.column, at.row }, m.turned, 0, thread);
	if (thread < M::BM)
		store_crossing(p, at, m.straight, m.turned, thread);
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

/* Boxes of rows x columns of matrices X [batch,s,width] with rows of ld; zeros are read beyond them. */
template <class F>
bool make_map(CUtensorMap &map, const F *X, int batch, int s, int width, int ld, int rows, int columns,
              CUtensorMapSwizzle swizzle)
{
	cuuint64_t sizes[] = { (cuuint64_t)width, (cuuint64_t)s, (cuuint64_t)batch };
	cuuint64_t strides[] = { ld * sizeof(F), (cuuint64_t)s * ld * sizeof(F) };
	cuuint32_t box[] = { (cuuint32_t)columns, (cuuint32_t)rows, 1 }, steps[] = { 1, 1, 1 };

	constexpr auto type = std::is_same_v<F, f16> ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;

	return map_encoder()(&map, type, 3, const_cast<F *>(X), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
		CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <int GROUPS, int BN, int RING, class F> cudaError_t launch_symmetric(const symmetric_product<F> &p, cudaStream_t stream)
{
	using M = memory<F, GROUPS, BN, RING>;
	auto kernel = symmetric_wgmma<F, GROUPS, BN, RING>;
	int bytes = sizeof(M) + 1023, pitch = tile<F, M::BM, BN>::PITCH;
	maps of;
	cudaLaunchAttribute overlapping = {};
	cudaLaunchConfig_t config = {};

	if (!make_map(of.A, p.A, p.batch, p.s, p.K, p.ld_in, M::BM, DEPTH, CU_TENSOR_MAP_SWIZZLE_128B) ||
	    !make_map(of.B, p.B, p.batch, p.s, p.K, p.ld_in, BN, DEPTH, CU_TENSOR_MAP_SWIZZLE_128B) ||
	    !make_map(of.C, p.C ? p.C : p.D, p.batch, p.s, p.s, p.ld, M::BM, pitch, CU_TENSOR_MAP_SWIZZLE_NONE))
		return cudaErrorInvalidValue;
	cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
	if (status != cudaSuccess)
		return status;
	overlapping.id = cudaLaunchAttributeProgrammaticStreamSerialization;
	overlapping.val.programmaticStreamSerializationAllowed = 1;
	config.gridDim = dim3(lower_tiles<M::BM, BN>(p.s), p.batch);
	config.blockDim = dim3(M::CONSUMERS + 32);
	config.dynamicSmemBytes = bytes;
	config.stream = stream;
	config.attrs = &overlapping;
	config.numAttrs = overlap ? 1 : 0;
	return cudaLaunchKernelEx(&config, kernel, of, p);
}

}
#endif
