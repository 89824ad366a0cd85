/* causal_conv1d, per sequence and channel: y_t = act(bias + Σ_w weight_w x_{t-W+1+w}). Before the
 * first token stands initial_state, oldest first; final_state is the last W-1 inputs. */
#include "parts.h"

enum { D_T, D_C, D_W, D_N };
enum { IN_X, IN_WEIGHT, IN_BIAS, IN_STATE, IN_CU };
enum { OUT_Y, OUT_STATE };
enum { P_ACTIVATION };
enum { SITE_PRODUCTS, SITE_CONV, SITE_Y };
enum {
	TAPS_REVERSED, NOT_CAUSAL, NO_ACTIVATION, ACTIVATION_TWICE, BIAS_MISSING, ZERO_HISTORY, HISTORY_AFTER_ACTIVATION,
	HISTORY_AFTER_CONVOLUTION, RING_OFF_BY_ONE, SHORT_CHUNK_HISTORY, HISTORY_FROM_PADDED_END, LEAKS_ACROSS_SEQUENCES
};

struct sequence { size_t n; span token; };

static struct sequence sequence_of(const calc *c, size_t t)
{
	for (size_t n = 0;; n++) {
		span s = c_sequence(c, IN_CU, D_T, n);
		if (t < s.last) return (struct sequence){ n, s };
	}
}

/* The input `back` tokens before token t of the sequence: [C], from x, from the history, or zero. */
static void input(calc *c, vec x, struct sequence s, size_t t, long back)
{
	size_t C = c_dim(c, D_C), H = c_dim(c, D_W) - 1;
	long at = (long)t - back, before = (long)s.token.first - at;

	if (at >= (long)s.token.last || before > (long)H) c_set(c, x, 0);
	else if (before <= 0 || (c_fault(c, LEAKS_ACROSS_SEQUENCES) && at >= 0)) c_load(c, x, IN_X, (size_t)at * C, 1);
	else if (!c_has(c, IN_STATE) || c_fault(c, ZERO_HISTORY)) c_set(c, x, 0);
	else c_load(c, x, IN_STATE, s.n * C * H + H - (size_t)before, H);
}

size_t conv_tap_of(const calc *c, size_t W, size_t i) { return c_fault(c, TAPS_REVERSED) ? W - 1 - i : i; }
size_t conv_ahead(const calc *c) { return c_fault(c, NOT_CAUSAL); }

void conv_tap(calc *c, vec y, vec w, vec x)
{
	vec t = c_vec(c, y.n);

	c_mul(c, t, x, w);
	c_site(c, SITE_PRODUCTS, t);
	c_add(c, y, y, t);
}

void conv_activation(calc *c, vec y, bool silu)
{
	c_site(c, SITE_CONV, y);
	if (silu && !c_fault(c, NO_ACTIVATION)) c_map(c, y, FN_SILU, y);
	if (c_fault(c, ACTIVATION_TWICE)) c_map(c, y, FN_SILU, y);
}

static void activation(calc *c, vec y) { conv_activation(c, y, c_param(c, P_ACTIVATION) != 0); }

static void convolve(calc *c, vec y, struct sequence s, size_t t)
{
	size_t W = c_dim(c, D_W);
	vec x = c_vec(c, y.n), w = c_vec(c, y.n);
	long ahead = (long)conv_ahead(c);

	if (c_has(c, IN_BIAS) && !c_fault(c, BIAS_MISSING)) c_load(c, y, IN_BIAS, 0, 1);
	else c_set(c, y, 0);
	for (size_t i = 0; i < W; i++) {
		c_load(c, w, IN_WEIGHT, conv_tap_of(c, W, i), W);
		input(c, x, s, t, (long)(W - 1 - i) - ahead);
		conv_tap(c, y, w, x);
	}
}

/* Column j of the history that the sequence leaves behind: the input H - j tokens before its end. */
static void history(calc *c, vec x, struct sequence s, size_t j, size_t H)
{
	long back = (long)(H - j), length = (long)(s.token.last - s.token.first);
	bool old = back > length;

	if (c_fault(c, RING_OFF_BY_ONE)) back++;
	if (c_fault(c, HISTORY_FROM_PADDED_END)) back -= length % 64 ? 64 - length % 64 : 0;
	input(c, x, s, s.token.last, back);
	if (c_fault(c, HISTORY_AFTER_ACTIVATION) && !old) activation(c, x);
	if (c_fault(c, SHORT_CHUNK_HISTORY) && old) c_set(c, x, 0);
	if (c_fault(c, HISTORY_AFTER_CONVOLUTION) && !old) {
		convolve(c, x, s, (size_t)((long)s.token.last - back));
		activation(c, x);
	}
}

/* Pieces 0 .. T-1 are tokens, then each sequence's final state. */
static void piece(calc *c, size_t i)
{
	size_t T = c_dim(c, D_T), C = c_dim(c, D_C), H = c_dim(c, D_W) - 1;
	vec y = c_vec(c, C);

	if (i < T) {
		convolve(c, y, sequence_of(c, i), i);
		activation(c, y);
		c_site(c, SITE_Y, y);
		c_store(c, OUT_Y, i * C, 1, y);
		return;
	}
	struct sequence s = { i - T, c_sequence(c, IN_CU, D_T, i - T) };
	for (size_t j = 0; j < H; j++) {
		history(c, y, s, j, H);
		c_store(c, OUT_STATE, s.n * C * H + j, H, y);
	}
}

static bool check(const struct call *call, struct error *e)
{
	if (!call->in[IN_CU] && call->dim[D_N] != 1)
		return error_set(e, E_MISSING, "in.cu_seqlens", NO_OFFSET, "expected it where N is not 1");
	return call_check_cuts(call, IN_CU, D_T, D_N, e);
}

static size_t pieces(const struct call *call) { return call->dim[D_T] + (call->out_count[OUT_STATE] ? call->dim[D_N] : 0); }

static const struct tensor_spec in[] = {
	[IN_X] = { "x", "T,C", 0, "inputs" },
	[IN_WEIGHT] = { "weight", "C,W", 0, "taps, the newest token's last" },
	[IN_BIAS] = { "bias", "C", OPTIONAL, "zeros when absent" },
	[IN_STATE] = { "initial_state", "N,C,W-1", OPTIONAL, "inputs before the first, oldest first; zeros when absent" },
	[IN_CU] = { "cu_seqlens", "N+1", OPTIONAL | INTEGER, "where sequences begin; one sequence when absent" },
	{ 0 }
};
static const struct tensor_spec out[] = {
	[OUT_Y] = { "y", "T,C", 0, "" },
	[OUT_STATE] = { "final_state", "N,C,W-1", OPTIONAL, "" },
	{ 0 }
};
static const struct param_spec params[] = {
	[P_ACTIVATION] = { "activation", PARAM_CHOICE, "none|silu", false, 0, "after the sum" },
	{ 0 }
};
static const struct site_spec sites[] = {
	[SITE_PRODUCTS] = { "products", "weight_w x, before their sum", 0, 0 },
	[SITE_CONV] = { "conv", "the sum, before the activation", 0, 0 },
	[SITE_Y] = { "y", "the output", 0, 1 + OUT_Y },
	{ 0 }
};
static const struct fault_spec faults[] = {
	[TAPS_REVERSED] = { "taps_reversed", "the oldest token's tap last", "", 0, 0, 0, 0 },
	[NOT_CAUSAL] = { "not_causal", "one token of look-ahead", "", 0, 0, 0, 0 },
	[NO_ACTIVATION] = { "no_activation", "no SiLU", "", 0, 0, 0, 0 },
	[ACTIVATION_TWICE] = { "activation_twice", "SiLU applied again", "", 0, 0, 0, 0 },
	[BIAS_MISSING] = { "bias_missing", "bias = 0", "", 0, 0, 0, 0 },
	[ZERO_HISTORY] = { "zero_history", "zeros for the initial state", "imp#156", 0, 0, 0, 0 },
	[HISTORY_AFTER_ACTIVATION] = { "history_after_activation", "the final state holds silu(x)", "", 0, 0, 0, 0 },
	[HISTORY_AFTER_CONVOLUTION] = { "history_after_convolution", "the final state holds outputs (an in-place race)", "", 0, 0, 0, 0 },
	[RING_OFF_BY_ONE] = { "ring_off_by_one", "the final state one token too old", "", 0, 0, 0, 0 },
	[SHORT_CHUNK_HISTORY] = { "short_chunk_history", "a sequence shorter than W-1 drops the older history", "fla-org/flash-linear-attention#1141", 0, 0, 0, 0 },
	[HISTORY_FROM_PADDED_END] = { "history_from_padded_end", "the final state taken after pads to a multiple of 64", "LLM-TPU#150", 0, 0, 0, 0 },
	[LEAKS_ACROSS_SEQUENCES] = { "leaks_across_sequences", "the tokens before a sequence in the batch for its history", "lmms-engine#167", 0, 0, 0, 0 },
	{ 0 }
};
#define BF16 { true, FMT_BF16, ROUND_NEAREST_EVEN }
static const struct contract contracts[] = {
	{ "f32", "all in float32", 0, 0, {{ 0 }}, NULL },
	{ "conv_bf16", "the sum rounded to bf16 before the activation", 0, 0, { [SITE_CONV] = BF16 }, NULL },
	{ "bf16", "each product and the sum rounded to bf16", 0, 0, { [SITE_PRODUCTS] = BF16, [SITE_CONV] = BF16 }, NULL },
	{ 0 }
};

const struct op op_causal_conv1d = {
	.name = "causal_conv1d", .what = "y_t = act(bias + sum_w weight_w x_{t-W+1+w}), per channel",
	.dims = { "T", "C", "W", "N" }, .in = in, .out = out, .params = params, .sites = sites, .faults = faults,
	.contracts = contracts, .forms = { { "tokens", piece } }, .check = check, .pieces = pieces
};
