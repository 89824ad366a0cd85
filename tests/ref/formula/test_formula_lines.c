/* Lines that forms and loops share: def NAME, and statements below. */
#include "tests/kernel_model.h"
#include "tests/ref/formula/broken.h"

static const char text[] =
	"op shared\nin x [R, D]\nout y [R]\n"
	"def doubled           # of every second also its square\n"
	"  v = x[r, d] * 2\n"
	"  if d mod 2 == 1\n"
	"    S = S + v^2\n"
	"\n"
	"def added\n"
	"  doubled\n"
	"  w = v + 1\n"
	"  S = S + w\n"
	"form once\n"
	"each row in R, r = row div 1\n"
	"for d in D, S from 0\n"
	"  added\n"
	"y[r] = S\n"
	"form twice\n"
	"each row in R, r = row div 1\n"
	"for d in D, S from 0\n"
	"  added\n"
	"once = S\n"
	"for d in D, S from -once\n"
	"  if d < 0\n"
	"    S = 0\n"
	"  added\n"
	"y[r] = once + S\n"
	"fault not_doubled: v = x[r, d]\n";

/* x = 1, 2, 3: 3 + 5 + 16 + 7, and of a fault in what is shared, in both forms, 2 + 3 + 4 + 4. */
static void stand_where_their_name_does(void **state)
{
	const float x[3] = { 1, 2, 3 };
	struct capture c = { 0 };
	struct call call;
	struct error e;

	(void)state;
	const struct op *op = formula_op(op_added_of("s.op", text));
	assert_true(meta_set(&c.tensors, "etalon.op", "shared") && meta_set(&c.tensors, "etalon.params", "{}"));
	memcpy(tensors_add(&c.tensors, "in.x", DT_F32, 2, (size_t[]){ 1, 3 })->data, x, sizeof x);
	assert_true(capture_bind(&c, &e));
	no_error(call_bind(&call, &c, false, &e), &e);
	for (int form = 0; form < 2; form++)
		for (int faulty = 0; faulty < 2; faulty++) {
			struct plan p = plan_plain(&arith_dd, arith_dd.precision);
			struct answer a;
			p.form = form;
			if (faulty) plan_fault(&p, op, op_fault(op, "not_doubled"));
			no_error(ref_run(&call, &p, &a, &e), &e);
			assert_float_equal(a.hi[0][0], faulty ? 13 : 31, 0);
			answer_free(&a);
		}
	capture_free(&c);
}

#define HEAD "op f\nin x [R, D]\nout z [R, D]\neach r in R\n"

static void broken_ones(void **state)
{
	static const struct broken broken[] = {
		{ "op f\nin x [R, D]\nout z [R, D]\nform a\neach r in R, j = r div 2\nz[r] = x[j]\nform b\neach r in R, j = r div 3\nz[r] = x[j]\n", ":8:14",
			"'j' to be what it is in line 5, or another name" },
		{ "op f\nin x [R, D]\nout z [R, D]\neach r in R, j = r, j = r\nz[r] = x[j]\n", ":4:21", "'j' stands in line 4" },
		{ HEAD "def iterates\n  v = x[r]\n", ":5:5", "a name that no line begins with, got 'iterates'" },
		{ HEAD "def a\nz[r] = x[r]\n", ":6:1", "statements, further in than their 'def', got 'z'" },
		{ HEAD "def a\n  v = x[r]\ndef a\n  v = x[r]\na\nz[r] = v\n", ":7:5", "'a' stands in line 5" },
		{ HEAD "def a\n  a\nz[r] = x[r]\n", ":6:3", "the name of a 'def' of lines above, got 'a'" },
		{ HEAD "def some\n  v = x[r]\nfor d in 0:1, S from x[r]\n  soms\nz[r] = S\n", ":8:3", "got 'soms'; did you mean 'some'?" },
		{ HEAD "def some\n  v = x[r]\nsoms\nz[r] = v\n", ":7:1", "got 'soms'; did you mean 'some'?" },
		{ HEAD "def a\n  v = x[r]\na\na\nz[r] = v\n", ":6:3", "'v' is defined already" },
		{ HEAD "def a\n  use rmsnorm as n: x = x[r]\na\nz[r] = n.y\n", ":6:7", "'use' in a form, not in lines that forms share" },
		{ HEAD "def a\n  for d in 0:1\n    use rmsnorm as n: x = x[r]\na\nz[r] = n.y\n", ":7:9", "'use' in a form" },
	};

	(void)state;
	assert_broken(broken, sizeof broken / sizeof *broken);
}

/* Each has the one before twice: the number of statements doubles with each. */
static void no_avalanche(void **state)
{
	char many[1024] = HEAD "def a\n  if r > 0\n    v = x[r]\n";
	struct error e = { 0 };

	(void)state;
	for (char c = 'b'; c < 'z'; c++) {
		size_t n = strlen(many);
		snprintf(many + n, sizeof many - n, "def %c\n  %c\n  if r > 1\n    %c\n", c, c - 1, c - 1);
	}
	assert_null(formula_of_text("f.op", many, strlen(many), &e));
	assert_int_equal(e.code, E_FORMULA);
	assert_non_null(strstr(e.detail, "at most 4096 statements by 'def'"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(stand_where_their_name_does), cmocka_unit_test(broken_ones), cmocka_unit_test(no_avalanche) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
