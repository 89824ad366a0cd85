/* Products of a matrix and a vector without tensor cores: element by element, in types of 16 bits. */
#include "compare/limits/limits.h"
#include "compare/structure/beam.h"
#include "planted.h"

/* a [1, k] b [k, 1] by those threads */
static double product(enum type type, int by, int threads, const double *a, const double *b, size_t k)
{
	const struct cell c = { .op = CELL_GEMM, .exact = true, .p = { 0, 0, 0, by, (int)type, threads } };
	double y, x[2][32];

	memcpy(x[0], a, k * sizeof *a), memcpy(x[1], b, k * sizeof *b);
	by_element(&c, (struct block){ .at = &y, .rows = 1, .cols = 1 }, (struct block[]){ { .at = x[0], .rows = 1, .cols = k }, { .at = x[1], .rows = k, .cols = 1 } });
	return y;
}

/* (1 + 2^-9)^2 is 1 + 2^-8 in float16, with 2^-18 more where it is not rounded. */
static void the_second_product_of_a_thread_is_rounded(void **state)
{
	static const double x = 1 + 0x1p-9, first[17] = { x, -1 }, second[17] = { -1, x }, third[17] = { -0.5, -0.5, x }, fourth[17] = { -0.5, -0.5, 0, x }, alone[17] = { x, [16] = -1 }, across[3] = { x, [2] = -1 };
	static const double by_first[17] = { x, 1 }, by_second[17] = { 1, x }, by_third[17] = { 1, 1, x }, by_fourth[17] = { 1, 1, 1, x }, by_alone[17] = { x, [16] = 1 }, by_across[3] = { x, [2] = 1 };

	(void)state;
	assert_true(product(IN_F16, BY_ROWS, 0, first, by_first, 2) == 0x1p-8 + 0x1p-18);
	assert_true(product(IN_F16, BY_ROWS, 0, second, by_second, 2) == 0x1p-8);
	assert_true(product(IN_F16, BY_ROWS, 0, third, by_third, 3) == 0x1p-8 + 0x1p-18);
	assert_true(product(IN_F16, BY_ROWS, 0, fourth, by_fourth, 4) == 0x1p-8 + 0x1p-18);
	assert_true(product(IN_F16, ADDED_IN_F32, 0, first, by_first, 2) == 0x1p-8);
	/* where each second one is */
	assert_true(product(IN_F16, BY_ROWS_IN_PAIRS, 0, third, by_third, 3) == 0x1p-8 + 0x1p-18);
	assert_true(product(IN_F16, BY_ROWS_IN_PAIRS, 0, fourth, by_fourth, 4) == 0x1p-8);
	/* one element a thread, and, of 16 threads, two in one of them, where threads of eight have both in other ones */
	assert_true(product(IN_F16, BY_COLUMNS, 0, across, by_across, 1) == 1 + 0x1p-8);
	assert_true(product(IN_F16, BY_COLUMNS, 0, across, by_across, 3) == 0x1p-8);
	assert_true(product(IN_F16, BY_COLUMNS, 0, alone, by_alone, 17) == 0x1p-8 + 0x1p-18);
	assert_true(product(IN_F16, BY_ROWS, 0, alone, by_alone, 17) == 0x1p-8);
}

/* (1 + 2^-6)^2 is 1 + 2^-5 in bf16; what float32 adds keeps 2^-20, and a fused multiply-add onto -1 keeps 2^-12. */
static void products_in_bf16_are_added_in_float32_or_bf16(void **state)
{
	static const double x = 1 + 0x1p-6, a[3] = { x, 0x1p-10, -1 }, b[3] = { x, 0x1p-10, 1 }, first[2] = { x, -1 }, by_first[2] = { x, 1 };

	(void)state;
	assert_true(product(IN_BF16, ADDED_IN_F32, 0, a, b, 3) == 0x1p-5 + 0x1p-20);
	assert_true(product(IN_BF16, BY_ROWS, 0, a, b, 3) == 0x1p-5);
	assert_true(product(IN_BF16, BY_ROWS, 0, first, by_first, 2) == 0x1p-5 + 0x1p-12);
}

/* 2048 + 1 is 2048 in float16, 2048 + 2 is not: what meets first decides. */
static void layouts_of_threads(void **state)
{
	static const double a[6] = { 2048, [4] = 1, 1 }, one[6] = { 1, 1, 1, 1, 1, 1 };

	(void)state;
	assert_true(product(IN_F16, BY_ROWS, 0, a, one, 6) == 2048);            /* threads of 8: in turn */
	assert_true(product(IN_F16, BY_ROWS, 1, a, one, 6) == 2050);            /* of 4: 1 + 1 first */
	assert_true(product(IN_F16, BY_COLUMNS, 0, a, one, 6) == 2050);         /* 4 lanes and 4 warps: in two lanes of the second */
	assert_true(product(IN_F16, BY_COLUMNS, 5, a, one, 6) == 2048);         /* 2 and 2: in the second turn of the first two threads */
}

/* y [1, 2] = b' A of A [3, 2], or of A' */
static void of_a_row_and_a_matrix(void **state)
{
	const struct cell c = { .op = CELL_GEMM, .exact = true, .p = { 0, 0, 0, BY_ROWS, (int)IN_F16 } }, transposed = { .op = CELL_GEMM, .exact = true, .p = { 0, 1, 0, BY_ROWS, (int)IN_F16 } };
	double A[] = { 1, 10, 2, 20, 4, 40 }, B[] = { 1, 2, 4, 10, 20, 40 }, b[] = { 1, 3, 5 }, y[2];
	const struct block to = { .at = y, .rows = 1, .cols = 2 };

	(void)state;
	by_element(&c, to, (struct block[]){ { .at = b, .rows = 1, .cols = 3 }, { .at = A, .rows = 3, .cols = 2 } });
	assert_true(y[0] == 27 && y[1] == 270);
	y[0] = y[1] = 0;
	by_element(&transposed, to, (struct block[]){ { .at = b, .rows = 1, .cols = 3 }, { .at = B, .rows = 2, .cols = 3 } });
	assert_true(y[0] == 27 && y[1] == 270);
}

/* y [2] = A' b of A [3, 2] */
static void of_a_matrix_that_is_transposed(void **state)
{
	const struct cell c = { .op = CELL_GEMM, .exact = true, .p = { 1, 0, 0, BY_ROWS, (int)IN_F16 } };
	double A[] = { 1, 10, 2, 20, 4, 40 }, b[] = { 1, 3, 5 }, y[2];

	(void)state;
	by_element(&c, (struct block){ .at = y, .rows = 2, .cols = 1 }, (struct block[]){ { .at = A, .rows = 3, .cols = 2 }, { .at = b, .rows = 3, .cols = 1 } });
	assert_true(y[0] == 27 && y[1] == 270);
}

/* The type in which products of `plain` may be added up element by element where its operands are as they are given. */
static enum type added_in(void)
{
	struct search *s = begun();
	struct candidate c = { .form = 0 };

	try(s, &c, s->n_stage - 1);
	const bool f16 = key_about(s, &c, W_ELEMENTS_F16) >= 0, bf16 = key_about(s, &c, W_ELEMENTS_BF16) >= 0;
	ended(s);
	assert_false(f16 && bf16);
	return f16 ? IN_F16 : bf16 ? IN_BF16 : IN_F32;
}

static enum type added_in_case(const char *name)
{
	ended(case_answered("attention", name));
	const enum type type = added_in();
	capture_free(&capture);
	return type;
}

/* Of one type of 16 bits, and of so few queries a sequence that no tensor core takes their rows together: 20 of three sequences, not 24 of one. */
static void of_decode_calls_alone(void **state)
{
	struct error e;

	(void)state;
	assert_int_equal(added_in_case("decode"), IN_BF16);
	assert_int_equal(added_in_case("ragged_paged"), IN_BF16);
	assert_int_equal(added_in_case("causal"), IN_F32);
	no_error(capture_read(&capture, "fixtures/readings/attention.flashnn_paged.safetensors", &e), &e);
	assert_int_equal(added_in(), IN_F16);
	capture_free(&capture);
	no_error(capture_read(&capture, "fixtures/readings/attention.flashnn_f16.safetensors", &e), &e);
	assert_int_equal(added_in(), IN_F32);
	capture_free(&capture);
}

/* A recurrence multiplies a matrix and a vector at each token, however many there are. */
static void of_recurrences(void **state)
{
	(void)state;
	struct search *s = case_answered("gated_delta_rule", "plain");
	struct candidate c = operands_in_bf16(s, op_form(op_find("gated_delta_rule"), "sequential"));
	assert_true(call.dim[0] > 8);
	try(s, &c, s->n_stage - 1);
	assert_true(key_about(s, &c, W_ELEMENTS_BF16) >= 0);
	ended(s);
	capture_free(&capture);
}

/* The scale of q k' is on the query or on the result: on the keys it would be multiplied for each of them. */
static void a_number_is_on_the_vector(void **state)
{
	(void)state;
	struct search *s = case_answered("attention", "decode");
	struct candidate c = { .form = 0 };
	try(s, &c, s->n_stage - 1);
	const int key = key_about(s, &c, W_PLACE);
	assert_true(key >= 0);
	assert_int_equal(s->keys.at[key].n, 2);
	ended(s);
	capture_free(&capture);
}

static void is_read(const char *path, enum format type, const char *const says[2])
{
	struct error e;

	no_error(capture_read(&capture, path, &e), &e);
	struct structure_reading r = read_within(structure_work);
	print_message("%s: %.4f %% of o, %.2f G operations\n", path, 100 * r.out[0].explained, r.work * 1e-9);
	assert_true(r.identified && r.out[0].explained > 0.9999);
	for (int i = 0; i < 2; i++) assert_non_null(strstr(r.text, says[i]));
	bool said = false;
	for (int i = 0; i < r.n_rounding; i++) {
		assert_int_equal(r.rounding[i].type.format, type);
		said = said || (r.rounding[i].site < 0 && !r.rounding[i].arranged);
	}
	assert_true(said);
	structure_free(&r);
	capture_free(&capture);
}

/* Sources say f16(scale q) in one, and tl.sum, of float16 in FLASHNN's and ColossalAI's, of bf16 in LightLLM's, which alone keeps p in float32; ColossalAI's layout is, as Triton prints it, of 8 elements, 4 by 8 threads and 4 by 1
 * warps, and its PTX multiplies in pairs. */
static void kernels_without_tensor_cores(void **state)
{
	(void)state;
	is_read("fixtures/readings/attention.flashnn_paged.safetensors", FMT_F16, (const char *const[]){ "threads of 8]", "(fma[k * f16(rsqrt(128) * q)])" });
	is_read("fixtures/readings/attention.lightllm_decode.safetensors", FMT_BF16,
		(const char *const[]){ "sum[in bf16: 1 warps, 32 lanes, threads of 8](fma[k * q])", "v' @ e\n" });
	is_read("fixtures/readings/attention.colossal_decode.safetensors", FMT_F16,
		(const char *const[]){ "threads of 8, each second product rounded](fma[k * q])", "sum[in f16: 4 warps, 4 lanes, threads of 1](fma[v' * f16(e)])" });
}

/* Of one query on 300 keys, v p added in bf16 by 8 lanes and 2 warps, which is not the layout that is tried first. */
static void another_layout_is_read(void **state)
{
	int set = 0;

	(void)state;
	struct search *s = case_answered("attention", "decode");
	struct candidate x = operands_in_bf16(s, op_form(op_find("attention"), "ascending"));
	for (int round = 0; round < 2; round++) {
		try(s, &x, s->n_stage - 1);
		for (int i = 0, n = 0; i < x.met.n; i++) {
			const struct key *k = &s->keys.at[x.met.key[i]];
			if (k->what == W_ELEMENTS_BF16 && n++) x.config.value[x.met.key[i]] = BY_COLUMNS;
			else if (k->what == W_THREADS) x.config.value[x.met.key[i]] = 6, set++;
		}
	}
	assert_int_equal(set, 1);
	ended(answered_by(s, &x));
	struct structure_reading r = read_within(7e9);
	if (!r.identified || !strstr(r.text, "2 warps, 8 lanes, threads of 1](fma[v' * bf16(e)])")) fail_msg("%.6f explained: %s", r.out[0].explained, r.text);
	structure_free(&r);
	capture_free(&capture);
}

/* One of one query on 300 keys that rounds each product of q and k to bf16, as SGLang's does, and each of p and v. */
static void products_in_bf16_are_read(void **state)
{
	int set = 0;

	(void)state;
	struct search *s = case_answered("attention", "decode");
	struct candidate x = operands_in_bf16(s, op_form(op_find("attention"), "ascending"));
	try(s, &x, s->n_stage - 1);
	for (int i = 0; i < x.met.n; i++)
		if (s->keys.at[x.met.key[i]].what == W_ELEMENTS_BF16) x.config.value[x.met.key[i]] = ADDED_IN_F32, set++;
	assert_int_equal(set, 2);
	ended(answered_by(s, &x));
	struct structure_reading r = read_within(6e9);
	assert_true(r.identified && strstr(r.text, "sum(bf16(k * q))") && strstr(r.text, "sum(bf16(v' * bf16(e)))"));
	structure_free(&r);
	capture_free(&capture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_second_product_of_a_thread_is_rounded), cmocka_unit_test(products_in_bf16_are_added_in_float32_or_bf16),
		cmocka_unit_test(layouts_of_threads), cmocka_unit_test(of_a_row_and_a_matrix), cmocka_unit_test(of_a_matrix_that_is_transposed), cmocka_unit_test(of_decode_calls_alone), cmocka_unit_test(of_recurrences), cmocka_unit_test(a_number_is_on_the_vector),
		cmocka_unit_test(kernels_without_tensor_cores), cmocka_unit_test(products_in_bf16_are_read), cmocka_unit_test(another_layout_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
