/* The gated delta rule in chunks on tensor cores, second part: the state, chunk after chunk (see delta_chunk.cuh).
 *
 *   V = U - W S,   o_i = scale (e^G_i S'q_i + sum_{j<=i} P_ij V_j),   S <- e^G_L S + sum_i k_i (e^(G_L - G_i) V_i)'.
 *
 * Columns of S are independent: a warp keeps sixteen of them, turned, as the sums of its products. As such they have the order of
 * an operand of the next product, and so has V: nothing that depends on the state leaves a warp's registers. What four warps of
 * a block share is read from shared memory, where the records of the chunks ahead arrive by bulk copies.
 *
 * Sums of a product's smaller parts run apart from those of the largest and join them at the end; S is updated in f32. */
#ifndef ETALON_DELTA_CARRY_CUH
#define ETALON_DELTA_CARRY_CUH

#include "gpu/delta_chunk.cuh"
#include "gpu/hopper.cuh"

namespace chunked {

enum { COLUMNS = 16 * WARPS, SLICES = D / COLUMNS };

/* What a block needs of a chunk. */
template <int PARTS> struct alignas(128) arrived {
	key_record keys;
	struct alignas(128) { uint4 W[PARTS][BLOCKS][STEPS][32], P[PARTS][LOWER][32]; float read[CHUNK], write[CHUNK], end[4]; } head;
	uint4 U[WARPS][PARTS == 1 ? BLOCKS : 2 * BLOCKS][32];
};

template <int PARTS> struct ring {
	enum { STAGES = PARTS == 1 ? 3 : 2 };
	arrived<PARTS> stage[STAGES];
	uint64_t full[STAGES];
};

template <int PARTS>
__device__ void fetch(ring<PARTS> &to, int n, const key_record &keys, const head_record<PARTS> &head, int slice)
{
	arrived<PARTS> &stage = to.stage[n % ring<PARTS>::STAGES];
	uint64_t &full = to.full[n % ring<PARTS>::STAGES];
	constexpr unsigned fixed = offsetof(head_record<PARTS>, U);

	static_assert(fixed <= sizeof stage.head && offsetof(head_record<PARTS>, end) + 16 == fixed, "one run");
	hopper::arrive_expecting(full, sizeof stage.keys + fixed + sizeof stage.U);
	hopper::copy_run(&stage.keys, &keys, sizeof keys, full);
	hopper::copy_run(&stage.head, &head, fixed, full);
	hopper::copy_run(stage.U, head.U[slice * WARPS], sizeof stage.U, full);
}

/* Sums x and y of neighbouring tiles [16,8] as parts of a [16,16]. */
template <int PARTS> __device__ void as_a(unsigned (&a)[PARTS][4], const float (&x)[4], const float (&y)[4])
{
	unsigned part[4][PARTS];

	split(part[0], x[0], x[1]);
	split(part[1], x[2], x[3]);
	split(part[2], y[0], y[1]);
	split(part[3], y[2], y[3]);
#pragma unroll
	for (int p = 0; p < PARTS; p++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			a[p][i] = part[i][p];
}

/* Two tiles' sums += a b'. */
__device__ inline void multiply_pair(float (&x)[4], float (&y)[4], const unsigned (&a)[4], const uint4 &b)
{
	mma_form::multiply(x, a, b.x, b.y, bf16{});
	mma_form::multiply(y, a, b.z, b.w, bf16{});
}

/* V = U - W S and O = q S, turned. */
template <int PARTS>
__device__ void read_state(float (&V)[2 * BLOCKS][4], float (&O)[2 * BLOCKS][4], const float (&S)[D / 8][4],
                           const arrived<PARTS> &x, int warp, int lane)
{
	float small[PARTS > 1 ? 2 * BLOCKS : 1][4] = {};

#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			V[n][e] = O[n][e] = 0.0f;
#pragma unroll
	for (int j = 0; j < STEPS; j++) {
		unsigned a[PARTS][4];
		as_a(a, S[2 * j], S[2 * j + 1]);
#pragma unroll
		for (int m = 0; m < BLOCKS; m++) {
			uint4 q = x.keys.q[m][j][lane];
#pragma unroll
			for (int p = 0; p < PARTS; p++) {
				uint4 w = x.head.W[p][m][j][lane];
				multiply_pair(O[2 * m], O[2 * m + 1], a[p], q);
#pragma unroll
				for (int i = 0; i + p < PARTS; i++) {
					auto &to = *(i + p ? &small[PARTS > 1 ? 2 * m : 0] : &V[2 * m]);
					auto &next = *(i + p ? &small[PARTS > 1 ? 2 * m + 1 : 0] : &V[2 * m + 1]);
					multiply_pair(to, next, a[i], w);
				}
			}
		}
	}
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++) {
		float u[4];
		if constexpr (PARTS == 1) {
			const unsigned *packed = reinterpret_cast<const unsigned *>(&x.U[warp][n / 2][lane]);
#pragma unroll
			for (int e = 0; e < 2; e++) {           /* store_split's order: x01 y01 x23 y23 */
				unsigned two = packed[2 * e + n % 2];
				u[2 * e] = __uint_as_float(two << 16);
				u[2 * e + 1] = __uint_as_float(two & 0xffff0000u);
			}
		} else {
			load(u, reinterpret_cast<const float *>(&x.U[warp][n][lane]));
		}
#pragma unroll
		for (int e = 0; e < 4; e++)
			V[n][e] = u[e] - (PARTS > 1 ? V[n][e] + small[PARTS > 1 ? n : 0][e] : V[n][e]);
	}
}

/* O = scale (read O + P V), turned. */
template <int PARTS>
__device__ void attend(float (&O)[2 * BLOCKS][4], const float (&V)[2 * BLOCKS][4], const arrived<PARTS> &x, float scale, int lane)
{
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++) {
		float2 read = *reinterpret_cast<const float2 *>(&x.head.read[8 * n + lane % 4 * 2]);
#pragma unroll
		for (int e = 0; e < 4; e++)
			O[n][e] *= e % 2 ? read.y : read.x;
	}
#pragma unroll
	for (int s = 0; s < BLOCKS; s++) {
		unsigned a[PARTS][4];
		as_a(a, V[2 * s], V[2 * s + 1]);
#pragma unroll
		for (int m = s; m < BLOCKS; m++)
#pragma unroll
			for (int p = PARTS - 1; p >= 0; p--) {
				uint4 b = x.head.P[p][lower_block(m, s)][lane];
#pragma unroll
				for (int i = PARTS - 1 - p; i >= 0; i--)
					multiply_pair(O[2 * m], O[2 * m + 1], a[i], b);
			}
	}
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			O[n][e] *= scale;
}

/* o [T,Hv,D] from row `to`, of which a lane has columns 2(lane%4) + {0,1,8,9} of tokens 8n + lane/4. */
__device__ inline void store_outputs(bf16 *to, size_t row_stride, const float (&O)[2 * BLOCKS][4], int length, int lane)
{
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++) {
		int t = 8 * n + lane / 4;
		unsigned low[1], high[1];
		split(low, O[n][0], O[n][1]);
		split(high, O[n][2], O[n][3]);
		low[0] = mma_form::turned(low[0]);
		high[0] = mma_form::turned(high[0]);
		bf16 *row = to + t * row_stride + lane % 4 * 2;
		if (t < length) {
			*reinterpret_cast<unsigned *>(row) = low[0];
			*reinterpret_cast<unsigned *>(row + 8) = high[0];
		}
	}
}

/* S <- end S + sum_i k_i (write_i V_i)', turned; small products first. */
template <int PARTS>
__device__ void write_state(float (&S)[D / 8][4], float (&V)[2 * BLOCKS][4], const arrived<PARTS> &x, int lane)
{
	unsigned a[BLOCKS][PARTS][4];
	float end = x.head.end[0];

#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++) {
		float2 write = *reinterpret_cast<const float2 *>(&x.head.write[8 * n + lane % 4 * 2]);
#pragma unroll
		for (int e = 0; e < 4; e++)
			V[n][e] *= e % 2 ? write.y : write.x;
	}
#pragma unroll
	for (int s = 0; s < BLOCKS; s++)
		as_a(a[s], V[2 * s], V[2 * s + 1]);
#pragma unroll
	for (int j = 0; j < STEPS; j++) {
		float sum[2][4] = {};
		uint4 k[BLOCKS];
#pragma unroll
		for (int s = 0; s < BLOCKS; s++)
			k[s] = x.keys.k[s][j][lane];
#pragma unroll
		for (int p = PARTS - 1; p >= 0; p--)
#pragma unroll
			for (int s = 0; s < BLOCKS; s++)
				multiply_pair(sum[0], sum[1], a[s][p], k[s]);
#pragma unroll
		for (int n = 0; n < 2; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				S[2 * j + n][e] = fmaf(end, S[2 * j + n][e], sum[n][e]);
	}
}

/* Element e of tile n of the turned state: row dk, column dv of [D,D]. */
__device__ inline size_t state_at(int n, int e, int first_column, int lane)
{
	return (size_t)(8 * n + lane % 4 * 2 + e % 2) * D + first_column + e / 2 * 8 + lane / 4;
}

/* Grid: sequences x value heads x slices. Chunks [firsts[n], firsts[n+1]) are sequence n's; initial.data NULL: zeros. */
template <int PARTS> __global__ void __launch_bounds__(WARPS * 32, 1)
delta_carry(rule m, tokens<bf16> all, const extent *extents, const int *firsts, const key_record *keys,
            const head_record<PARTS> *heads, operand initial, result final_state)
{
	extern __shared__ __align__(128) char bytes[];
	ring<PARTS> &r = *reinterpret_cast<ring<PARTS> *>(bytes);
	constexpr int STAGES = ring<PARTS>::STAGES;
	int h = (int)blockIdx.y, hk = h / (m.Hv / m.Hk), slice = (int)blockIdx.z;
	int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, column = (slice * WARPS + warp) * 16;
	int first = firsts[blockIdx.x], count = firsts[blockIdx.x + 1] - first;
	size_t state = ((size_t)blockIdx.x * m.Hv + h) * D * D;
	float S[D / 8][4];
	auto fetch_chunk = [&](int n) {
		fetch(r, n, keys[(size_t)(first + n) * m.Hk + hk], heads[(size_t)(first + n) * m.Hv + h], slice);
	};

	if (threadIdx.x == 0) {
		for (int n = 0; n < STAGES; n++)
			hopper::barrier_init(r.full[n], 1);
		hopper::barrier_fence();
		for (int n = 0; n < STAGES && n < count; n++)
			fetch_chunk(n);
	}
#pragma unroll
	for (int n = 0; n < D / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			S[n][e] = initial.data ? initial.at(state + state_at(n, e, column, lane)) : 0.0f;
	__syncthreads();
	for (int n = 0; n < count; n++) {
		float V[2 * BLOCKS][4], O[2 * BLOCKS][4];
		extent tokens_of = extents[first + n];
		const arrived<PARTS> &x = r.stage[n % STAGES];
		hopper::wait(r.full[n % STAGES], n / STAGES & 1);
		read_state(V, O, S, x, warp, lane);
		attend(O, V, x, m.scale, lane);
		store_outputs(all.o + ((size_t)tokens_of.start * m.Hv + h) * D + column, (size_t)m.Hv * D, O, tokens_of.length, lane);
		write_state(S, V, x, lane);
		__syncthreads();        /* all are done with chunk n */
		if (threadIdx.x == 0 && n + STAGES < count)
			fetch_chunk(n + STAGES);
	}
#pragma unroll
	for (int n = 0; n < D / 8 && final_state.data; n++)
#pragma unroll
		for (int e = 0; e < 4; e++) {
			size_t at = state + state_at(n, e, column, lane);
			if (final_state.dtype == DT_BF16)
				from_float(static_cast<bf16 *>(final_state.data)[at], S[n][e]);
			else
				static_cast<float *>(final_state.data)[at] = S[n][e];
		}
}

}
#endif
