/* The engine on the device: weights, memory, and a run through all layers. For nvcc. Failures are thrown (cuda.cuh). */
#ifndef ETALON_GPU_MODEL_ENGINE_H
#define ETALON_GPU_MODEL_ENGINE_H

#include <functional>
#include <memory>

#include "gpu/host/cublas.cuh"
#include "gpu/kernels/delta_chunk_launch.cuh"
#include "gpu/engine/model_decode.h"
#include "gpu/engine/model_folder.h"

/* PRECISE: parts of the chunked delta rule, 17 bits. EXPERT_ROWS: an expert's rows begin at a multiple of it. */
enum { PRECISE = 2, EXPERT_ROWS = 8 };
extern template class chunked::prefill<PRECISE>;

class engine {
public:
	/* Uploads f, which must outlive it; memory for `most` tokens in all. */
	engine(const engine_folder &f, size_t most);

	void forget();

	/* Takes in ids [n] behind the tokens that it remembers; `seen` (may be empty) gets each hidden state [n,E] on the device, from
	 * the embedding to the last, behind the final norm. */
	void forward(const int32_t *ids, size_t n, const std::function<void(int, const bf16 *)> &seen);

	/* to [n,V] on the device: of rows [first, first + n) of the last forward. */
	void logits(bf16 *to, size_t first, size_t n);

	double weight_bytes() const;    /* of the products' weights, all layers and the head */

private:
	struct layer {
		bool full;
		buffer weight[ENGINE_WEIGHTS];
		operand at[ENGINE_WEIGHTS];
		buffer history, state, ring;    /* [C,W-1] bf16; [N,A,B] f32; [C,W] bf16 */
		buffer conv, A_log, dt_bias, norm;      /* of a linear layer, in f32 */
		buffer keys, values;            /* [most,G,D] */
		std::unique_ptr<chunked::prefill<PRECISE>> chunks;
		size_t chunked_tokens;

		const bf16 *matrix(enum engine_weight w) const { return weight[w].as<const bf16>(); }
	};
	const engine_sizes &s_;
	size_t most_, past_, T_;
	bool at_once_;                                  /* a token is decoded by engine_decode */
	bool in_ring_;                                  /* the last inputs of the convolutions: there, not in history */
	buffer table_;                                  /* engine_decode_table's */
	cublas general_;
	buffer embedding_, head_, final_norm_;
	operand final_weight_;
	std::vector<layer> layers_;
	double weight_bytes_;
	buffer ids_, positions_, cuts_, half_turns_;
	buffer x_, normed_, sum_;                       /* [T,E]: the residual stream, its norm, a product in f32 */
	buffer qkv_, conv_, q_, k_, v_, z_, a_, b_, o_; /* of a mixer; linear: o_ [T,N,B] */
	buffer qg_, gate_, turned_, attended_;          /* of full attention: [T,2HD], [T,HD] ... */
	buffer mlp_gate_, mlp_up_, mlp_product_;        /* [T,I] */
	buffer router_, expert_, route_, place_, shared_gate_;  /* [T,X], [T,K] ..., [T] */
	buffer rows_, gathered_, expert_gate_up_, expert_product_, expert_out_; /* by expert: [slots,E], [slots,2J] ... */

	size_t channels() const { return 2 * (size_t)s_.M * s_.A + (size_t)s_.N * s_.B; }
	size_t slots(size_t T) const;   /* of T tokens' experts, each expert's rounded up */
	void allocate();
	void allocate_memory(layer &to);
	template <class G> void product(const bf16 *x, const bf16 *w, G *y, size_t rows, size_t columns, size_t depth);
	void product_onto_stream(const bf16 *x, const bf16 *w, size_t depth);
	void norm(const operand &weight);
	void widen(layer &l, const engine_layer &from);
	void keep_inputs(bool in_ring);
	void linear(layer &l);
	void mix_token(layer &l);
	void mix_tokens(layer &l);
	void delta(layer &l, const bf16 *q, const bf16 *k, const bf16 *v);
	void full(layer &l);
	void swiglu(const layer &l);
	void dense(const layer &l);
	void mixture(const layer &l);
	void experts(const layer &l);
	void expert(const layer &l, int e, size_t first, size_t rows);
};

#endif
