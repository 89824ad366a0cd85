/* etalon logits and etalon quantize from the command line. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fixtures/io/tensor.h"
#include "tests/kernel_model.h"
#include "tests/program.h"

#define DENSE "fixtures/models/qwen3_5_dense_tiny"
#define CAPTURE DENSE "/capture.safetensors"
#define MOE "fixtures/models/qwen3_5_moe_tiny"

enum { T = 12, V = 40 };

/* "FOLDER/NAME.safetensors:logits", with logits [T,V] that `spoil` may change and input_ids [T]. */
static const char *file_of(const char *name, enum dtype type, void (*spoil)(double *x, int64_t *ids))
{
	static char place[16][600];
	static int next;
	struct tensors t = { 0 };
	double x[T * V];
	int64_t ids[T];
	uint64_t seed = 5;
	struct error e;
	char *text = place[next++ % 16];

	for (int i = 0; i < T * V; i++) x[i] = (double)(random_bits(&seed) >> 40) * 0x1p-21;
	for (int i = 0; i < T; i++) ids[i] = i;
	if (spoil) spoil(x, ids);
	assert_non_null(tensors_add(&t, "logits", type, 2, (const size_t[]){ T, V }));
	assert_non_null(tensors_add(&t, "input_ids", DT_I64, 1, (const size_t[]){ T }));
	dtype_store(type, x, T * V, t.item[0].data);
	memcpy(t.item[1].data, ids, sizeof ids);
	snprintf(text, 600, "%s.safetensors", scratch(name));
	no_error(tensors_write(&t, text, &e), &e);
	tensors_free(&t);
	strcat(text, ":logits");
	return text;
}

static void nan_at(double *x, int64_t *ids) { (void)ids; x[3 * V + 1] = (double)NAN; }
static void inf_at(double *x, int64_t *ids) { (void)ids; x[3 * V + 1] = (double)INFINITY; }
static void mask_at(double *x, int64_t *ids) { (void)ids; x[3 * V + 1] = (double)-INFINITY; }
static void mask_row(double *x, int64_t *ids) { (void)ids; for (int v = 0; v < V; v++) x[3 * V + v] = (double)-INFINITY; }
static void id_too_large(double *x, int64_t *ids) { (void)x; ids[2] = V; }
static void id_negative(double *x, int64_t *ids) { (void)x; ids[2] = -1; }
static void slightly(double *x, int64_t *ids) { (void)ids; x[0] += 1e-3; }

/* A tensor of this shape alone. */
static const char *shaped(const char *name, enum dtype type, int rank, const size_t *shape)
{
	static char place[600];
	struct tensors t = { 0 };
	struct error e;

	assert_non_null(tensors_add(&t, "x", type, rank, shape));
	snprintf(place, sizeof place, "%s.safetensors", scratch(name));
	no_error(tensors_write(&t, place, &e), &e);
	tensors_free(&t);
	return place;
}

static void usage_is_checked(void **state)
{
	(void)state;
	refused("--got", "logits");
	refused("--model DIR or --ref", "logits", "--got", "x");
	refused("--model DIR or --ref", "logits", "--got", "x", "--ref", "y", "--model", "z");
	refused("--contract", "logits", "--got", "x", "--ref", "y", "--contract", "f32");
	refused("--noise", "logits", "--got", "x", "--model", "y", "--noise", "z");
	refused("--top", "logits", "--got", "x", "--ref", "y", "--top", "0");
	refused("--model", "quantize");
	refused("absent", "quantize", "--model", "absent");
	refused("--tokens", "quantize", "--model", DENSE, "--tokens", "0");
}

static void equal_files_pass(void **state)
{
	const char *a = file_of("a", DT_F64, NULL), *b = file_of("b", DT_F64, NULL);

	(void)state;
	expect(EXIT_PASS, "logits", "--ref", a, "--got", b);
	assert_true(strstr(out, "\nPASS") && strstr(out, "12 of 12 agree") && strstr(out, "over 11 tokens"));
	expect(EXIT_UNDECIDED, "logits", "--ref", a, "--got", file_of("b", DT_F64, slightly));
	assert_non_null(strstr(out, "\nUNDECIDED: nothing says how large an error may be"));
}

static void bad_values_fail(void **state)
{
	static void (*const spoil[])(double *, int64_t *) = { nan_at, inf_at, mask_at, mask_row };
	const char *good = file_of("good", DT_F32, NULL);

	(void)state;
	for (size_t i = 0; i < sizeof spoil / sizeof *spoil; i++) {
		expect(EXIT_FAIL, "logits", "--ref", good, "--got", file_of("bad", DT_F32, spoil[i]));
		assert_true(strstr(out, "\nFAIL: position 3:") && !*err);
		expect(EXIT_FAIL, "logits", "--ref", good, "--noise", good, "--got", file_of("bad", DT_F32, spoil[i]));
	}
	expect(EXIT_PASS, "logits", "--ref", file_of("a", DT_F32, mask_at), "--got", file_of("b", DT_F32, mask_at));
	assert_non_null(strstr(out, "1 logits masked in both"));
	refused("position 3", "logits", "--ref", file_of("bad", DT_F32, nan_at), "--got", good);
	refused("position 3", "logits", "--ref", file_of("bad", DT_F32, inf_at), "--got", good);
	refused("position 3", "logits", "--ref", file_of("bad", DT_F32, mask_row), "--got", file_of("b", DT_F32, mask_row));
	refused("no yardstick", "logits", "--ref", good, "--noise", file_of("bad", DT_F32, nan_at), "--got", good);
}

static void bad_input_is_refused(void **state)
{
	const char *good = file_of("good", DT_F32, NULL);

	(void)state;
	refused("no tensor of this name", "logits", "--ref", good, "--got", CAPTURE ":nope");
	refused("absent", "logits", "--ref", good, "--got", "absent:logits");
	refused("FILE:TENSOR", "logits", "--ref", good, "--got", CAPTURE);
	refused("[80,632]", "logits", "--ref", good, "--got", CAPTURE ":cpu_f32.logits");
	refused("certain", "logits", "--ref", good, "--got", shaped("one", DT_F32, 2, (const size_t[]){ T, 1 }));
	refused("no positions", "logits", "--ref", good, "--got", shaped("none", DT_F32, 2, (const size_t[]){ 0, V }));
	refused("[T,V]", "logits", "--ref", good, "--got", shaped("flat", DT_F32, 1, (const size_t[]){ V }));
	refused("[T,V]", "logits", "--ref", good, "--got", shaped("batch", DT_F32, 3, (const size_t[]){ 2, T, V }));
	refused("float", "logits", "--ref", good, "--got", shaped("whole", DT_I32, 2, (const size_t[]){ T, V }));
	refused("vocabulary", "logits", "--ref", good, "--got", file_of("b", DT_F32, id_too_large));
	refused("vocabulary", "logits", "--ref", good, "--got", file_of("b", DT_F32, id_negative));
	refused("12 positions", "logits", "--ref", good, "--got", good, "--ids", CAPTURE ":input_ids");
	refused("I32 or I64", "logits", "--ref", good, "--got", good, "--ids", good);
	refused("nope", "logits", "--model", DENSE, "--got", CAPTURE ":cpu_f32.logits", "--contract", "nope");
	refused("vocabulary of 40", "logits", "--model", DENSE, "--got", good);
	refused("nope", "logits", "--model", DENSE, "--got", CAPTURE ":cpu_f32.logits", "--truth", "nope");
	refused("vocabulary", "logits", "--model", MOE, "--got", CAPTURE ":cpu_f32.logits");
}

/* Two engines in float32 are each other's noise; bf16 is not theirs. */
static void real_logits_against_noise(void **state)
{
	(void)state;
	expect(EXIT_PASS, "logits", "--ref", CAPTURE ":cpu_f64.logits", "--got", CAPTURE ":cpu_f32.logits", "--noise",
		CAPTURE ":gpu_f32.logits");
	expect(EXIT_PASS, "logits", "--ref", CAPTURE ":cpu_f64.logits", "--got", CAPTURE ":gpu_f32.logits", "--noise",
		CAPTURE ":cpu_f32.logits");
	expect(EXIT_FAIL, "logits", "--ref", CAPTURE ":cpu_f64.logits", "--got", CAPTURE ":gpu_bf16.logits", "--noise",
		CAPTURE ":gpu_f32.logits",
		"--json");
	json_t *j = json_out();
	assert_string_equal(text_of(j, "outcome"), "fail");
	assert_int_equal(json_array_size(json_object_get(j, "position")), 80);
	json_decref(j);
}

/* "FILE:TENSOR" of the engine in bf16, the first n tokens: logits, and hidden states too. */
static const char *first_tokens(size_t n, bool with_hidden)
{
	static char place[600];
	struct tensors all = { 0 }, some = { 0 };
	struct error e;

	no_error(tensors_read(&all, CAPTURE, &e), &e);
	assert_non_null(some.item = calloc(all.n, sizeof *some.item));
	for (size_t i = 0; i < all.n; i++) {
		const struct tensor *t = &all.item[i];
		bool of_engine = !strncmp(t->name, with_hidden ? "gpu_bf16." : "gpu_bf16.logits", with_hidden ? 9 : 15);
		if (of_engine || !strcmp(t->name, "input_ids")) some.item[some.n++] = first_rows(t, n);
	}
	snprintf(place, sizeof place, "%s.safetensors", scratch("first"));
	no_error(tensors_write(&some, place, &e), &e);
	free(some.item);
	tensors_free(&all);
	return strcat(place, ":gpu_bf16.logits");
}

/* The contract that auto takes for the engine in bf16; it passes. *explained: the share of its error that the emulation has. */
static void taken(const char *got, const char *contract, double *explained)
{
	char under[64];

	expect(EXIT_PASS, "logits", "--model", DENSE, "--got", got, "--runs", "1", "--contract", "auto", "--quick", "--json");
	json_t *j = json_out();
	snprintf(under, sizeof under, "contract %s", contract);
	assert_string_equal(text_of(j, "under"), under);
	*explained = json_real_value(json_object_get(json_object_get(j, "all"), "explained"));
	json_decref(j);
}

/* Hidden states tell one contract in bf16 from another, and that is the one that has the engine's errors. From logits alone one is
 * as good as another: auto takes the first. */
static void auto_takes_the_contract_that_hidden_states_tell(void **state)
{
	double told, first;

	(void)state;
	taken(first_tokens(40, true), "torch_bf16", &told);
	taken(first_tokens(40, false), "etalon_bf16", &first);
	assert_true(told > 0.9);
	assert_true(first < 0.5);
}

/* The model's own answer decides; with its contract bf16 passes, and most first tokens that differ are the emulation's too. */
static void real_logits_against_the_model(void **state)
{
	(void)state;
	expect(EXIT_PASS, "logits", "--model", DENSE, "--got", CAPTURE ":gpu_f32.logits", "--runs", "2", "--quick");
	assert_non_null(strstr(out, "PASS under contract f32"));
	expect(EXIT_PASS, "logits", "--model", DENSE, "--got", CAPTURE ":gpu_bf16.logits", "--runs", "1", "--contract", "torch_bf16",
		"--quick", "--json");
	json_t *j = json_out(), *all = json_object_get(j, "all");
	assert_string_equal(text_of(j, "under"), "contract torch_bf16");
	assert_true(json_real_value(json_object_get(all, "explained")) > 0.9);
	assert_int_equal(json_integer_value(json_object_get(json_object_get(all, "flips"), "beyond")), 0);
	json_decref(j);
	expect(EXIT_PASS, "logits", "--model", DENSE, "--got", CAPTURE ":gpu_f32.decode_logits", "--last", "--runs", "1");
	assert_non_null(strstr(out, "10 of 10 agree"));
}

/* The engine has a fault: it meets no contract, and only under its own the fault is named. */
static void the_nearest_contract_names_the_fault(void **state)
{
	const char *got = first_tokens(12, true);

	(void)state;
	expect(EXIT_FAIL, "logits", "--model", DENSE, "--got", got, "--runs", "1", "--contract", "auto");
	assert_non_null(strstr(out, "FAIL under contract torch_bf16"));
	assert_non_null(strstr(out, "rope.inv_freq_in_bf16"));
	expect(EXIT_FAIL, "logits", "--model", DENSE, "--got", got, "--runs", "1", "--quick");
	assert_non_null(strstr(out, "--contract names none, so the first was taken"));
}

static void quantize_lists_all_classes(void **state)
{
	char table[512];

	(void)state;
	snprintf(table, sizeof table, "%s", scratch("table.csv"));
	expect(EXIT_PASS, "quantize", "--model", DENSE, "--tokens", "6", "--table", table, "--json");
	json_t *j = json_out(), *rows = json_object_get(j, "rounded");
	size_t n = json_array_size(rows), size;
	assert_int_equal(n, 25);
	for (size_t i = 0; i < n; i++) {
		json_t *row = json_array_get(rows, i);
		assert_true(json_real_value(json_object_get(json_object_get(row, "128x128"), "kl_mean")) > 0);
		assert_string_equal(text_of(row, "rows"), i + 2 < n ? "class" : "set");
	}
	json_decref(j);
	char *text = (char *)file_bytes(table, &size);
	size_t written = 0;
	for (size_t i = 0; i < size; i++) written += text[i] == '\n';
	assert_int_equal(written, n + 1);
	free(text);
}

/* ---- large files ---- */

/* A safetensors file of zeros, mostly holes: logits [T,V] of float32. */
static void sparse(const char *path, size_t rows, size_t vocabulary)
{
	char header[256];
	uint64_t bytes = rows * vocabulary * 4, n;
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	n = (uint64_t)snprintf(header, sizeof header, "{\"logits\":{\"dtype\":\"F32\",\"shape\":[%zu,%zu],\"data_offsets\":[0,%llu]}}",
		rows, vocabulary,
		(unsigned long long)bytes);
	assert_true(fwrite(&n, 8, 1, f) == 1 && fwrite(header, n, 1, f) == 1 && fflush(f) == 0);
	assert_int_equal(ftruncate(fileno(f), (off_t)(8 + n + bytes)), 0);
	fclose(f);
}

/* 1 GB each: what was read is given back. */
static void rows_stream(void **state)
{
	struct rusage usage;
	char a[512], b[512];

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	print_message("memory is not measured under the address sanitizer\n");
	skip();
#endif
	snprintf(a, sizeof a, "%s", scratch("large_a"));
	snprintf(b, sizeof b, "%s", scratch("large_b"));
	sparse(a, 1024, 248320);
	sparse(b, 1024, 248320);
	expect(EXIT_PASS, "logits", "--ref", a, "--got", b);
	assert_int_equal(getrusage(RUSAGE_CHILDREN, &usage), 0);
	if (usage.ru_maxrss > 300 << 10) fail_msg("%ld MB", usage.ru_maxrss >> 10);
	unlink(a);
	unlink(b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(usage_is_checked), cmocka_unit_test(equal_files_pass), cmocka_unit_test(bad_values_fail),
		cmocka_unit_test(bad_input_is_refused), cmocka_unit_test(real_logits_against_noise),
		cmocka_unit_test(auto_takes_the_contract_that_hidden_states_tell), cmocka_unit_test(real_logits_against_the_model), cmocka_unit_test(the_nearest_contract_names_the_fault),
		cmocka_unit_test(quantize_lists_all_classes), cmocka_unit_test(rows_stream),
	};
	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
