/* What a build without nvcc says, in any build: here it stands under other names. */
#include "tests/helpers.h"

#include <string.h>

#include "gpu/engine/model.h"
#include "gpu/executor/executor.h"
#include "gpu/host/backend.h"
#include "gpu/host/nccl.h"

#define cuda_run absent_cuda
#define nccl_run absent_nccl
#define executor_cuda absent_executor
#define engine_run absent_engine
#include "gpu/no_cuda.c"

static void no_kernel_runs(void **state)
{
	bool (*const run[])(struct capture *, struct error *) = { absent_cuda, absent_nccl };
	struct capture c = { .op = "allreduce_norm" };
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof run / sizeof *run; i++) {
		e = (struct error){ 0 };
		assert_false(run[i](&c, &e));
		assert_int_equal(e.code, E_NO_BACKEND);
		assert_string_equal(e.item, "allreduce_norm");
		assert_non_null(strstr(e.detail, "without nvcc"));
	}
}

static void no_executor_and_no_engine_runs(void **state)
{
	struct tensors dump = { .n = 1 };
	struct error e = { 0 };

	(void)state;
	assert_null(absent_executor(&e));
	assert_int_equal(e.code, E_NO_BACKEND);
	e = (struct error){ 0 };
	assert_false(absent_engine("folder", NULL, 0, &dump, NULL, &e));
	assert_int_equal(e.code, E_NO_BACKEND);
	assert_int_equal(dump.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_kernel_runs), cmocka_unit_test(no_executor_and_no_engine_runs)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
