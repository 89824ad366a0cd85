/* y = sigmoid(g) x + addend, per row; g for each element, one for the row, or hidden gate_weight.
 *
 * x, addend, y [R,D]; gate [R,G], G = D or 1; hidden [R,E]; gate_weight [E].
 *
 * Threads: a block a row. Rung 0, V = 1, takes any sizes; rung 1 moves 16 bytes a thread (V elements). Where g is a product,
 * the thread's first piece of x and addend is on its way while the block sums.
 *
 * Numbers: everything between load and store is f32. The sum runs over a thread's pieces, then over lanes, then over warps. */
#include "gpu/gated_product.cuh"

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

template <class F> const char *gate_rows(cudaStream_t stream, const gated_rows<F> &m, enum gated_rung rung)
{
	constexpr int V = 16 / sizeof(F);
	bool wide = rung == GATED_WIDE && m.D % V == 0 && (!m.hidden || m.E % V == 0);

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
		name = gate_rows(nullptr, m, (enum gated_rung)rung_of(c, GATED_WIDE));
	});
	y.fetch();
	return name;
}
