/* A layer in float32 loops, in the stages that a device would launch: convolution, gates, recurrence, gated norm, each over
 * all rows of the step before the next begins. No number depends on another row, on its place or on the cut into steps. */
#include "gpu/executor/executor_cpu.h"

#include <math.h>
#include <string.h>

#include "gpu/executor/executor_faults.h"

static float *floats(const struct executor_cpu *b, int buffer) { return (float *)(void *)b->buffer[buffer].data; }
static float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
static float softplus(float x) { return (x > 0.0f ? x : 0.0f) + log1pf(expf(-fabsf(x))); }

/* Element `at` of a layer in token t of data with n elements per token and layer. */
static size_t element(const struct executor_cpu *b, int t, int layer, size_t n)
{
	return ((size_t)t * (size_t)b->shape.layers + (size_t)layer) * n;
}

static const void *data_at(const struct executor_cpu *b, const void *p, size_t element)
{
	return (const char *)p + element * dtype_info[b->shape.data].size;
}

/* ---- convolution ---- */

/* A slot's ring of the layer, [C,W]. */
static void *ring(const struct executor_cpu *b, int32_t slot, int layer)
{
	size_t n = b->C * (size_t)b->shape.W, stride = n * (size_t)b->shape.layers;

	return executor_cpu_slot(&b->buffer[RINGS], (size_t)slot, stride, dtype_info[b->shape.data].size, n * (size_t)layer);
}

static float *window_of(const struct executor_cpu *b, int r) { return floats(b, WINDOW) + (size_t)r * (size_t)b->shape.W * b->C; }

/* Row r's window [W,C] from its slot, zeros for -1. */
static void load_window(const struct executor_cpu *b, int r, int layer)
{
	size_t W = (size_t)b->shape.W, size = dtype_info[b->shape.data].size;
	float *window = window_of(b, r);
	int32_t slot = b->step.ring_read[r];

	memset(window, 0, W * b->C * sizeof *window);
	if (slot < 0) return;
	const char *from = ring(b, slot, layer);
	for (size_t c = 0; c < b->C; c++)
		for (size_t w = 0; w < W; w++) executor_cpu_load(&window[w * b->C + c], b->shape.data, from + (c * W + w) * size, 1);
}

static void store_window(const struct executor_cpu *b, int r, int32_t slot, int layer)
{
	size_t W = (size_t)b->shape.W, size = dtype_info[b->shape.data].size;
	const float *window = window_of(b, r);
	char *to = ring(b, slot, layer);

	for (size_t c = 0; c < b->C; c++)
		for (size_t w = 0; w < W; w++) executor_cpu_store(to + (c * W + w) * size, b->shape.data, &window[w * b->C + c], 1);
}

/* x [n] <- x (sum x^2 + eps)^-1/2 scale */
static void unit(float *x, int n, float eps, float scale)
{
	float squares = 0.0f;

	for (int i = 0; i < n; i++) squares += x[i] * x[i];
	float factor = 1.0f / sqrtf(squares + eps);
	for (int i = 0; i < n; i++) x[i] = x[i] * factor * scale;
}

/* c [C] of row r's token at a position, whose input is in the window. */
static void convolve_token(const struct executor_cpu *b, int r, int layer, int32_t position, float *c)
{
	const struct executor_shape *s = &b->shape;
	size_t W = (size_t)s->W;
	const float *weights = floats(b, WEIGHTS) + (size_t)layer * W * b->C;

	memset(c, 0, b->C * sizeof *c);
	for (size_t w = 0; w < W; w++) {
		const float *in = window_of(b, r) + ((size_t)position + 1 + w) % W * b->C, *weight = weights + w * b->C;

		for (size_t i = 0; i < b->C; i++) c[i] += weight[i] * in[i];
	}
	for (size_t i = 0; i < b->C; i++) c[i] *= sigmoid(c[i]);
	for (int h = 0; h < 2 * s->Hk; h++)     /* q, then k */
		unit(c + (size_t)h * (size_t)s->Dk, s->Dk, s->l2_eps, h < s->Hk ? 1.0f / sqrtf((float)s->Dk) : 1.0f);
}

/* late: a token whose result comes after the next stage has begun; -1: none. */
static void convolve(const struct executor_cpu *b, int r, int layer, const void *x, int late)
{
	const struct executor_step *s = &b->step;
	int first = s->cu_seqlens[r];

	for (int t = first; t < s->cu_seqlens[r + 1]; t++) {
		int32_t position = s->position[r] + (t - first);

		executor_cpu_load(window_of(b, r) + (size_t)(position % b->shape.W) * b->C, b->shape.data,
		                  data_at(b, x, element(b, t, layer, b->C)), b->C);
		if (t != late) convolve_token(b, r, layer, position, floats(b, CONVOLVED) + (size_t)t * b->C);
		if (s->ring_write[t] >= 0) store_window(b, r, s->ring_write[t], layer);
	}
}

/* ---- gates ---- */

/* Per token and value head: exp(g) and beta, g = -exp(A_log) softplus(a + dt_bias). */
static void gates(const struct executor_cpu *b, int r, int layer, const struct executor_data *data)
{
	const struct executor_shape *s = &b->shape;
	size_t Hv = (size_t)s->Hv, heads = (size_t)s->layers * Hv;
	const float *A_log = floats(b, WEIGHTS) + (size_t)s->layers * (size_t)s->W * b->C + (size_t)layer * Hv, *dt_bias = A_log + heads;

	for (int t = b->step.cu_seqlens[r]; t < b->step.cu_seqlens[r + 1]; t++) {
		float *gate = floats(b, GATES) + (size_t)t * Hv * 2;

		for (size_t h = 0; h < Hv; h++) {
			size_t at = element(b, t, layer, Hv) + h;
			float alpha, beta;
			executor_cpu_load(&alpha, s->data, data_at(b, data->a, at), 1);
			executor_cpu_load(&beta, s->data, data_at(b, data->b, at), 1);
			gate[2 * h] = expf(-expf(A_log[h]) * softplus(alpha + dt_bias[h]));
			gate[2 * h + 1] = sigmoid(beta);
		}
	}
}

/* ---- recurrence ---- */

/* One token of one head. S [Dk,Dv], q, k [Dk], v, u, o [Dv]. */
static void step(float *S, const float *q, const float *k, const float *v, float decay, float beta, float *u, float *o, int Dk,
                 int Dv)
{
	memset(u, 0, (size_t)Dv * sizeof *u);
	memset(o, 0, (size_t)Dv * sizeof *o);
	for (int i = 0; i < Dk; i++) {                          /* S <- exp(g) S;  u <- S'k */
		float *row = S + (size_t)i * (size_t)Dv, key = k[i];

		for (int j = 0; j < Dv; j++) u[j] += (row[j] *= decay) * key;
	}
	for (int j = 0; j < Dv; j++) u[j] = beta * (v[j] - u[j]);
	for (int i = 0; i < Dk; i++) {                          /* S <- S + k u';  o <- S'q */
		float *row = S + (size_t)i * (size_t)Dv, key = k[i], query = q[i];

		for (int j = 0; j < Dv; j++) o[j] += (row[j] += key * u[j]) * query;
	}
}

/* A slot's state of one head of the layer, [Dk,Dv]. */
static void *state(const struct executor_cpu *b, int32_t slot, int layer, int head)
{
	const struct executor_shape *s = &b->shape;
	size_t n = (size_t)s->Dk * (size_t)s->Dv, Hv = (size_t)s->Hv;

	return executor_cpu_slot(&b->buffer[STATES], (size_t)slot, n * Hv * (size_t)s->layers, dtype_info[s->state].size,
	                         ((size_t)layer * Hv + (size_t)head) * n);
}

static float *state_of(const struct executor_cpu *b, int r)
{
	return floats(b, STATE) + (size_t)r * (size_t)b->shape.Dk * (size_t)b->shape.Dv;
}

/* Row r's state [Dk,Dv] from its slot, zeros for -1. */
static void load_state(const struct executor_cpu *b, int r, int layer, int head)
{
	size_t n = (size_t)b->shape.Dk * (size_t)b->shape.Dv;
	int32_t slot = b->step.read_slot[r];

	if (slot < 0) memset(state_of(b, r), 0, n * sizeof(float));
	else executor_cpu_load(state_of(b, r), b->shape.state, state(b, slot, layer, head), n);
}

static void recur(const struct executor_cpu *b, int r, int layer, int head)
{
	const struct executor_shape *s = &b->shape;
	size_t Dk = (size_t)s->Dk, Dv = (size_t)s->Dv, Hv = (size_t)s->Hv, keys = (size_t)s->Hk * Dk, h = (size_t)head;
	float *S = state_of(b, r);

	for (int t = b->step.cu_seqlens[r]; t < b->step.cu_seqlens[r + 1]; t++) {
		const float *c = floats(b, CONVOLVED) + (size_t)t * b->C, *q = c + h / (Hv / (size_t)s->Hk) * Dk;
		const float *gate = floats(b, GATES) + ((size_t)t * Hv + h) * 2;

		step(S, q, q + keys, c + 2 * keys + h * Dv, gate[0], gate[1], floats(b, VECTOR),
		     floats(b, OUTPUT) + ((size_t)t * Hv + h) * Dv, s->Dk, s->Dv);
		int32_t to = b->step.write_slot[t];
		if (to >= 0) executor_cpu_store(state(b, to, layer, head), s->state, S, Dk * Dv);
	}
}

/* ---- gated norm ---- */

/* y = o (mean o^2 + eps)^-1/2 norm_weight silu(z) */
static void gated_norm(const struct executor_cpu *b, int t, int layer, const struct executor_data *data)
{
	const struct executor_shape *s = &b->shape;
	size_t Dv = (size_t)s->Dv, Hv = (size_t)s->Hv, L = (size_t)s->layers, at = element(b, t, layer, Hv * Dv);
	const float *weight = floats(b, WEIGHTS) + L * ((size_t)s->W * b->C + 2 * Hv) + (size_t)layer * Dv;
	float *z = floats(b, VECTOR);

	executor_cpu_load(z, s->data, data_at(b, data->z, at), Hv * Dv);
	for (size_t h = 0; h < Hv; h++) {
		const float *o = floats(b, OUTPUT) + ((size_t)t * Hv + h) * Dv;
		float *gate = z + h * Dv, squares = 0.0f;

		for (size_t i = 0; i < Dv; i++) squares += o[i] * o[i];
		float factor = 1.0f / sqrtf(squares / (float)Dv + s->norm_eps);
		for (size_t i = 0; i < Dv; i++) gate[i] = o[i] * factor * weight[i] * (gate[i] * sigmoid(gate[i]));
	}
	executor_cpu_store((char *)data->y + at * dtype_info[s->data].size, s->data, z, Hv * Dv);
}

/* missing_barrier: the token that is not ready in time in this launch, or -1: another every time. */
static int late_token(int tokens)
{
	static uint64_t launches;

	if (!executor_fault_is("missing_barrier")) return -1;
	launches++;
	return (int)((launches * UINT64_C(0x9E3779B97F4A7C15) >> 33) % ((uint64_t)tokens + 1)) - 1;
}

/* Rows [first, last) at once, as a grid of blocks runs them: all read their slots before any writes. */
static void rows(const struct executor_cpu *b, int first, int last, int layer, const struct executor_data *data, int late)
{
	const struct executor_step *s = &b->step;

	for (int r = first; r < last; r++) load_window(b, r, layer);
	for (int r = first; r < last; r++)
		if (s->kinds[r] != ROW_PADDING) convolve(b, r, layer, data->x, late);
	for (int r = first; r < last; r++)
		if (s->kinds[r] != ROW_PADDING) gates(b, r, layer, data);
	for (int h = 0; h < b->shape.Hv; h++) {
		for (int r = first; r < last; r++) load_state(b, r, layer, h);
		for (int r = first; r < last; r++)
			if (s->kinds[r] != ROW_PADDING) recur(b, r, layer, h);
	}
	for (int r = first; r < last; r++)
		for (int t = s->cu_seqlens[r]; t < s->cu_seqlens[r + 1]; t++)
			if (s->kinds[r] != ROW_PADDING) gated_norm(b, t, layer, data);
}

void executor_cpu_layer(struct executor_cpu *b, int layer, const struct executor_data *data)
{
	const struct executor_step *s = &b->step;
	int late = late_token(s->tokens);

	rows(b, 0, s->decode_rows, layer, data, late);
	rows(b, s->decode_rows, s->rows, layer, data, late);
}
