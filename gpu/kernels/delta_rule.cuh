/* One token of the gated delta rule, by a tile of columns of one head's state.
 *
 *   q, k <- x (sum x^2 + l2_eps)^-1/2     if l2norm;     q <- scale q
 *   S <- exp(g) S;   u = beta (v - S'k);   S <- S + k u';   o = S'q
 *
 * All f32 between load and store. A sum over rows runs down a thread's rows, then over lanes, then warps. */
#ifndef ETALON_DELTA_RULE_CUH
#define ETALON_DELTA_RULE_CUH

#include <type_traits>

#include "gpu/device/tile.cuh"

enum { THREADS = 128, MAX_DK = 256 };

template <class F> struct tokens { const F *q, *k, *v; F *o; };

struct rule {
	operand a, b, A_log, dt_bias, g, beta;  /* data NULL: absent; g and beta go before a and b */
	int Hk, Hv, Dk, Dv;
	bool gated, l2norm;
	float l2_eps, scale;
};

/* Enqueues the prefill kernel of one token after the other; cuts [N+1] on the device. Refuses what cannot be launched. */
template <class F>
void prefill_token_by_token(const rule &m, const tokens<F> &x, const int64_t *cuts, size_t N, const operand &initial,
                            const result &final_state, cudaStream_t stream);

/* One token as one thread sees it: its rows of q and k, its columns of v. */
template <class F, int ROWS, int COLS> struct token {
	pack<ROWS, F> q, k;
	pack<COLS, F> v;
	float decay, beta;
};

/* g of a call that is gated. */
__device__ inline float log_decay_of(const rule &m, size_t at, int h)
{
	return m.g.data ? m.g.at(at) : -expf(m.A_log.at(h)) * softplus(m.a.at(at) + m.dt_bias.at(h));
}

__device__ inline float decay_of(const rule &m, size_t at, int h) { return m.gated ? expf(log_decay_of(m, at, h)) : 1.0f; }

__device__ inline float beta_of(const rule &m, size_t at) { return m.beta.data ? m.beta.at(at) : sigmoid(m.b.at(at)); }

/* q and k in f32, normalised and scaled. */
template <int WIDTH, int WARPS, class F, int ROWS, int COLS>
__device__ void prepare(float (&q)[ROWS], float (&k)[ROWS], const token<F, ROWS, COLS> &now, const rule &m,
                        float *part)
{
	float squares[2] = {};

#pragma unroll
	for (int i = 0; i < ROWS; i++) {
		q[i] = to_float(now.q.at[i]);
		k[i] = to_float(now.k.at[i]);
		squares[0] += q[i] * q[i];
		squares[1] += k[i] * k[i];
	}
	if (m.l2norm) {
		sum_rows<WIDTH, WARPS>(squares, part);
		float q_inverse = 1.0f / sqrtf(squares[0] + m.l2_eps), k_inverse = 1.0f / sqrtf(squares[1] + m.l2_eps);
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			q[i] *= q_inverse;
			k[i] *= k_inverse;
		}
	}
#pragma unroll
	for (int i = 0; i < ROWS; i++)
		q[i] *= m.scale;
}

/* S and o after one token whose q and k are prepared. part: two arrays [WARPS][WIDTH][COLS]; NULL for one warp. */
template <int WIDTH, int WARPS, class F, int ROWS, int COLS>
__device__ void advance(float (&S)[ROWS][COLS], float (&o)[COLS], const float (&q)[ROWS], const float (&k)[ROWS],
                        const token<F, ROWS, COLS> &now, float *part)
{
	constexpr int PART = WARPS == 1 ? 0 : WARPS * WIDTH * COLS;
	float u[COLS] = {};

#pragma unroll
	for (int j = 0; j < COLS; j++) {
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			S[i][j] *= now.decay;
			u[j] += S[i][j] * k[i];
		}
	}
	sum_rows<WIDTH, WARPS>(u, part);
#pragma unroll
	for (int j = 0; j < COLS; j++) {
		u[j] = now.beta * (to_float(now.v.at[j]) - u[j]);
		o[j] = 0.0f;
#pragma unroll
		for (int i = 0; i < ROWS; i++) {
			S[i][j] += k[i] * u[j];
			o[j] += S[i][j] * q[i];
		}
	}
	sum_rows<WIDTH, WARPS>(o, part + PART);
}

/* The same of a token as it came. part: three arrays [WARPS][WIDTH][COLS], COLS >= 2. */
template <int WIDTH, int WARPS, class F, int ROWS, int COLS>
__device__ void step(float (&S)[ROWS][COLS], float (&o)[COLS], const token<F, ROWS, COLS> &now, const rule &m,
                     float *part)
{
	float q[ROWS], k[ROWS];

	prepare<WIDTH, WARPS>(q, k, now, m, part);
	advance<WIDTH, WARPS>(S, o, q, k, now, WARPS == 1 ? part : part + WARPS * WIDTH * COLS);
}

/* Rows a thread for Dk, and whether rows and columns fill whole accesses. */
template <int COLS, class Launch> static void by_shape(const rule &m, Launch f)
{
	using std::integral_constant;

	if (m.Dk > MAX_DK / 2) {
		if (m.Dk % 16 == 0 && m.Dv % COLS == 0)
			f(std::true_type{}, integral_constant<int, 16>{});
		else
			f(std::false_type{}, integral_constant<int, 16>{});
	} else {
		if (m.Dk % 8 == 0 && m.Dv % COLS == 0)
			f(std::true_type{}, integral_constant<int, 8>{});
		else
			f(std::false_type{}, integral_constant<int, 8>{});
	}
}

#endif
