/* The play of a capture of mixed_batch on the CPU backend. What it computes is judged as any capture is; here: what it does
 * with rows in another order, and what it refuses. */
#include <string.h>

#include "fixtures/cases/cases.h"
#include "gpu/host/backend.h"
#include "gpu/executor/mixed_batch.h"
#include "tests/helpers.h"

enum { MAX_TOKENS = 256 };

static void make(struct capture *c)
{
	struct error e = { 0 };
	const struct test_case *k = case_find("mixed_batch", "steps_f32");

	assert_non_null(k);
	if (!case_make(c, k, 3, true, &e)) fail_msg("%s: %s", e.item, e.detail);
}

static struct tensor *tensor(const struct capture *c, const char *name)
{
	struct tensor *t = strncmp(name, "out.", 4) ? capture_in(c, name) : capture_out(c, name + 4);

	assert_non_null(t);
	return t;
}

static long get(const struct capture *c, const char *name, size_t i)
{
	const struct tensor *t = tensor(c, name);
	double v;

	dtype_load(t->dtype, (char *)t->data + i * dtype_info[t->dtype].size, 1, &v);
	return (long)v;
}

static void set(struct capture *c, const char *name, size_t i, long value)
{
	struct tensor *t = tensor(c, name);
	double v = (double)value;

	dtype_store(t->dtype, &v, 1, (char *)t->data + i * dtype_info[t->dtype].size);
}

/* Element, or row of the first axis, `to` of t <- `from` of the same tensor of another capture. */
static void take(struct capture *c, const struct capture *other, const char *name, size_t to, size_t from)
{
	struct tensor *t = tensor(c, name);
	size_t bytes = t->bytes / t->shape[0];

	memcpy((char *)t->data + to * bytes, (char *)tensor(other, name)->data + from * bytes, bytes);
}

/* Each step's rows from the last to the first; from [tokens] receives where a token was. */
static void turn_rows(struct capture *c, const struct capture *other, size_t *from)
{
	size_t row = 0, token = 0, steps = tensor(c, "steps")->count - 1;

	for (size_t k = 0; k < steps; k++)
		for (long r = get(other, "steps", k + 1) - 1; r >= get(other, "steps", k); r--, row++) {
			for (int i = 0; i < 3; i++) take(c, other, (const char *[]){ "kinds", "read_slot", "position" }[i], row, (size_t)r);
			for (long t = get(other, "cu_seqlens", (size_t)r); t < get(other, "cu_seqlens", (size_t)r + 1); t++) {
				for (int i = 0; i < 5; i++)
					take(c, other, (const char *[]){ "x", "z", "a", "b", "write_slot" }[i], token, (size_t)t);
				assert_in_range(token, 0, MAX_TOKENS - 1);
				from[token++] = (size_t)t;
			}
			set(c, "cu_seqlens", row + 1, (long)token);
		}
}

static void rows_stand_in_any_order(void **state)
{
	struct capture right, turned;
	struct error e = { 0 };
	size_t from[MAX_TOKENS], moved = 0, answered = 0;

	(void)state;
	make(&right), make(&turned);
	turn_rows(&turned, &right, from);
	assert_true(backend_run("cpu", &right, &e));
	assert_true(backend_run("cpu", &turned, &e));
	const struct tensor *y = tensor(&right, "out.y"), *z = tensor(&turned, "out.y");
	for (size_t t = 0, n = y->bytes / y->shape[0]; t < y->shape[0]; t++) {
		moved += from[t] != t;
		assert_memory_equal((char *)z->data + t * n, (char *)y->data + from[t] * n, n);
		for (size_t i = 0; i < n; i++) answered += ((char *)y->data)[t * n + i] != 0;
	}
	assert_true(answered > y->bytes / 2);
	assert_true(moved > 4);
	for (int i = 0; i < 2; i++) {
		const char *name = (const char *[]){ "out.state_pool", "out.conv_pool" }[i];
		assert_memory_equal(tensor(&right, name)->data, tensor(&turned, name)->data, tensor(&right, name)->bytes);
	}
	assert_string_equal(right.device, "CPU");
	capture_free(&right), capture_free(&turned);
}

/* y of padding is 0, slots that no token writes are as they were. */
static void padding_and_idle_slots_stay(void **state)
{
	struct capture c;
	struct error e = { 0 };
	size_t padding = 0, idle = 0;

	(void)state;
	make(&c);
	assert_true(backend_run("cpu", &c, &e));
	const struct tensor *y = tensor(&c, "out.y"), *before = tensor(&c, "state_pool"), *after = tensor(&c, "out.state_pool");
	for (size_t r = 0; r < tensor(&c, "kinds")->count; r++) {
		if (get(&c, "kinds", r) != ROW_PADDING) continue;
		size_t n = y->count / y->shape[0];
		const float *zero = (const float *)y->data + (size_t)get(&c, "cu_seqlens", r) * n;
		for (size_t i = 0; i < n; i++) assert_true(zero[i] == 0.0f);
		padding++;
	}
	for (size_t s = 0; s < before->shape[0]; s++) {
		size_t n = before->bytes / before->shape[0];
		bool written = false;
		for (size_t t = 0; t < tensor(&c, "write_slot")->count; t++) written |= get(&c, "write_slot", t) == (long)s;
		assert_int_equal(memcmp((char *)before->data + s * n, (char *)after->data + s * n, n) == 0, !written);
		idle += !written;
	}
	assert_true(padding && idle);
	capture_free(&c);
}

/* ---- refusals ---- */

static void other_layout(struct capture *c) { json_object_set_new(c->params, "conv_layout", json_string("window")); }
static void other_scale(struct capture *c) { json_object_set_new(c->params, "scale", json_real(1)); }
static void other_type(struct capture *c) { tensor(c, "z")->dtype = DT_BF16; }
static void other_state_type(struct capture *c) { tensor(c, "out.state_pool")->dtype = DT_BF16; }
static void half_data(struct capture *c)
{
	for (int i = 0; i < 7; i++)
		tensor(c, (const char *[]){ "x", "z", "a", "b", "conv_pool", "out.y", "out.conv_pool" }[i])->dtype = DT_F16;
}
static void no_position(struct capture *c) { tensor(c, "position")->name[3] = 'q'; }
static void no_output(struct capture *c) { tensor(c, "out.y")->name[4] = 'q'; }
static void unknown_kind(struct capture *c) { set(c, "kinds", 0, 4); }
static void past_the_pool(struct capture *c) { set(c, "write_slot", 0, (long)tensor(c, "state_pool")->shape[0]); }
static void reads_past_the_pool(struct capture *c) { set(c, "read_slot", 0, (long)tensor(c, "state_pool")->shape[0]); }
static void below_minus_one(struct capture *c) { set(c, "write_slot", 0, -2); }
static void before_its_request(struct capture *c) { set(c, "position", 0, -1); }
static void empty_row(struct capture *c) { set(c, "cu_seqlens", 1, 0); }
static void empty_step(struct capture *c) { set(c, "steps", 1, 0); }
static void other_channels(struct capture *c) { tensor(c, "conv_pool")->shape[2]++; }
static void short_weight(struct capture *c) { tensor(c, "A_log")->count--; }
static void short_table(struct capture *c) { tensor(c, "kinds")->count--; }
static void short_cuts(struct capture *c) { tensor(c, "cu_seqlens")->count--; }
static void real_table(struct capture *c) { tensor(c, "kinds")->dtype = DT_F32; }
static void other_op(struct capture *c) { c->op = "rmsnorm"; }
/* A decode row of two tokens. */
static void wide_decode(struct capture *c)
{
	for (size_t r = 0; r < tensor(c, "kinds")->count; r++)
		if (get(c, "cu_seqlens", r + 1) - get(c, "cu_seqlens", r) > 1) {
			set(c, "kinds", r, ROW_DECODE);
			return;
		}
	fail();
}

static void refuses(void **state)
{
	static const struct { void (*spoil)(struct capture *); enum error_code code; const char *item; } list[] = {
		{ other_layout, E_PARAM, "conv_layout" }, { other_scale, E_PARAM, "scale" }, { other_type, E_DTYPE, "in.z" },
		{ other_state_type, E_DTYPE, "out.state_pool" }, { half_data, E_DTYPE, "x" }, { no_position, E_MISSING, "position" },
		{ no_output, E_MISSING, "y" }, { unknown_kind, E_VALUE, "kinds" }, { past_the_pool, E_VALUE, "write_slot" },
		{ reads_past_the_pool, E_VALUE, "read_slot" }, { below_minus_one, E_VALUE, "in.write_slot" },
		{ before_its_request, E_VALUE, "read_slot" }, { empty_row, E_VALUE, "cu_seqlens" }, { empty_step, E_VALUE, "steps" },
		{ other_channels, E_DIM, "conv_pool" }, { short_weight, E_SHAPE, "in.A_log" }, { short_table, E_SHAPE, "kinds" },
		{ short_cuts, E_SHAPE, "kinds" }, { real_table, E_DTYPE, "in.kinds" }, { other_op, E_OP, "rmsnorm" },
		{ wide_decode, E_VALUE, "kinds" }
	};

	(void)state;
	for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
		struct capture c;
		struct error e = { 0 };

		make(&c);
		list[i].spoil(&c);
		if (backend_run("cpu", &c, &e)) fail_msg("refusal %zu: taken", i);
		if (e.code != list[i].code || strcmp(e.item, list[i].item) != 0)
			fail_msg("refusal %zu: code %d (%s: %s), expected %d (%s)", i, e.code, e.item, e.detail, list[i].code, list[i].item);
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_stand_in_any_order), cmocka_unit_test(padding_and_idle_slots_stay), cmocka_unit_test(refuses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
