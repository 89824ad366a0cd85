/* Our engine of whole models: a Qwen3.5 text model, dense or mixture of experts, on one GPU, so that etalon has an engine of
 * its own to judge. It reads the folder by itself and knows nothing of ref/.
 *
 * Numbers: weights of products and all that is stored between kernels are bf16, sums float32, products cuBLAS'. Full precision
 * (float32 from load to store): in_proj_a, in_proj_b, A_log and dt_bias, with g and beta made of them; the delta rule and its
 * state; the router's logits, softmax and weights, and the shared expert's gate; scores and probabilities of the attention;
 * the experts' outputs until their sum. The residual stream is bf16: the projection that ends a mixer or an MLP is kept in
 * float32, added and then rounded once. Norms read the rounded stream. ref's contract etalon_bf16 says the same.
 *
 * Where linear attention has heads of 128 x 128 the delta rule of 64 tokens and more runs in chunks on tensor cores, each
 * operand in two parts, 17 bits; and where it has four taps too, and no more value heads than a Hopper GPU multiprocessors, one
 * launch decodes a token: it rounds where the kernels that it stands for store. */
#ifndef ETALON_GPU_MODEL_H
#define ETALON_GPU_MODEL_H

#ifdef __cplusplus
extern "C" {
#endif

#include "fixtures/io/tensor.h"

/* Milliseconds, medians: of a prefill of all tokens with the logits of the last one, and of a decoded token after them.
 * weight_bytes: what decoding a token of a dense model has to read; copy_rate: bytes a second, read and written, of a copy. */
struct engine_times { double prefill, decode, weight_bytes, copy_rate; };

/* Loads `folder` (config.json and safetensors) and runs ids [n] (I32 or I64, [n] or [1,n]) on the first device. Fills *dump,
 * which must be zero, with input_ids [n] I32, hidden.0 .. hidden.L [n,E] (the embedding; behind each layer; the last
 * behind the final norm), logits [n,V], and, from the tokens before the last `decoded` and then one at a time through the
 * memory, decode_logits [decoded,V]; all BF16; and with etalon.producer, .device, .contract and .source_sha256.
 * decoded: 0 .. n - 1; times: NULL, or filled. Freed with tensors_free, on failure too.
 * Errors: those of folder_read; E_PARAM, E_MISSING, E_DIM, E_DTYPE of a model that is none of ours; E_VALUE of an id; E_NO_BACKEND,
 * E_NO_DEVICE, E_DEVICE, E_MEMORY. */
bool engine_run(const char *folder, const struct tensor *ids, size_t decoded, struct tensors *dump, struct engine_times *times,
	struct error *e);

#ifdef __cplusplus
}
#endif
#endif
