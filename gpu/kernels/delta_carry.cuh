/* The gated delta rule in chunks on tensor cores, second part: the state, chunk after chunk (see delta_chunk.cuh).
 *
 *   V = U - W S,   o_i = scale (e^G_i S'q_i + sum_{j<=i} P_ij V_j),   S <- e^G_L S + sum_i k_i (e^(G_L - G_i) V_i)'.
 *
 * Columns of S are independent: a warpgroup keeps 64 of them, turned, as the sums of its products, a warp sixteen. As such they
 * have the order of an operand of the next product, and so has V: nothing that depends on the state leaves a warp's registers.
 * The other operands lie in shared memory, where a warp of its own has the records of the chunks ahead brought by bulk copies.
 *
 * Products of smaller parts are summed first; S is updated in f32, where PARTS is 1 by the product itself. */
#ifndef ETALON_DELTA_CARRY_CUH
#define ETALON_DELTA_CARRY_CUH

#include "gpu/kernels/delta_chunk.cuh"

namespace chunked {

enum { COLUMNS = 16 * WARPS, SLICES = D / COLUMNS };

/* What a block needs of a chunk. */
template <int PARTS> struct alignas(1024) arrived {
	key_record keys;
	block W[PARTS][STEPS][BLOCKS], P[PARTS][BLOCKS][BLOCKS];      /* P [.,s,m]: zeros where m < s */
	float read[CHUNK], write[CHUNK], end[4];
	alignas(128) values<PARTS> U[WARPS][BLOCKS];
};

template <int PARTS> struct ring {
	enum { STAGES = PARTS == 1 ? 3 : 2 };
	arrived<PARTS> stage[STAGES];
	uint64_t full[STAGES], empty[STAGES];
};

template <int PARTS>
__device__ void fetch(ring<PARTS> &to, int n, const key_record &keys, const head_record<PARTS> &head, int slice)
{
	arrived<PARTS> &stage = to.stage[n % ring<PARTS>::STAGES];
	uint64_t &full = to.full[n % ring<PARTS>::STAGES];
	constexpr unsigned factors = sizeof head.read + sizeof head.write + sizeof head.end;

	hopper::arrive_expecting(full, sizeof keys + sizeof head.W + sizeof head.P + factors + sizeof stage.U);
	hopper::copy_run(stage.W, head.W, sizeof head.W, full);
	hopper::copy_run(stage.U, head.U[slice * WARPS], sizeof stage.U, full);
	hopper::copy_run(stage.read, head.read, factors, full);
	hopper::copy_run(&stage.keys, &keys, sizeof keys, full);
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
				for (int i = (int)threadIdx.x; i < s * (int)(sizeof(block) / 4); i += (int)blockDim.x)
					P[s][0][0][i] = 0;
	hopper::shared_fence();
}

/* This lane is done with a stage that it has read and written. Each lane arrives: racecheck does not carry a warp's barrier into one lane's arrival. */
__device__ inline void release(uint64_t &empty)
{
	hopper::shared_fence();
	hopper::arrive(empty);
}

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

/* Issues V = W S, turned, while S, of which the first part is there, is split: its parts up to p go with W's part PARTS - 1 - p. */
template <int PARTS>
__device__ void read_for_values(float (&V)[2 * BLOCKS][4], unsigned (&parts)[PARTS][STEPS][4], const float (&S)[D / 8][4],
                                const arrived<PARTS> &x)
{
#pragma unroll
	for (int last = 0; last < PARTS; last++) {
		if (last)
			next_part(parts, last, S);
		hopper::products_begin();
#pragma unroll
		for (int p = last; p >= 0; p--)
#pragma unroll
			for (int j = 0; j < STEPS; j++)
				hopper::multiply(flat(V), parts[p][j], hopper::matrices_descriptor(x.W[PARTS - 1 - last][j]), last || j);
		hopper::products_commit();
	}
}

/* Issues O = q S, turned. */
template <int PARTS>
__device__ void read_for_outputs(float (&O)[2 * BLOCKS][4], const unsigned (&parts)[PARTS][STEPS][4], const arrived<PARTS> &x)
{
	hopper::products_begin();
#pragma unroll
	for (int p = PARTS - 1; p >= 0; p--)
#pragma unroll
		for (int j = 0; j < STEPS; j++)
			hopper::multiply(flat(O), parts[p][j],
			                 hopper::matrix_descriptor(hopper::matrix_place(x.keys.q.at[j / 4]) + j % 4 * 2), p < PARTS - 1 || j);
	hopper::products_commit();
}

/* V = U - V */
__device__ inline void subtract_from(const block (&U)[BLOCKS], float (&V)[2 * BLOCKS][4], int lane)
{
#pragma unroll
	for (int m = 0; m < BLOCKS; m++) {
		unsigned u[4];
		mma_form::load_turned(u, &U[m][0][4 * lane]);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float (&v)[4] = V[2 * m + i / 2];
			v[i % 2 * 2] = __uint_as_float(u[i] << 16) - v[i % 2 * 2];
			v[i % 2 * 2 + 1] = __uint_as_float(u[i] & 0xffff0000u) - v[i % 2 * 2 + 1];
		}
	}
}

__device__ inline void subtract_from(const float (&U)[BLOCKS][4][64], float (&V)[2 * BLOCKS][4], int lane)
{
	int at = lane % 4 * 8 + lane / 4;

#pragma unroll
	for (int m = 0; m < BLOCKS; m++)
#pragma unroll
		for (int i = 0; i < 4; i++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				float &v = V[2 * m + i / 2][i % 2 * 2 + e];
				v = U[m][i][at + 32 * e] - v;
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

/* Issues sum = sum_i k_i V_i', turned, or += if `add`. */
template <int PARTS>
__device__ void write_sum(float (&sum)[D / 8][4], const unsigned (&V)[PARTS][BLOCKS][4], const arrived<PARTS> &x, bool add)
{
	hopper::products_begin();
#pragma unroll
	for (int p = PARTS - 1; p >= 0; p--)
#pragma unroll
		for (int s = 0; s < BLOCKS; s++)
			hopper::multiply<1>(flat(sum), V[p][s], hopper::turned_descriptor(&x.keys.k.at[0][BLOCK * s], sizeof x.keys.k.at[0]),
			                    add || p < PARTS - 1 || s);
	hopper::products_commit();
}

/* A warp's outputs of a chunk, in bf16, as stmatrix names them. */
using outputs = unsigned[2 * BLOCKS][2];

__device__ inline void round_outputs(outputs &to, const float (&O)[2 * BLOCKS][4], float scale)
{
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++)
#pragma unroll
		for (int half = 0; half < 2; half++)
			to[n][half] = pair(scale * O[n][2 * half], scale * O[n][2 * half + 1]);
}

/* To o [T,Hv,D] from row `to`, 32 bytes of each token, by way of `tile` [64][2], where every other four tokens have their halves
 * exchanged for the banks' sake. */
__device__ inline void store_outputs(bf16 *to, size_t row_stride, const outputs &x, int length, uint4 *tile, int lane)
{
	auto place = [tile](int t, int half) { return &tile[2 * t + (half ^ t / 4 % 2)]; };

	__syncwarp();
#pragma unroll
	for (int n = 0; n < 2 * BLOCKS; n++)
		hopper::store_turned(place(8 * n + lane % 8, lane / 8 % 2), x[n]);
	__syncwarp();
#pragma unroll
	for (int i = 0; i < BLOCKS; i++) {
		int t = 16 * i + lane / 2;
		if (t < length)
			*reinterpret_cast<uint4 *>(to + t * row_stride + lane % 2 * 8) = *place(t, lane % 2);
	}
}

/* S <- end S + sum; where PARTS is 1 in two steps, since there the product adds to S. */
__device__ inline void let_decay(float (&S)[D / 8][4], float end)
{
#pragma unroll
	for (int n = 0; n < D / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			S[n][e] *= end;
}

__device__ inline void decay_and_add(float (&S)[D / 8][4], float end, const float (&sum)[D / 8][4])
{
#pragma unroll
	for (int n = 0; n < D / 8; n++)
#pragma unroll
		for (int e = 0; e < 4; e++)
			S[n][e] = fmaf(end, S[n][e], sum[n][e]);
}

/* All chunks, S through them, and their o from column `column` on. A chunk's o is stored while the first product of the next one
 * runs; x.U, once read, is where it passes through. */
template <int PARTS>
__device__ void pass_chunks(float (&S)[D / 8][4], ring<PARTS> &r, const extent *extents, int count, bf16 *o, size_t row_stride,
                            float scale, int warp, int lane)
{
	constexpr int STAGES = ring<PARTS>::STAGES;
	float V[2 * BLOCKS][4], O[2 * BLOCKS][4], sum[D / 8][4];
	unsigned state[PARTS][STEPS][4], read[PARTS][BLOCKS][4], write[PARTS][BLOCKS][4];
	outputs rounded;
	auto finish = [&](int n) {
		extent tokens_of = extents[n];
		arrived<PARTS> &x = r.stage[n % STAGES];
		store_outputs(o + tokens_of.start * row_stride, row_stride, rounded, tokens_of.length,
		              reinterpret_cast<uint4 *>(x.U[warp]), lane);
		release(r.empty[n % STAGES]);
	};

	for (int n = 0; n < count; n++) {
		arrived<PARTS> &x = r.stage[n % STAGES];
		hopper::wait(r.full[n % STAGES], n / STAGES & 1);
		next_part(state, 0, S);
		if constexpr (PARTS == 1)
			let_decay(S, x.end[0]);
		read_for_values(V, state, S, x);
		if (n)
			finish(n - 1);
		read_for_outputs(O, state, x);
		hopper::products_wait<1>();
		hopper::hold(flat(V));
		subtract_from(x.U[warp], V, lane);
		as_a(read, V);
		scale_tokens(V, x.write, lane);
		as_a(write, V);
		if constexpr (PARTS > 1)
			hopper::products_wait<0>();     /* or registers would not suffice */
		write_sum(PARTS == 1 ? S : sum, write, x, PARTS == 1);
		hopper::products_wait<1>();
		hopper::hold(flat(O));
		hopper::keep(state);
		scale_tokens(O, x.read, lane);
		attend(O, read, x);
		hopper::products_wait<0>();     /* were O still under way, nvcc 13.0 would wait for each product */
		hopper::hold(flat(PARTS == 1 ? S : sum));
		hopper::hold(flat(O));
		hopper::keep(write);
		hopper::keep(read);
		round_outputs(rounded, O, scale);
		if constexpr (PARTS > 1)
			decay_and_add(S, x.end[0], sum);
	}
	if (count)
		finish(count - 1);
}

/* Element e of tile n of the turned state: row dk, column dv of [D,D]. */
__device__ inline size_t state_at(int n, int e, int first_column, int lane)
{
	return (size_t)(8 * n + lane % 4 * 2 + e % 2) * D + first_column + e / 2 * 8 + lane / 4;
}

/* Where the states [Hv,D,D] of sequence n begin, in elements; -1: zeros, or nowhere. NULL: one after the other. */
struct places { const int64_t *from, *to; };

__device__ inline int64_t place_of(const int64_t *table, const rule &m, int h)
{
	int64_t first = table ? table[blockIdx.x] : (int64_t)blockIdx.x * m.Hv * D * D;

	return first < 0 ? first : first + (int64_t)h * D * D;
}

enum { CARRY_THREADS = WARPS * 32 + 32 };

/* Grid: sequences x value heads x slices. Chunks [firsts[n], firsts[n+1]) are sequence n's; initial.data NULL: zeros. */
template <int PARTS> __global__ void __launch_bounds__(CARRY_THREADS, 1)
delta_carry(rule m, tokens<bf16> all, const extent *extents, const int *firsts, const key_record *keys,
            const head_record<PARTS> *heads, operand initial, result final_state, places states)
{
	extern __shared__ __align__(1024) char bytes[];
	ring<PARTS> &r = *reinterpret_cast<ring<PARTS> *>(bytes);
	constexpr int STAGES = ring<PARTS>::STAGES;
	int h = (int)blockIdx.y, hk = h / (m.Hv / m.Hk), slice = (int)blockIdx.z;
	int warp = __shfl_sync(0xffffffffu, (int)threadIdx.x / 32, 0), lane = (int)threadIdx.x % 32, column = (slice * WARPS + warp) * 16;
	int first = firsts[blockIdx.x], count = firsts[blockIdx.x + 1] - first;

	clear_upper(r);
	if (threadIdx.x == 0) {
		for (int n = 0; n < STAGES; n++) {
			hopper::barrier_init(r.full[n], 1);
			hopper::barrier_init(r.empty[n], WARPS * 32);
		}
		hopper::barrier_fence();
	}
	__syncthreads();
	if (warp == WARPS) {
		if (lane)
			return;
		hopper::wait_for_earlier_grid();
		for (int n = 0; n < count; n++) {
			if (n >= STAGES)
				hopper::wait(r.empty[n % STAGES], n / STAGES - 1 & 1);
			fetch(r, n, keys[(size_t)(first + n) * m.Hk + hk], heads[(size_t)(first + n) * m.Hv + h], slice);
		}
	} else {
		float S[D / 8][4];
		int64_t from = initial.data ? place_of(states.from, m, h) : -1;

#pragma unroll
		for (int n = 0; n < D / 8; n++)
#pragma unroll
			for (int e = 0; e < 4; e++)
				S[n][e] = from >= 0 ? initial.at(from + state_at(n, e, column, lane)) : 0.0f;
		pass_chunks(S, r, extents + first, count, all.o + h * D + column, (size_t)m.Hv * D, m.scale, warp, lane);
		int64_t to = final_state.data ? place_of(states.to, m, h) : -1;
#pragma unroll
		for (int n = 0; n < D / 8 && to >= 0; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				size_t at = to + state_at(n, e, column, lane);
				if (final_state.dtype == DT_BF16)
					from_float(static_cast<bf16 *>(final_state.data)[at], S[n][e]);
				else
					static_cast<float *>(final_state.data)[at] = S[n][e];
			}
	}
}

}
#endif
