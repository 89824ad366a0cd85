/* What a call cannot tell apart is said by the text that it changes (compare/structure/open.c). */
#include <stdlib.h>

#include "compare/structure/search.h"
#include "tests/kernel_model.h"

static void parts_are_whole(void **state)
{
	static const struct { const char *a, *b, *part_a, *part_b; } rows[] = {
		{ "kn = diag(rsqrt(sum(k * k) + 1e-06)) k", "kn = diag(bf16(rsqrt(sum(k * k) + 1e-06))) k", "rsqrt(sum(k * k) + 1e-06)", "bf16(rsqrt(sum(k * k) + 1e-06))" },
		{ "o = (r * e) @ S", "o = bf16(r * e) @ S", "(r * e)", "bf16(r * e)" },
		{ "o = a @ b + c", "o = fma[a @ b] + c", "a @ b", "fma[a @ b]" },
		{ "o = x * (a * b * c)", "o = x * (a * (b * c))", "a * b * c", "a * (b * c)" },
		{ "o = x * a * b", "o = x * b * a", "a * b", "b * a" },
		{ "o = s * (ab + ac)", "o = s * ab + s * ac", "s * (ab + ac)", "s * ab + s * ac" },
		{ "o = x + y", "o = x", "x + y", "x" },
		{ "o = x", "o = bf16(x)", "x", "bf16(x)" },
		{ "o = s * (d (k @ S) + a @ b)", "o = s * ((d k) @ S + a @ b)", "d (k @ S)", "(d k) @ S" },
		{ "o = f(x y) z + 1", "o = f(x w) v + 1", "f(x y) z", "f(x w) v" },
		{ "o = near", "o = nearer", "near", "nearer" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *const line[] = { rows[i].a, rows[i].b }, *const part[] = { rows[i].part_a, rows[i].part_b };
		struct differing d = lines_differ(2, line);

		for (int j = 0; j < 2; j++) {
			const int n = (int)(strlen(line[j]) - d.behind - d.from);
			if (n != (int)strlen(part[j]) || strncmp(line[j] + d.from, part[j], (size_t)n)) fail_msg("'%.*s' of '%s'", n, line[j] + d.from, line[j]);
		}
	}
	const char *const three[] = { "t = (q * k) * e", "t = (q * e) * k", "t = (k * e) * q" };
	struct differing d = lines_differ(3, three);
	assert_int_equal(d.from, 4);
	assert_int_equal(d.behind, 0);
}

/* TurboMind's chunks, RWKV-6's and Liger's rope: where factors stand, fused multiply-adds and roundings, none of which these calls tell, and no line of which nobody knows
 * where it is, as of a rounding of zeros. */
static void what_is_open_is_where_it_stands(void **state)
{
	static const struct { const char *file, *line[4]; } rows[] = {
		{ "fixtures/captures/gated_delta_rule.turbomind_normal.safetensors", {
			"new, place of a factor: diag(eG) (k @ bf16(S)) or (diag(eG) k) @ bf16(S) (the same to the bit)\n",
			"S, fused multiply-add: fast_expf(total) * S or fma[fast_expf(total) * S] (the same to the bit)\n", "o, value: f32 or bf16 (the same to the bit)\n", "" } },
		{ "fixtures/readings/rwkv6.fla_chunk.safetensors", { "before, tril(0 @ 0' + 1, -1): f32 or tf32_rz or bf16 or f16 or tf32 (all the same to the bit)\n",
			"near, sum((r * shifted(k, i)) * expf(before - shifted(G, i))): f32 or bf16 (the same to the bit)\n", "near, value: f32 or bf16 (the same to the bit)\n", "o, near: f32" } },
		{ "fixtures/captures/rope.liger.safetensors", { "y, fused multiply-add: x1 diag(co) or fma[x1 diag(co)] (the same to the bit)\n", "", "", "" } },
	};

	(void)state;
	op_added_from("tests/ops/rwkv6.op");
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct capture c;
		struct call call;
		struct structure_reading r;
		const char *why;
		struct error e;

		no_error(capture_read(&c, rows[i].file, &e) && call_bind(&call, &c, true, &e)
				&& structure_read(&r, &call, &(struct structure_search){ .work = 36e9 }, &why, &e), &e);
		assert_null(why);
		assert_true(r.identified);
		for (int l = 0; l < 4; l++)
			if (!strstr(r.open, rows[i].line[l])) fail_msg("no '%s' in\n%s", rows[i].line[l], r.open);
		for (const char *at = r.open; *at; at = strchr(at, '\n') + 1)
			if (!strncmp(at, "value", 5) || !strncmp(at, "part", 4) || !strncmp(at, "operand", 7)) fail_msg("nobody knows where: %s", at);
		structure_free(&r);
		capture_free(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(parts_are_whole), cmocka_unit_test(what_is_open_is_where_it_stands) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
