/* The gated delta rule in chunks on tensor cores, second part: the state, chunk after chunk (see delta_chunk.cuh).
 *
 *   V = U - W S,   o_i = scale (e^G_i S'q_i + sum_{j<=i} P_ij V_j),   S <- e^G_L S + sum_i k_i (e^(G_L - G_i) V_i)'.
 *
 * Columns of S are independent: a warpgroup keeps 64 of them, turned, as the sums of its products, a warp sixteen. As such they
 * have the order of an operand of the next product, and so has V: nothing that depends on the state leaves a warp's registers.
 * The other operands lie in shared memory, where the records of the chunks ahead arrive by bulk copies.
 *
 * Products of smaller parts are summed first; S is updated in f32. */
#ifndef ETALON_DELTA_CARRY_CUH
#define ETALON_DELTA_CARRY_CUH

#include "gpu/kernels/delta_chunk.cuh"
#include "gpu/device/hopper.cuh"

namespace chunked {

enum { COLUMNS = 16 * WARPS, SLICES = D / COLUMNS };

/* What a block needs of a chunk. */
template <int PARTS> struct alignas(128) arrived {
	key_record keys;
	block W[PARTS][STEPS][BLOCKS], P[PARTS][BLOCKS][BLOCKS];      /* P [.,s,m]: zeros where m < s */
	float read[CHUNK], write[CHUNK], end[4];
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
	constexpr unsigned factors = sizeof head.read + sizeof head.write + sizeof head.end;

	hopper::arrive_expecting(full, sizeof keys + sizeof head.W + sizeof head.P + factors + sizeof stage.U);
	hopper::copy_run(&stage.keys, &keys, sizeof keys, full);
	hopper::copy_run(stage.W, head.W, sizeof head.W, full);
	hopper::copy_run(stage.U, head.U[slice * WARPS], sizeof stage.U, full);
	hopper::copy_run(stage.read, head.read, factors, full);
	for (int p = 0; p < PARTS; p++)
		for (int s = 0; s < BLOCKS; s++)
			hopper::copy_run(stage.P[p][s][s], head.P[p][lower_block(s, s)], (BLOCKS - s) * sizeof(block), full);
}

/* The blocks of P that no copy fills. */
template <int PARTS> __device__ void clear_upper(ring<PARTS> &r)
{
	for (auto &stage : r.stage)
		for (auto &P : stage.P)
			for (int s = 0; s < BLOCKS; s++)
				for (int i = (int)threadIdx.x; i < s * (int)(sizeof(block) / 4); i += WARPS * 32)
					P[s][0][0][i] = 0;
	hopper::shared_fence();
}

/* Tiles as wgmma names their elements. */
template <int TILES> __device__ float (&flat(float (&x)[TILES][4]))[4 * TILES] { return reinterpret_cast<float (&)[4 * TILES]>(x); }

/* Part p of tiles of which the parts before p are known. */
template <int PARTS, int N, int TILES> __device__ void next_part(unsigned (&a)[PARTS][N][4], int p, const float (&x)[TILES][4])
{
#pragma unroll
	for (int n = 0; n < N; n++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float low = x[2 * n + i / 2][i % 2 * 2], high = x[2 * n + i / 2][i % 2 * 2 + 1];
#pragma unroll
			for (int before = 0; before < p; before++) {
				low -= __uint_as_float(a[before][n][i] << 16);
				high -= __uint_as_float(a[before][n][i] & 0xffff0000u);
			}
			a[p][n][i] = pair(low, high);
		}
}

/* Issues V = W S and O = q S, turned, while S is split: its parts up to p go with W's part PARTS - 1 - p. V is done when all
 * groups but one are. */
template <int PARTS>
__device__ void read_state(float (&V)[2 * BLOCKS][4], float (&O)[2 * BLOCKS][4], unsigned (&parts)[PARTS][STEPS][4],
                           const float (&S)[D / 8][4], const arrived<PARTS> &x)
{
#pragma unroll
	for (int last = 0; last < PARTS; last++) {
		next_part(parts, last, S);
		hopper::products_begin();
#pragma unroll
		for (int p = last; p >= 0; p--)
#pragma unroll
			for (int j = 0; j < STEPS; j++)
				hopper::multiply(flat(V), parts[p][j], hopper::matrices_descriptor(x.W[PARTS - 1 - last][j]), last || j);
		hopper::products_commit();
#pragma unroll
		for (int j = 0; j < STEPS; j++)
			hopper::multiply(flat(O), parts[last][j], hopper::matrices_descriptor(x.keys.q[j]), last || j);
		hopper::products_commit();
	}
}

/* V = U - V */
template <int PARTS> __device__ void subtract_from_U(float (&V)[2 * BLOCKS][4], const arrived<PARTS> &x, int warp, int lane)
{
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++) {
		float u[4];
		if constexpr (PARTS == 1) {
			const unsigned *packed = reinterpret_cast<const unsigned *>(&x.U[warp][n / 2][lane]);
#pragma unroll
			for (int e = 0; e < 2; e++) {           /* x01 y01 x23 y23 of tiles x and y */
				unsigned two = packed[2 * e + n % 2];
				u[2 * e] = __uint_as_float(two << 16);
				u[2 * e + 1] = __uint_as_float(two & 0xffff0000u);
			}
		} else {
			load(u, reinterpret_cast<const float *>(&x.U[warp][n][lane]));
		}
#pragma unroll
		for (int e = 0; e < 4; e++)
			V[n][e] = u[e] - V[n][e];
	}
}

/* x_i factor_i of tokens i, turned. */
__device__ inline void scale_tokens(float (&x)[2 * BLOCKS][4], const float *factor, int lane)
{
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++) {
		float2 two = *reinterpret_cast<const float2 *>(&factor[8 * n + lane % 4 * 2]);
#pragma unroll
		for (int e = 0; e < 4; e++)
			x[n][e] *= e % 2 ? two.y : two.x;
	}
}

/* Issues O += P V, turned. */
template <int PARTS>
__device__ void attend(float (&O)[2 * BLOCKS][4], const unsigned (&V)[PARTS][BLOCKS][4], const arrived<PARTS> &x)
{
	hopper::products_begin();
#pragma unroll
	for (int order = PARTS - 1; order >= 0; order--)
#pragma unroll
		for (int p = order; p >= 0; p--)
#pragma unroll
			for (int s = 0; s < BLOCKS; s++)
				hopper::multiply(flat(O), V[p][s], hopper::matrices_descriptor(x.P[order - p][s]), 1);
	hopper::products_commit();
}

/* Issues sum = sum_i k_i V_i', turned. */
template <int PARTS>
__device__ void write_sum(float (&sum)[D / 8][4], const unsigned (&V)[PARTS][BLOCKS][4], const arrived<PARTS> &x)
{
	hopper::products_begin();
#pragma unroll
	for (int p = PARTS - 1; p >= 0; p--)
#pragma unroll
		for (int s = 0; s < BLOCKS; s++)
			hopper::multiply(flat(sum), V[p][s], hopper::matrices_descriptor(x.keys.k[s]),
			                 p < PARTS - 1 || s);
	hopper::products_commit();
}

/* scale O to o [T,Hv,D] from row `to`, 32 bytes of each token, by way of `tile` [64][2], where every other four tokens have their
 * halves exchanged for the banks' sake. */
__device__ inline void store_outputs(bf16 *to, size_t row_stride, const float (&O)[2 * BLOCKS][4], float scale, int length,
                                     uint4 *tile, int lane)
{
	auto place = [tile](int t, int half) { return &tile[2 * t + (half ^ t / 4 % 2)]; };

	__syncwarp();
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++) {
		unsigned x[2] = { pair(scale * O[n][0], scale * O[n][1]), pair(scale * O[n][2], scale * O[n][3]) };
		hopper::store_turned(place(8 * n + lane % 8, lane / 8 % 2), x);
	}
	__syncwarp();
#pragma unroll
	for (int i = 0; i < BLOCKS; i++) {
		int t = 16 * i + lane / 2;
		if (t < length)
			*reinterpret_cast<uint4 *>(to + t * row_stride + lane % 2 * 8) = *place(t, lane % 2);
	}
}

/* A chunk: its o, and S after it. x.U, once read, is where o passes through. */
template <int PARTS>
__device__ void pass_chunk(float (&S)[D / 8][4], bf16 *o, size_t row_stride, arrived<PARTS> &x, float scale, int length, int warp,
                           int lane)
{
	float V[2 * BLOCKS][4], O[2 * BLOCKS][4], sum[D / 8][4];
	unsigned state[PARTS][STEPS][4], read[PARTS][BLOCKS][4], write[PARTS][BLOCKS][4];

	read_state(V, O, state, S, x);
	hopper::products_wait<1>();
	hopper::hold(flat(V));
	subtract_from_U(V, x, warp, lane);
	as_a(read, V);
	hopper::products_wait<0>();
	hopper::hold(flat(O));
	hopper::keep(state);
	scale_tokens(O, x.read, lane);
	attend(O, read, x);
	scale_tokens(V, x.write, lane);
	as_a(write, V);
	write_sum(sum, write, x);
	hopper::products_wait<1>();
	hopper::hold(flat(O));
	hopper::keep(read);
	store_outputs(o, row_stride, O, scale, length, x.U[warp][0], lane);
	hopper::products_wait<0>();
	hopper::hold(flat(sum));
	hopper::keep(write);
	float end = x.end[0];
#pragma unroll
	for (int n = 0; n < D / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			S[n][e] = fmaf(end, S[n][e], sum[n][e]);
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

	clear_upper(r);
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
		extent tokens_of = extents[first + n];
		arrived<PARTS> &x = r.stage[n % STAGES];
		hopper::wait(r.full[n % STAGES], n / STAGES & 1);
		pass_chunk(S, all.o + ((size_t)tokens_of.start * m.Hv + h) * D + column, (size_t)m.Hv * D, x, m.scale, tokens_of.length,
		           warp, lane);
		hopper::shared_fence();
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
