/* The tables of an op end where their lists end: a judge that reads on is a crash here, as they lie at the end of a page. */
#include <stdlib.h>

#include "compare/verdict/verdict.h"
#include "ref/formula/formula.h"
#include "tests/kernel_model.h"

enum { TABLES = 3 };

/* n elements and the one that ends them, moved there. */
static const void *moved(const void *table, size_t n, size_t size, struct guarded *to)
{
	*to = guarded_copy(table, (n + 1) * size);
	return to->bytes;
}

static void nothing_behind_a_table_is_read(void **state)
{
	static const char *const names[] = { "layer_norm", "scores", "rwkv6" };
	struct guarded kept[TABLES];

	(void)state;
	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		char path[64];
		struct error e;
		snprintf(path, sizeof path, "tests/ops/%s.op", names[k]);
		struct formula *f = formula_read(path, &e);
		no_error(f != NULL, &e);
		struct op *op = (struct op *)(uintptr_t)formula_op(f);
		size_t in = 0, out = 0, params = 0;
		while (op->in[in].name) in++;
		while (op->out[out].name) out++;
		while (op->params[params].name) params++;
		op->in = moved(op->in, in, sizeof *op->in, &kept[0]);
		op->out = moved(op->out, out, sizeof *op->out, &kept[1]);
		op->params = moved(op->params, params, sizeof *op->params, &kept[2]);
		assert_true(op->cases && op_add(op));

		struct capture c;
		struct verdict v = { .outcome = FAIL };
		struct plan p = plan_plain(&arith_f32, 24);
		no_error(case_make(&c, op->cases, 1, true, &e), &e);
		answer_by(&c, &p);
		for (int quick = 0; quick < 2; quick++) {
			no_error(judge(&c, &(struct judging){ .quick = quick }, &v, &e), &e);
			if (v.outcome != PASS) fail_msg("%s: %s", names[k], v.reason[0]);
		}
		capture_free(&c);       /* the op stays, with its tables */
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(nothing_behind_a_table_is_read) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
