/* The tables of the ops that a model is made of; model_ops.c makes the ops from them. */
#include "model_private.h"

#define NORM(name, text) { name, text, "rmsnorm", "mean_square inverse_root xhat scale y", "plain_weight_for_zero_centred offset_twice " \
	"eps_outside_root eps_wrong eps_missing weight_plus_one_in_bf16 cast_before_weight sum_in_low_precision" }
static const struct place linear_places[] = {
	NORM("input_norm", "input norm"),
	NORM("post_norm", "norm before the MLP"),
	NORM("final_norm", "final norm"),
	{ "conv", "convolution", "causal_conv1d", "conv", "taps_reversed not_causal no_activation activation_twice" },
	{ "delta", "delta rule", "gated_delta_rule", "q_norm k_norm A_log dt_bias g beta u state o",
		"retrieve_before_decay read_before_update no_error_term error_without_beta error_twice no_decay decay_as_positive "
		"decay_without_A_log dt_bias_missing dt_bias_first_element softplus_is_relu beta_is_tanh beta_doubled l2_mean l2_missing_q "
		"l2_missing_k scale_missing scale_twice head_map_tiled" },
	{ "norm", "gated norm", "rmsnorm", "mean_square inverse_root xhat silu_gate weighted y", "zero_centred_for_plain eps_wrong "
		"gate_before_norm gate_is_sigmoid gate_missing cast_before_weight gate_after_rounding sum_in_low_precision" },
	{ 0 }
};
static const struct place full_places[] = {
	NORM("input_norm", "input norm"),
	NORM("post_norm", "norm before the MLP"),
	NORM("final_norm", "final norm"),
	NORM("q_norm", "norm of q"),
	NORM("k_norm", "norm of k"),
	{ "rope", "rope", "rope", "positions inv_freq angle cos_sin x1_cos x2_sin x2_cos x1_sin y",
		"exponent_over_head_dim pairs_half_head_dim rotates_all_dims "
		"rotates_the_tail interleaved_for_half theta_1e4 theta_1e6 no_range_reduction turns_backwards positions_in_bf16 inv_freq_in_bf16 "
		"angle_in_bf16" },
	{ 0 }
};

#define HIDDEN { "x", "T,E", 0, "the hidden state" }, { "x_low", "T,E", OPTIONAL, "what x lacks of it" }
#define COMMON_IN \
	[IN_X] = HIDDEN, \
	[IN_INPUT_NORM] = { "input_norm", "E", 0, "input_layernorm.weight" }, \
	[IN_POST_NORM] = { "post_norm", "E", 0, "post_attention_layernorm.weight" }, \
	[IN_FINAL_NORM] = { "final_norm", "E", OPTIONAL, "norm.weight" }, \
	[IN_GATE] = { "gate", "I,E", 0, "mlp.gate_proj.weight|mlp.shared_expert.gate_proj.weight" }, \
	[IN_UP] = { "up", "I,E", 0, "mlp.up_proj.weight|mlp.shared_expert.up_proj.weight" }, \
	[IN_DOWN] = { "down", "E,I", 0, "mlp.down_proj.weight|mlp.shared_expert.down_proj.weight" }, \
	[IN_ROUTER] = { "router", "X,E", OPTIONAL, "mlp.gate.weight" }, \
	[IN_EXPERT_GATE_UP] = { "expert_gate_up", "X,JJ,E", OPTIONAL, "mlp.experts.gate_up_proj" }, \
	[IN_EXPERT_DOWN] = { "expert_down", "X,E,J", OPTIONAL, "mlp.experts.down_proj" }, \
	[IN_SHARED_GATE] = { "shared_gate", "1,E", OPTIONAL, "mlp.shared_expert_gate.weight" }
static const struct tensor_spec linear_in[] = {
	COMMON_IN,
	[IN_QKV] = { "qkv", "C,E", 0, "linear_attn.in_proj_qkv.weight" },
	[IN_Z] = { "z", "Z,E", 0, "linear_attn.in_proj_z.weight" },
	[IN_A] = { "a", "Hv,E", 0, "linear_attn.in_proj_a.weight" },
	[IN_B] = { "b", "Hv,E", 0, "linear_attn.in_proj_b.weight" },
	[IN_CONV] = { "conv", "C,1,W", 0, "linear_attn.conv1d.weight" },
	[IN_A_LOG] = { "A_log", "Hv", 0, "linear_attn.A_log" },
	[IN_DT_BIAS] = { "dt_bias", "Hv", 0, "linear_attn.dt_bias" },
	[IN_NORM] = { "norm", "Dv", 0, "linear_attn.norm.weight" },
	[IN_OUT] = { "out", "E,Z", 0, "linear_attn.out_proj.weight" },
	[IN_HISTORY] = { "history", "C,W-1", OPTIONAL, "" },
	[IN_STATE] = { "state", "Hv,Dk,Dv", OPTIONAL, "" },
	{ 0 }
};
static const struct tensor_spec full_in[] = {
	COMMON_IN,
	[IN_Q] = { "q", "QG,E", 0, "self_attn.q_proj.weight" },
	[IN_K] = { "k", "GD,E", 0, "self_attn.k_proj.weight" },
	[IN_V] = { "v", "GD,E", 0, "self_attn.v_proj.weight" },
	[IN_O] = { "o", "E,HD", 0, "self_attn.o_proj.weight" },
	[IN_Q_NORM] = { "q_norm", "D", 0, "self_attn.q_norm.weight" },
	[IN_K_NORM] = { "k_norm", "D", 0, "self_attn.k_norm.weight" },
	[IN_KEYS] = { "keys", "S,GD", OPTIONAL, "" },
	[IN_VALUES] = { "values", "S,GD", OPTIONAL, "" },
	{ 0 }
};
static const struct tensor_spec head_in[] = { [IN_X] = HIDDEN, [IN_HEAD] = { "head", "V,E", 0, "lm_head.weight" }, { 0 } };

static const struct tensor_spec linear_out[] = {
	[OUT_Y] = { "y", "T,E", 0, "" }, [OUT_HISTORY] = { "history", "C,W-1", OPTIONAL, "" }, [OUT_STATE] = { "state", "Hv,Dk,Dv",
		OPTIONAL, "" }, { 0 }
};
static const struct tensor_spec full_out[] = {
	[OUT_Y] = { "y", "T,E", 0, "" }, [OUT_KEYS] = { "keys", "N,GD", OPTIONAL, "" }, [OUT_VALUES] = { "values", "N,GD", OPTIONAL,
		"" }, { 0 }
};
static const struct tensor_spec head_out[] = { [OUT_Y] = { "y", "T,V", 0, "" }, { 0 } };

static const struct param_spec params[] = {
	[P_EPS] = { "eps", PARAM_REAL, NULL, true, 0, "of the norms" },
	[P_TOP_K] = { "top_k", PARAM_REAL, NULL, true, 0, "experts for a token" },
	[P_THETA] = { "theta", PARAM_REAL, NULL, true, 0, "base of the frequencies" },
	[P_ROTARY_DIM] = { "rotary_dim", PARAM_REAL, NULL, true, 0, "dimensions that turn" },
	{ 0 }
};

#define COMMON_SITES \
	[SITE_MIXED] = { "mixed", "the mixer's output projection", 0, 0 }, \
	[SITE_RESIDUAL] = { "residual", "x plus the mixer's output", 0, 0 }, \
	[SITE_GATE] = { "gate", "W_gate x", 0, 0 }, \
	[SITE_SILU] = { "silu", "silu(W_gate x)", 0, 0 }, \
	[SITE_UP] = { "up", "W_up x", 0, 0 }, \
	[SITE_PRODUCT] = { "product", "silu(W_gate x) W_up x", 0, 0 }, \
	[SITE_DOWN] = { "down", "the MLP's output projection, of each expert too", 0, 0 }, \
	[SITE_ROUTER] = { "router", "the router's logits", 0, 0 }, \
	[SITE_PROBABILITY] = { "probability", "softmax of the router's logits", 0, 0 }, \
	[SITE_ROUTE] = { "route", "the chosen experts' weights, over their sum", 0, 0 }, \
	[SITE_EXPERT] = { "expert", "an expert's output times its weight", 0, 0 }, \
	[SITE_RUNNING] = { "running", "the running sum of experts, one after the other", 0, 0 }, \
	[SITE_EXPERTS] = { "experts", "the sum of experts", 0, 0 }, \
	[SITE_SHARED_LOGIT] = { "shared_logit", "W_shared x", 0, 0 }, \
	[SITE_SHARED_GATE] = { "shared_gate", "sigmoid(W_shared x)", 0, 0 }, \
	[SITE_SHARED] = { "shared", "the shared expert times its gate", 0, 0 }, \
	[SITE_MLP] = { "mlp", "experts and shared expert", 0, 0 }, \
	[SITE_HIDDEN] = { "hidden", "the residual stream behind the layer", 0, 0 }, \
	[SITE_Y] = { "y", "the output, behind the final norm where the layer has one", 0, 1 + OUT_Y }
static const struct site_spec linear_sites[] = {
	COMMON_SITES,
	[SITE_QKV] = { "qkv", "W_qkv x", 0, 0 }, [SITE_Z] = { "z", "W_z x", 0, 0 }, [SITE_A] = { "a", "W_a x", 0, 0 },
		[SITE_B] = { "b", "W_b x", 0, 0 },
	[SITE_CONV_OUT] = { "conv_out", "q, k and v behind convolution and SiLU", 0, 0 },
	{ 0 }
};
static const struct site_spec full_sites[] = {
	COMMON_SITES,
	[SITE_Q] = { "q", "W_q x: query and gate", 0, 0 }, [SITE_K] = { "k", "W_k x", 0, 0 }, [SITE_V] = { "v", "W_v x", 0, 0 },
	[SITE_TURNED] = { "turned", "q and k, normed and turned", 0, 0 },
	[SITE_SCORES] = { "scores", "q k'", 0, 0 }, [SITE_SCALED] = { "scaled", "q k' / sqrt D", 0, 0 },
	[SITE_WEIGHTS] = { "weights", "e^(score - the row's largest), before their sum divides it", 0, 0 },
	[SITE_SOFTMAX] = { "softmax", "attention probabilities", 0, 0 }, [SITE_ATTENTION] = { "attention", "their product with v", 0,
		0 },
	[SITE_SIGMOID] = { "sigmoid", "the output's gate", 0, 0 }, [SITE_GATED] = { "gated", "attention times its gate", 0, 0 },
	{ 0 }
};
static const struct site_spec head_sites[] = { { "logits", "W_head x", 0, 1 + OUT_Y }, { 0 } };

#define OWN(name, what, seen) { name, what, seen, 0, 0, 0, 0 }
#define COMMON_FAULTS \
	[RESIDUAL_MISSING] = OWN("residual_missing", "the mixer's output without x", ""), \
	[RESIDUAL_FROM_NORM] = OWN("residual_from_norm", "the normed x for x in the residual", ""), \
	[MLP_RESIDUAL_MISSING] = OWN("mlp_residual_missing", "the MLP's output without its residual", ""), \
	[GATE_UP_SWAPPED] = OWN("mlp.gate_up_swapped", "MLP: W_gate and W_up exchanged", ""), \
	[ACTIVATION_MISSING] = OWN("mlp.activation_missing", "MLP: no SiLU", ""), \
	[DOWN_TRANSPOSED] = OWN("mlp.transposed_linear", "MLP: W_down read as [I,E]", ""), \
	[EXPERTS_GATE_UP_SWAPPED] = OWN("experts.gate_up_swapped", "experts: halves of gate_up exchanged", ""), \
	[EXPERTS_SPLIT_INTERLEAVED] = OWN("experts.fused_experts_split_wrongly", \
		"experts: even and odd rows of gate_up for its halves", ""), \
	[EXPERT_WEIGHTS_TRANSPOSED] = OWN("experts.expert_weights_transposed", "experts: W_down read as [J,E]", ""), \
	[NO_RENORMALISING] = OWN("router.no_renormalising", "router: weights of the top k not divided by their sum", ""), \
	[ROUTER_IS_SIGMOID] = OWN("router.sigmoid_for_softmax", "router: sigmoid for softmax", ""), \
	[TOP_K_OFF_BY_ONE] = OWN("router.top_k_off_by_one", "router: the last of the top k left out", ""), \
	[SHARED_EXPERT_MISSING] = OWN("shared.shared_expert_missing", "shared expert: not added", ""), \
	[SHARED_GATE_MISSING] = OWN("shared.shared_gate_missing", "shared expert: no gate", "torchtitan#36"), \
	[SHARED_GATE_ON_EVERYTHING] = OWN("shared.shared_gate_on_everything", "shared expert: its gate on all experts' sum", \
		"ik_llama.cpp#1368"), \
	[SHARED_EXPERT_PER_RANK] = OWN("shared.shared_expert_counted_per_rank", "shared expert: added by each of 8 ranks", \
		"sglang#26845")
static const struct fault_spec linear_faults[] = {
	COMMON_FAULTS,
	[A_B_SWAPPED] = OWN("a_b_swapped", "W_a and W_b exchanged", "Arcaine#11"),
	[QKV_BY_GROUP] = OWN("qkv_by_group", "q | k | v read as one group after the other, each with its q, k and v", ""),
	[LINEAR_NORM_OVER_HEADS] = OWN("norm.norm_over_all_heads", "gated norm: one norm over all heads", ""),
	{ 0 }
};
static const struct fault_spec full_faults[] = {
	COMMON_FAULTS,
	[GATE_SPLIT_FLAT] = OWN("gate_split_flat", "halves of the whole projection for halves of each head", "llmman#16"),
	[GATE_BEFORE_ATTENTION] = OWN("gate_before_attention", "the gate on q for the gate on the output", ""),
	[GATE_IS_SILU] = OWN("gate_is_silu", "silu for sigmoid on the gate", ""),
	[OUTPUT_GATE_MISSING] = OWN("output_gate_missing", "the gate is not applied", ""),
	[GQA_TILED] = OWN("gqa_tiled", "key-value head h mod G for h / (H/G)", ""),
	[CAUSAL_OFF_BY_ONE] = OWN("causal_off_by_one", "one token of look-ahead", ""),
	[ATTENTION_SCALE_MISSING] = OWN("scale_missing", "scores not divided by sqrt D", ""),
	[QK_NORM_MISSING] = OWN("qk_norm_missing", "q and k not normed", ""),
	[QK_NORM_AFTER_ROPE] = OWN("qk_norm_after_rope", "q and k turned first, then normed", ""),
	[QK_NORM_OVER_HEADS] = OWN("qk_norm_over_heads", "one norm over two neighbouring heads", ""),
	[KEYS_NOT_TURNED] = OWN("keys_not_turned", "rope on q only", "sglang#19636"),
	[POSITION_OFF] = OWN("decode_position_off", "positions begin at 0 in each call", ""),
	[EXP_BY_CUBIC] = OWN("attention.exp_by_cubic", "attention: e^x by a cubic, up to 1e-4 off", ""),
	{ 0 }
};
static const struct fault_spec no_faults[] = { { 0 } };

/* What a public library's bf16 run rounds (transformers): all that it stores between modules. Eager attention stores scores and
 * probabilities; a fused kernel holds them in float32 but for the operand of the product with v, e^(score - max). */
#define COMMON_BF16 "input_norm.y mixed residual post_norm.y gate silu up product down router route expert running experts shared_logit shared_gate " \
	"shared mlp hidden final_norm.y y "
#define LINEAR_BF16 COMMON_BF16 "qkv z a b conv.conv conv_out delta.beta delta.o norm.xhat norm.weighted norm.y"
#define FULL_BF16 COMMON_BF16 "q k v q_norm.y k_norm.y rope.cos_sin rope.x1_cos rope.x2_sin rope.x2_cos rope.x1_sin rope.y attention sigmoid gated "
/* What our own engine rounds (gpu/engine/model.h): what it stores between kernels. */
#define COMMON_OURS "input_norm.y residual post_norm.y gate up product hidden final_norm.y y "
const struct contract_names model_contracts[] = {
	{ "f32", "all in float32", { "", "", "" } },
	{ "etalon_bf16", "our engine in bf16: what is stored between kernels; sums, gates, delta rule, scores and router in float32", {
		COMMON_OURS "qkv z conv_out delta.o norm.y", COMMON_OURS "q k v turned attention gated", "logits" } },
	{ "torch_bf16", "torch in bf16, operator by operator; the delta rule in float32", { LINEAR_BF16, FULL_BF16 "scores scaled softmax",
		"logits" } },
	{ "torch_sdpa_bf16", "the same, scores and softmax fused in float32", { LINEAR_BF16, FULL_BF16 "weights", "logits" } },
	{ 0 }
};

const struct part_tables model_tables[MODEL_PARTS] = {
	[LINEAR_ATTENTION] = { {
		.name = "linear_attention", .what = "a layer of linear attention and its MLP",
		.dims = { "T", "E", "1", "I", "X", "J", "JJ", "C", "W", "Hk", "Hv", "Dk", "Dv", "Z" },
		.params = params, .in = linear_in, .out = linear_out, .sites = linear_sites, .faults = linear_faults,
			.forms = { { "layer", linear_piece } } },
		linear_places },
	[FULL_ATTENTION] = { {
		.name = "full_attention", .what = "a layer of gated full attention and its MLP",
		.dims = { "T", "E", "1", "I", "X", "J", "JJ", "S", "H", "G", "D", "QG", "GD", "HD", "N" },
		.params = params, .in = full_in, .out = full_out, .sites = full_sites, .faults = full_faults, .forms = { { "layer",
			full_piece } } },
		full_places },
	[PART_HEAD] = { {
		.name = "head", .what = "logits of the last hidden state", .dims = { "T", "E", "V" },
		.params = params, .in = head_in, .out = head_out, .sites = head_sites, .faults = no_faults, .forms = { { "head",
			head_piece } } }, NULL },
};
