/* For tests in a build with -DETALON_FAULTS: each begins and ends without a fault. */
#ifndef ETALON_TEST_EXECUTOR_INJECT_H
#define ETALON_TEST_EXECUTOR_INJECT_H

#include "gpu/executor/executor_faults.h"
#include "tests/helpers.h"

#define FAULTS(test) cmocka_unit_test_setup_teardown(test, clean, clean)

static inline void inject(const char *name)
{
	if (!executor_inject(name)) fail_msg("%s cannot be injected", name ? name : "nothing");
}

static inline int clean(void **state)
{
	(void)state;
	inject(NULL);
	return 0;
}

#endif
