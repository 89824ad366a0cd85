/* Recorded kernels of ops that are text files alone (docs/own-ops.md), and a formula whose recurrence is not the kernel's. */
#include <math.h>
#include <stdlib.h>

#include "compare/structure/structure.h"
#include "ref/formula/formula.h"
#include "tests/judged.h"

/* says: of what is read, as the kernel's source has it. contract: that auto takes; NULL: not asked, of a check that takes ten seconds. */
static const struct { const char *op, *reading, *form, *says, *contract; } rows[] = {
	{ "gla", "gla.fla_recurrent", "sequential", NULL, "f32" },
	{ "gla", "gla.fla_chunk", "chunk", "@ tf32_rz((k * exp", "bf16_operands" },
	{ "rwkv6", "rwkv6.fla_recurrent", "sequential", NULL, "f32" },
	{ "rwkv6", "rwkv6.fla_chunk", "chunk", "G = tril(0 @ 0' + 1) @ tf32_rz(summed)", "decays_tf32" },
	{ "rwkv7", "rwkv7.fla_recurrent", "sequential", NULL, "f32" },
	{ "rwkv7", "rwkv7.fla_chunk", "chunk", "before = log2(e) * (tril(0 @ 0' + 1, -1) @ tf32_rz(summed))", NULL },
	{ "comba", "comba.fla_recurrent", "chunk", NULL, "f32" },
	{ "comba", "comba.fla_chunk", "chunk", "@ bf16(diag(beta) v)) - (bf16(", "bf16_operands" },
	{ "retention", "retention.fla_chunk", "chunk", "bf16(diag(fast_expf(total - G)) v)", "bf16_operands" },
	{ "oja", "oja.fla_recurrent", "formula", NULL, "f32" },
	{ "hgrn", "hgrn.fla_recurrent", "formula", NULL, "f32" },
	{ "hgrn", "hgrn.fla_chunk", "formula", NULL, "f32" },
};

static void passes_under(const struct capture *c, const char *contract, const char *reading)
{
	struct verdict v = judged(c, "auto", false);

	if (v.outcome != PASS || v.x.count[DETECTED] || strcmp(v.contract->name, contract)) fail_msg("%s: %s under %s", reading, outcome_name[v.outcome], v.contract->name);
}

static void known(const char *op)
{
	char path[64];

	snprintf(path, sizeof path, "tests/ops/%s.op", op);
	if (!op_find(op)) op_added_from(path);
}

static void are_read(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		char path[96];
		struct structure_reading r;
		struct capture c;
		struct call call;
		struct error e;
		const char *why;

		snprintf(path, sizeof path, "fixtures/readings/%s.safetensors", rows[i].reading);
		known(rows[i].op);
		no_error(capture_read(&c, path, &e) && call_bind(&call, &c, true, &e)
				&& structure_read(&r, &call, &(struct structure_search){ .work = 36e9 }, &why, &e), &e);
		assert_null(why);
		if (!r.identified || strcmp(r.form, rows[i].form)) fail_msg("%s: form %s", path, r.form);
		for (int o = 0; o < MAX_OUT; o++)
			if (call.out_count[o] && r.out[o].explained < 0.999 && !r.out[o].noise) fail_msg("%s: %.6f of output %d explained", path, r.out[o].explained, o);
		if (rows[i].says && !strstr(r.text, rows[i].says)) fail_msg("%s: not '%s' in\n%s", path, rows[i].says, r.text);
		if (rows[i].contract) passes_under(&c, rows[i].contract, path);
		structure_free(&r);
		capture_free(&c);
	}
}

/* The products that add up the log of the decay take TF32, which this contract does not allow. */
static void decays_in_tf32_are_told(void **state)
{
	struct capture c;
	struct error e;

	(void)state;
	known("rwkv6");
	no_error(capture_read(&c, "fixtures/readings/rwkv6.fla_chunk.safetensors", &e), &e);
	struct verdict v = judged(&c, "bf16_operands", false);
	assert_int_equal(v.outcome, FAIL);
	assert_int_equal(v.x.count[DETECTED], 1);
	assert_non_null(strstr(v.reason[0], "rounds summed to tf32_rz"));
	capture_free(&c);
}

/* text, whose first `old` becomes `new` */
static void replace(char *text, size_t room, const char *old, const char *new)
{
	char *at = strstr(text, old), *rest = at ? strdup(at + strlen(old)) : NULL;

	assert_non_null(rest);
	snprintf(at, room - (size_t)(at - text), "%s%s", new, rest);
	free(rest);
}

/* The library's reference decays the state before it is read, its kernels after. */
static void the_kernel_is_not_what_the_formula_says(void **state)
{
	static const char after[] = "v[t, h] - D' p[t, h])", before[] = "v[t, h] - S' p[t, h])";
	static char text[1 << 13];
	struct capture c;
	struct error e;

	(void)state;
	FILE *from = fopen("tests/ops/comba.op", "r");
	assert_non_null(from);
	text[fread(text, 1, sizeof text - 1, from)] = 0;
	fclose(from);
	replace(text, sizeof text, "op comba", "op reference");
	replace(text, sizeof text, before, after);
	replace(text, sizeof text, "fault read_after_decay: u = beta[t, h] (v[t, h] - D' p[t, h]); before = G ", "fault read_before_decay in sequential: u = beta[t, h] (v[t, h] - S' p[t, h]) ");
	op_added_of("reference.op", text);
	known("comba");
	no_error(capture_read(&c, "fixtures/readings/comba.fla_recurrent.safetensors", &e), &e);
	for (int i = 0; i < 2; i++) {
		no_error(meta_set(&c.tensors, "etalon.op", i ? "comba" : "reference") && capture_bind(&c, &e), &e);
		struct verdict v = judged(&c, "f32", false);
		assert_int_equal(v.outcome, i ? PASS : FAIL);
		assert_int_equal(v.x.count[DETECTED], !i);
		if (!i) assert_non_null(strstr(v.reason[0], "read_before_decay"));
	}
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(are_read), cmocka_unit_test(decays_in_tf32_are_told), cmocka_unit_test(the_kernel_is_not_what_the_formula_says) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
