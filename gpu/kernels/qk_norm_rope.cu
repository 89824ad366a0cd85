/* Between the q and k projections and attention: each head normed, then partly turned; each q's gate split off.
 *
 *   x <- x (mean x^2 + eps)^-1/2 (1 + weight)
 *   (x_i, x_{i+P}) <- (x_i cos a - x_{i+P} sin a, x_{i+P} cos a + x_i sin a),  a = position theta^(-i/P),  i < P = rotary_dim / 2
 *
 * qg [T,Hq,2D]; k, k_out [T,Hk,D]; q, gate [T,Hq,D]; q_weight, k_weight [D]; positions [T].
 *
 * Rung 0, qk_norm_rope_block: a block a head, any D.
 * Rung 1, qk_norm_rope_warp: a warp a head, which waits for no other; D = 32 V. A head's loads are on their way while the
 * angles are computed, each warp its own: sharing them would need a barrier. x_i meets x_{i+P} by a shuffle from P / V
 * lanes away. Blocks are numbered over a token's heads first: those that run at a time read and write what lies side by side.
 *
 * Numbers: float32 between load and store; nothing is rounded between norm and turn; the gate keeps its bits. Angles are
 * in half turns in f64, as in rope: rung 0 takes cosine and sine there and rounds them once, the others take away whole turns
 * there and go on in f32 (angle_in_parts). */
#include "gpu/kernels/qk_norm_rope.cuh"

#include <cmath>

#include "gpu/kernels/rmsnorm.cuh"
#include "gpu/kernels/rope.cuh"

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

enum { WARPS = 4 };             /* heads a block */

/* z = a warp's head, normed and weighted; weight: of the lane's dimensions. */
template <int V, class F> __device__ void norm_lanes(float (&z)[V], const pack<V, F> &x, const F *weight, float eps)
{
	pack<V, F> w = load_pack<V>(weight);
	float squares = 0.0f;

#pragma unroll
	for (int i = 0; i < V; i++) {
		z[i] = to_float(x.at[i]);
		squares += z[i] * z[i];
	}
	float inverse = rsqrtf(lane_sum(squares, 1, 32) / (32 * V) + eps);
#pragma unroll
	for (int i = 0; i < V; i++)
		z[i] = z[i] * inverse * (1.0f + to_float(w.at[i]));
}

/* As many blocks a multiprocessor as leave 32 registers a thread, of float32 40. */
template <int V, class F>
__global__ void __launch_bounds__(32 * WARPS, sizeof(F) == 4 ? 12 : 16)
qk_norm_rope_warp(const __grid_constant__ token_heads<F> m)
{
	extern __shared__ __align__(16) float2 turns[];         /* [WARPS,P] */
	unsigned pieces = (m.Hq + m.Hk + WARPS - 1) / WARPS, token = blockIdx.x / pieces;
	int lane = (int)threadIdx.x, head = (int)(blockIdx.x % pieces * WARPS + threadIdx.y);
	float2 *turn = turns + threadIdx.y * m.P;
	pack<V, F> x, gate;

	if (head >= m.Hq + m.Hk)
		return;
	place<F> p(m, token, head);
	x = load_pack<V>(p.x + lane * V);
	if (p.gate)
		gate = load_pack<V>(p.gate + lane * V);
	double position = (double)m.positions[token];
	for (int i = lane; i < m.P; i += 32)
		turn[i] = angle_in_parts(m.half_turns[i], position);
	__syncwarp();

	float z[V];
	if (p.gate)
		*reinterpret_cast<pack<V, F> *>(p.gate_out + lane * V) = gate;
	norm_lanes(z, x, static_cast<const F *>((p.is_k ? m.k_weight : m.q_weight).data) + lane * V, m.eps);
	turn_lanes(z, turn, m.P, lane);
	store(p.y + lane * V, z);
}

template <class F> static bool warps_fit(const token_heads<F> &m)
{
	int V = m.D / 32;

	return m.D % 32 == 0 && (V == 2 || V == 4 || V == 8) && m.P % V == 0
		&& is_stored_as(m.q_weight.dtype, F{}) && is_stored_as(m.k_weight.dtype, F{});
}

template <class F>
static void launch_warps(cudaStream_t stream, const token_heads<F> &m, unsigned tokens, unsigned heads)
{
	unsigned count = small((size_t)tokens * blocks(heads, WARPS), "blocks");
	auto kernel = m.D == 64 ? qk_norm_rope_warp<2, F> : m.D == 128 ? qk_norm_rope_warp<4, F> : qk_norm_rope_warp<8, F>;

	launch_on(stream, "qk_norm_rope_warp", kernel, count, dim3(32, WARPS), WARPS * m.P * sizeof(float2), m);
}

template <class F> const char *norm_and_turn(cudaStream_t stream, const token_heads<F> &m, size_t T, enum heads_rung rung)
{
	unsigned tokens = small(T, "T"), heads = small(m.Hq + m.Hk, "Hq + Hk", 65535);

	if (rung != HEADS_BLOCK && warps_fit(m)) {
		launch_warps(stream, m, tokens, heads);
		return "qk_norm_rope_warp";
	}
	launch_on(stream, "qk_norm_rope_block", qk_norm_rope_block<F>, dim3(tokens, heads), BLOCK, m.D * sizeof(float), m);
	return "qk_norm_rope_block";
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
		name = norm_and_turn(nullptr, m, T, (enum heads_rung)rung_of(c, HEADS_WARP));
	});
	for (output *o : { &q, &k_out, &gate })
		o->fetch();
	return name;
}
