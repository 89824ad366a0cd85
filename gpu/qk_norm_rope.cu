/* Between the q and k projections and attention: each head normed, then partly turned; each q's gate split off.
 *
 *   x <- x (mean x^2 + eps)^-1/2 (1 + weight)
 *   (x_i, x_{i+P}) <- (x_i cos a - x_{i+P} sin a, x_{i+P} cos a + x_i sin a),  a = position theta^(-i/P),  i < P = rotary_dim / 2
 *
 * qg [T,Hq,2D]; k, k_out [T,Hk,D]; q, gate [T,Hq,D]; q_weight, k_weight [D]; positions [T].
 *
 * Rung 0, qk_norm_rope_block: a block a head, any D.
 * Rung 1, qk_norm_rope_warp: a block a token, a warp on PER heads, all of whose loads are on their way before the first
 * angle is computed; D = 32 V, the lane with x_i next to none but the lane with x_{i+P}, P / V lanes away.
 *
 * Numbers: as in rmsnorm and rope, float32 between load and store and angles in half turns in f64. Nothing is rounded
 * between norm and turn. The gate keeps its bits. */
#include "gpu/qk_norm_rope.cuh"

#include <cmath>

#include "gpu/rope.cuh"

/* Where a head lies: heads Hq, Hq + 1, ... of a token are k's. gate: NULL for those. */
template <class F> struct place {
	const F *x, *gate;
	F *y, *gate_out;
	bool is_k;

	__device__ place(const token_heads<F> &m, size_t token, int head) : is_k(head >= m.Hq)
	{
		size_t at = is_k ? (token * m.Hk + (head - m.Hq)) * m.D : (token * m.Hq + head) * m.D;

		x = is_k ? m.k + at : m.qg + 2 * at;
		y = is_k ? m.k_out + at : m.q + at;
		gate = is_k ? nullptr : x + m.D;
		gate_out = is_k ? nullptr : m.gate + at;
	}
};

/* cos and sin of position * theta^(-i/P) */
__device__ static float2 angle_of(double half_turns, double position)
{
	double s, c;

	sincospi(position * half_turns, &s, &c);
	return make_float2((float)c, (float)s);
}

/* ---- rung 0 ---- */

enum { BLOCK = 128 };

template <class F> __global__ void __launch_bounds__(BLOCK) qk_norm_rope_block(const __grid_constant__ token_heads<F> m)
{
	extern __shared__ float x[];            /* [D] */
	__shared__ float part[32];
	place<F> p(m, blockIdx.x, (int)blockIdx.y);
	const operand &weight = p.is_k ? m.k_weight : m.q_weight;
	double position = (double)m.positions[blockIdx.x];
	float squares = 0.0f;

	for (int i = (int)threadIdx.x; i < m.D; i += BLOCK) {
		x[i] = to_float(p.x[i]);
		squares += x[i] * x[i];
		if (p.gate)
			p.gate_out[i] = p.gate[i];
	}
	float inverse = 1.0f / sqrtf(block_sum(squares, part) / (float)m.D + m.eps);
	for (int i = (int)threadIdx.x; i < m.D; i += BLOCK)
		x[i] = x[i] * inverse * (1.0f + weight.at(i));
	__syncthreads();
	for (int i = (int)threadIdx.x; i < m.P; i += BLOCK) {
		float2 turn = angle_of(m.half_turns[i], position);

		from_float(p.y[i], x[i] * turn.x - x[i + m.P] * turn.y);
		from_float(p.y[i + m.P], x[i + m.P] * turn.x + x[i] * turn.y);
	}
	for (int i = 2 * m.P + (int)threadIdx.x; i < m.D; i += BLOCK)
		from_float(p.y[i], x[i]);
}

/* ---- rung 1 ---- */

/* The same with the angle reduced in f64 and its cosine and sine in f32: within 2^-23 of the above. */
__device__ static float2 short_angle_of(double half_turns, double position)
{
	double turns = position * half_turns;
	float s, c;

	sincospif((float)(turns - 2.0 * rint(0.5 * turns)), &s, &c);
	return make_float2(c, s);
}

/* z [V], dimensions lane * V ..., turns with what the lane P / V away holds. */
template <int V> __device__ void turn_lanes(float (&z)[V], const float2 *turn, int pairs, int lane)
{
	bool low = lane < pairs, turns = lane < 2 * pairs;
	int other = !turns ? lane : low ? lane + pairs : lane - pairs;
	float w[V];

#pragma unroll
	for (int i = 0; i < V; i++)
		w[i] = __shfl_sync(0xffffffffu, z[i], other);
	if (!turns)
		return;
	pack<2 * V, float> t = load_pack<2 * V>(reinterpret_cast<const float *>(turn + (low ? lane : other) * V));
#pragma unroll
	for (int i = 0; i < V; i++)
		z[i] = z[i] * t.at[2 * i] + w[i] * (low ? -t.at[2 * i + 1] : t.at[2 * i + 1]);
}

/* A warp a head, WARPS heads a block. */
template <int V, int WARPS, int BLOCKS, bool EARLY, bool LINEAR, class F>
__global__ void __launch_bounds__(32 * WARPS, BLOCKS) qk_norm_rope_warp(const __grid_constant__ token_heads<F> m)
{
	extern __shared__ __align__(16) float2 turn[];  /* [P] */
	unsigned groups = LINEAR ? (unsigned)(m.Hq + m.Hk + WARPS - 1) / WARPS : 1, token = LINEAR ? blockIdx.x / groups : blockIdx.x;
	int lane = (int)threadIdx.x, head = (int)((LINEAR ? blockIdx.x % groups : blockIdx.y) * WARPS + threadIdx.y);
	pack<V, F> x = {}, gate, w;
	bool there = head < m.Hq + m.Hk;
	const F *weight = static_cast<const F *>((head < m.Hq ? m.q_weight : m.k_weight).data) + lane * V;

	if (there) {
		place<F> p(m, token, head);
		x = load_pack<V>(p.x + lane * V);
		if (p.gate)
			gate = load_pack<V>(p.gate + lane * V);
	}
	if (EARLY)
		w = load_pack<V>(weight);
	double position = (double)m.positions[token];
	for (int i = (int)threadIdx.y * 32 + lane; i < m.P; i += (int)blockDim.y * 32)
		turn[i] = short_angle_of(m.half_turns[i], position);
	__syncthreads();
	if (!there)
		return;

	place<F> p(m, token, head);
	float z[V], squares = 0.0f;
	if (!EARLY)
		w = load_pack<V>(weight);
#pragma unroll
	for (int i = 0; i < V; i++) {
		z[i] = to_float(x.at[i]);
		squares += z[i] * z[i];
	}
	if (p.gate)
		*reinterpret_cast<pack<V, F> *>(p.gate_out + lane * V) = gate;
	float inverse = rsqrtf(lane_sum(squares, 1, 32) / (32 * V) + m.eps);
#pragma unroll
	for (int i = 0; i < V; i++)
		z[i] = z[i] * inverse * (1.0f + to_float(w.at[i]));
	turn_lanes(z, turn, m.P / V, lane);
	store(p.y + lane * V, z);
}

int heads_variant = 2;
template <int V, class F> static void launch_warps(cudaStream_t stream, const token_heads<F> &m, size_t T)
{
	int heads = m.Hq + m.Hk;
	auto go = [&](auto kernel, int warps) { launch_on(stream, "qk_norm_rope_warp", kernel, dim3(small(T, "T"), blocks(heads, warps)), dim3(32, warps), m.P * sizeof(float2), m); };
	auto go1 = [&](auto kernel, int warps) { launch_on(stream, "qk_norm_rope_warp", kernel, dim3(small(T, "T") * blocks(heads, warps)), dim3(32, warps), m.P * sizeof(float2), m); };
	switch (heads_variant) {
	case 0: go(qk_norm_rope_warp<V, 28, 2, false, false, F>, 28); break;
	case 1: go(qk_norm_rope_warp<V, 28, 2, true, false, F>, 28); break;
	case 2: go(qk_norm_rope_warp<V, 14, 4, false, false, F>, 14); break;
	case 3: go(qk_norm_rope_warp<V, 14, 4, true, false, F>, 14); break;
	case 4: go(qk_norm_rope_warp<V, 7, 8, false, false, F>, 7); break;
	case 5: go(qk_norm_rope_warp<V, 7, 8, true, false, F>, 7); break;
	case 6: go(qk_norm_rope_warp<V, 4, 14, true, false, F>, 4); break;
	case 7: go(qk_norm_rope_warp<V, 4, 12, true, false, F>, 4); break;
	case 8: go(qk_norm_rope_warp<V, 7, 6, true, false, F>, 7); break;
	case 9: go1(qk_norm_rope_warp<V, 14, 4, false, true, F>, 14); break;
	case 10: go1(qk_norm_rope_warp<V, 7, 8, false, true, F>, 7); break;
	case 11: go1(qk_norm_rope_warp<V, 4, 14, true, true, F>, 4); break;
	}
}

template <class F> const char *norm_and_turn(cudaStream_t stream, const token_heads<F> &m, size_t T, enum heads_rung rung)
{
	int V = m.D / 32;
	bool fits = rung == HEADS_WARP && m.D % 32 == 0 && V && m.P % V == 0 && m.Hq + m.Hk <= 28;

	switch (fits ? V : 0) {
	case 2: launch_warps<2>(stream, m, T); break;
	case 4: launch_warps<4>(stream, m, T); break;
	case 8: launch_warps<8>(stream, m, T); break;
	default:
		launch_on(stream, "qk_norm_rope_block", qk_norm_rope_block<F>, dim3(small(T, "T"), small(m.Hq + m.Hk, "Hq + Hk", 65535)),
		          BLOCK, m.D * sizeof(float), m);
		return "qk_norm_rope_block";
	}
	return "qk_norm_rope_warp";
}

template const char *norm_and_turn(cudaStream_t, const token_heads<bf16> &, size_t, enum heads_rung);

static int count_pairs(const capture &c, size_t D)
{
	double rotary_dim = capture_number(&c, "rotary_dim", NAN);

	if (!(rotary_dim >= 2 && rotary_dim <= (double)D && fmod(rotary_dim, 2) == 0))
		refuse(E_PARAM, "rotary_dim", "must be given: an even number from 2 to D = %zu, not %g", D, rotary_dim);
	return (int)rotary_dim / 2;
}

const char *run_qk_norm_rope(capture &c)
{
	input qg(c, "qg", REQUIRED), k(c, "k", REQUIRED), q_weight(c, "q_weight", REQUIRED), k_weight(c, "k_weight", REQUIRED);
	output q(c, "q", REQUIRED), k_out(c, "k", REQUIRED), gate(c, "gate", REQUIRED);
	const tensor *positions = capture_in(&c, "positions");
	double theta = capture_number(&c, "theta", NAN), eps = capture_number(&c, "eps", 1e-6);
	size_t D = k.dim(2), T = k.dim(0);
	int P = count_pairs(c, D);
	const char *name = nullptr;

	if (!positions)
		refuse(E_MISSING, "positions", "the kernel of %s reads this input", c.op);
	if (!(theta > 0 && std::isfinite(theta)))
		refuse(E_PARAM, "theta", "must be given: a positive number, not %g", theta);
	small(D, "D", 49152 / sizeof(float) - 64);
	buffer position = uploaded(integers(*positions)), half_turns = uploaded(turning(P, theta));
	same_dtype({ &k.host(), &qg.host(), &q.host(), &k_out.host(), &gate.host() });
	float_dtypes({ &q_weight.host(), &k_weight.host() });
	by_dtype(k.host(), [&](auto zero) {
		using F = decltype(zero);
		token_heads<F> m = {
			qg.as<F>(), k.as<F>(), q_weight.any(), k_weight.any(), position.as<int64_t>(), half_turns.as<double>(),
			q.as<F>(), k_out.as<F>(), gate.as<F>(), small(qg.dim(1), "Hq"), small(k.dim(1), "Hk"), (int)D, P, (float)eps
		};
		name = norm_and_turn(nullptr, m, T, HEADS_WARP);
	});
	for (output *o : { &q, &k_out, &gate })
		o->fetch();
	return name;
}
