/* y = sigmoid(g) x + addend, per row; g for each element, one for the row, or hidden gate_weight.
 *
 * x, addend, y [R,D]; gate [R,G], G = D or 1; hidden [R,E]; gate_weight [E].
 *
 * Threads: a block a row. Rung 0, V = 1, takes any sizes; rung 1 moves 16 bytes a thread (V elements). Where g is a product,
 * the thread's first piece of x and addend is on its way while the block sums.
 * Rung 2 has two kernels, in which all that a thread loads is on its way before it uses any. gated_product_flat: gates of
 * elements; rows do not matter, and a thread has PIECES pieces. gated_product_held: a product, hidden as wide as x, and a piece
 * of each a thread.
 *
 * Numbers: everything between load and store is f32. The sum runs over a thread's pieces, then over lanes, then over warps. */
#include "gpu/kernels/gated_product.cuh"

/* g of a row from its hidden state, for every thread of the block */
template <int V, class F> __device__ float product_gate(const gated_rows<F> &m, size_t row, float *part)
{
	float sum = 0.0f, h[V], w[V];

	for (int p = (int)threadIdx.x; p < m.E / V; p += (int)blockDim.x) {
		load(h, m.hidden + row * m.E + p * V);
		load(w, m.gate_weight + p * V);
#pragma unroll
		for (int i = 0; i < V; i++)
			sum += h[i] * w[i];
	}
	return block_sum(sum, part);
}

template <int V, class F> __global__ void __launch_bounds__(512) gated_product(const __grid_constant__ gated_rows<F> m)
{
	__shared__ float part[32];
	size_t row = blockIdx.x;
	int p = (int)threadIdx.x, pieces = m.D / V;
	pack<V, F> x = {}, addend = {};
	auto fetch = [&](int piece) {
		x = load_pack<V>(m.x + row * m.D + piece * V);
		if (m.addend)
			addend = load_pack<V>(m.addend + row * m.D + piece * V);
	};

	if (p < pieces)
		fetch(p);
	float s = 1.0f;
	if (m.hidden)
		s = sigmoid(product_gate<V>(m, row, part));
	else if (m.G == 1)
		s = sigmoid(to_float(m.gate[row]));
	for (; p < pieces; p += (int)blockDim.x) {
		float g[V], y[V];

		if (p >= (int)blockDim.x)
			fetch(p);
		if (m.gate && m.G > 1)
			load(g, m.gate + row * m.D + p * V);
#pragma unroll
		for (int i = 0; i < V; i++) {
			y[i] = to_float(x.at[i]) * (m.gate && m.G > 1 ? sigmoid(g[i]) : s);
			if (m.addend)
				y[i] += to_float(addend.at[i]);
		}
		store(m.y + row * m.D + p * V, y);
	}
}

/* ---- rung 2 ---- */

enum { FLAT = 256, PIECES = 2, HELD_MOST = 512 };       /* threads of gated_product_flat; of gated_product_held at most */

/* y = s x + addend of a piece; s: of each element. */
template <bool ADDS, int V, class F>
__device__ void gate_piece(F *y, const float (&s)[V], const pack<V, F> &x, [[maybe_unused]] const pack<V, F> &addend)
{
	float z[V];

#pragma unroll
	for (int i = 0; i < V; i++) {
		z[i] = to_float(x.at[i]) * s[i];
		if constexpr (ADDS)
			z[i] += to_float(addend.at[i]);
	}
	store(y, z);
}

/* Grid: PIECES * FLAT of all rows' pieces. */
template <bool ADDS, int V, class F>
__global__ void __launch_bounds__(FLAT, ADDS ? 4 : 6) gated_product_flat(const __grid_constant__ gated_rows<F> m, size_t pieces)
{
	size_t first = (size_t)blockIdx.x * (PIECES * FLAT) + threadIdx.x;
	pack<V, F> x[PIECES], g[PIECES], addend[PIECES];

#pragma unroll
	for (int p = 0; p < PIECES; p++)
		if (first + p * FLAT < pieces) {
			g[p] = load_pack<V>(m.gate + (first + p * FLAT) * V);
			x[p] = load_pack<V>(m.x + (first + p * FLAT) * V);
			if constexpr (ADDS)
				addend[p] = load_pack<V>(m.addend + (first + p * FLAT) * V);
		}
#pragma unroll
	for (int p = 0; p < PIECES; p++)
		if (first + p * FLAT < pieces) {
			float s[V];
#pragma unroll
			for (int i = 0; i < V; i++)
				s[i] = sigmoid(to_float(g[p].at[i]));
			gate_piece<ADDS>(m.y + (first + p * FLAT) * V, s, x[p], addend[p]);
		}
}

/* Grid: rows; D = E = V blockDim.x. */
template <bool ADDS, int V, class F>
__global__ void __launch_bounds__(HELD_MOST) gated_product_held(const __grid_constant__ gated_rows<F> m)
{
	__shared__ float part[32];
	size_t column = threadIdx.x * V, at = blockIdx.x * (size_t)m.D + column;
	pack<V, F> h = load_pack<V>(m.hidden + at), w = load_pack<V>(m.gate_weight + column), x = load_pack<V>(m.x + at), addend;
	float sum = 0.0f, s[V];

	if constexpr (ADDS)
		addend = load_pack<V>(m.addend + at);
#pragma unroll
	for (int i = 0; i < V; i++)
		sum += to_float(h.at[i]) * to_float(w.at[i]);
	s[0] = sigmoid(block_sum(sum, part));
#pragma unroll
	for (int i = 1; i < V; i++)
		s[i] = s[0];
	gate_piece<ADDS>(m.y + at, s, x, addend);
}

/* Launches one of them and returns its name; NULL where neither fits. */
template <class F> static const char *gate_at_once(cudaStream_t stream, const gated_rows<F> &m)
{
	constexpr int V = 16 / sizeof(F);
	size_t pieces = m.R * m.D / V;
	int threads = m.D / V;

	if (m.gate && m.G == m.D && m.D % V == 0) {
		launch_on(stream, "gated_product_flat", m.addend ? gated_product_flat<true, V, F> : gated_product_flat<false, V, F>,
		          blocks(pieces, PIECES * FLAT), FLAT, 0, m, pieces);
		return "gated_product_flat";
	}
	if (m.hidden && m.E == m.D && m.D % (32 * V) == 0 && threads <= HELD_MOST) {
		launch_on(stream, "gated_product_held", m.addend ? gated_product_held<true, V, F> : gated_product_held<false, V, F>,
		          blocks(m.R, 1), threads, 0, m);
		return "gated_product_held";
	}
	return nullptr;
}

template <class F> const char *gate_rows(cudaStream_t stream, const gated_rows<F> &m, enum gated_rung rung)
{
	constexpr int V = 16 / sizeof(F);
	bool wide = rung >= GATED_WIDE && m.D % V == 0 && (!m.hidden || m.E % V == 0);
	const char *at_once = rung == GATED_AT_ONCE ? gate_at_once(stream, m) : nullptr;

	if (at_once)
		return at_once;
	if (wide)
		launch_on(stream, "gated_product_wide", gated_product<V, F>, blocks(m.R, 1), m.D / V <= 256 ? 128 : 320, 0, m);
	else
		launch_on(stream, "gated_product", gated_product<1, F>, blocks(m.R, 1), 256, 0, m);
	return wide ? "gated_product_wide" : "gated_product";
}

template const char *gate_rows(cudaStream_t, const gated_rows<bf16> &, enum gated_rung);

const char *run_gated_product(capture &c)
{
	input x(c, "x", REQUIRED), gate(c, "gate", OPTIONAL), addend(c, "addend", OPTIONAL);
	const tensor *given = capture_in(&c, "gate");
	input hidden(c, "hidden", given ? OPTIONAL : REQUIRED), gate_weight(c, "gate_weight", given ? OPTIONAL : REQUIRED);
	output y(c, "y", REQUIRED);
	const char *name = nullptr;

	same_dtype({ &x.host(), given, capture_in(&c, "hidden"), capture_in(&c, "gate_weight"), capture_in(&c, "addend"), &y.host() });
	if (given && gate.dim(1) != 1 && gate.dim(1) != x.dim(1))
		refuse(E_DIM, "gate", "rows of 1 or of x's %zu, not %zu", x.dim(1), gate.dim(1));
	by_dtype(x.host(), [&](auto zero) {
		using F = decltype(zero);
		gated_rows<F> m = {
			x.as<F>(), gate.as<F>(), given ? nullptr : hidden.as<F>(), gate_weight.as<F>(), addend.as<F>(), y.as<F>(),
			x.dim(0), small(x.dim(1), "D"), given ? small(gate.dim(1), "G") : 1, given ? 0 : small(hidden.dim(1), "E")
		};
		name = gate_rows(nullptr, m, (enum gated_rung)rung_of(c, GATED_AT_ONCE));
	});
	y.fetch();
	return name;
}
