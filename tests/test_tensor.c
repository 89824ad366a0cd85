#include "fixtures/tensor.h"

#include <stdlib.h>
#include <string.h>

#include "tests/helpers.h"

/* One tensor of each dtype, of rank 0 to 8, filled with random bytes. */
static void fill(struct tensors *t)
{
	static const size_t shape[MAX_RANK] = { 3, 1, 2, 5, 1, 1, 2, 1 };
	uint64_t seed = 7;
	char name[32];

	memset(t, 0, sizeof *t);
	for (int d = 0; d < DT_COUNT; d++) {
		snprintf(name, sizeof name, "in.\"%s\"\n\xC3\xA9", dtype_info[d].name);
		struct tensor *x = tensors_add(t, name, (enum dtype)d, d % (MAX_RANK + 1), shape);
		assert_non_null(x);
		assert_true(x->offset == NO_OFFSET);
		for (size_t i = 0; i < x->bytes; i++) {
			assert_int_equal(((unsigned char *)x->data)[i], 0);
			((unsigned char *)x->data)[i] = (unsigned char)random_bits(&seed);
		}
	}
	assert_non_null(tensors_add(t, "none", DT_F32, 2, (size_t[]){ 0, 7 }));
	assert_true(meta_set(t, "etalon.op", "x") && meta_set(t, "z", "") && meta_set(t, "a", "{\"k\": 1}"));
	assert_true(meta_set(t, "etalon.op", "rope"));
}

static void reads_what_it_writes(void **state)
{
	const char *path = scratch("all");
	struct tensors a, b;
	struct error e;

	(void)state;
	fill(&a);
	assert_true(tensors_write(&a, path, &e));
	assert_true(tensors_read(&b, path, &e));
	assert_int_equal(b.n, a.n);
	assert_int_equal(b.n_meta, 3);
	for (size_t i = 0; i < a.n_meta; i++) {
		assert_string_equal(a.meta[i].key, b.meta[i].key);
		assert_string_equal(a.meta[i].value, b.meta[i].value);
	}
	assert_string_equal(meta_get(&b, "etalon.op"), "rope");
	for (size_t i = 0; i < a.n; i++) {
		struct tensor *x = &a.item[i], *y = &b.item[i];
		assert_string_equal(x->name, y->name);
		assert_true(x->dtype == y->dtype && x->rank == y->rank && x->count == y->count);
		assert_memory_equal(x->shape, y->shape, sizeof *x->shape * (size_t)x->rank);
		assert_true(x->bytes == y->bytes && (!x->bytes || !memcmp(x->data, y->data, x->bytes)));
	}
	assert_int_equal(b.item[0].offset % 8, 0);

	/* a private map: what is written to it does not reach the file */
	unsigned char was = *(unsigned char *)b.item[0].data;
	*(unsigned char *)b.item[0].data = (unsigned char)~was;
	tensors_free(&b);
	assert_true(tensors_read(&b, path, &e));
	assert_int_equal(*(unsigned char *)b.item[0].data, was);
	tensors_free(&b);
	tensors_free(&a);
	remove(path);
}

static void writes_an_exact_file(void **state)
{
	static const char expected[] = "\x50\0\0\0\0\0\0\0{\"__metadata__\":{\"k\":\"v\"},"
		"\"x\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}  \1\2";
	struct tensors t = { 0 };
	size_t n;

	(void)state;
	memcpy(tensors_add(&t, "x", DT_U8, 1, (size_t[]){ 2 })->data, "\1\2", 2);
	assert_true(meta_set(&t, "k", "v") && tensors_write(&t, scratch("exact"), NULL));
	unsigned char *found = file_bytes(scratch("exact"), &n);
	assert_memory_equal(found, expected, sizeof expected - 1 < n ? sizeof expected - 1 : n);
	assert_int_equal(n, sizeof expected - 1);
	free(found);
	tensors_free(&t);
	assert_true(tensors_write(&t, scratch("exact"), NULL));         /* no tensor at all */
	assert_true(tensors_read(&t, scratch("exact"), NULL) && !t.n && !t.n_meta);
	tensors_free(&t);
	remove(scratch("exact"));
}

static void refuses_to_write_what_it_could_not_read(void **state)
{
	static const struct { const char *first, *second, *key, *value; enum error_code code; } cases[] = {
		{ "", "b", "k", "v", E_NAME },
		{ "a", "__metadata__", "k", "v", E_NAME },
		{ "a", "\xFF", "k", "v", E_NAME },
		{ "a", "a", "k", "v", E_DUPLICATE },
		{ "a", "b", "\xFF", "v", E_METADATA },
		{ "a", "b", "k", "\xC3", E_METADATA },
	};
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tensors t = { 0 };
		assert_non_null(tensors_add(&t, cases[i].first, DT_U8, 0, NULL));
		assert_non_null(tensors_add(&t, cases[i].second, DT_U8, 0, NULL));
		assert_true(meta_set(&t, cases[i].key, cases[i].value));
		assert_false(tensors_write(&t, scratch("no"), &e));
		assert_error_at(&e, cases[i].code, NO_OFFSET, cases[i].second);
		assert_string_equal(e.file, scratch("no"));
		tensors_free(&t);
	}
	assert_int_equal(scratch_count(), 0);
}

static void refuses_to_write_a_long_header(void **state)
{
	size_t n = SAFETENSORS_MAX_HEADER;
	char *value = malloc(n + 1);
	struct tensors t = { 0 };
	struct error e;

	(void)state;
	assert_non_null(value);
	memset(value, 'a', n);
	value[n] = '\0';
	assert_true(meta_set(&t, "k", value));
	assert_false(tensors_write(&t, scratch("no"), &e));
	assert_error_at(&e, E_HEADER_LENGTH, NO_OFFSET, "long");
	assert_int_equal(scratch_count(), 0);
	tensors_free(&t);
	free(value);
}

static void adds_within_bounds(void **state)
{
	static const struct { enum dtype d; int rank; size_t shape[MAX_RANK]; bool ok; } cases[] = {
		{ DT_U8, -1, { 0 }, false }, { DT_U8, MAX_RANK + 1, { 0 }, false },
		{ DT_U8, 2, { SIZE_MAX, 2 }, false }, { DT_U8, 1, { SIZE_MAX }, false },
		{ DT_F64, 1, { SIZE_MAX / 8 + 1 }, false }, { DT_U8, 3, { 0, SIZE_MAX, SIZE_MAX }, false },
		{ DT_F64, 2, { 0, 5 }, true }, { DT_F64, 0, { 0 }, true },
	};
	struct tensors t = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(tensors_add(&t, "x", cases[i].d, cases[i].rank, cases[i].shape) != NULL, cases[i].ok);
	assert_int_equal(t.n, 2);
	assert_true(t.item[0].count == 0 && t.item[1].count == 1 && t.item[1].bytes == 8);
	tensors_free(&t);
	assert_true(!t.item && !t.n && !t.map);
	tensors_free(&t);
}

static void finds(void **state)
{
	struct tensors t;

	(void)state;
	fill(&t);
	assert_ptr_equal(tensors_find(&t, "none"), &t.item[t.n - 1]);
	assert_null(tensors_find(&t, "non"));
	assert_null(meta_get(&t, "etalon"));
	assert_int_equal(t.n_meta, 3);
	tensors_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_it_writes),
		cmocka_unit_test(writes_an_exact_file),
		cmocka_unit_test(refuses_to_write_what_it_could_not_read),
		cmocka_unit_test(refuses_to_write_a_long_header),
		cmocka_unit_test(adds_within_bounds),
		cmocka_unit_test(finds),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
