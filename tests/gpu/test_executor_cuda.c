/* The executor's CUDA backend: against its CPU backend, which shares no code with it, and laws to the bit. Skipped where
 * there is no device. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/executor/executor.h"
#include "tests/helpers.h"

enum { REQUESTS = 6, LENGTH = 16, SLOTS = 40, MAX_TOKENS = 64, MAX_ROWS = 12, UNTOUCHED = 0x5c };

/* How one and the same history is cut into steps. */
struct way { const char *name; bool replay, backwards, split; int padding; bool alone; };

static const struct way plain = { .name = "plain" };
static const struct way ways[] = {
	{ .name = "replayed", .replay = true },
	{ .name = "rows backwards", .backwards = true },
	{ .name = "prefill in chunks", .split = true },
	{ .name = "padded and replayed", .replay = true, .padding = 3 },
	{ .name = "every request alone", .alone = true },
};

/* A history: y of every request and position, and its memory at the end. */
struct history { unsigned char *y, *states, *rings; size_t y_bytes, state_bytes, ring_bytes; };

struct player {
	struct executor_shape shape;
	const struct way *way;
	struct executor *x;
	int request[REQUESTS];          /* handles */
	struct history *to;
	unsigned char *part[5];         /* x, z, a, b, y of a step */
	size_t each[5];                 /* elements of a token */
};

static bool device(void)
{
	struct error e = { 0 };
	struct executor_shape one = { 1, 1, 1, 1, 1, 1, 1, 1, 1, DT_F32, DT_F32, 1, 1 };
	const float w[2] = { 0 };
	const struct executor_backend *cuda = executor_cuda(&e);
	void *opened = cuda ? cuda->open(&one, &(struct executor_weights){ w, w, w, w }, &e) : NULL;

	if (opened) cuda->close(opened);
	else if (e.code != E_NO_BACKEND && e.code != E_NO_DEVICE) fail_msg("%s: %s", e.item, e.detail);
	return opened;
}

static void need(bool ok, const struct error *e)
{
	if (!ok) fail_msg("%s: %s", e->item, e->detail);
}

/* A number that depends on its place alone. */
static double drawn(int request, int position, int what, size_t i)
{
	uint64_t state = (uint64_t)request << 48 ^ (uint64_t)position << 32 ^ (uint64_t)what << 28 ^ i, sum = 0;

	random_bits(&state);
	for (int k = 0; k < 4; k++) sum += random_bits(&state) >> 34;
	return ((double)sum * 0x1p-30 - 2) * 1.7;       /* variance 1 */
}

static float *weights(size_t n, int what, float scale, float shift)
{
	float *w = malloc(n * sizeof *w);

	for (size_t i = 0; i < n; i++) w[i] = shift + scale * (float)drawn(99, 0, what, i);
	return w;
}

static void open_player(struct player *p, const struct executor_backend *backend)
{
	const struct executor_shape *s = &p->shape;
	size_t L = (size_t)s->layers, C = executor_channels(s), Hv = (size_t)s->Hv, Dv = (size_t)s->Dv;
	float *conv = weights(L * C * (size_t)s->W, 0, 0.5f, 0), *A_log = weights(L * Hv, 1, 0.5f, 0);
	float *dt_bias = weights(L * Hv, 2, 1, 0), *norm = weights(L * Dv, 3, 0.2f, 1);
	struct error e = { 0 };

	p->x = executor_open(backend, s, &(struct executor_weights){ conv, A_log, dt_bias, norm }, &e);
	need(p->x, &e);
	size_t each[] = { L * C, L * Hv * Dv, L * Hv, L * Hv, L * Hv * Dv };
	for (int i = 0; i < 5; i++) {
		p->each[i] = each[i];
		p->part[i] = malloc(MAX_TOKENS * each[i] * dtype_info[s->data].size);
	}
	free(conv), free(A_log), free(dt_bias), free(norm);
}

static void close_player(struct player *p)
{
	executor_close(p->x);
	for (int i = 0; i < 5; i++) free(p->part[i]);
}

/* ---- a step ---- */

struct job { int request, tokens; bool speculative; };

static void run_jobs(struct player *p, const struct job *jobs, int n)
{
	struct executor_work work[REQUESTS];
	struct executor_step s;
	struct error e = { 0 };
	int order[MAX_ROWS], decoding = 0, position[REQUESTS];
	size_t size = dtype_info[p->shape.data].size, y = p->each[4] * size;

	for (int i = 0; i < n; i++) {
		const struct job *j = &jobs[p->way->backwards ? n - 1 - i : i];
		int handle = p->request[j->request];
		work[i] = (struct executor_work){ handle, j->tokens, j->speculative };
		position[i] = executor_position(p->x, handle);
		decoding += executor_slot(p->x, handle) >= 0 && j->tokens == 1 && !j->speculative;
	}
	need(executor_plan(p->x, work, n, decoding && p->way->padding ? decoding + p->way->padding : 0, &s, order, &e), &e);
	for (int i = 0; i < 4; i++) memset(p->part[i], 0xff, (size_t)s.tokens * p->each[i] * size);     /* NaN for padding */
	memset(p->part[4], UNTOUCHED, (size_t)s.tokens * y);
	for (int r = 0; r < s.rows; r++)
		for (int t = s.cu_seqlens[r]; order[r] >= 0 && t < s.cu_seqlens[r + 1]; t++)
			for (int i = 0; i < 4; i++)
				for (size_t k = 0; k < p->each[i]; k++) {
					const struct job *j = &jobs[p->way->backwards ? n - 1 - order[r] : order[r]];
					double v = drawn(j->request, position[order[r]] + t - s.cu_seqlens[r], 10 + i, k);
					dtype_store(p->shape.data, &v, 1, p->part[i] + ((size_t)t * p->each[i] + k) * size);
				}
	struct executor_data data = { p->part[0], p->part[1], p->part[2], p->part[3], p->part[4] };
	need(executor_run(p->x, &data, p->way->replay, &e), &e);
	need(executor_guards(p->x, &e), &e);
	for (int r = 0; r < s.rows; r++)
		for (int t = s.cu_seqlens[r]; t < s.cu_seqlens[r + 1]; t++) {
			for (size_t k = 0; order[r] < 0 && k < y; k++) assert_int_equal(p->part[4][(size_t)t * y + k], UNTOUCHED);
			if (order[r] < 0) continue;
			int request = jobs[p->way->backwards ? n - 1 - order[r] : order[r]].request;
			int at = position[order[r]] + t - s.cu_seqlens[r];
			memcpy(p->to->y + (size_t)(request * LENGTH + at) * y, p->part[4] + (size_t)t * y, y);
		}
}

/* Jobs of one step, cut as the way says. */
static void do_step(struct player *p, const struct job *jobs, int n)
{
	struct job first[REQUESTS], second[REQUESTS];
	int n_first = 0, n_second = 0;

	for (int i = 0; p->way->alone && i < n; i++) run_jobs(p, jobs + i, 1);
	if (p->way->alone) return;
	for (int i = 0; i < n; i++) {
		int cut = p->way->split && !jobs[i].speculative ? jobs[i].tokens / 2 : 0;
		if (cut) first[n_first++] = (struct job){ jobs[i].request, cut, false };
		second[n_second++] = (struct job){ jobs[i].request, jobs[i].tokens - cut, jobs[i].speculative };
	}
	if (n_first) run_jobs(p, first, n_first);
	run_jobs(p, second, n_second);
}

#define STEP(p, ...) do_step(p, (struct job[]){ __VA_ARGS__ }, (int)(sizeof(struct job[]){ __VA_ARGS__ } / sizeof(struct job)))

static void admit(struct player *p, int request, int checkpoint)
{
	struct error e = { 0 };
	need((p->request[request] = executor_admit(p->x, checkpoint, &e)) >= 0, &e);
}

static void accept(struct player *p, int request, int k)
{
	struct error e = { 0 };
	need(executor_accept(p->x, p->request[request], k, &e), &e);
}

/* Prefills of many tokens and of one, a fork, speculation accepted in part and not at all, slots used again. */
static struct history history_of(const struct executor_backend *backend, struct executor_shape shape, const struct way *way)
{
	struct history h = { 0 };
	struct player p = { .shape = shape, .way = way, .to = &h };
	struct error e = { 0 };

	open_player(&p, backend);
	h.y_bytes = p.each[4] * dtype_info[shape.data].size * REQUESTS * LENGTH;
	h.state_bytes = executor_state_bytes(&shape), h.ring_bytes = executor_ring_bytes(&shape);
	h.y = calloc(1, h.y_bytes), h.states = calloc(REQUESTS, h.state_bytes), h.rings = calloc(REQUESTS, h.ring_bytes);
	admit(&p, 0, -1), admit(&p, 1, -1), admit(&p, 2, -1);
	STEP(&p, { 0, 5, false }, { 1, 1, false });
	STEP(&p, { 0, 1, false }, { 2, 7, false }, { 1, 1, false });
	int checkpoint = executor_checkpoint(p.x, p.request[2], &e);
	STEP(&p, { 0, 1, false }, { 2, 1, false });
	need(checkpoint >= 0, &e), admit(&p, 3, checkpoint);
	STEP(&p, { 3, 3, false }, { 0, 4, true }, { 1, 1, false });
	accept(&p, 0, 2);
	STEP(&p, { 0, 1, false }, { 1, 3, true }, { 2, 1, false }, { 3, 1, false });
	accept(&p, 1, 0);
	need(executor_release(p.x, p.request[1], &e), &e);
	admit(&p, 4, -1);
	STEP(&p, { 0, 2, true }, { 2, 1, false }, { 4, 2, false }, { 3, 1, false });
	accept(&p, 0, 2);
	admit(&p, 5, checkpoint), admit(&p, 1, -1);
	STEP(&p, { 5, 1, false }, { 0, 1, false }, { 2, 1, false }, { 4, 1, false }, { 1, 4, false });
	for (int r = 0; r < REQUESTS; r++)
		need(executor_read(p.x, (size_t)executor_slot(p.x, p.request[r]), h.states + (size_t)r * h.state_bytes,
		                   h.rings + (size_t)r * h.ring_bytes, &e), &e);
	close_player(&p);
	return h;
}

static void free_history(struct history *h) { free(h->y), free(h->states), free(h->rings); }

/* ---- comparing ---- */

/* Bytes that differ. */
static size_t differing(const unsigned char *a, const unsigned char *b, size_t n)
{
	size_t count = 0;

	while (n--) count += a[n] != b[n];
	return count;
}

/* The largest difference, in units of the largest number. */
static double distance(enum dtype d, const unsigned char *a, const unsigned char *b, size_t bytes)
{
	double most = 0, largest = 0;

	for (size_t i = 0; i < bytes; i += dtype_info[d].size) {
		double v, w;
		dtype_load(d, a + i, 1, &v);
		dtype_load(d, b + i, 1, &w);
		if (!isfinite(v) || !isfinite(w)) return INFINITY;
		most = fmax(most, fabs(v - w));
		largest = fmax(largest, fabs(v));
	}
	return largest > 0 ? most / largest : INFINITY;
}

static struct executor_shape shape(int Hk, int Hv, int Dk, int Dv, int W, enum dtype state, enum dtype data)
{
	return (struct executor_shape){ .layers = 2, .Hk = Hk, .Hv = Hv, .Dk = Dk, .Dv = Dv, .W = W, .slots = SLOTS,
		.max_tokens = MAX_TOKENS, .max_rows = MAX_ROWS, .state = state, .data = data, .l2_eps = 1e-6f, .norm_eps = 1e-6f };
}

/* y and states within 2^-15 of the largest for f32, two steps of bf16 where it is stored, and 98 of 100 of its bytes
 * alike; rings to the bit. */
static void as_the_cpu_computes(void **state)
{
	struct error e = { 0 };
	const struct executor_shape shapes[] = {
		shape(2, 4, 24, 20, 4, DT_F32, DT_F32), shape(1, 3, 17, 9, 3, DT_F32, DT_F32), shape(1, 1, 160, 33, 2, DT_F32, DT_BF16),
		shape(1, 2, 128, 128, 4, DT_F32, DT_BF16), shape(1, 2, 128, 128, 4, DT_BF16, DT_BF16), shape(2, 2, 16, 36, 1, DT_BF16, DT_F32),
		shape(1, 2, 256, 64, 8, DT_BF16, DT_BF16)
	};

	(void)state;
	if (!device()) skip();
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		const struct executor_shape *s = &shapes[i];
		struct history a = history_of(&executor_cpu, *s, &plain), b = history_of(executor_cuda(&e), *s, &plain);
		double y = distance(s->data, a.y, b.y, a.y_bytes), states = distance(s->state, a.states, b.states, REQUESTS * a.state_bytes);

		print_message("Dk %3d Dv %3d W %d %s %s: y %.3g, states %.3g\n", s->Dk, s->Dv, s->W, dtype_info[s->state].name,
			dtype_info[s->data].name, y, states);
		assert_true(y <= (s->state == DT_BF16 || s->data == DT_BF16 ? 0x1p-7 : 0x1p-15));
		assert_true(states <= (s->state == DT_BF16 ? 0x1p-7 : 0x1p-15));
		assert_true(s->state != DT_BF16 || differing(a.states, b.states, REQUESTS * a.state_bytes) * 50 <= REQUESTS * a.state_bytes);
		assert_int_equal(differing(a.rings, b.rings, REQUESTS * a.ring_bytes), 0);
		free_history(&a), free_history(&b);
	}
}

static void every_way_gives_the_same_bits(void **state)
{
	struct error e = { 0 };
	const struct executor_shape shapes[] = {
		shape(2, 4, 24, 20, 4, DT_F32, DT_F32), shape(1, 2, 128, 128, 4, DT_F32, DT_BF16), shape(1, 2, 128, 128, 4, DT_BF16, DT_BF16)
	};

	(void)state;
	if (!device()) skip();
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		struct history right = history_of(executor_cuda(&e), shapes[i], &plain);
		for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
			if (ways[w].split && shapes[i].state == DT_BF16) continue;      /* a split rounds once more */
			struct history h = history_of(executor_cuda(&e), shapes[i], &ways[w]);
			if (differing(h.y, right.y, h.y_bytes) || differing(h.states, right.states, REQUESTS * h.state_bytes) ||
			    differing(h.rings, right.rings, REQUESTS * h.ring_bytes))
				fail_msg("shape %zu, %s: %zu bytes of y, %zu of states, %zu of rings differ", i, ways[w].name,
					differing(h.y, right.y, h.y_bytes), differing(h.states, right.states, REQUESTS * h.state_bytes),
					differing(h.rings, right.rings, REQUESTS * h.ring_bytes));
			free_history(&h);
		}
		free_history(&right);
	}
}

enum { LONG = 108, LONG_ROWS = 3, LONG_STEPS = 2 };

/* y of two steps, all slots' states and rings: rows of 70, 33 and 5 tokens that are new; then the first goes on with 40, in its slot. */
static void prefill_long_rows(const struct executor_backend *backend, const struct executor_shape *s, unsigned char *y, unsigned char *states,
	unsigned char *rings)
{
	static const int tokens[LONG_STEPS][LONG_ROWS] = { { 70, 33, 5 }, { 40 } };
	struct executor_weights w = { weights(executor_channels(s) * 4, 0, 0.5f, 0), weights((size_t)s->Hv, 1, 0.5f, 0),
		weights((size_t)s->Hv, 2, 1, -2), weights((size_t)s->Dv, 3, 0.2f, 1) };
	size_t heads = (size_t)s->Hv * (size_t)s->Dv, each[] = { executor_channels(s), heads, (size_t)s->Hv, (size_t)s->Hv, heads };
	struct error e = { 0 };
	void *b = backend->open(s, &w, &e);

	need(b, &e);
	for (int k = 0; k < LONG_STEPS; k++) {
		int32_t kinds[LONG_ROWS], cuts[LONG_ROWS + 1] = { 0 }, read[LONG_ROWS], write[LONG], position[LONG_ROWS];
		uint16_t *part[5];
		int rows = 0;
		for (; rows < LONG_ROWS && tokens[k][rows]; rows++) {
			cuts[rows + 1] = cuts[rows] + tokens[k][rows];
			kinds[rows] = ROW_PREFILL, read[rows] = k ? rows : -1, position[rows] = k ? tokens[0][rows] : 0;
			for (int t = cuts[rows]; t < cuts[rows + 1]; t++) write[t] = t + 1 < cuts[rows + 1] ? -1 : rows;
		}
		for (int i = 0; i < 5; i++) {
			part[i] = calloc(LONG * each[i], sizeof *part[i]);
			for (size_t j = 0; i < 4 && j < LONG * each[i]; j++) {
				double v = drawn(k, 0, 20 + i, j);
				dtype_store(DT_BF16, &v, 1, &part[i][j]);
			}
		}
		struct executor_step step = { rows, cuts[rows], 0, kinds, cuts, read, write, read, write, position };
		need(backend->run(b, &step, &(struct executor_data){ part[0], part[1], part[2], part[3], part[4] }, false, &e), &e);
		need(backend->guards(b, &e), &e);
		memcpy(y + (size_t)k * LONG * heads * 2, part[4], LONG * heads * 2);
		for (int i = 0; i < 5; i++) free(part[i]);
	}
	for (size_t r = 0; r < LONG_ROWS; r++)
		need(backend->read(b, r, states + r * executor_state_bytes(s), rings + r * executor_ring_bytes(s), &e), &e);
	backend->close(b);
	free((void *)w.conv), free((void *)w.A_log), free((void *)w.dt_bias), free((void *)w.norm);
}

/* Rows of 32 tokens and more run in chunks there, where q, k, v and o are bf16: within 2^-6 of the largest; rings to the bit. */
static void long_rows_are_as_the_cpu_computes(void **state)
{
	struct error e = { 0 };

	(void)state;
	if (!device()) skip();
	for (int pool = 0; pool < 2; pool++) {
		struct executor_shape s = shape(1, 2, 128, 128, 4, pool ? DT_BF16 : DT_F32, DT_BF16);
		s.layers = 1, s.max_tokens = LONG;
		size_t y = LONG_STEPS * LONG * 2 * 128 * 2, states = LONG_ROWS * executor_state_bytes(&s), rings = LONG_ROWS * executor_ring_bytes(&s);
		unsigned char *a = calloc(2, y + states + rings), *b = a + y + states + rings;
		prefill_long_rows(&executor_cpu, &s, a, a + y, a + y + states);
		prefill_long_rows(executor_cuda(&e), &s, b, b + y, b + y + states);
		double of_y = distance(DT_BF16, a, b, y), of_states = distance(s.state, a + y, b + y, states);
		print_message("%s: y %.3g, states %.3g\n", dtype_info[s.state].name, of_y, of_states);
		assert_true(of_y <= 0x1p-6 && of_states <= 0x1p-6);
		assert_int_equal(differing(a + y + states, b + y + states, rings), 0);
		free(a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_the_cpu_computes), cmocka_unit_test(every_way_gives_the_same_bits),
		cmocka_unit_test(long_rows_are_as_the_cpu_computes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
