/* The works are cases of fixtures/ at other sizes; 64 rows decode in the shared call, rivals take as many as they need. */
#include "bench_gpu_works.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/cases/cases.h"
#include "gpu/host/backend.h"
#include "ref/call/op.h"

enum { TOKENS = 4096, ROWS = 64 };

#define DIMS(...) (const struct case_dim[]){ __VA_ARGS__, { 0 } }
#define DELTA(t, n) DIMS({ "T", t }, { "N", n }, { "Hk", 16 }, { "Hv", 48 }, { "Dk", 128 }, { "Dv", 128 })
#define STEP_OF(rows) DIMS({ "T", rows }, { "R", rows }, { "K", 1 }, { "P", rows }, { "L", 1 }, { "Hk", 16 }, { "Hv", 48 }, \
	{ "Dk", 128 }, { "Dv", 128 }, { "C", 10240 }, { "W", 4 }, { "H", 4 })

#define RUNGS_2 "etalon.rung", { "0", "1" }, { NULL }
#define RUNGS_3 "etalon.rung", { "0", "1", "2" }, { NULL }

/* Which of an op's kernels run, one after the other: metadata and its values; NULL: the one that the case picks. What the page calls
 * them, where not by the names that they give themselves. */
static const struct work { const char *name, *op, *base; const struct case_dim *dims; const char *key, *value[5], *called[5]; } works[] = {
	{ "norm_residual", "rmsnorm", "residual", DIMS({ "R", TOKENS }, { "D", 5120 }), RUNGS_2 },
	{ "norm", "rmsnorm", "zero_centred_5120", DIMS({ "R", TOKENS }, { "D", 5120 }), RUNGS_2 },
	{ "norm_gated", "rmsnorm", "gated_128", DIMS({ "R", TOKENS * 48 }, { "D", 128 }), RUNGS_2 },
	{ "norm_fp8", "rmsnorm_fp8", "residual", DIMS({ "R", TOKENS }, { "D", 5120 }), RUNGS_2 },
	{ "heads", "qk_norm_rope", "near_256", DIMS({ "T", TOKENS }, { "Hq", 24 }, { "E", 512 }, { "Hk", 4 }, { "D", 256 }), RUNGS_3 },
	{ "gated_attention", "gated_product", "attention_6144", DIMS({ "R", TOKENS }, { "D", 6144 }, { "G", 6144 }), RUNGS_3 },
	{ "gated_expert", "gated_product", "shared_expert", DIMS({ "R", TOKENS }, { "D", 2048 }, { "E", 2048 }), RUNGS_3 },
	{ "rope", "rope", "partial", DIMS({ "T", TOKENS }, { "H", 24 }, { "D", 256 }), RUNGS_2 },
	{ "convolution", "causal_conv1d", "prefill_silu", DIMS({ "T", TOKENS }, { "N", 1 }, { "C", 10240 }, { "W", 4 }), NULL, { NULL }, { NULL } },
	{ "prefill", "gated_delta_rule", "prefill", DELTA(TOKENS, 1), "etalon.rung",
		{ "0", "1", "2" }, { "prefill", "prefill_chunk_fast", "prefill_chunk_precise" } },
	{ "recurrence_f32", "gated_delta_rule", "decode", DELTA(ROWS, ROWS), NULL, { NULL }, { NULL } },
	{ "decode_f32", "mixed_batch", "few_f32", STEP_OF(ROWS), RUNGS_3 },
	{ "decode_bf16", "mixed_batch", "few_bf16", STEP_OF(ROWS), RUNGS_3 },
};

enum { WORKS = sizeof works / sizeof *works };

/* ---- the inputs ---- */

static double ones[ROWS], slots[ROWS];

/* Each row decodes in the slot of its own number; each sequence has one token. */
static void lay_out(struct test_case *k)
{
	static const double many[] = { ROWS }, kind[] = { 0 }, position[] = { 9 };
	static const struct case_list one_step[] = { { "steps", many, 1 }, { "cu_seqlens", ones, ROWS }, { "kinds", kind, 1 },
		{ "read_slot", slots, ROWS }, { "write_slot", slots, ROWS }, { "position", position, 1 }, { 0 } };

	if (!strcmp(k->op, "mixed_batch")) k->lists = one_step;
	if (!strcmp(k->name, "decode")) k->list = ones, k->n_list = ROWS;
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
		if (!strncmp(c->tensors.item[i].name, "out.", 4)) memset(c->tensors.item[i].data, 0xff, c->tensors.item[i].bytes);
}

/* ---- what is right ---- */

static bool reference(struct call *call, const struct capture *c, struct answer *right, struct error *e)
{
	const struct arith *f64;
	int bits;

	if (!arith_by_name("f64", &f64, &bits) || !call_bind(call, c, false, e))
		return false;
	struct plan p = plan_plain(f64, bits);
	return ref_run(call, &p, right, e);
}

/* |t - y| / |y|; NaN if t has one. */
static double error_of(const struct tensor *t, const double *y)
{
	enum { PART = 4096 };
	double apart = 0, size = 0;

#pragma omp parallel for reduction(+ : apart, size)
	for (size_t first = 0; first < t->count; first += PART) {
		double x[PART];
		size_t n = t->count - first < PART ? t->count - first : PART;
		dtype_load(t->dtype, (const char *)t->data + first * dtype_info[t->dtype].size, n, x);
		for (size_t i = 0; i < n; i++) {
			double d = x[i] - y[first + i];
			apart += d * d, size += y[first + i] * y[first + i];
		}
	}
	return sqrt(apart / size);
}

static int errors_of(const struct call *call, const struct answer *right, double *errors)
{
	int n = 0;

	for (int i = 0; i < MAX_OUT; i++)
		if (call->out[i]) errors[n++] = error_of(call->out[i], right->hi[i]);
	return n;
}

/* ---- files ---- */

static bool give(struct tensors *to, const char *name, enum dtype type, const struct tensor *like, const double *wide)
{
	struct tensor *t = tensors_add(to, name, type, like->rank, like->shape);

	if (!t) return false;
	if (wide) dtype_store(type, wide, t->count, t->data);
	else memcpy(t->data, like->data, like->bytes);
	return true;
}

static bool share(const char *dir, const struct work *w, const struct capture *c, const struct call *call, const struct answer *right,
                  struct error *e)
{
	struct tensors all = { 0 };
	char path[4096], name[64];
	bool ok = meta_set(&all, "etalon.op", c->op) && meta_set(&all, "etalon.params", meta_get(&c->tensors, "etalon.params"));

	for (size_t i = 0; ok && i < c->tensors.n; i++)
		if (!strncmp(c->tensors.item[i].name, "in.", 3))
			ok = give(&all, c->tensors.item[i].name, c->tensors.item[i].dtype, &c->tensors.item[i], NULL);
	for (int i = 0; ok && i < MAX_OUT; i++) {
		const struct tensor *t = call->out[i];
		if (!t) continue;
		snprintf(name, sizeof name, "truth.%s", t->name + 4);
		ok = give(&all, name, t->dtype == DT_F32 ? DT_F64 : DT_F32, t, right->hi[i]);
	}
	snprintf(path, sizeof path, "%s/%s.safetensors", dir, w->name);
	if (!ok) error_set(e, E_MEMORY, w->name, NO_OFFSET, "its file");
	ok = ok && tensors_write(&all, path, e);
	tensors_free(&all);
	return ok;
}

/* ---- one work ---- */

/* Of "etalon KERNEL, CUDA 13.0". */
static void kernel_of(const struct capture *c, char *text, size_t size)
{
	const char *name = c->producer + strlen("etalon "), *end = strstr(name, ", CUDA");

	snprintf(text, size, "%.*s", end ? (int)(end - name) : (int)strlen(name), name);
}

static bool judge(const struct work *w, struct capture *c, const struct answer *right, errors_found *found, struct error *e)
{
	double errors[MAX_ERRORS];
	char kernel[128];
	struct call call;

	for (int i = 0; i == 0 || w->value[i]; i++) {
		poison(c);
		if (w->key && !meta_set(&c->tensors, w->key, w->value[i]))
			return error_set(e, E_MEMORY, w->name, NO_OFFSET, "its metadata");
		if (!backend_run("cuda", c, e) || !call_bind(&call, c, true, e))
			return false;
		int n = errors_of(&call, right, errors);
		kernel_of(c, kernel, sizeof kernel);
		found(w->name, w->called[i] ? w->called[i] : kernel, n, errors);
	}
	return true;
}

static bool finish(const char *dir, const struct work *w, struct capture *c, errors_found *found, struct error *e)
{
	struct answer right = { 0 };
	struct call call;
	bool ok = reference(&call, c, &right, e) && judge(w, c, &right, found, e) && call_bind(&call, c, true, e)
		&& share(dir, w, c, &call, &right, e);

	answer_free(&right);
	return ok;
}

bool bench_works(const char *dir, errors_found *found, struct error *e)
{
	struct capture all[WORKS] = { 0 };
	bool ok = true;

	for (int i = 0; i < ROWS; i++) ones[i] = 1, slots[i] = i;
#pragma omp parallel for schedule(dynamic)
	for (int i = 0; i < WORKS; i++) {
		struct error own;
		bool made = make(&works[i], &all[i], &own);
#pragma omp critical
		if (!made) ok = false, *e = own;
	}
	for (int i = 0; ok && i < WORKS; i++) {
		ok = finish(dir, &works[i], &all[i], found, e);
		capture_free(&all[i]);
	}
	for (int i = 0; i < WORKS; i++) capture_free(&all[i]);
	return ok;
}
