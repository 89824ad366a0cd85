/* Ten faults of a causal convolution that the list of faults does not have. */
#include "tests/compare/attribute/invented.h"

enum fault {
	LAST_CHANNEL_SHORT = 1, BIAS_AFTER_ACTIVATION, SLOT_ZERO_NEWEST, HALO_LOST, TAPS_OF_PAIR_SWAPPED, STATE_COLUMN_KEPT,
	SIGMOID_FLUSHED, LANE_TAPS_SWAPPED, NEWEST_TAP_AT_END, ROW_BEFORE
};

static const struct invention list[INVENTED + 1] = {
	[LAST_CHANNEL_SHORT] = { "the oldest tap is not read for the last channel", "bias_f32",
		NULL, "at C = 36" },
	[BIAS_AFTER_ACTIVATION] = { "the bias is added after the activation", "bias_f32", NULL,
		"100 % of it in y" },
	[SLOT_ZERO_NEWEST] = { "the newest history of every sequence comes from slot 0", "bias_f32",
		NULL, "100 % of it in y" },
	[HALO_LOST] = { "a second tile of 64 tokens begins without its oldest neighbour",
		"prefill_silu", NULL, "at T = 64" },
	[TAPS_OF_PAIR_SWAPPED] = { "the last two channels have each other's taps", "prefill_silu",
		"conv_bf16", "at the last 2 of C" },
	[STATE_COLUMN_KEPT] = { "column 1 of the last sequence's state is not written",
		"short_sequences", NULL, "at N = 5, W-1 = 1" },
	[SIGMOID_FLUSHED] = { "sigmoids below 1/32 are flushed to 0", "prefill_silu", NULL,
		"100 % of it in y" },
	[LANE_TAPS_SWAPPED] = { "lane 5 of 16 reads its middle taps in the other order",
		"no_activation", NULL, "at C = 5 mod 16, T from 1 on" },
	[NEWEST_TAP_AT_END] = { "the last token of each sequence misses itself", "short_sequences",
		NULL, "100 % of it in y" },
	[ROW_BEFORE] = { "the last sequence reads the row before its own", "decode", NULL,
		"at T = 4" },
};

struct sizes { size_t T, C, W, N; };
struct inputs { const float *x, *w, *bias, *state, *cuts; };

static struct sizes sizes_of(const struct capture *c)
{
	const struct tensor *x = capture_in(c, "x"), *w = capture_in(c, "weight"), *cuts = capture_in(c, "cu_seqlens");

	return (struct sizes){ x->shape[0], x->shape[1], w->shape[1], cuts ? cuts->count - 1 : 1 };
}

/* Input t of sequence n, whose first token is `first`; t < first is in the history. */
static float value(const struct inputs *in, const struct sizes *s, size_t n, long first, long t, size_t ch, int fault)
{
	long H = (long)s->W - 1, at = H + t - first;

	if (t >= first) return in->x[(size_t)(fault == ROW_BEFORE && n + 1 == s->N ? t - 1 : t) * s->C + ch];
	if (fault == SLOT_ZERO_NEWEST && at == H - 1) n = 0;
	return in->state ? in->state[(n * s->C + ch) * (size_t)H + (size_t)at] : 0;
}

static size_t tap_index(const struct sizes *s, size_t ch, size_t w, int fault)
{
	if (fault == TAPS_OF_PAIR_SWAPPED && ch + 2 >= s->C) ch = ch + 1 == s->C ? ch - 1 : ch + 1;
	if (fault == LANE_TAPS_SWAPPED && ch % 16 == 5 && (w == 1 || w == 2)) w = 3 - w;
	return ch * s->W + w;
}

static bool left_out(const struct sizes *s, long first, long last, long t, size_t ch, size_t w, int fault)
{
	if (fault == LAST_CHANNEL_SHORT) return w == 0 && ch + 1 == s->C;
	if (fault == HALO_LOST) return w == 0 && t > first && (t - first) % 64 == 0;
	return fault == NEWEST_TAP_AT_END && w + 1 == s->W && t + 1 == last;
}

static float activate(const char *activation, float x, int fault)
{
	float s = sigmoid(x);

	if (strcmp(activation, "silu") != 0) return x;
	return fault == SIGMOID_FLUSHED && s < 1 / 32.0f ? 0 : x * s;
}

static void kernel(struct capture *c, int fault, const char *rounds)
{
	struct sizes s = sizes_of(c);
	struct inputs in = { input(c, "x"), input(c, "weight"), input(c, "bias"), input(c, "initial_state"), input(c, "cu_seqlens") };
	const char *act = capture_string(c, "activation", "none");
	size_t H = s.W - 1;
	float *y = floats(s.T * s.C), *state = floats(s.N * s.C * H);

	for (size_t i = 0; i < s.N * s.C; i++) {
		size_t n = i / s.C, ch = i % s.C;
		long first = in.cuts ? (long)in.cuts[n] : 0, last = in.cuts ? (long)in.cuts[n + 1] : (long)s.T;
		float bias = in.bias ? in.bias[ch] : 0;
		for (long t = first; t < last; t++) {
			float sum = fault == BIAS_AFTER_ACTIVATION ? 0 : bias;
			for (size_t w = 0; w < s.W; w++)
				if (!left_out(&s, first, last, t, ch, w, fault))
					sum += in.w[tap_index(&s, ch, w, fault)] * value(&in, &s, n, first, t - (long)(H - w), ch, fault);
			float a = activate(act, rounds ? bf16(sum) : sum, fault);
			y[(size_t)t * s.C + ch] = fault == BIAS_AFTER_ACTIVATION ? a + bias : a;
		}
		for (size_t j = 0; j < H; j++) {
			bool kept = fault == STATE_COLUMN_KEPT && j == 1 && n + 1 == s.N;
			state[i * H + j] = kept ? in.state[i * H + j] : value(&in, &s, n, first, last - (long)(H - j), ch, RIGHT);
		}
	}
	output(c, "y", y);
	output(c, "final_state", state);
}

static const struct inventions all = { "causal_conv1d", NULL, list, kernel };

int main(void) { return run_inventions(&all); }
