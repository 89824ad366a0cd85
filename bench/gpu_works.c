/* The works are cases of fixtures/ at other sizes; 64 rows decode in the shared call, rivals take
 * as many as they need. */
#include "bench/gpu_works.h"

#include <stdlib.h>
#include <string.h>

#include "bench/row.h"
#include "fixtures/cases/cases.h"
#include "gpu/host/backend.h"
#include "ref/call/op.h"

enum { TOKENS = 4096, ROWS = 64 };

#define DIMS(...) (const struct case_dim[]){ __VA_ARGS__, { 0 } }
#define DELTA(t, n) DIMS({ "T", t }, { "N", n }, { "Hk", 16 }, { "Hv", 48 }, { "Dk", 128 }, { "Dv", 128 })
#define STEP_OF(rows) DIMS({ "T", rows }, { "R", rows }, { "K", 1 }, { "P", rows }, { "L", 1 }, { "Hk", 16 }, { "Hv", 48 }, \
	{ "Dk", 128 }, { "Dv", 128 }, { "C", 10240 }, { "W", 4 }, { "H", 4 })

/* How many rungs of an op run, one after the other; 0: the kernel that the case picks. called:
 * what the page calls them, where not by the names that they give themselves; "": one name for
 * all, as they have the same bits. */
static const struct work { const char *name, *op, *base; const struct case_dim *dims; int rungs;
	const char *called[3]; } works[] = {
	{ "norm_residual", "rmsnorm", "residual", DIMS({ "R", TOKENS }, { "D", 5120 }), 2,
		{ NULL } },
	{ "norm", "rmsnorm", "zero_centred_5120", DIMS({ "R", TOKENS }, { "D", 5120 }), 2,
		{ NULL } },
	{ "norm_gated", "rmsnorm", "gated_128", DIMS({ "R", TOKENS * 48 }, { "D", 128 }), 2,
		{ NULL } },
	{ "norm_fp8", "rmsnorm_fp8", "residual", DIMS({ "R", TOKENS }, { "D", 5120 }), 2,
		{ NULL } },
	{ "heads", "qk_norm_rope", "near_256", DIMS({ "T", TOKENS }, { "Hq", 24 }, { "E", 512 },
		{ "Hk", 4 }, { "D", 256 }), 2,
		{ NULL } },
	{ "gated_attention", "gated_product", "attention_6144",
		DIMS({ "R", TOKENS }, { "D", 6144 }, { "G", 6144 }), 3, { NULL } },
	{ "gated_expert", "gated_product", "shared_expert",
		DIMS({ "R", TOKENS }, { "D", 2048 }, { "E", 2048 }), 3, { NULL } },
	{ "rope", "rope", "partial", DIMS({ "T", TOKENS }, { "H", 24 }, { "D", 256 }), 2,
		{ NULL } },
	{ "convolution", "causal_conv1d", "prefill_silu",
		DIMS({ "T", TOKENS }, { "N", 1 }, { "C", 10240 }, { "W", 4 }), 0, { NULL } },
	{ "ragged", "causal_conv1d", "short_sequences",
		DIMS({ "T", TOKENS }, { "N", RAGGED }, { "C", 10240 }, { "W", 4 }), 0, { NULL } },
	{ "prefill", "gated_delta_rule", "prefill", DELTA(TOKENS, 1), 3,
		{ "prefill", "prefill_chunk_fast", "prefill_chunk_precise" } },
	{ "recurrence_f32", "gated_delta_rule", "decode", DELTA(ROWS, ROWS), 0, { NULL } },
	{ "decode_f32", "mixed_batch", "few_f32", STEP_OF(ROWS), 3, { "", "", "" } },
	{ "decode_bf16", "mixed_batch", "few_bf16", STEP_OF(ROWS), 3, { "", "", "" } },
};

enum { WORKS = sizeof works / sizeof *works };

/* ---- the inputs ---- */

static double ones[ROWS], slots[ROWS], ragged[RAGGED];

/* Each row decodes in the slot of its own number; each sequence has one token. */
static void lay_out(struct test_case *k)
{
	static const double many[] = { ROWS }, kind[] = { 0 }, position[] = { 9 };
	static const struct case_list one_step[] = { { "steps", many, 1 },
		{ "cu_seqlens", ones, ROWS }, { "kinds", kind, 1 },
		{ "read_slot", slots, ROWS }, { "write_slot", slots, ROWS },
		{ "position", position, 1 }, { 0 } };
	static const struct case_list one_each[] = { { "cu_seqlens", ones, ROWS }, { 0 } };
	static const struct case_list lengths[] = { { "cu_seqlens", ragged, RAGGED }, { 0 } };

	if (!strcmp(k->op, "mixed_batch")) k->lists = one_step;
	if (!strcmp(k->name, "decode")) k->lists = one_each;
	if (!strcmp(k->name, "short_sequences")) k->lists = lengths;
}

static bool make(const struct work *w, struct capture *c, struct error *e)
{
	struct test_case k = *case_find(w->op, w->base);

	k.dims = w->dims;
	lay_out(&k);
	return case_make(c, &k, 1, true, e);
}

static void poison(struct capture *c)
{
	for (size_t i = 0; i < c->tensors.n; i++)
		if (!strncmp(c->tensors.item[i].name, "out.", 4)) memset(c->tensors.item[i].data,
			0xff, c->tensors.item[i].bytes);
}

/* ---- what is right ---- */

static bool reference(struct call *call, const struct capture *c, struct answer *right,
	struct error *e)
{
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);

	return call_bind(call, c, false, e) && ref_run(call, &p, right, e);
}

double tensor_error(const struct tensor *t, const double *y)
{
	enum { PART = 4096 };
	double apart = 0, size = 0;

#pragma omp parallel for reduction(+ : apart, size)
	for (size_t first = 0; first < t->count; first += PART) {
		double x[PART];
		size_t n = t->count - first < PART ? t->count - first : PART;
		dtype_load(t->dtype, (const char *)t->data + first * dtype_info[t->dtype].size, n,
			x);
		for (size_t i = 0; i < n; i++) {
			double d = x[i] - y[first + i];
			apart += d * d, size += y[first + i] * y[first + i];
		}
	}
	return sqrt(apart / size);
}

/* The capture with what is right beside it. */
static bool share(const char *dir, const struct work *w, struct capture *c, const struct call *call,
	const struct answer *right,
	struct error *e)
{
	char path[4096], name[64];

	for (int i = 0; i < MAX_OUT && call->op->out[i].name; i++) {
		const struct tensor *out = capture_out(c, call->op->out[i].name);
		if (!out) continue;
		struct tensor like = *out;
		snprintf(name, sizeof name, "truth.%s", call->op->out[i].name);
		struct tensor *t = tensors_add(&c->tensors, name,
			like.dtype == DT_F32 ? DT_F64 : DT_F32, like.rank, like.shape);
		if (!t) return error_set(e, E_MEMORY, w->name, NO_OFFSET, "its file");
		dtype_store(t->dtype, right->hi[i], t->count, t->data);
	}
	snprintf(path, sizeof path, "%s/%s.safetensors", dir, w->name);
	return tensors_write(&c->tensors, path, e);
}

/* ---- one work ---- */

/* kernel: NULL: as the producer "etalon KERNEL, CUDA 13.0" says. */
static void print_errors(const char *work, const char *kernel, const struct call *call,
	const struct answer *right)
{
	const char *name = call->capture->producer + strlen("etalon "),
		*end = strstr(name, ", CUDA");
	char own[128], errors[128] = "";

	snprintf(own, sizeof own, "%.*s", end ? (int)(end - name) : (int)strlen(name), name);
	for (int i = 0; i < MAX_OUT; i++) {
		size_t used = strlen(errors);
		if (call->out[i])
			snprintf(errors + used, sizeof errors - used, used ? " %.3e" : "%.3e",
				tensor_error(call->out[i], right->hi[i]));
	}
	row_print((struct row){ .table = "error", .row = work, .way = kernel ? kernel : own,
		.error = errors });
}

static bool judge(const struct work *w, struct capture *c, const struct answer *right,
	struct error *e)
{
	static const char *const rungs[] = { "0", "1", "2" };
	struct call call;

	for (int i = 0; i == 0 || i < w->rungs; i++) {
		poison(c);
		if (w->rungs && !meta_set(&c->tensors, "etalon.rung", rungs[i]))
			return error_set(e, E_MEMORY, w->name, NO_OFFSET, "its metadata");
		if (!backend_run("cuda", c, e) || !call_bind(&call, c, true, e))
			return false;
		print_errors(w->name, w->called[w->rungs ? i : 0], &call, right);
	}
	return true;
}

static bool finish(const char *dir, const struct work *w, struct capture *c, struct error *e)
{
	struct answer right = { 0 };
	struct call call;
	bool ok = reference(&call, c, &right, e) && judge(w, c, &right, e)
		&& share(dir, w, c, &call, &right, e);

	answer_free(&right);
	return ok;
}

bool bench_works(const char *dir, struct error *e)
{
	struct capture all[WORKS] = { 0 };
	bool ok = true;

	for (int i = 0; i < ROWS; i++) ones[i] = 1, slots[i] = i;
	for (int i = 0; i < RAGGED; i++)
		ragged[i] = (double)(ragged_cut(i + 1, TOKENS) - ragged_cut(i, TOKENS));
#pragma omp parallel for schedule(dynamic)
	for (int i = 0; i < WORKS; i++) {
		struct error own;
		bool made = make(&works[i], &all[i], &own);
#pragma omp critical
		if (!made) ok = false, *e = own;
	}
	for (int i = 0; ok && i < WORKS; i++) {
		ok = finish(dir, &works[i], &all[i], e);
		capture_free(&all[i]);
	}
	for (int i = 0; i < WORKS; i++) capture_free(&all[i]);
	return ok;
}
