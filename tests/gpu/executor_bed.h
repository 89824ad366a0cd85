/* An executor on the CPU backend, and requests whose inputs are a function of the request's stream and the position alone. */
#ifndef ETALON_TEST_EXECUTOR_BED_H
#define ETALON_TEST_EXECUTOR_BED_H

#include <stdlib.h>
#include <string.h>

#include "gpu/executor/executor.h"
#include "tests/helpers.h"

enum { IN_X, IN_Z, IN_A, IN_B, IN_WEIGHTS, BED_ROWS = 32 };

struct bed {
	struct executor_shape s;
	struct executor_weights w;
	float *weights;
	struct executor *x;
};

/* y: of all its tokens, as stored. */
struct play { int request; uint64_t stream; int tokens; bool speculative; unsigned char *y; };

/* Values per token and layer. */
static inline size_t width(const struct executor_shape *s, int array)
{
	return array == IN_X ? executor_channels(s) : array == IN_Z ? (size_t)s->Hv * (size_t)s->Dv : (size_t)s->Hv;
}

/* Bytes of a token's y. */
static inline size_t y_bytes(const struct executor_shape *s)
{
	return (size_t)s->layers * width(s, IN_Z) * dtype_info[s->data].size;
}

/* Uniform on [-1,1), of 12 bits and so exact in float32, then as the dtype has it. */
static inline double input(enum dtype d, uint64_t stream, int array, int position, size_t i)
{
	uint64_t seed = stream * 5 + (uint64_t)array;

	seed = random_bits(&seed) + (uint64_t)position;
	seed = random_bits(&seed) + i;
	return stored(d, (double)(int64_t)(random_bits(&seed) >> 52) * 0x1p-11 - 1);
}

static inline void bed_open(struct bed *b, const struct executor_shape *s, const struct executor_backend *backend)
{
	size_t L = (size_t)s->layers, heads = L * (size_t)s->Hv, norm = L * (size_t)s->Dv;
	size_t conv = L * executor_channels(s) * (size_t)s->W;
	struct error e;

	b->s = *s;
	b->weights = calloc(conv + 2 * heads + norm, sizeof(float));
	assert_non_null(b->weights);
	for (size_t i = 0; i < conv + 2 * heads + norm; i++) b->weights[i] = (float)input(DT_F32, 1, IN_WEIGHTS, 0, i);
	b->w = (struct executor_weights){ b->weights, b->weights + conv, b->weights + conv + heads, b->weights + conv + 2 * heads };
	b->x = executor_open(backend, s, &b->w, &e);
	if (!b->x) fail_msg("%s: %s", e.item, e.detail);
}

static inline void bed_close(struct bed *b)
{
	executor_close(b->x);
	free(b->weights);
}

static inline int bed_admit(struct bed *b, int checkpoint)
{
	int r = executor_admit(b->x, checkpoint, NULL);

	assert_true(r >= 0);
	return r;
}

/* Token t of the step has the inputs of stream at position. */
static inline void put_token(const struct bed *b, void *const in[4], int t, uint64_t stream, int position)
{
	size_t L = (size_t)b->s.layers;

	for (int array = IN_X; array <= IN_B; array++) {
		size_t n = L * width(&b->s, array);
		for (size_t i = 0; i < n; i++) {
			double v = input(b->s.data, stream, array, position, i);
			dtype_store(b->s.data, &v, 1, (char *)in[array] + ((size_t)t * n + i) * dtype_info[b->s.data].size);
		}
	}
}

/* One step of n plays. Padding rows have inputs of their own, and their y must stay what it was. */
static inline void bed_step(struct bed *b, const struct play *play, int n, int decode_rows, bool replay)
{
	struct executor_work work[BED_ROWS];
	struct executor_step s;
	struct error e;
	int order[BED_ROWS];
	size_t bytes = y_bytes(&b->s), tokens = (size_t)b->s.max_tokens;
	void *in[4];
	unsigned char *y = malloc(tokens * bytes);

	for (int i = 0; i < n; i++) work[i] = (struct executor_work){ play[i].request, play[i].tokens, play[i].speculative };
	if (!executor_plan(b->x, work, n, decode_rows, &s, order, &e)) fail_msg("%s: %s", e.item, e.detail);
	for (int i = IN_X; i <= IN_B; i++) in[i] = calloc(tokens * (size_t)b->s.layers * width(&b->s, i), sizeof(float));
	for (int r = 0; r < s.rows; r++)
		for (int t = s.cu_seqlens[r]; t < s.cu_seqlens[r + 1]; t++)
			put_token(b, in, t, order[r] < 0 ? 99 : play[order[r]].stream, s.position[r] + t - s.cu_seqlens[r]);
	memset(y, 0xEE, tokens * bytes);
	struct executor_data d = { in[IN_X], in[IN_Z], in[IN_A], in[IN_B], y };
	if (!executor_run(b->x, &d, replay, &e)) fail_msg("%s: %s", e.item, e.detail);
	for (int r = 0; r < s.rows; r++) {
		size_t first = (size_t)s.cu_seqlens[r] * bytes, size = (size_t)(s.cu_seqlens[r + 1] - s.cu_seqlens[r]) * bytes;
		if (order[r] >= 0) memcpy(play[order[r]].y, y + first, size);
		for (size_t i = 0; order[r] < 0 && i < size && !executor_faults->name; i++) assert_int_equal(y[first + i], 0xEE);
	}
	for (int i = IN_X; i <= IN_B; i++) free(in[i]);
	free(y);
}

/* ---- a small shape ---- */

#define PLAYS(...) (const struct play[]){ __VA_ARGS__ }, (int)(sizeof((struct play[]){ __VA_ARGS__ }) / sizeof(struct play))

enum { L = 2, HK = 2, HV = 4, DK = 8, DV = 6, TAPS = 4, CH = 2 * HK * DK + HV * DV, LONG = 40 };

static inline struct executor_shape shape(enum dtype state, enum dtype data)
{
	return (struct executor_shape){
		.layers = L, .Hk = HK, .Hv = HV, .Dk = DK, .Dv = DV, .W = TAPS, .slots = 12, .max_tokens = 48, .max_rows = 12,
		.state = state, .data = data, .l2_eps = 0.01f, .norm_eps = 0.03f
	};
}

/* Room for the y of LONG tokens, until the eighth next call. */
static inline unsigned char *outputs(void)
{
	static unsigned char room[8][LONG * L * HV * DV * sizeof(float)];
	static int next;

	return room[next++ % 8];
}

#endif
