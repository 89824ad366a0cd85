/* Formulas that iterate: traces, batches, parameters that are lists, statements under a condition, pieces of shapes of their own; against
 * numbers worked out by hand, which float64 holds exactly. */
#include <string.h>

#include "ref/formula/formula.h"
#include "tests/witness.h"

/* S <- (1 + step) S, doubled where t is in `twice`; mirrored first in the form lower. */
static const char iterated[] =
	"op iterated\nin x [B?, N, N]\nout y [B?, N, N]\nout X [B?, K+1, N, N] trace if kind != \"b(n)\"\n"
	"param steps [t], kind of a | \"b(n)\", twice [t] ?\nlet K = steps\n"
	"where twice: not has(twice) or whole(twice) and rising(twice) and least(twice) >= 0 and largest(twice) < K  # steps that rise\niterates\n"
	"each b in B\ndef begun(u) = u\n"
	"form full\nX0 = begun(x[b])\nX[b, 0] = X0\nfor t in 0:K, S from X0\n  S = axpy(S, steps[t], S)\n  if t in twice\n    S = S * 2\n"
	"  X[b, t + 1] = S\ny[b] = S\nform lower as full: begun = mirrored(u)\nsite s of S stores X\n";
/* Blocks of rows, each less the mean of its first column. */
static const char blocks[] =
	"op blocks\nin x [N, M]\nout y [N, M]\nparam split [rows] ?\nlet parts = split if has(split) else 1\n"
	"where split: not has(split) or whole(split) and least(split) >= 0 and sum(split) == N\n"
	"each part in 0:parts\nlet first = sum(split, part) if has(split) else 0\nlet n = split[part] if has(split) else N\n"
	"v = x[first:first + n]\ny[first:first + n] = v - mean(x[first:first + n, 0])\n"
	"fault as_one: parts = 1; n = N; first = 0\n";

static void run(struct answer *a, struct capture *c, const char *params, const char *tensors, bool recorded, int form, const char *fault)
{
	struct sample s = { strstr(tensors, "in.x F64 4,2") ? "blocks" : "iterated", params, tensors };
	struct plan p = plan_plain(&arith_f64, 53);
	struct call call;
	struct error e;

	made(c, &s, 1);
	if (!call_bind(&call, c, recorded, &e)) error_print(stderr, &e), fail();
	if (!recorded) call_trace(&call);
	p.form = form;
	if (fault) plan_fault(&p, call.op, op_fault(call.op, fault));
	if (!ref_run(&call, &p, a, &e)) error_print(stderr, &e), fail();
}

#define CHECK(got, ...) do { double right[] = { __VA_ARGS__ }; \
	for (size_t i = 0; i < sizeof right / sizeof *right; i++) assert_true((got)[i] == right[i]); } while (0)
#define PARAMS "{\"kind\": \"a\", \"steps\": [1, 3], \"twice\": [1]}"

static void turns_are_traced(void **state)
{
	struct capture c;
	struct answer a;

	(void)state;
	run(&a, &c, PARAMS, "in.x F64 2,2 =1,2,3,4", false, 0, NULL);
	CHECK(a.hi[1], 1, 2, 3, 4, 2, 4, 6, 8, 16, 32, 48, 64);
	CHECK(a.hi[0], 16, 32, 48, 64);
	answer_free(&a);
	capture_free(&c);
	/* a batch, mirrored, no trace */
	run(&a, &c, "{\"kind\": \"b(n)\", \"steps\": [1]}", "in.x F64 2,2,2 =1,2,3,4,5,6,7,8", false, 1, NULL);
	CHECK(a.hi[0], 2, 6, 6, 8, 10, 14, 14, 16);
	assert_null(a.hi[1]);
	answer_free(&a);
	capture_free(&c);
	/* recorded: each turn from what the kernel had before it */
	run(&a, &c, PARAMS, "in.x F64 2,2 =1,2,3,4; out.y F64 2,2; out.X F64 3,2,2 =5,6,7,8,1,1,2,2,9,9,9,9", true, 0, NULL);
	CHECK(a.hi[1], 1, 2, 3, 4, 10, 12, 14, 16, 8, 8, 16, 16);
	CHECK(a.hi[0], 9, 9, 9, 9);
	answer_free(&a);
	capture_free(&c);
}

static void pieces_have_shapes_of_their_own(void **state)
{
	struct capture c;
	struct answer a;

	(void)state;
	run(&a, &c, "{\"split\": [3, 0, 1]}", "in.x F64 4,2 =1,0,2,0,6,0,5,7", false, 0, NULL);
	CHECK(a.hi[0], -2, -3, -1, -3, 3, -3, 0, 2);
	answer_free(&a);
	capture_free(&c);
	run(&a, &c, "{\"split\": [3, 1]}", "in.x F64 4,2 =1,0,2,0,6,0,7,4", false, 0, "as_one");
	CHECK(a.hi[0], -3, -4, -2, -4, 2, -4, 3, 0);
	answer_free(&a);
	capture_free(&c);
}

static void what_is_refused(void **state)
{
	static const struct { const char *params, *item; } bad[] = {
		{ "{\"steps\": [1]}", "kind" }, { "{\"steps\": [1], \"kind\": \"b\"}", "kind" }, { "{\"kind\": \"a\"}", "steps" },
		{ "{\"steps\": [1], \"kind\": \"a\", \"twice\": [1]}", "twice" }, { "{\"steps\": [1, 2], \"kind\": \"a\", \"twice\": [1, 0]}", "twice" },
		{ "{\"steps\": [1], \"kind\": \"a\", \"twice\": [0.5]}", "twice" }
	};
	static const char *const files[][2] = {
		{ "op f\nin x [N]\nout y [N]\nform b as a: v = x\ny[:] = x\n", "expected a form above" },
		{ "op f\nin x [N]\nout y [N]\nform a\nv = x\ny[:] = v\nform b as a if has(z): v = 2 * x\n", "expected the name of an input, an output or a list in has" },
		{ "op f\nin x [N]\nout y [N]\nparam p [t]\ny[:] = x * p[0, 1]\n", "expected 1 indices of p" },
		{ "op f\nin x [N]\nout y [N]\nif N in N\n  y[:] = x\n", "expected a parameter that is a list" },
		{ "op f\nin x [N]\nout y [N]\nif N == 2\ny[:] = x\n", "further in than their 'if'" },
		{ "op f\nin x [N]\nout y [N]\neach i in 0:N, k in 0:2\ny[i * k] = x[i]\n", "one index at most" },
		{ "op f\nin x [N]\nout y [N]\nsite s of y stores z\ny[:] = x\n", "an output's name" }
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct sample s = { "iterated", bad[i].params, "in.x F64 2,2" };
		struct capture c;
		struct call call;
		struct error e;
		made(&c, &s, 1);
		assert_false(call_bind(&call, &c, false, &e));
		assert_int_equal(e.code, E_PARAM);
		assert_string_equal(e.item, bad[i].item);
		capture_free(&c);
	}
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		struct error e;
		if (formula_of_text("f.op", files[i][0], strlen(files[i][0]), &e)) fail_msg("taken: %s", files[i][0]);
		if (!strstr(e.detail, files[i][1])) fail_msg("%s: %s", files[i][1], e.detail);
	}
}

static int known(void **state)
{
	(void)state;
	op_added_of("f.op", iterated);
	op_added_of("f.op", blocks);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(turns_are_traced), cmocka_unit_test(pieces_have_shapes_of_their_own), cmocka_unit_test(what_is_refused)
	};

	return cmocka_run_group_tests(tests, known, NULL);
}
