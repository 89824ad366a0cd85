/* A whole language model of delta and attention layers (Qwen3.5's text model, dense or mixture of experts): its folder,
 * and its reference in any arithmetic. A layer is an op (op.h) of its own, with sites, faults and contracts, so that
 * all that judges calls of ops judges a layer that starts from an engine's own hidden state. See docs/models.md. */
#ifndef ETALON_MODEL_H
#define ETALON_MODEL_H

#include "fixtures/io/folder.h"
#include "fixtures/io/model_config.h"
#include "ref/call/op.h"

/* What the model is made of: its kinds of layers, and the head. Each is an op, found by model_op. */
enum model_part { PART_HEAD = LAYER_KINDS, MODEL_PARTS };

/* The op of a part: "linear_attention" and "full_attention", whose y [T,E] is the hidden state behind the layer (behind the
 * final norm too where it has one), and "head", whose y [T,V] are the logits. Not among ops[]. */
const struct op *model_op(int part);
/* Its input of this name, or -1. */
int model_in(const struct op *op, const char *name);

/* Weights by the inputs of their layer's op; NULL where the layer has none. They are the folder's own (mapped), but a
 * caller may point one to a tensor of its own of the same shape. fused: copies of experts that the folder has one by one. */
enum { FUSED = 2 };
struct model_layer { enum layer_kind kind; const struct tensor *weight[MAX_IN]; struct tensors fused[FUSED]; };

struct model {
	struct model_config config;
	struct folder folder;
	const struct tensor *embedding, *head;          /* [V,E] */
	struct model_layer *layer;                      /* [layers]; the last one has the final norm */
};

/* Loads a folder with config.json and model.safetensors, or its shards and their index. Names may have the prefix
 * "model.", "model.language_model." or "language_model.model.". Experts are "mlp.experts.gate_up_proj" [X,2J,E] and
 * "mlp.experts.down_proj" [X,E,J], or one by one "mlp.experts.N.gate_proj.weight", "up_proj" [J,E] and "down_proj" [E,J], which
 * are copied together. Every tensor is accounted for: one that is missing, of
 * a wrong shape or left over (but for the vision tower and multi-token prediction) is an error with its name. */
bool model_load(struct model *m, const char *folder, struct error *e);
void model_unload(struct model *m);

/* A weight by its name in the folder, without prefix ("layers.3.mlp.up_proj.weight"), and its shape. */
struct model_weight { char name[160]; int rank; size_t shape[MAX_RANK]; };
/* That of input `in` of the layer's op; false where the layer has none there. */
bool model_weight(const struct model_config *c, size_t layer, int in, struct model_weight *w);

/* ---- what a run rounds, and what it does wrong ---- */
enum { NOWHERE = -1 };
struct model_plan {
	struct plan part[MODEL_PARTS];
	int planted;                    /* the layer that runs by `there` instead, or NOWHERE */
	struct plan there;
	const struct plan *each;        /* [layers] by which all layers run, borrowed; NULL: by the above */
	bool embedding_on;              /* the embedding is rounded to: */
	enum format embedding;
};
struct model_plan model_plan_plain(const struct arith *a, int bits);
/* The contract of a part by its text: a name, and what else is rounded, as "torch_bf16,delta.q_norm=bf16"; f32: not rounded. False
 * where there is no such name, site or type. */
bool model_contract(int part, const char *text, struct contract *k, struct error *e);
/* The contract's roundings in all parts, in the arithmetic of *p. */
bool model_plan_contract(struct model_plan *p, const char *contract, struct error *e);
/* The fault (or rounding) of the kind's op in one layer, of that kind, or, layer = NOWHERE, in all of the kind. */
void model_plan_fault(struct model_plan *p, enum layer_kind kind, int layer, int fault);
/* The plan by which a layer runs. */
const struct plan *model_plan_at(const struct model *m, const struct model_plan *p, size_t layer);

/* ---- runs ---- */

/* [rows,cols], owned. lo: NULL unless the arithmetic is wide. Freed with values_free. */
struct values { double *hi, *lo; size_t rows, cols; };
bool values_make(struct values *v, size_t rows, size_t cols, bool wide, struct error *e);
void values_free(struct values *v);

/* What the layers remember of the tokens before: zero-initialised before the first; freed with model_memory_free. */
struct model_memory { size_t tokens, layers; struct tensors *layer; };
void model_memory_free(struct model_memory *m);

/* A layer's call, for whatever takes one. x [T,E]: the hidden state that it starts from, of any float type; x_low, what x
 * lacks, and memory may be NULL, and got, the engine's answer [T,E]. The call borrows all of them. */
bool model_layer_call(const struct model *m, size_t layer, const struct tensor *x, const struct tensor *x_low,
	const struct model_memory *memory, const struct tensor *got, struct call *call, struct error *e);
/* A layer's answer has the router's logits [T,X], too: in which output. NOWHERE: it has no router. */
int model_ask_router(struct call *call);
/* Bytes that a run of the call takes: for what its pieces hold for those behind them, and at most in a piece. */
struct call_bytes { uint64_t held, piece; };
bool model_call_bytes(const struct call *call, const struct plan *plan, struct call_bytes *b, struct error *e);
/* The same of the head: x [T,E] behind the final norm, got [T,V] or NULL. */
bool model_head_call(const struct model *m, const struct tensor *x, const struct tensor *x_low, const struct tensor *got,
	struct call *call, struct error *e);

/* The same call of its first n tokens alone: these know nothing of the others. It borrows all from the whole call, and
 * from *part, which must stay where it is. */
struct first_tokens { struct call call; struct tensor x, x_low, got; };
void model_first_tokens(const struct call *all, size_t n, struct first_tokens *part);

/* A tensor that borrows data [rows,cols] of doubles; for the above. */
struct tensor tensor_of(const double *data, size_t rows, size_t cols);
/* Multiply-adds by weights for a token, the head's included: of a mixture, those of the experts that it goes to. */
uint64_t model_work(const struct model *m);
/* Those of a layer, or, part = layers, of the head. */
uint64_t model_part_work(const struct model *m, size_t part);

/* All layers: hidden[0] is the embedding of ids [n], hidden[l] what layer l-1 makes of hidden[l-1], the last behind the
 * final norm. Each is [n,E]. memory may be NULL; where given, ids go on behind its tokens, and it takes them in. Runs in
 * parallel; no answer depends on the number of threads. hidden [layers+1] is freed with model_hidden_free. */
bool model_run(const struct model *m, const struct model_plan *p, const size_t *ids, size_t n, struct model_memory *memory,
	struct values **hidden, struct error *e);
void model_hidden_free(const struct model *m, struct values *hidden);
/* The last of these alone, without room for the others; freed with values_free. */
bool model_run_last(const struct model *m, const struct model_plan *p, const size_t *ids, size_t n, struct values *last, struct error *e);

/* Logits [n,V] of rows [first, first + n) of a hidden state behind the final norm: so that not all need be held at once.
 * Freed with values_free. */
bool model_logits(const struct model *m, const struct model_plan *p, const struct values *hidden, size_t first, size_t n,
	struct values *logits, struct error *e);

#endif
