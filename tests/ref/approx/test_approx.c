/* PTX's approximate functions against what an H200 answered; the tables were made of an H100's answers. Runs from the repository's root. */
#include <math.h>

#include "fixtures/io/tensor.h"
#include "tests/helpers.h"
#include "variants.h"

static struct tensors recorded;

static const uint32_t *words(const char *name, size_t each)
{
	struct tensor *t = tensors_find(&recorded, name);

	assert_true(t && t->dtype == DT_I32 && t->rank == 2 && t->shape[0] == KEPT && t->shape[1] == each);
	return t->data;
}

static void equals_samples(void **state)
{
	const uint32_t *want = words("samples", 256);

	(void)state;
	for (int v = 0; v < KEPT; v++)
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t in = variant_sample(i), out = variant_answer(v, in);
			if (out != want[v * 256 + (int)i]) fail_msg("%s of 0x%08x: 0x%08x, the GPU: 0x%08x", variant_names[v], in, out, want[v * 256 + (int)i]);
		}
}

/* All 2^23 inputs of an octave, as a sum; approx_check.c compares all octaves. */
static void equals_octaves(void **state)
{
	static const struct { const char *variant; uint32_t octave; } some[] = {        /* sign and exponent: the upper 9 bits */
		{ "ex2", 0x07f }, { "ex2", 0x17e }, { "ex2", 0x185 }, { "ex2_ftz", 0x185 }, { "lg2", 0x07e }, { "lg2", 0x07f },
		{ "lg2", 0x000 }, { "lg2_ftz", 0x085 }, { "rcp", 0x07f }, { "rcp", 0x1fd }, { "rcp", 0x000 }, { "rcp_ftz", 0x0fc },
		{ "rsqrt", 0x07f }, { "rsqrt", 0x080 }, { "rsqrt", 0x000 }, { "rsqrt_ftz", 0x003 }, { "sqrt", 0x07f }, { "sqrt", 0x080 },
		{ "sqrt", 0x000 }, { "sqrt_ftz", 0x0f0 }, { "sin", 0x081 }, { "sin", 0x17c }, { "sin_ftz", 0x08a }, { "cos", 0x081 },
		{ "cos", 0x17e }, { "cos_ftz", 0x08a }, { "tanh", 0x07e }, { "tanh", 0x180 }, { "tanh", 0x07a }, { "expf", 0x083 },
		{ "expf", 0x185 }
	};
	const uint32_t *want = words("sums", 512);

	(void)state;
	for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
		uint32_t v = 0, first = some[i].octave << 23;
		while (v < KEPT && strcmp(variant_names[v], some[i].variant)) v++;
		assert_true(v < KEPT);
		if (variant_sum((int)v, first, 1 << 23) != want[v * 512 + some[i].octave])
			fail_msg("%s differs in the 2^23 inputs from 0x%08x on", variant_names[v], first);
	}
}

/* A record that any function fits would be none: the correctly rounded ones do not. */
static void tells_from_rounded(void **state)
{
	const uint32_t *want = words("samples", 256);
	int differ = 0;

	(void)state;
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t in = variant_sample(i), out;
		float x, y;
		memcpy(&x, &in, 4);
		y = (float)(1 / sqrt((double)x));
		memcpy(&out, &y, 4);
		differ += x > 0 && isfinite(x) && out != want[6 * 256 + i];
	}
	assert_true(differ > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(equals_samples), cmocka_unit_test(equals_octaves), cmocka_unit_test(tells_from_rounded) };
	struct error e;

	if (!tensors_read(&recorded, "tests/ref/approx/hopper.safetensors", &e)) {
		fprintf(stderr, "hopper.safetensors: %s\n", e.detail);
		return 1;
	}
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	tensors_free(&recorded);
	return failed;
}
