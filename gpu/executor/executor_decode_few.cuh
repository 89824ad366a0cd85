/* Decoding in one launch where there are no more heads than multiprocessors, so that a layer takes as long as the chain
 * from its inputs to its end. A block has one head; what gpu/executor_decode.cuh says of grids, rings and numbers is so here.
 *
 * The state waits in registers before the inputs come. A warp has 32 rows of 32 columns, a lane eight of those rows
 * and four columns: lane l rows 8 (l/8) .., columns 4 (l%8) .. . A sum over rows is then one over eight in a lane, one
 * in pairs over lanes, and one over four warps through shared memory. */
#ifndef ETALON_EXECUTOR_DECODE_FEW_CUH
#define ETALON_EXECUTOR_DECODE_FEW_CUH

#include "gpu/executor/executor_decode.cuh"

enum { FEW_THREADS = 512 };

/* Of a warp's 32 rows: the sum over them, to memory. */
__device__ inline void share_part(float *to, const float (&x)[LANE])
{
	float sum[LANE];

#pragma unroll
	for (int j = 0; j < LANE; j++)
		sum[j] = lane_sum(x[j], 8, 32);
	if (threadIdx.x % 32 < 8)
		store(to, sum);
}

/* q and k of a lane's rows, normalised. */
__device__ inline void own_rows(float (&q)[EIGHT], float (&k)[EIGHT], const float (&qkv)[3][DECODE_D], int row, const rule &m)
{
	float inverse = m.l2norm ? inverse_length(qkv, m.l2_eps) : 1.0f;
	float q_inverse = __shfl_sync(0xffffffffu, inverse, 0), k_inverse = __shfl_sync(0xffffffffu, inverse, 16);

	load(q, &qkv[0][row]);
	load(k, &qkv[1][row]);
#pragma unroll
	for (int i = 0; i < EIGHT; i++)
		q[i] = q[i] * q_inverse * m.scale, k[i] *= k_inverse;
}

/* A lane's part of the state: it comes as it is stored, decays, gives u, and takes k u' and gives o. */
template <class State> struct held_state {
	pack<LANE, State> stored[EIGHT];
	float S[EIGHT][LANE];

	__device__ void load_rows(const State *from)
	{
#pragma unroll
		for (int i = 0; i < EIGHT; i++)
			stored[i] = load_pack<LANE>(from + i * DECODE_D);
	}

	/* u += k' exp(g) S; any: there is a state, not zeros. */
	__device__ void decay_and_read(float (&u)[LANE], const float (&k)[EIGHT], float decay, bool any)
	{
#pragma unroll
		for (int i = 0; i < EIGHT; i++)
#pragma unroll
			for (int j = 0; j < LANE; j++) {
				S[i][j] = __fmul_rn(any ? to_float(stored[i].at[j]) : 0.0f, decay);
				u[j] = __fmaf_rn(S[i][j], k[i], u[j]);
			}
	}

	/* S += k u', to memory if keep; o += S'q. */
	__device__ void update(float (&o)[LANE], const float (&q)[EIGHT], const float (&k)[EIGHT], const pack<LANE, float> &u,
	                       State *to, bool keep)
	{
#pragma unroll
		for (int i = 0; i < EIGHT; i++) {
#pragma unroll
			for (int j = 0; j < LANE; j++) {
				S[i][j] = __fmaf_rn(k[i], u.at[j], S[i][j]);
				o[j] = __fmaf_rn(S[i][j], q[i], o[j]);
			}
			if (keep)
				store_row(to + i * DECODE_D, S[i]);
		}
	}
};

/* Grid: value heads of all rows. G: type of a and b. ROUNDS: q, k, v and o are rounded to F, as kernels would that store them. */
template <class State, class F, class G = F, bool ROUNDS = false>
__global__ void __launch_bounds__(FEW_THREADS) decode_few(layer_view v)
{
#ifndef __CUDA_ARCH_FEAT_SM90_ALL
	__trap();       /* hopper.cuh is empty */
#endif
	__shared__ float qkv[3][DECODE_D], u_parts[4][DECODE_D], o_parts[4][DECODE_D];
	int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
	int row = warp % 4 * 32 + lane / 8 * EIGHT, column = warp / 4 * 32 + lane % 8 * LANE, place = row * DECODE_D + column;
	decode_head here(v, (int)blockIdx.x);
	decode_inputs<FEW_THREADS, F, G, ROUNDS> inputs;
	held_state<State> state;
	float q[EIGHT], k[EIGHT], u_part[LANE] = {}, o_part[LANE] = {};

	hopper::let_later_grid_begin();
	state.load_rows(head_states<State>(v, max(here.read, 0), here.h) + place);
	inputs.load_memory(v, here);
	pack<LANE, float> weight = load_pack<LANE>(v.norm_weight + lane * LANE);
	inputs.prefetch_activations(v, here);
	hopper::wait_for_earlier_grid();
	inputs.load_activations(v, here);
	inputs.convolve(qkv, v, here);
	float decay = expf(log_decay(inputs.gate())), beta = sigmoid(inputs.gate().b);
	__syncthreads();
	own_rows(q, k, qkv, row, v.m);
	state.decay_and_read(u_part, k, decay, here.read >= 0);
	share_part(&u_parts[warp % 4][column], u_part);
	__syncthreads();
	pack<LANE, float> u = over_parts(column, [&](int w) { return u_parts[w]; }), own = load_pack<LANE>(&qkv[2][column]);
#pragma unroll
	for (int j = 0; j < LANE; j++)
		u.at[j] = beta * (own.at[j] - u.at[j]);
	State *to = head_states<State>(v, max(here.write, 0), here.h) + place;
	state.update(o_part, q, k, u, to, here.write >= 0 && !here.padding());
	share_part(&o_parts[warp % 4][column], o_part);
	__syncthreads();
	if (warp != 0)
		return;
	pack<LANE, float> o = over_parts(lane * LANE, [&](int w) { return o_parts[w]; });
#pragma unroll
	for (int j = 0; j < LANE; j++)
		o.at[j] = ROUNDS ? rounded<F>(o.at[j]) : o.at[j];
	finish_head<F>(v, here, inputs.z, weight, o);
}

#endif
