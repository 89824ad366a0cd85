/* The delta rule with gates for each channel, token by token.
 *
 *   S <- diag(e^g) S;  u = w v - S'(b k);  S <- S + k u';  o = scale S'q
 *
 * q, k, g, b [T,H,Dk]; v, w, o [T,H,Dv]; states [N,H,Dk,Dv].
 *
 * Threads: a block a head of a sequence; thread e has column e of the state, in global memory, and element e of v, w and o.
 *
 * Numbers: everything between load and store is f32; sums over Dk run from its first element on. */
#include "gpu/kernels/plain/delta_channels.cuh"

struct gdn2_call {
	operand q, k, v, w, g, b, initial;
	result o, last;
	float *state;           /* [N,H,Dk,Dv] */
	tokens of;
	int H, Dk, Dv;
	float scale;
};

__global__ void gdn2(const __grid_constant__ gdn2_call m)
{
	int e = (int)threadIdx.x, h = (int)blockIdx.x, n = (int)blockIdx.y;
	size_t column = ((size_t)n * m.H + h) * m.Dk * m.Dv + e;
	float *S = m.state + column;

	for (int d = 0; d < m.Dk; d++)
		S[d * m.Dv] = m.initial.data ? m.initial.at(column + (size_t)d * m.Dv) : 0.0f;
	for (int t = m.of.begin(n); t < m.of.end(n); t++) {
		size_t keys = ((size_t)t * m.H + h) * m.Dk, at = ((size_t)t * m.H + h) * m.Dv + e;
		float o = delta_step(S, m.Dk, m.Dv, m.w.at(at) * m.v.at(at), [&](int d) { return m.g.at(keys + d); },
			[&](int d) { return m.b.at(keys + d) * m.k.at(keys + d); }, [&](int d) { return m.k.at(keys + d); },
			[&](int d) { return m.q.at(keys + d); });
		put(m.o, at, m.scale * o);
	}
	for (int d = 0; d < m.Dk; d++)
		put(m.last, column + (size_t)d * m.Dv, S[d * m.Dv]);
}

const char *run_gdn2(capture &c)
{
	input q(c, "q", REQUIRED), k(c, "k", REQUIRED), v(c, "v", REQUIRED), w(c, "w", REQUIRED), g(c, "g", REQUIRED), b(c, "b", REQUIRED);
	input initial(c, "initial_state", OPTIONAL);
	output o(c, "o", REQUIRED), last(c, "final_state", REQUIRED);
	std::vector<int64_t> cuts = sequence_cuts(c, q.dim(0));
	buffer of = uploaded(cuts), state(last.host().count * sizeof(float));
	int H = small(q.dim(1), "H"), Dk = small(q.dim(2), "Dk"), Dv = small(v.dim(2), "Dv", 1024);

	float_dtypes({ &q.host(), &k.host(), &v.host(), &w.host(), &g.host(), &b.host(), capture_in(&c, "initial_state"), &o.host(), &last.host() });
	gdn2_call m = {
		q.any(), k.any(), v.any(), w.any(), g.any(), b.any(), initial.any(), o.any(), last.any(), state.as<float>(),
		{ of.as<int64_t>() }, H, Dk, Dv, (float)capture_number(&c, "scale", 1 / sqrt((double)Dk))
	};
	launch("gdn2", gdn2, dim3(H, (unsigned)cuts.size() - 1), Dv, 0, m);
	o.fetch();
	last.fetch();
	return "gdn2";
}
