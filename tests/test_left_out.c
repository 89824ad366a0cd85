/* Inputs that a capture leaves out, the hash in their place, and what every reader says when they do not come back. */
#define _GNU_SOURCE     /* memfd_create */
#include <sys/stat.h>

#include "fixtures/left_out.h"
#include "fixtures/sha256.h"
#include "tests/model.h"
#include "tests/program.h"

#define RECORDED "fixtures/captures/rope.full.etalon.safetensors"

/* ---- SHA-256: what sha256sum says ---- */

static void file_hash(const char *path, char text[SHA256_TEXT])
{
	char command[600];

	snprintf(command, sizeof command, "sha256sum '%s'", path);
	FILE *from = popen(command, "r");
	assert_non_null(from);
	assert_int_equal(fread(text, 1, SHA256_TEXT - 1, from), SHA256_TEXT - 1);
	text[SHA256_TEXT - 1] = 0;
	pclose(from);
}

static FILE *opened(const char *path)
{
	FILE *to = fopen(path, "wb");

	assert_non_null(to);
	return to;
}

/* Lengths about the ends of a block and of its room for the length, added in pieces of all sizes. */
static void sha256_is_that_of_sha256sum(void **state)
{
	static const size_t lengths[] = { 0, 1, 3, 55, 56, 57, 63, 64, 65, 119, 120, 127, 128, 1000, 65537 };
	static unsigned char bytes[65537];
	uint64_t random = 7;

	(void)state;
	for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (unsigned char)random_bits(&random);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		const char *path = scratch("bytes");
		char expected[SHA256_TEXT], is[SHA256_TEXT];
		struct sha256 h;
		FILE *to = opened(path);
		assert_int_equal(fwrite(bytes, 1, lengths[i], to), lengths[i]);
		assert_int_equal(fclose(to), 0);
		file_hash(path, expected);
		sha256_start(&h);
		for (size_t at = 0, n; at < lengths[i]; at += n) {
			n = random_bits(&random) % 150;
			if (n > lengths[i] - at) n = lengths[i] - at;
			sha256_add(&h, bytes + at, n);
		}
		sha256_text(&h, is);
		assert_string_equal(is, expected);
		remove(path);
	}
}

/* ---- leaving out ---- */

/* A case with outputs that are all 1. */
static void made(struct capture *c, uint64_t seed)
{
	struct error e;

	no_error(case_make(c, case_find("rope", "partial_f32"), seed, true, &e), &e);
	struct tensor *y = capture_out(c, "y");
	for (size_t i = 0; i < y->count; i++) set(y, i, 1);
}

/* The hash that the format's description asks for, of rope's two inputs in the order of their names. */
static void described_hash(const struct capture *c, char text[SHA256_TEXT])
{
	const struct tensor *positions = capture_in(c, "positions"), *x = capture_in(c, "x");
	const char *path = scratch("described");
	FILE *to = opened(path);

	fprintf(to, "in.positions I32 [%zu]\n", positions->shape[0]);
	fwrite(positions->data, 1, positions->bytes, to);
	fprintf(to, "in.x F32 [%zu,%zu,%zu]\n", x->shape[0], x->shape[1], x->shape[2]);
	fwrite(x->data, 1, x->bytes, to);
	assert_int_equal(fclose(to), 0);
	file_hash(path, text);
	remove(path);
}

static void inputs_come_back(void **state)
{
	const char *path = scratch("left");
	struct capture whole, read;
	char expected[SHA256_TEXT];
	struct error e;

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct capture left;
		struct tensors file;
		made(&whole, i ? UINT64_MAX : 1);
		made(&left, i ? UINT64_MAX : 1);
		described_hash(&whole, expected);
		no_error(inputs_leave_out(&left.tensors, &e) && tensors_write(&left.tensors, path, &e), &e);
		no_error(tensors_read(&file, path, &e), &e);
		assert_true(file.n == 1 && !strcmp(file.item[0].name, "out.y"));
		assert_string_equal(meta_get(&file, INPUTS_SHA256), expected);
		no_error(capture_read(&read, path, &e), &e);
		assert_null(meta_get(&read.tensors, INPUTS_SHA256));
		assert_int_equal(read.tensors.n, whole.tensors.n);
		assert_int_equal(read.tensors.n_meta, whole.tensors.n_meta);
		for (size_t k = 0; k < whole.tensors.n; k++) {
			const struct tensor *a = &whole.tensors.item[k], *b = &read.tensors.item[k];
			assert_string_equal(a->name, b->name);
			assert_true(a->dtype == b->dtype && a->rank == b->rank && a->bytes == b->bytes);
			assert_memory_equal(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
			assert_memory_equal(a->data, b->data, a->bytes);
		}
		assert_true(capture_out(&read, "y")->offset == file.item[0].offset && capture_in(&read, "x")->offset == NO_OFFSET);
		capture_free(&read);
		tensors_free(&file);
		capture_free(&left);
		capture_free(&whole);
		remove(path);
	}
}

/* Inputs that are there are the ones that were given, whatever the hash says. */
static void inputs_that_are_there_stay(void **state)
{
	struct capture c;
	struct error e;

	(void)state;
	made(&c, 1);
	set(capture_in(&c, "x"), 0, 77);
	assert_true(meta_set(&c.tensors, INPUTS_SHA256, "00"));
	no_error(inputs_bring_back(&c.tensors, &e), &e);
	assert_true(get(capture_in(&c, "x"), 0) == 77);
	capture_free(&c);
}

static const struct { const char *key, *value; enum error_code code; const char *item; } spoiled[] = {
	{ INPUTS_SHA256, "0000000000000000000000000000000000000000000000000000000000000000", E_VALUE, INPUTS_SHA256 },
	{ "etalon.seed", "2", E_VALUE, INPUTS_SHA256 }, { "etalon.case", "full", E_VALUE, INPUTS_SHA256 },
	{ "etalon.case", "nope", E_UNKNOWN_NAME, "etalon.case" }, { "etalon.op", "rmsnorm", E_UNKNOWN_NAME, "etalon.case" },
	{ "etalon.seed", "1x", E_NOT_CAPTURE, "etalon.seed" }, { "etalon.seed", "-1", E_NOT_CAPTURE, "etalon.seed" },
	{ "etalon.seed", "18446744073709551616", E_NOT_CAPTURE, "etalon.seed" }, { "etalon.seed", NULL, E_NOT_CAPTURE, "etalon.seed" },
	{ "etalon.case", NULL, E_NOT_CAPTURE, "etalon.case" }, { "etalon.op", NULL, E_NOT_CAPTURE, "etalon.op" },
};

static void what_does_not_come_back_is_said(void **state)
{
	char path[512];
	struct capture c, read;
	struct error e;

	(void)state;
	snprintf(path, sizeof path, "%s.safetensors", scratch("spoiled"));
	for (size_t i = 0; i < sizeof spoiled / sizeof *spoiled; i++) {
		made(&c, 1);
		no_error(inputs_leave_out(&c.tensors, &e), &e);
		meta_drop(&c.tensors, spoiled[i].key);
		assert_true(!spoiled[i].value || meta_set(&c.tensors, spoiled[i].key, spoiled[i].value));
		no_error(tensors_write(&c.tensors, path, &e), &e);
		capture_free(&c);
		assert_false(capture_read(&read, path, &e));
		assert_error_at(&e, spoiled[i].code, NO_OFFSET, spoiled[i].item);
		assert_string_equal(e.item, spoiled[i].item);
		assert_string_equal(e.file, path);
		assert_int_equal(error_exit(&e), EXIT_INPUT);
		assert_true(!read.tensors.n && !read.params);
		refused(spoiled[i].item, "check", path);
		refused(spoiled[i].item, "diff", path, path);
	}
	made(&c, 1);
	no_error(inputs_leave_out(&c.tensors, &e) && meta_set(&c.tensors, INPUTS_SHA256, "00") && tensors_write(&c.tensors, path, &e), &e);
	capture_free(&c);
	refused(INPUTS_SHA256, "profile", path);
	refused("record it again", "ref", path, "-o", scratch("never"));
	refused(INPUTS_SHA256, "inputs", path, "-o", scratch("never"));
	expect(EXIT_INPUT, "gate", path);
	assert_non_null(strstr(out, INPUTS_SHA256));
	remove(path);
}

/* ---- the command line ---- */

/* A recorded capture, written whole: the same verdict, no input missing, equal to the one without. */
static void inputs_writes_the_whole(void **state)
{
	char whole[512];
	struct tensors file;
	struct error e;

	(void)state;
	snprintf(whole, sizeof whole, "%s.safetensors", scratch("whole"));
	no_error(tensors_read(&file, RECORDED, &e), &e);
	assert_true(file.n == 1 && meta_get(&file, INPUTS_SHA256));
	tensors_free(&file);
	expect(EXIT_PASS, "inputs", RECORDED, "-o", whole, "--json");
	json_t *j = json_out();
	assert_string_equal(text_of(j, "case"), "full");
	assert_int_equal(json_integer_value(json_object_get(j, "seed")), 1);
	assert_int_equal(json_array_size(json_object_get(j, "inputs")), 2);
	assert_int_equal(json_array_size(json_object_get(j, "outputs")), 1);
	json_decref(j);
	no_error(tensors_read(&file, whole, &e), &e);
	assert_true(file.n == 3 && !meta_get(&file, INPUTS_SHA256));
	tensors_free(&file);
	expect(EXIT_PASS, "diff", whole, RECORDED);
	expect(EXIT_PASS, "check", "--quick", "--truth", "f64", whole);
	refused("absent", "inputs", "absent.safetensors", "-o", whole);
	refused("CAPTURE", "inputs", RECORDED, "-o", whole, "--seed", "2");
	remove(whole);
}

static size_t inputs_in(const char *path)
{
	struct tensors file;
	struct error e;
	size_t n = 0;

	no_error(tensors_read(&file, path, &e), &e);
	for (size_t i = 0; i < file.n; i++) n += !strncmp(file.item[i].name, "in.", 3);
	tensors_free(&file);
	return n;
}

static void record_leaves_out_what_ours_need_not(void **state)
{
	char folder[512], path[600], whole[512];

	(void)state;
	snprintf(folder, sizeof folder, "%s", scratch("records"));
	snprintf(whole, sizeof whole, "%s", scratch("whole"));
	snprintf(path, sizeof path, "%s/mixed_batch.few_f32.etalon.safetensors", folder);
	expect(EXIT_PASS, "record", "mixed_batch", "-o", folder, "--backend", "cpu", "--case", "few_f32", "--keep-inputs");
	assert_int_equal(inputs_in(path), 16);
	assert_int_equal(rename(path, whole), 0);
	expect(EXIT_PASS, "record", "mixed_batch", "-o", folder, "--backend", "cpu", "--case", "few_f32");
	assert_int_equal(inputs_in(path), 0);
	expect(EXIT_PASS, "diff", path, whole);
	expect(EXIT_PASS, "check", path);
	remove(whole);
	remove(path);
	remove(folder);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sha256_is_that_of_sha256sum),
		cmocka_unit_test(inputs_come_back),
		cmocka_unit_test(inputs_that_are_there_stay),
		cmocka_unit_test(what_does_not_come_back_is_said),
		cmocka_unit_test(inputs_writes_the_whole),
		cmocka_unit_test(record_leaves_out_what_ours_need_not),
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
