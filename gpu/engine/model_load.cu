/* The engine's weights and memory on the device. */
#include "gpu/engine/model_engine.h"
#include "gpu/kernels/rope.cuh"

static buffer upload(const tensor *t)
{
	buffer b(t->bytes);

	b.upload(t->data);
	return b;
}

/* Parts [first, end) of all experts, expert after expert. */
static buffer upload_experts(const tensor *const *expert, int X, int first, int end)
{
	size_t bytes = 0, at = 0;

	for (int p = first; p < end; p++)
		bytes += X * expert[p]->bytes;
	buffer all(bytes);
	for (int x = 0; x < X; x++)
		for (int p = first; p < end; p++) {
			const tensor *from = expert[x * EE_PARTS + p];
			check(cudaMemcpy(all.as<char>() + at, from->data, from->bytes, cudaMemcpyHostToDevice), "experts");
			at += from->bytes;
		}
	return all;
}

/* A weight, or an empty buffer. */
static buffer upload_weight(const engine_layer &l, int w, int X)
{
	if (l.weight[w])
		return upload(l.weight[w]);
	if (l.expert && w == EW_EXPERT_GATE_UP && l.expert[EE_GATE])
		return upload_experts(l.expert, X, EE_GATE, EE_DOWN);
	if (l.expert && w == EW_EXPERT_DOWN && l.expert[EE_DOWN])
		return upload_experts(l.expert, X, EE_DOWN, EE_PARTS);
	return {};
}

engine::engine(const engine_folder &f, size_t most)
	: s_(f.sizes), most_(most), past_(0), T_(0), at_once_(engine_decodes_at_once(s_.A, s_.B, s_.W, s_.N)), in_ring_(false),
	  table_(sizeof(int32_t) * engine_decode_table(nullptr, 0)), embedding_(upload(f.embedding)), final_norm_(upload(f.final_norm)),
	  final_weight_{ final_norm_.as<const void>(), f.final_norm->dtype }, layers_(f.sizes.layers), weight_bytes_((double)f.head->bytes)
{
	if (f.head != f.embedding)
		head_ = upload(f.head);
	for (int l = 0; l < s_.layers; l++) {
		layer &to = layers_[l];
		to.full = f.layer[l].full;
		for (int w = 0; w < ENGINE_WEIGHTS; w++) {
			to.weight[w] = upload_weight(f.layer[l], w, s_.X);
			to.at[w] = { to.weight[w].as<const void>(), f.layer[l].weight[w] ? f.layer[l].weight[w]->dtype : DT_BF16 };
			weight_bytes_ += (double)to.weight[w].bytes();
		}
		allocate_memory(to);
		widen(to, f.layer[l]);
	}
	half_turns_ = uploaded(turning(s_.R / 2, s_.theta));
	allocate();
	forget();
}

/* What engine_decode reads, in f32. */
void engine::widen(layer &to, const engine_layer &from)
{
	const struct { buffer *to; int from; } all[] = {
		{ &to.conv, EW_CONV }, { &to.A_log, EW_A_LOG }, { &to.dt_bias, EW_DT_BIAS }, { &to.norm, EW_NORM }
	};

	for (const auto &one : all) {
		if (!at_once_ || to.full)
			continue;
		const tensor *t = from.weight[one.from];
		std::vector<double> wide(t->count);
		dtype_load(t->dtype, t->data, t->count, wide.data());
		*one.to = uploaded(std::vector<float>(wide.begin(), wide.end()));
	}
}

double engine::weight_bytes() const { return weight_bytes_; }

size_t engine::slots(size_t T) const
{
	return T * s_.K + std::min<size_t>(s_.X, T * s_.K) * (EXPERT_ROWS - 1);
}

void engine::allocate_memory(layer &to)
{
	size_t heads = (size_t)s_.G * s_.D;

	to.chunked_tokens = 0;
	if (to.full) {
		to.keys = buffer(most_ * heads * sizeof(bf16));
		to.values = buffer(most_ * heads * sizeof(bf16));
		return;
	}
	to.history = buffer(channels() * (s_.W - 1) * sizeof(bf16));
	to.ring = buffer(channels() * s_.W * sizeof(bf16));
	to.state = buffer((size_t)s_.N * s_.A * s_.B * sizeof(float));
}

/* Of `most` tokens each. */
void engine::allocate()
{
	size_t T = most_, C = channels(), Z = (size_t)s_.N * s_.B, HD = (size_t)s_.H * s_.D, GD = (size_t)s_.G * s_.D, R = slots(T);
	size_t key = (size_t)s_.M * s_.A;
	const struct { buffer *to; size_t bytes; } all[] = {
		{ &ids_, T * 4 }, { &positions_, T * 8 }, { &cuts_, 16 }, { &x_, T * s_.E * 2 }, { &normed_, T * s_.E * 2 }, { &sum_, T * s_.E * 4 },
		{ &qkv_, T * C * 2 }, { &conv_, T * C * 2 }, { &q_, T * key * 2 }, { &k_, T * std::max(key, GD) * 2 }, { &v_, T * Z * 2 },
		{ &z_, T * Z * 2 }, { &a_, T * s_.N * 4 }, { &b_, T * s_.N * 4 }, { &o_, T * Z * 2 },
		{ &qg_, T * HD * 4 }, { &gate_, T * HD * 2 }, { &turned_, T * HD * 2 }, { &attended_, T * HD * 2 },
		{ &mlp_gate_, T * s_.I * 2 }, { &mlp_up_, T * s_.I * 2 }, { &mlp_product_, T * s_.I * 2 },
	}, of_mixture[] = {
		{ &router_, T * s_.X * 4 }, { &expert_, T * s_.K * 4 }, { &route_, T * s_.K * 4 }, { &place_, T * s_.K * 4 },
		{ &shared_gate_, T * 4 }, { &rows_, R * 4 }, { &gathered_, R * s_.E * 2 },
		{ &expert_gate_up_, R * 2 * s_.J * 2 }, { &expert_product_, R * s_.J * 2 }, { &expert_out_, R * s_.E * 4 },
	};

	for (const auto &one : all)
		*one.to = buffer(one.bytes);
	for (const auto &one : of_mixture)
		if (s_.X)
			*one.to = buffer(one.bytes);
}

void engine::forget()
{
	past_ = 0;
	in_ring_ = false;
	for (layer &l : layers_) {
		if (l.full) {
			l.keys.poison();
			l.values.poison();
			continue;
		}
		l.ring.poison();
		check(cudaMemset(l.history.as<void>(), 0, channels() * (s_.W - 1) * sizeof(bf16)), "history");
		check(cudaMemset(l.state.as<void>(), 0, (size_t)s_.N * s_.A * s_.B * sizeof(float)), "state");
	}
}
