/* A run through the layers: x <- x + mixer(norm(x)), x <- x + mlp(norm(x)); see model.h for what is rounded. */
#include "gpu/kernels/causal_conv1d.cuh"
#include "gpu/kernels/gated_product.cuh"
#include "gpu/engine/model_engine.h"
#include "gpu/engine/model_kernels.h"
#include "gpu/kernels/qk_norm_rope.cuh"
#include "gpu/kernels/rmsnorm.cuh"

enum { CHUNKED_HEAD = 128, CHUNKED_FROM = 64 };         /* heads of the chunked kernel; tokens from which it is used */
static const float l2_eps = 1e-6f;                      /* the public library's; no config has it */

/* y [rows,columns] <- x w', w [columns,depth]. */
template <class G> void engine::product(const bf16 *x, const bf16 *w, G *y, size_t rows, size_t columns, size_t depth)
{
	uintptr_t all = (uintptr_t)x | (uintptr_t)w | (uintptr_t)y | 256;
	int M = small(rows, "rows"), N = small(columns, "columns"), K = small(depth, "depth");

	general_.multiply({ M, N, K, K, K, N, 1, true, (unsigned)(all & (~all + 1)) }, 1.0f, x, w, 0.0f, y, y, nullptr);
}

/* x_ <- x_ + x w', the end of a mixer or an MLP. Into bf16, cuBLAS would round the product before it adds. */
void engine::product_onto_stream(const bf16 *x, const bf16 *w, size_t depth)
{
	product(x, w, sum_.as<float>(), T_, s_.E, depth);
	engine_add(x_.as<bf16>(), sum_.as<float>(), T_ * s_.E);
}

/* normed_ <- the zero-centred norm of x_. */
void engine::norm(const operand &weight)
{
	row_norm<bf16> m = { x_.as<bf16>(), nullptr, nullptr, weight, normed_.as<bf16>(), nullptr, T_, s_.E, (float)s_.eps, 1.0f };

	norm_rows(nullptr, m, NORM_HELD);
}

void engine::delta(layer &l, const bf16 *q, const bf16 *k, const bf16 *v)
{
	operand a = { a_.as<void>(), DT_F32 }, b = { b_.as<void>(), DT_F32 }, none = { nullptr, DT_F32 };
	operand before = { l.state.as<void>(), DT_F32 };
	result after = { l.state.as<void>(), DT_F32 };
	rule m = { a, b, l.at[EW_A_LOG], l.at[EW_DT_BIAS], none, none, s_.M, s_.N, s_.A, s_.B, true, true, l2_eps, 1 / sqrtf((float)s_.A) };
	tokens<bf16> x = { q, k, v, o_.as<bf16>() };

	if (s_.A != CHUNKED_HEAD || s_.B != CHUNKED_HEAD || T_ < CHUNKED_FROM) {
		prefill_token_by_token(m, x, cuts_.as<const int64_t>(), 1, before, after, nullptr);
		return;
	}
	if (l.chunked_tokens != T_)
		l.chunks = std::make_unique<chunked::prefill<PRECISE>>(m, std::vector<int64_t>{ 0, (int64_t)T_ });
	l.chunked_tokens = T_;
	l.chunks->enqueue(x, before, after, nullptr);
}

/* The convolutions' last inputs, of all layers, to where the next run has them. */
void engine::keep_inputs(bool in_ring)
{
	if (in_ring != in_ring_)
		for (layer &l : layers_)
			if (!l.full)
				engine_turn_history(l.ring.as<void>(), l.history.as<void>(), channels(), s_.W, past_, in_ring);
	in_ring_ = in_ring;
}

/* v_ [1,N,B] <- from qkv_, z_, a_ and b_, in one launch. */
void engine::mix_token(layer &l)
{
	engine_decode({ table_.as<const int32_t>(), qkv_.as<bf16>(), z_.as<bf16>(), a_.as<float>(), b_.as<float>(), l.conv.as<float>(),
		l.A_log.as<float>(), l.dt_bias.as<float>(), l.norm.as<float>(), v_.as<bf16>(), l.ring.as<bf16>(), l.state.as<float>(),
		s_.M, s_.N, l2_eps, (float)s_.eps });
}

/* v_ [T,N,B], the same. */
void engine::mix_tokens(layer &l)
{
	size_t C = channels(), Z = (size_t)s_.N * s_.B, key = (size_t)s_.M * s_.A;
	const bf16 *q = conv_.as<bf16>(), *k = q + key, *v = k + key;
	operand before = { l.history.as<void>(), DT_BF16 };
	conv<bf16> c = { qkv_.as<bf16>(), l.at[EW_CONV], { nullptr, DT_F32 }, before, conv_.as<bf16>(), { l.history.as<void>(), DT_BF16 },
		cuts_.as<const int64_t>(), 1, (int)C, (int64_t)T_, true };

	convolve(c, s_.W, T_ == 1);
	if (T_ > 1) {
		engine_cut(q_.as<bf16>(), conv_.as<bf16>(), T_, 0, (int)key, (int)C);
		engine_cut(k_.as<bf16>(), conv_.as<bf16>(), T_, (int)key, (int)key, (int)C);
		engine_cut(v_.as<bf16>(), conv_.as<bf16>(), T_, 2 * (int)key, (int)Z, (int)C);
		q = q_.as<bf16>(), k = k_.as<bf16>(), v = v_.as<bf16>();
	}
	delta(l, q, k, v);
	row_norm<bf16> m = { o_.as<bf16>(), nullptr, z_.as<bf16>(), l.at[EW_NORM], v_.as<bf16>(), nullptr, T_ * s_.N, s_.B, (float)s_.eps, 0.0f };
	norm_rows(nullptr, m, NORM_HELD);
}

void engine::linear(layer &l)
{
	size_t Z = (size_t)s_.N * s_.B;
	const bf16 *in = normed_.as<bf16>();

	product(in, l.matrix(EW_QKV), qkv_.as<bf16>(), T_, channels(), s_.E);
	product(in, l.matrix(EW_Z), z_.as<bf16>(), T_, Z, s_.E);
	engine_project(a_.as<float>(), in, l.at[EW_A], T_, s_.N, s_.E);
	engine_project(b_.as<float>(), in, l.at[EW_B], T_, s_.N, s_.E);
	in_ring_ ? mix_token(l) : mix_tokens(l);
	product_onto_stream(v_.as<bf16>(), l.matrix(EW_OUT), Z);
}

void engine::full(layer &l)
{
	size_t HD = (size_t)s_.H * s_.D, GD = (size_t)s_.G * s_.D;
	const bf16 *in = normed_.as<bf16>();
	bf16 *keys = l.keys.as<bf16>() + past_ * GD, *values = l.values.as<bf16>() + past_ * GD;

	product(in, l.matrix(EW_Q), qg_.as<bf16>(), T_, 2 * HD, s_.E);
	product(in, l.matrix(EW_K), k_.as<bf16>(), T_, GD, s_.E);
	product(in, l.matrix(EW_V), values, T_, GD, s_.E);
	token_heads<bf16> heads = { qg_.as<bf16>(), k_.as<bf16>(), l.at[EW_Q_NORM], l.at[EW_K_NORM], positions_.as<const int64_t>(),
		half_turns_.as<const double>(), turned_.as<bf16>(), keys, gate_.as<bf16>(), s_.H, s_.G, s_.D, s_.R / 2, (float)s_.eps };
	norm_and_turn(nullptr, heads, T_, HEADS_WARP);
	engine_attend({ turned_.as<bf16>(), l.keys.as<bf16>(), l.values.as<bf16>(), attended_.as<bf16>(), s_.H, s_.G, s_.D, T_, past_ });
	gated_rows<bf16> gated = { attended_.as<bf16>(), gate_.as<bf16>(), nullptr, nullptr, nullptr, turned_.as<bf16>(), T_, (int)HD, (int)HD, 0 };
	gate_rows(nullptr, gated, GATED_AT_ONCE);
	product_onto_stream(turned_.as<bf16>(), l.matrix(EW_O), HD);
}

/* mlp_product_ [T,I] of the dense MLP, or of the shared expert. */
void engine::swiglu(const layer &l)
{
	product(normed_.as<bf16>(), l.matrix(EW_GATE), mlp_gate_.as<bf16>(), T_, s_.I, s_.E);
	product(normed_.as<bf16>(), l.matrix(EW_UP), mlp_up_.as<bf16>(), T_, s_.I, s_.E);
	engine_swiglu(mlp_product_.as<bf16>(), mlp_gate_.as<bf16>(), mlp_up_.as<bf16>(), T_, s_.I, s_.I);
}

void engine::dense(const layer &l)
{
	swiglu(l);
	product_onto_stream(mlp_product_.as<bf16>(), l.matrix(EW_DOWN), s_.I);
}

/* Slots [T,K] of tokens, by expert. */
static std::vector<std::vector<int32_t>> by_expert(const std::vector<int32_t> &expert, int X)
{
	std::vector<std::vector<int32_t>> of(X);

	for (size_t i = 0; i < expert.size(); i++) {
		if (expert[i] < 0 || expert[i] >= X)
			refuse(E_DEVICE, "router", "a token has no expert: its logits are no numbers");
		of[expert[i]].push_back((int32_t)i);
	}
	return of;
}

/* What an expert makes of `rows` gathered rows from `first` on. */
void engine::expert(const layer &l, int e, size_t first, size_t rows)
{
	size_t E = s_.E, J = s_.J;
	bf16 *gate = expert_gate_up_.as<bf16>() + first * 2 * J, *middle = expert_product_.as<bf16>() + first * J;

	product(gathered_.as<bf16>() + first * E, l.matrix(EW_EXPERT_GATE_UP) + e * 2 * J * E, gate, rows, 2 * J, E);
	engine_swiglu(middle, gate, gate + J, rows, s_.J, 2 * s_.J);
	product(middle, l.matrix(EW_EXPERT_DOWN) + e * E * J, expert_out_.as<float>() + first * E, rows, E, J);
}

/* The tokens' experts, sorted by the host: each expert's rows lie behind each other in expert_out_, at place_. */
void engine::experts(const layer &l)
{
	std::vector<int32_t> expert_of(T_ * s_.K), place(T_ * s_.K), rows;
	std::vector<size_t> first(s_.X);

	check(cudaMemcpy(expert_of.data(), expert_.as<void>(), expert_of.size() * 4, cudaMemcpyDeviceToHost), "experts");
	auto of = by_expert(expert_of, s_.X);
	for (int e = 0; e < s_.X; e++) {
		first[e] = rows.size();
		for (int32_t slot : of[e]) {
			place[slot] = (int32_t)rows.size();
			rows.push_back(slot / s_.K);
		}
		rows.resize((rows.size() + EXPERT_ROWS - 1) / EXPERT_ROWS * EXPERT_ROWS, -1);
	}
	check(cudaMemcpy(place_.as<void>(), place.data(), place.size() * 4, cudaMemcpyHostToDevice), "places");
	check(cudaMemcpy(rows_.as<void>(), rows.data(), rows.size() * 4, cudaMemcpyHostToDevice), "rows");
	engine_gather(gathered_.as<bf16>(), normed_.as<bf16>(), rows_.as<const int32_t>(), rows.size(), s_.E);
	for (int e = 0; e < s_.X; e++)
		if (!of[e].empty())
			expert(l, e, first[e], of[e].size());
}

void engine::mixture(const layer &l)
{
	engine_project(router_.as<float>(), normed_.as<bf16>(), l.at[EW_ROUTER], T_, s_.X, s_.E);
	engine_project(shared_gate_.as<float>(), normed_.as<bf16>(), l.at[EW_SHARED_GATE], T_, 1, s_.E);
	engine_route(expert_.as<int32_t>(), route_.as<float>(), router_.as<float>(), T_, s_.X, s_.K);
	swiglu(l);
	product(mlp_product_.as<bf16>(), l.matrix(EW_DOWN), sum_.as<float>(), T_, s_.E, s_.I);
	experts(l);
	engine_mix({ x_.as<bf16>(), expert_out_.as<float>(), sum_.as<float>(), route_.as<float>(), shared_gate_.as<float>(),
		place_.as<const int32_t>(), T_, s_.E, s_.K });
}

void engine::forward(const int32_t *ids, size_t n, const std::function<void(int, const bf16 *)> &seen)
{
	std::vector<int64_t> positions(n), cuts = { 0, (int64_t)n };

	if (n == 0 || past_ + n > most_)
		refuse(E_DIM, "tokens", "%zu behind %zu; there is memory for %zu", n, past_, most_);
	for (size_t t = 0; t < n; t++)
		positions[t] = (int64_t)(past_ + t);
	check(cudaMemcpy(ids_.as<void>(), ids, n * sizeof *ids, cudaMemcpyHostToDevice), "ids");
	check(cudaMemcpy(positions_.as<void>(), positions.data(), n * sizeof positions[0], cudaMemcpyHostToDevice), "positions");
	check(cudaMemcpy(cuts_.as<void>(), cuts.data(), sizeof cuts[0] * 2, cudaMemcpyHostToDevice), "cuts");
	T_ = n;
	keep_inputs(at_once_ && n == 1);
	if (in_ring_) {
		std::vector<int32_t> table(engine_decode_table(nullptr, 0));
		engine_decode_table(table.data(), past_);
		table_.upload(table.data());
	}
	engine_embed(x_.as<bf16>(), embedding_.as<const bf16>(), ids_.as<const int32_t>(), n, s_.E);
	for (int i = 0; i < s_.layers; i++) {
		layer &l = layers_[i];
		if (seen)
			seen(i, x_.as<bf16>());
		norm(l.at[EW_INPUT_NORM]);
		l.full ? full(l) : linear(l);
		norm(l.at[EW_POST_NORM]);
		s_.X ? mixture(l) : dense(l);
	}
	norm(final_weight_);
	if (seen)
		seen(s_.layers, normed_.as<bf16>());
	past_ += n;
}

void engine::logits(bf16 *to, size_t first, size_t n)
{
	const bf16 *head = head_.as<const bf16>() ? head_.as<const bf16>() : embedding_.as<const bf16>();

	product(normed_.as<bf16>() + first * s_.E, head, to, n, s_.V, s_.E);
}
