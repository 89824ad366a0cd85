/* A model's folder as the engine reads it: sizes and weights. Plain C. */
#ifndef ETALON_GPU_MODEL_FOLDER_H
#define ETALON_GPU_MODEL_FOLDER_H

#ifdef __cplusplus
extern "C" {
#endif

#include "fixtures/io/folder.h"

/* Sizes, by letters: V vocabulary, E hidden, I the (shared) MLP's width; X experts of width J, K of them for a token; full
 * attention: H heads and G key-value heads of D, R dimensions that turn; linear attention: M key heads of A, N value
 * heads of B, W taps. */
struct engine_sizes {
	int V, E, layers, I, X, J, K, H, G, D, R, M, A, N, B, W;
	double theta, eps;
	bool tied;
};

enum engine_weight {
	EW_INPUT_NORM, EW_POST_NORM,
	EW_QKV, EW_Z, EW_A, EW_B, EW_CONV, EW_A_LOG, EW_DT_BIAS, EW_NORM, EW_OUT,
	EW_Q, EW_K, EW_V, EW_Q_NORM, EW_K_NORM, EW_O,
	EW_GATE, EW_UP, EW_DOWN, EW_ROUTER, EW_EXPERT_GATE_UP, EW_EXPERT_DOWN, EW_SHARED_GATE,
	ENGINE_WEIGHTS
};

/* An expert's parts, where a folder has experts one by one: [J,E], [J,E], [E,J]. */
enum engine_expert { EE_GATE, EE_UP, EE_DOWN, EE_PARTS };

struct engine_layer {
	bool full;
	const struct tensor *weight[ENGINE_WEIGHTS];    /* NULL: not of this kind, or in `expert` */
	const struct tensor **expert;                   /* [X,EE_PARTS], of which those are NULL that are fused; or NULL: all are */
};

struct engine_folder {
	struct engine_sizes sizes;
	struct folder files;
	const struct tensor *embedding, *head, *final_norm;
	struct engine_layer *layer;                     /* [layers] */
};

/* Reads config.json and maps the weights; each must have the shape that config.json gives it, and those of products cuBLAS' type,
 * BF16. Experts are "mlp.experts.gate_up_proj" [X,2J,E] and "mlp.experts.down_proj" [X,E,J], or one by one
 * "mlp.experts.N.gate_proj.weight", "up_proj" and "down_proj". On failure *f is zero. Freed with engine_folder_free. */
bool engine_folder_read(struct engine_folder *f, const char *path, struct error *e);
void engine_folder_free(struct engine_folder *f);

#ifdef __cplusplus
}
#endif
#endif
