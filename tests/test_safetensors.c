#include "fixtures/tensor.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "tests/helpers.h"

#define LONGEST 4096

/* A file of this header (padded by `spaces`) and n_data bytes 0, 1, 2 ...; returns its size. */
static size_t build(unsigned char *file, const char *header, size_t spaces, size_t n_data)
{
	size_t n = strlen(header), length = n + spaces;

	assert_true(8 + length + n_data <= LONGEST);
	for (size_t i = 0; i < 8; i++)
		file[i] = (unsigned char)(length >> 8 * i);
	memcpy(file + 8, header, n);
	memset(file + 8 + n, ' ', spaces);
	for (size_t i = 0; i < n_data; i++)
		file[8 + length + i] = (unsigned char)i;
	return 8 + length + n_data;
}

/* Parses a copy that ends where memory ends; *e and the result as safetensors_parse's. What it
 * finds is read, then released. */
static bool parse(const unsigned char *file, size_t n, struct error *e)
{
	struct guarded g = guarded_copy(file, n);
	struct tensors t;
	bool ok = safetensors_parse(&t, g.bytes, n, e);
	unsigned sum = 0;

	for (size_t i = 0; i < t.n; i++)
		for (size_t k = 0; k < t.item[i].bytes; k++)
			sum += ((unsigned char *)t.item[i].data)[k];
	assert_true(sum < UINT32_MAX);
	assert_true(ok || (!t.item && !t.meta && !t.n));
	tensors_free(&t);
	guarded_free(&g);
	return ok;
}

#define A "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}"
#define OF(dtype, shape, offsets) "\"shape\":" shape ",\"data_offsets\":" offsets ",\"dtype\":" dtype
#define B(dtype, shape, offsets) "{\"b\" : {" OF(dtype, shape, offsets) "}}"
#define HUGE B("\"U8\"", "[9223372036854775807]", "[0,9223372036854775807]")

/* The offset expected is 8 + that of `at` in the header, or `offset` when at is NULL. */
static const struct hostile {
	const char *header;
	size_t n_data;
	enum error_code code;
	const char *at;
	uint64_t offset;
} hostile[] = {
	{ "[" A "]", 4, E_FORMAT, "[\"", 0 },
	{ " {" A "}", 4, E_FORMAT, " {", 0 },
	{ "{" A, 4, E_HEADER_JSON, NULL, 8 + 1 + sizeof A - 1 },
	{ "{" A "}{}", 4, E_HEADER_JSON, NULL, 8 + 3 + sizeof A - 1 },
	{ "{" A "}\n", 4, E_HEADER_JSON, "\n", 0 },
	{ "{" A "} \t", 4, E_HEADER_JSON, "\t", 0 },
	{ "{\"a\" 1}", 0, E_HEADER_JSON, "}", 0 },
	{ "{\"a\\u0000\":1}", 0, E_HEADER_JSON, ":", 0 },
	{ "{\"\xFF\":1}", 0, E_HEADER_JSON, "\xFF", 0 },
	{ "{\"b\":[99999999999999999999]}", 0, E_HEADER_JSON, "]}", 0 },
	{ "{" A "," A "}", 4, E_DUPLICATE, NULL, 8 + sizeof "{,\"a\"" - 1 + sizeof A - 1 },
	{ "{\"b\":{" OF("\"U8\"", "[1]", "[0,1]") ",\"dtype\":2}}", 1, E_DUPLICATE, ":2", 0 },
	{ "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}", 0, E_DUPLICATE, ":\"2", 0 },
	{ "{\"__metadata__\":7}", 0, E_METADATA, "\"__meta", 0 },
	{ "{\"__metadata__\":{\"a\":\"b\",\"k\": 1}}", 0, E_METADATA, "\"k", 0 },
	{ "{\"\":{" OF("\"U8\"", "[4]", "[0,4]") "}}", 4, E_NAME, "\"\"", 0 },
	{ "{\"b\":7}", 0, E_HEADER_JSON, "\"b", 0 },
	{ "{\"x\":\"b\"}", 0, E_HEADER_JSON, "\"x", 0 },
	{ "{\"b\":{\"dtype\":\"U8\",\"shape\":[4]}}", 4, E_HEADER_JSON, "\"b", 0 },
	{ "{\"b\":{" OF("\"U8\"", "[4]", "[0,4]") ",\"more\":1}}", 4, E_HEADER_JSON, "\"b", 0 },
	{ "{" A ",\"\\u0062\":7}", 4, E_HEADER_JSON, NULL, 8 },
	{ B("8", "[4]", "[0,4]"), 4, E_DTYPE, "\"b", 0 },
	{ B("\"u8\"", "[4]", "[0,4]"), 4, E_DTYPE, "\"b", 0 },
	{ B("\"BOOL\"", "[4]", "[0,4]"), 4, E_DTYPE, "\"b", 0 },
	{ B("\"U8\"", "4", "[0,4]"), 4, E_SHAPE, "\"b", 0 },
	{ B("\"U8\"", "[-4]", "[0,4]"), 4, E_SHAPE, "\"b", 0 },
	{ B("\"U8\"", "[4.0]", "[0,4]"), 4, E_SHAPE, "\"b", 0 },
	{ B("\"U8\"", "[\"4\"]", "[0,4]"), 4, E_SHAPE, "\"b", 0 },
	{ B("\"U8\"", "[1,1,1,1,1,1,1,1,1]", "[0,1]"), 1, E_SHAPE, "\"b", 0 },
	{ B("\"U8\"", "[4294967296,4294967296]", "[0,0]"), 0, E_SHAPE_OVERFLOW, "\"b", 0 },
	{ B("\"U8\"", "[4294967296,4294967296,0]", "[0,0]"), 0, E_SHAPE_OVERFLOW, "\"b", 0 },
	{ B("\"U8\"", "[0,4294967296,4294967296]", "[0,0]"), 0, E_SHAPE_OVERFLOW, "\"b", 0 },
	{ B("\"F64\"", "[2305843009213693952]", "[0,0]"), 0, E_SHAPE_OVERFLOW, "\"b", 0 },
	{ B("\"F32\"", "[4611686018427387904]", "[0,0]"), 0, E_SHAPE_OVERFLOW, "\"b", 0 },
	{ B("\"BF16\"", "[4611686018427387904]", "[0,0]"), 0, E_SHAPE_OVERFLOW, "\"b", 0 },
	{ B("\"U8\"", "[4]", "4"), 4, E_OFFSETS, "\"b", 0 },
	{ B("\"U8\"", "[4]", "[0,4,4]"), 4, E_OFFSETS, "\"b", 0 },
	{ B("\"U8\"", "[4]", "[-4,0]"), 4, E_OFFSETS, "\"b", 0 },
	{ B("\"U8\"", "[4]", "[0,4.0]"), 4, E_OFFSETS, "\"b", 0 },
	{ B("\"U8\"", "[4]", "[4,0]"), 4, E_OFFSETS, "\"b", 0 },
	{ B("\"U8\"", "[4]", "[0,5]"), 5, E_OFFSETS, "\"b", 0 },
	{ B("\"U8\"", "[4]", "[0,9223372036854775807]"), 4, E_OFFSETS, "\"b", 0 },
	{ HUGE, 0, E_TRUNCATED, NULL, 8 + sizeof HUGE - 1 },
	{ B("\"U8\"", "[4]", "[9223372036854775803,9223372036854775807]"), 4, E_GAP, "\"b", 0 },
	{ "{" A ",\"b\":{" OF("\"U8\"", "[4]", "[0,4]") "}}", 4, E_OVERLAP, "\"b", 0 },
	{ "{" A ",\"b\":{" OF("\"U8\"", "[4]", "[3,7]") "}}", 7, E_OVERLAP, "\"b", 0 },
	{ "{" A ",\"b\":{" OF("\"U8\"", "[0]", "[2,2]") "}}", 4, E_OVERLAP, "\"b", 0 },
	{ "{" A ",\"b\":{" OF("\"U8\"", "[4]", "[5,9]") "}}", 9, E_GAP, "\"b", 0 },
	{ "{" A ",\"b\":{" OF("\"U8\"", "[0]", "[9,9]") "}}", 4, E_GAP, "\"b", 0 },
	{ "{" A "}", 5, E_TRAILING, NULL, 8 + 2 + sizeof A - 1 + 4 },
	{ "{" A "}", 3, E_TRUNCATED, NULL, 8 + 2 + sizeof A - 1 + 3 },
	{ "{}", 1, E_TRAILING, NULL, 10 },
};

static void refuses_hostile_headers(void **state)
{
	unsigned char file[LONGEST];
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
		const struct hostile *h = &hostile[i];
		size_t n = build(file, h->header, 0, h->n_data);
		const char *at = h->at ? strstr(h->header, h->at) : NULL;
		assert_int_equal(!at, !h->at);
		if (parse(file, n, &e))
			fail_msg("accepted: %s", h->header);
		assert_error_at(&e, h->code, at ? 8 + (uint64_t)(at - h->header) : h->offset, h->header);
		assert_false(parse(file, n, NULL));
	}
}

static void refuses_impossible_lengths(void **state)
{
	static const struct { uint64_t length; size_t n; enum error_code code; uint64_t offset; } cases[] = {
		{ 2, 0, E_TRUNCATED, 0 }, { 2, 7, E_TRUNCATED, 7 }, { 2, 8, E_TRUNCATED, 8 },
		{ 2, 9, E_TRUNCATED, 9 }, { 100000000, 64, E_TRUNCATED, 64 }, { 0, 64, E_HEADER_LENGTH, 0 },
		{ 1, 64, E_HEADER_LENGTH, 0 }, { 100000001, 64, E_HEADER_LENGTH, 0 },
		{ UINT64_MAX, 64, E_HEADER_LENGTH, 0 }, { UINT64_MAX - 7, 64, E_HEADER_LENGTH, 0 },
	};
	unsigned char file[64] = "........{}";
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		memcpy(file, &cases[i].length, 8);
		assert_false(parse(file, cases[i].n, &e));
		assert_error_at(&e, cases[i].code, cases[i].offset, "length");
	}
}

static const char valid[] = "{\"__metadata__\":{\"k\":\"v \\u00e9\"},\"in.x\":{\"dtype\":\"F32\",\"shape\":[2,3],"
	"\"data_offsets\":[1,25]},\"e\":{\"dtype\":\"I64\",\"shape\":[3,0],\"data_offsets\":[25,25]},"
	"\"s\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}";

static void reads_a_valid_file(void **state)
{
	unsigned char file[LONGEST];
	size_t n = build(file, valid, 5, 25);
	struct tensors t;
	struct error e;
	char text[64];

	(void)state;
	assert_true(safetensors_parse(&t, file, n, &e));
	assert_int_equal(t.n, 3);
	struct tensor *x = tensors_find(&t, "in.x"), *s = tensors_find(&t, "s"), *empty = tensors_find(&t, "e");
	assert_true(x == &t.item[0] && empty == &t.item[1] && s == &t.item[2]);
	assert_true(x->dtype == DT_F32 && x->rank == 2 && x->count == 6 && x->bytes == 24);
	assert_true(x->offset == n - 24 && (unsigned char *)x->data == file + n - 24);
	assert_true(s->rank == 0 && s->count == 1 && *(unsigned char *)s->data == 0 && s->offset == n - 25);
	assert_true(empty->count == 0 && empty->bytes == 0 && !empty->data && empty->shape[0] == 3);
	assert_string_equal(shape_text(x, text, sizeof text), "[2,3]");
	assert_string_equal(shape_text(s, text, sizeof text), "[]");
	assert_string_equal(shape_text(x, text, 4), "[2,");
	assert_string_equal(meta_get(&t, "k"), "v \xC3\xA9");
	assert_null(meta_get(&t, "v"));
	assert_null(tensors_find(&t, "in"));
	assert_null(tensors_add(&t, "more", DT_U8, 0, NULL));
	tensors_free(&t);
	assert_true(parse(file, build(file, "{}", 0, 0), &e));
}

/* Every prefix is truncated; every change of one byte is refused or read without harm. */
static void survives_cuts_and_changes(void **state)
{
	unsigned char file[LONGEST];
	size_t n = build(file, valid, 5, 25);
	struct error e;

	(void)state;
	for (size_t k = 0; k < n; k++) {
		assert_false(parse(file, k, &e));
		assert_error_at(&e, E_TRUNCATED, k, "prefix");
	}
	for (size_t k = 0; k < 8 + sizeof valid; k++)
		for (int c = 0; c < 256; c++) {
			unsigned char was = file[k];
			file[k] = (unsigned char)c;
			memset(&e, 0, sizeof e);
			if (!parse(file, n, &e))
				assert_true(e.code != E_NONE && e.code != E_MEMORY && e.detail[0] && e.offset <= n);
			file[k] = was;
		}
}

static long allocations_left;

static void *failing_malloc(size_t n)
{
	return allocations_left-- > 0 ? malloc(n) : NULL;
}

static void survives_short_memory(void **state)
{
	unsigned char file[LONGEST];
	size_t n = build(file, valid, 5, 25);
	bool ok = false;
	struct error e;

	(void)state;
	json_set_alloc_funcs(failing_malloc, free);
	for (long k = 0; !ok; k++) {
		allocations_left = k;
		ok = parse(file, n, &e);
		/* Jansson takes some for a syntax error */
		assert_true(ok || e.code == E_MEMORY || e.code == E_HEADER_JSON);
	}
	json_set_alloc_funcs(malloc, free);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_valid_file),
		cmocka_unit_test(refuses_hostile_headers),
		cmocka_unit_test(refuses_impossible_lengths),
		cmocka_unit_test(survives_cuts_and_changes),
		cmocka_unit_test(survives_short_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
