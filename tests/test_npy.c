#include "fixtures/tensor.h"

#include <math.h>
#include <string.h>

#include "tests/helpers.h"

#define LONGEST 512

/* A version 1.0 file; returns its size. The header begins at byte 10. */
static size_t build(unsigned char *file, const char *header, const void *data, size_t n_data)
{
	size_t n = strlen(header);

	assert_true(10 + n + n_data <= LONGEST);
	memcpy(file, "\x93NUMPY\1\0", 8);
	file[8] = (unsigned char)n;
	file[9] = (unsigned char)(n >> 8);
	memcpy(file + 10, header, n);
	if (n_data)
		memcpy(file + 10 + n, data, n_data);
	return 10 + n + n_data;
}

/* Parses a copy that ends where memory ends, and reads what it finds. */
static bool parse(const unsigned char *file, size_t n, struct error *e)
{
	struct guarded g = guarded_copy(file, n);
	struct tensors t;
	bool ok = npy_parse(&t, g.bytes, n, e);
	unsigned sum = 0;

	for (size_t k = 0; ok && k < t.item->bytes; k++)
		sum += ((unsigned char *)t.item->data)[k];
	assert_true(sum < UINT32_MAX);
	assert_true(ok || (!t.item && !t.n));
	tensors_free(&t);
	guarded_free(&g);
	return ok;
}

#define DICT(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }"
#define SHAPE(shape) DICT("'|u1'", "False", shape) "\n"
#define DESCR(descr) DICT(descr, "False", "(4,)") "\n"
#define END (10 + sizeof SHAPE("(4,)") - 1)

/* The offset expected is 10 + that of `at` in the header, or `offset` when at is NULL. */
static const struct hostile {
	const char *header;
	size_t n_data;
	enum error_code code;
	const char *at;
	uint64_t offset;
} hostile[] = {
	{ "", 4, E_HEADER_JSON, NULL, 10 },
	{ "[]\n", 4, E_HEADER_JSON, "[", 0 },
	{ "{}\n", 4, E_HEADER_JSON, "}", 0 },
	{ "{'descr': '<f4', }\n", 4, E_HEADER_JSON, "}", 0 },
	{ "{'descr': '<f4'\n", 4, E_HEADER_JSON, "\n", 0 },
	{ "{'descr': '<f4", 4, E_HEADER_JSON, NULL, 24 },
	{ "{'descr' '<f4'}\n", 4, E_HEADER_JSON, "'<", 0 },
	{ "{'de\\scr': '<f4'}\n", 4, E_HEADER_JSON, "\\", 0 },
	{ "{'de\xFFscr': '<f4'}\n", 4, E_HEADER_JSON, "\xFF", 0 },
	{ "{descr: '<f4'}\n", 4, E_HEADER_JSON, "descr", 0 },
	{ "{'more': 1}\n", 4, E_HEADER_JSON, "'more", 0 },
	{ "{'a_very_long_name_of_a_key': 1}\n", 4, E_HEADER_JSON, "'a_", 0 },
	{ "{'descr': '<f4', \"descr\": '<f4'}\n", 4, E_DUPLICATE, "\"", 0 },
	{ DESCR("'<f4' 'shape': (1,)"), 4, E_HEADER_JSON, "'shape", 0 },
	{ DICT("'|u1'", "False", "(4,)"), 4, E_HEADER_JSON, NULL, END - 1 },
	{ DICT("'|u1'", "False", "(4,)") "\n\n", 4, E_HEADER_JSON, NULL, END },
	{ DICT("'|u1'", "False", "(4,)") " x\n", 4, E_HEADER_JSON, "x\n", 0 },
	{ DICT("'|u1'", "True", "(4,)") "\n", 4, E_FORMAT, "True", 0 },
	{ "{'fortran_order': Fals", 0, E_HEADER_JSON, "Fals", 0 },
	{ "{'fortran_order': Tru", 0, E_HEADER_JSON, "Tru", 0 },
	{ DICT("'|u1'", "0", "(4,)") "\n", 4, E_HEADER_JSON, "0", 0 },
	{ DICT("'|u1'", "Falsey", "(4,)") "\n", 4, E_HEADER_JSON, "y,", 0 },
	{ DESCR("'>f4'"), 16, E_DTYPE, "'>f4'", 0 },
	{ DESCR("'<f16'"), 64, E_DTYPE, "'<f16'", 0 },
	{ DESCR("'|O'"), 4, E_DTYPE, "'|O'", 0 },
	{ DESCR("'<f4_and_much_more_than_that'"), 16, E_DTYPE, "'<f4", 0 },
	{ DESCR("[('a', '<f4')]"), 16, E_DTYPE, "[(", 0 },
	{ DESCR("4"), 16, E_HEADER_JSON, "4", 0 },
	{ SHAPE("4"), 4, E_SHAPE, "4, }", 0 },
	{ SHAPE("[4]"), 4, E_SHAPE, "[4]", 0 },
	{ SHAPE("(4)"), 4, E_SHAPE, "), }", 0 },
	{ SHAPE("(4L,)"), 4, E_SHAPE, "L", 0 },
	{ SHAPE("(-4,)"), 4, E_SHAPE, "-4", 0 },
	{ SHAPE("(4,,)"), 4, E_SHAPE, ",)", 0 },
	{ SHAPE("(2 2)"), 4, E_SHAPE, "2)", 0 },
	{ SHAPE("(1, 1, 1, 1, 1, 1, 1, 1, 7)"), 7, E_SHAPE, "7)", 0 },
	{ SHAPE("(99999999999999999999,)"), 4, E_SHAPE_OVERFLOW, "9999", 0 },
	{ SHAPE("(18446744073709551616,)"), 4, E_SHAPE_OVERFLOW, "1844", 0 },
	{ SHAPE("(4294967296, 4294967296)"), 0, E_SHAPE_OVERFLOW, NULL, END + 20 },
	{ SHAPE("(0, 4294967296, 4294967296)"), 0, E_SHAPE_OVERFLOW, NULL, END + 23 },
	{ SHAPE("(9223372036854775808,)"), 0, E_SHAPE_OVERFLOW, NULL, END + 18 },
	{ SHAPE("(4,)"), 3, E_TRUNCATED, NULL, END + 3 },
	{ SHAPE("(4,)"), 0, E_TRUNCATED, NULL, END },
	{ SHAPE("(4,)"), 5, E_TRAILING, NULL, END + 4 },
	{ SHAPE("(0,)"), 1, E_TRAILING, NULL, END },
};

static void refuses_hostile_headers(void **state)
{
	unsigned char file[LONGEST], data[64] = { 0 };
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
		const struct hostile *h = &hostile[i];
		size_t n = build(file, h->header, data, h->n_data);
		const char *at = h->at ? strstr(h->header, h->at) : NULL;
		assert_int_equal(!at, !h->at);
		if (parse(file, n, &e))
			fail_msg("accepted: %s", h->header);
		assert_error_at(&e, h->code, at ? 10 + (uint64_t)(at - h->header) : h->offset, h->header);
		assert_false(parse(file, n, NULL));
	}
}

static void refuses_other_beginnings(void **state)
{
	static const struct { const char *bytes; size_t n; enum error_code code; uint64_t offset; } cases[] = {
		{ "", 0, E_TRUNCATED, 0 }, { "\x93NUMPY\1", 7, E_TRUNCATED, 7 },
		{ "\x93NUMPX\1\0\2\0{}", 12, E_FORMAT, 0 }, { "\x93NUMPY\0\0\2\0{}", 12, E_FORMAT, 6 },
		{ "\x93NUMPY\4\0\2\0{}", 12, E_FORMAT, 6 }, { "\x93NUMPY\1\1\2\0{}", 12, E_FORMAT, 6 },
		{ "\x93NUMPY\1\0\2", 9, E_TRUNCATED, 9 }, { "\x93NUMPY\2\0\2\0\0", 11, E_TRUNCATED, 11 },
		{ "\x93NUMPY\1\0\3\0{}", 12, E_TRUNCATED, 12 },
		{ "\x93NUMPY\2\0\xFF\xFF\xFF\xFF{}", 14, E_TRUNCATED, 14 },
	};
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		assert_false(parse((const unsigned char *)cases[i].bytes, cases[i].n, &e));
		assert_error_at(&e, cases[i].code, cases[i].offset, cases[i].bytes);
	}
}

/* As numpy 1 and 2 write it, but for the padding. */
static void reads_every_type(void **state)
{
	static const struct { const char *descr; enum dtype dtype; } types[] = {
		{ "'<f2'", DT_F16 }, { "'<f4'", DT_F32 }, { "\"<f8\"", DT_F64 }, { "'<i4'", DT_I32 },
		{ "'<i8'", DT_I64 }, { "'|u1'", DT_U8 },
	};
	static const double numbers[] = { 0, 1, 2, 3, 100, 255 };
	unsigned char file[LONGEST], data[64];
	char header[128];
	double back[6];
	struct tensors t;
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		size_t n_data = 6 * dtype_info[types[i].dtype].size;
		snprintf(header, sizeof header, DICT("%s", "False", "(2, 3)") "    \n", types[i].descr);
		dtype_store(types[i].dtype, numbers, 6, data);
		size_t n = build(file, header, data, n_data);
		assert_true(npy_parse(&t, file, n, &e));
		const struct tensor *x = t.item;
		assert_true(t.n == 1 && x->dtype == types[i].dtype && x->rank == 2 && x->shape[0] == 2 && x->shape[1] == 3);
		assert_true(x->count == 6 && x->bytes == n_data && x->offset == n - n_data && !*x->name);
		dtype_load(x->dtype, x->data, 6, back);
		assert_memory_equal(back, numbers, sizeof numbers);
		tensors_free(&t);

		FILE *f = fopen(scratch("x.npy"), "wb");
		assert_true(f && fwrite(file, 1, n, f) == n && !fclose(f));
		assert_true(tensors_read(&t, scratch("x.npy"), &e) && t.n == 1 && t.map_bytes == n);
		tensors_free(&t);
		remove(scratch("x.npy"));
	}
}

static void reads_every_shape_and_version(void **state)
{
	static const struct { const char *header; size_t n_data; int rank; } shapes[] = {
		{ SHAPE("()"), 1, 0 }, { SHAPE("(4,)"), 4, 1 }, { SHAPE("(2, 2)"), 4, 2 }, { SHAPE("(2,2,)"), 4, 2 },
		{ SHAPE("(0,)"), 0, 1 }, { SHAPE("(1, 1, 1, 1, 1, 1, 1, 7)"), 7, 8 }, { SHAPE("(3, 0)"), 0, 2 },
		{ "{'shape':(4,),'fortran_order':False,'descr':'|u1'}\n", 4, 1 },
	};
	unsigned char file[LONGEST], wide[LONGEST + 2], data[8] = { 0 };
	struct tensors t;
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
		size_t n = build(file, shapes[i].header, data, shapes[i].n_data);
		assert_true(parse(file, n, &e) && npy_parse(&t, file, n, &e));
		assert_int_equal(t.item->rank, shapes[i].rank);
		assert_int_equal(t.item->bytes, shapes[i].n_data);
		tensors_free(&t);
		/* versions 2 and 3 have a length of four bytes */
		memcpy(wide, file, 10);
		wide[6] = (unsigned char)(2 + i % 2);
		wide[10] = wide[11] = 0;
		memcpy(wide + 12, file + 10, n - 10);
		assert_true(parse(wide, n + 2, &e));
	}
}

static void survives_cuts_and_changes(void **state)
{
	unsigned char file[LONGEST];
	size_t n = build(file, SHAPE("(2, 2)"), "abcd", 4);
	struct error e;

	(void)state;
	for (size_t k = 0; k < n; k++) {
		assert_false(parse(file, k, &e));
		assert_error_at(&e, E_TRUNCATED, k, "prefix");
	}
	for (size_t k = 0; k < n; k++)
		for (int c = 0; c < 256; c++) {
			unsigned char was = file[k];
			file[k] = (unsigned char)c;
			memset(&e, 0, sizeof e);
			if (!parse(file, n, &e))
				assert_true(e.code != E_NONE && e.code != E_MEMORY && e.detail[0] && e.offset <= n);
			file[k] = was;
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_every_type),
		cmocka_unit_test(reads_every_shape_and_version),
		cmocka_unit_test(refuses_hostile_headers),
		cmocka_unit_test(refuses_other_beginnings),
		cmocka_unit_test(survives_cuts_and_changes),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
