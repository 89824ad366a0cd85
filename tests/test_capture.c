#include "fixtures/capture.h"

#include <string.h>

#include "tests/helpers.h"

static void make(struct tensors *t, const char *op, const char *params)
{
	memset(t, 0, sizeof *t);
	assert_non_null(tensors_add(t, "in.x", DT_F32, 1, (size_t[]){ 2 }));
	assert_non_null(tensors_add(t, "out.x", DT_F32, 1, (size_t[]){ 3 }));
	assert_true((!op || meta_set(t, "etalon.op", op)) && (!params || meta_set(t, "etalon.params", params)));
}

static void refuses_what_is_no_capture(void **state)
{
	static const struct { const char *op, *params; enum error_code code; const char *item; } cases[] = {
		{ NULL, "{}", E_NOT_CAPTURE, "etalon.op" }, { "", "{}", E_NOT_CAPTURE, "etalon.op" },
		{ "rope", NULL, E_NOT_CAPTURE, "etalon.params" }, { "rope", "", E_PARAM, "etalon.params" },
		{ "rope", "[]", E_PARAM, "etalon.params" }, { "rope", "{\"a\":1,\"a\":2}", E_PARAM, "etalon.params" },
		{ "rope", "{} x", E_PARAM, "etalon.params" }, { "rope", "7", E_PARAM, "etalon.params" },
	};
	struct capture c;
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct tensors t;
		make(&t, cases[i].op, cases[i].params);
		assert_true(tensors_write(&t, scratch("c"), &e));
		tensors_free(&t);
		assert_false(capture_read(&c, scratch("c"), &e));
		assert_error_at(&e, cases[i].code, NO_OFFSET, cases[i].item);
		assert_string_equal(e.item, cases[i].item);
		assert_string_equal(e.file, scratch("c"));
		assert_true(!c.params && !c.tensors.n && !c.op);
		remove(scratch("c"));
	}
	assert_false(capture_read(&c, scratch("c"), &e));
	assert_error_at(&e, E_OPEN, NO_OFFSET, "no file");
}

static void reads_a_capture(void **state)
{
	struct tensors t;
	struct capture c;
	struct error e;

	(void)state;
	make(&t, "rope", "{\"theta\": 1e4, \"n\": 7, \"on\": true, \"off\": false, \"layout\": \"half\"}");
	assert_true(tensors_write(&t, scratch("c"), &e));
	assert_true(capture_read(&c, scratch("c"), &e));
	assert_string_equal(c.op, "rope");
	assert_string_equal(c.producer, "");
	assert_string_equal(c.device, "");
	assert_true(!c.contract && !c.case_name && !c.sha256);
	assert_ptr_equal(capture_in(&c, "x"), &c.tensors.item[0]);
	assert_ptr_equal(capture_out(&c, "x"), &c.tensors.item[1]);
	assert_true(!capture_in(&c, "y") && !capture_out(&c, "") && !capture_in(&c, "in.x"));
	assert_true(capture_number(&c, "theta", 1) == 1e4 && capture_number(&c, "n", 1) == 7);
	assert_true(capture_number(&c, "none", 1.5) == 1.5 && capture_number(&c, "layout", 1.5) == 1.5);
	assert_true(capture_bool(&c, "on", false) && !capture_bool(&c, "off", true));
	assert_true(capture_bool(&c, "none", true) && !capture_bool(&c, "n", false));
	assert_string_equal(capture_string(&c, "layout", "x"), "half");
	assert_string_equal(capture_string(&c, "none", "x"), "x");
	assert_null(capture_string(&c, "n", NULL));
	capture_free(&c);
	assert_true(!c.params && !c.op);
	tensors_free(&t);
	remove(scratch("c"));
}

/* A capture made in memory, bound again after its metadata changed. */
static void binds_again(void **state)
{
	static const char *const keys[] = { "etalon.producer", "etalon.device", "etalon.contract", "etalon.case",
		"etalon.source_sha256" };
	struct capture c = { 0 };
	struct error e;

	(void)state;
	assert_false(capture_bind(&c, &e));
	make(&c.tensors, "rope", "{\"n\": 1}");
	assert_true(capture_bind(&c, &e));
	assert_true(capture_number(&c, "n", 0) == 1);
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		assert_true(meta_set(&c.tensors, keys[i], keys[i]));
	assert_true(meta_set(&c.tensors, "etalon.params", "{\"n\": 2}") && capture_bind(&c, &e));
	assert_true(capture_number(&c, "n", 0) == 2);
	const char *const values[] = { c.producer, c.device, c.contract, c.case_name, c.sha256 };
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
		assert_string_equal(values[i], keys[i]);
	assert_true(meta_set(&c.tensors, "etalon.params", "{") && !capture_bind(&c, &e) && !c.params);
	capture_free(&c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_a_capture),
		cmocka_unit_test(binds_again),
		cmocka_unit_test(refuses_what_is_no_capture),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
