/* What scenarios are played with: shapes, weights, tokens and the content of free slots, all from a seed. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "isolate.h"

/* x_i uniform in [low, high), as stored in d. */
static void draw(uint64_t key, double low, double high, enum dtype d, size_t n, void *to)
{
	uint64_t state = random_mix(key + RANDOM_STEP);
	double block[64];

	for (size_t done = 0; done < n; done += 64) {
		size_t m = n - done < 64 ? n - done : 64;
		for (size_t i = 0; i < m; i++) block[i] = low + (high - low) * ((double)(random_next(&state) >> 11) * 0x1p-53);
		dtype_store(d, block, m, (char *)to + done * dtype_info[d].size);
	}
}

/* Uniform, of the variances that activations have. */
static const struct { double low, high; } range[PARTS] = { { -1.75, 1.75 }, { -2.5, 2.5 }, { -1.75, 1.75 }, { -1.75, 1.75 } };

size_t setup_part_elements(const struct setup *s, int part)
{
	size_t layers = (size_t)s->shape.layers, Hv = (size_t)s->shape.Hv;

	return layers * (part == PART_X ? executor_channels(&s->shape) : part == PART_Z ? Hv * (size_t)s->shape.Dv : Hv);
}

size_t setup_y_elements(const struct setup *s) { return setup_part_elements(s, PART_Z); }

void setup_token(const struct setup *s, uint64_t key, int part, void *to)
{
	draw(key + (uint64_t)part, range[part].low, range[part].high, s->shape.data, setup_part_elements(s, part), to);
}

size_t setup_slot_bytes(const struct setup *s) { return executor_state_bytes(&s->shape) + executor_ring_bytes(&s->shape); }

/* The bits of element type d: a quiet NaN whose payload is the slot's number, as far as it fits; else a number that bf16
 * holds too, 1024 + 8 slot, twice that in a marked slot. */
static void fill(enum dtype d, enum poison p, int slot, bool marked, size_t bytes, void *to)
{
	bool wide = d == DT_F32;
	double large = (1024 + 8 * (slot % 128)) * (marked ? 2 : 1);
	uint32_t payload = (uint32_t)slot % (wide ? 1 << 16 : 1 << 4) << 1 | (p == POISON_OTHER_NAN);
	uint32_t nan = (wide ? UINT32_C(0x7fc00000) : UINT32_C(0x7fc0)) | payload;
	size_t size = dtype_info[d].size;

	for (size_t at = 0; at < bytes; at += size) {
		if (p == POISON_LARGE) dtype_store(d, &large, 1, (char *)to + at);
		else memcpy((char *)to + at, &nan, size);       /* little-endian: the low half where size is 2 */
	}
}

void setup_poison(const struct setup *s, enum poison p, int slot, bool marked, void *states, void *rings)
{
	fill(s->shape.state, p, slot, marked, executor_state_bytes(&s->shape), states);
	fill(s->shape.data, p, slot, marked, executor_ring_bytes(&s->shape), rings);
}

/* n weights in float32 that bf16 holds too, of f(uniform). */
static float *weights(uint64_t key, double low, double high, double (*f)(double), size_t n)
{
	float *w = malloc(n * sizeof *w);

	for (size_t i = 0; w && i < n; i++) {
		double x;
		draw(key + (uint64_t)i, low, high, DT_F64, 1, &x);
		w[i] = (float)format_round(FMT_BF16, ROUND_NEAREST_EVEN, f ? f(x) : x, 0);
	}
	return w;
}

struct executor_shape setup_small(enum dtype state, enum dtype data)
{
	return (struct executor_shape){
		.layers = 2, .Hk = 1, .Hv = 2, .Dk = 16, .Dv = 16, .W = 4, .slots = LIVE_REQUESTS * (DRAFTS + 2) + LIVE_CHECKPOINTS + 5,
		.max_tokens = LIVE_REQUESTS * CHUNK + 2 * MOST_PADDED, .max_rows = LIVE_REQUESTS + 2 * MOST_PADDED,
		.state = state, .data = data, .l2_eps = 1e-6f, .norm_eps = 1e-6f
	};
}

struct executor_shape setup_heads(enum dtype state, enum dtype data)
{
	struct executor_shape s = setup_small(state, data);

	s.Dk = s.Dv = 128;
	s.max_tokens = LIVE_REQUESTS * CHUNK * STRETCH + 2 * MOST_PADDED;
	return s;
}

struct executor_shape setup_ranks(struct executor_shape s)
{
	s.Hk = 2;
	s.Hv = 4;
	return s;
}

/* As of trained models: A = exp(A_log), up to 2 here so that memories last for a scenario. */
bool setup_make(struct setup *s, const struct executor_backend *backend, const struct executor_shape *shape, uint64_t seed, struct error *e)
{
	size_t layers = (size_t)shape->layers, C = executor_channels(shape), heads = layers * (size_t)shape->Hv;

	*s = (struct setup){ .backend = backend, .shape = *shape, .seed = seed };
	uint64_t key = random_mix(seed + 7) << 24;
	s->weights.conv = weights(key, -0.9, 0.9, NULL, layers * C * (size_t)shape->W);
	s->weights.A_log = weights(key + (1 << 20), 0.05, 2, log, heads);
	s->weights.dt_bias = weights(key + (2 << 20), -6, -1, NULL, heads);
	s->weights.norm = weights(key + (3 << 20), 0.7, 1.3, NULL, layers * (size_t)shape->Dv);
	if (s->weights.conv && s->weights.A_log && s->weights.dt_bias && s->weights.norm) return true;
	setup_free(s);
	return error_set(e, E_MEMORY, "isolate", NO_OFFSET, "the weights of %zu layers", layers);
}

void setup_free(struct setup *s)
{
	free((void *)s->weights.conv);
	free((void *)s->weights.A_log);
	free((void *)s->weights.dt_bias);
	free((void *)s->weights.norm);
	*s = (struct setup){ 0 };
}
