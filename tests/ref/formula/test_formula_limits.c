/* Files of formulas that ask for too much: refused in time, with a place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "ref/formula/formula_private.h"
#include "tests/helpers.h"
#include "tests/ref/formula/broken.h"

#define HEAD "op f\nin x [R, D]\nout z [R, D]\neach r in R\n"

static size_t peak(void)
{
	struct rusage u;

	assert_int_equal(getrusage(RUSAGE_SELF, &u), 0);
	return (size_t)u.ru_maxrss;     /* KiB */
}

/* Lines of `line`, of numbers k and k - 1, and then `last`; each calls that before it twice. */
static char *doubled(const char *line, int n, const char *last)
{
	char *text = malloc(1 << 16);
	int at = snprintf(text, 1 << 16, HEAD);

	assert_non_null(text);
	for (int k = 1; k <= n; k++) at += snprintf(text + at, (size_t)((1 << 16) - at), line, k, k - 1, k - 1);
	snprintf(text + at, (size_t)((1 << 16) - at), "%s", last);
	return text;
}

/* Definitions that double with each line, 2^40 times in the end, wherever a definition may stand. */
static void what_doubles_is_refused(void **state)
{
	static const struct { const char *line, *last; } way[] = {
		{ "def f%d(a) = f%d(a) + f%d(a)\n", "def f0(a) = a + a\nz[r] = f40(x[r])\n" },
		{ "def f%d(a) = f%d(a) * f%d(a)\n", "def f0(a) = exp(a)\nz[r] = sum(f40(x[r])) + x[r]\n" },
		{ "def f%d(a) = f%d(a) + f%d(a)\n", "def f0(a) = a + a\nz[r] = x[r]\nfault wrong: z[r] = f40(x[r])\n" },
		{ "def f%d(a) = f%d(a) + f%d(a)\n", "def f0(a) = a + R\nz[r] = x[r]\nwhere f40(1) > 0 # x\n" },
	};
	const size_t before = peak();

	(void)state;
	for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
		struct error e = { .code = E_NONE };
		char *text = doubled(way[i].line, 40, way[i].last);
		struct formula *f = formula_of_text("f.op", text, strlen(text), &e);
		if (f || e.code != E_FORMULA || !strstr(e.detail, "a shorter formula") || strncmp(e.file, "f.op:", 5)) fail_msg("%zu: %s: %s", i, e.file, e.detail);
		free(text);
	}
#ifndef __SANITIZE_ADDRESS__
	assert_true(peak() - before < 200 << 10);
#else
	(void)before;
#endif
	/* numbers are found once, however often they stand; and 2^8 is not too much */
	static const char *const fine[][2] = { { "let n%d = n%d + n%d\n", "let n0 = R\nz[r] = x[r] * n40\nwhere n40 > 0 # x\n" },
		{ "def f%d(a) = f%d(a) + f%d(a)\n", "def f0(a) = a + a\nz[r] = f8(x[r])\n" } };
	for (int i = 0; i < 2; i++) {
		char *text = doubled(fine[i][0], i ? 8 : 40, fine[i][1]);
		struct error e;
		struct formula *f = formula_of_text("f.op", text, strlen(text), &e);
		if (!f) fail_msg("%s: %s", e.file, e.detail);
		formula_end(f);
		free(text);
	}
}

/* Loops whose turns the file itself makes too many; those of a call's sizes are as many as it says. */
static void what_has_no_end_is_refused(void **state)
{
	static const struct broken rows[] = {
		{ HEAD "for i in 0:2^40, S from x[r]\n  S = S + 1\nz[r] = S\n", ":5:10", "fewer than 2^32 turns in all, got 1.1e+12" },
		{ HEAD "for i in 0:1000000, S from x[r]\n  for j in 0:1000000, Q from S\n    Q = Q + 1\n  S = Q\nz[r] = S\n", ":6:12", "got 1e+12" },
		{ HEAD "z[r] = x[r] * n\nlet n = count(i in 0:1000000, count(j in 0:1000000, i > j) > 3)\n", ":6:31", "got 1e+12" },
	};
	struct error e;
	static const char fine[] = HEAD "for i in 0:1000000, S from x[r]\n  S = S + 1\nfor i in 0:1000000, Q from S\n  Q = Q + 1\nz[r] = Q\n";

	(void)state;
	assert_broken(rows, sizeof rows / sizeof *rows);
	struct formula *f = formula_of_text("f.op", fine, sizeof fine - 1, &e);
	if (!f) fail_msg("%s: %s", e.file, e.detail);
	formula_end(f);
}

static void numbers_are_doubles(void **state)
{
	static const struct broken rows[] = {
		{ HEAD "z[r] = x[r] * 1e400\n", ":5:15", "a number that a double holds" },
		{ HEAD "z[r] = x[r] + 1e-400\n", ":5:15", "a number that a double holds" },
		{ "op f\nin x [R] positions [R] integer\nout z [R]\neach r in R\nz[r] = x[r] * positions[r]\ncase k: R = 2, positions = [1, 4294967299]\n", ":6:16", "whole numbers below 2^31" },
		{ "op f\nin x [R] positions [R] integer\nout z [R]\neach r in R\nz[r] = x[r] * positions[r]\ncase k: R = 2, positions = [1, 2.5]\n", ":6:16", "whole numbers below 2^31" },
	};

	(void)state;
	assert_broken(rows, sizeof rows / sizeof *rows);
}

/* A second mention would be ignored. A name that is a tensor's and a parameter's stands once for each. */
static void a_case_says_a_thing_once(void **state)
{
	static const struct broken rows[] = {
		{ "op f\nin x [R, D] bias [D] ?\nout z [R, D]\neach r in R\nz[r] = x[r]\ncase k: R = 4, D = 8, bias, x = normal(0, 1), bias = bf16\n", ":6:47", "one mention in a case" },
		{ HEAD "z[r] = x[r]\ncase k: R = 4, D = 8, R = 5\n", ":6:23", "one mention in a case" },
		{ HEAD "z[r] = x[r]\ndraw x = bf16, x = f16\ncase k: R = 4, D = 8\n", ":6:16", "one mention in a case" },
	};
	struct error e;
	static const char both[] = "op f\nin x [R, D] gate [R, D] ?\nout z [R, D]\nparam gate = none | silu\nwhere has(gate) == (gate == silu) # both\neach r in R\n"
		"z[r] = x[r] * gate[r] if gate == silu else x[r]\ncase k: R = 4, D = 8, gate = silu, gate = bf16 normal(0, 1)\n";

	(void)state;
	assert_broken(rows, sizeof rows / sizeof *rows);
	struct formula *f = formula_of_text("f.op", both, sizeof both - 1, &e);
	if (!f) fail_msg("%s: %s", e.file, e.detail);
	formula_end(f);
}

/* Faults are looked at in few sets of inputs and choices, in which each two values stand together. */
static void sets_have_all_pairs(void **state)
{
	enum { MOST = 16 };

	(void)state;
	for (size_t i = 0; i < formula_builtins(); i++) {
		struct error e;
		struct formula *f = formula_builtin(i, &e);
		struct call call = { .op = formula_op(f) };
		static struct pairs_seen all, some;
		size_t sets = 0, taken = 0;

		memset(&all, 0, sizeof all);
		memset(&some, 0, sizeof some);
		while (sets < SETS && check_set(f, &call, sets)) sets++;
		for (size_t k = 0; k < sets; k++) {
			check_set(f, &call, k);
			check_new_pair(f, &call, &all);
			check_set(f, &call, k * SCATTER % sets);
			taken += check_new_pair(f, &call, &some);
		}
		assert_memory_equal(&all, &some, sizeof all);
		if (taken > 4 * MOST || (sets > 4 * MOST && taken > sets / 4)) fail_msg("%s: %zu of %zu sets", call.op->name, taken, sets);
		formula_end(f);
	}
}

/* A mistake that only two inputs together show is found, in a form and in a fault. */
static void two_inputs_show_a_mistake(void **state)
{
	static const char head[] = "op f\nin x [R, D] a [D] ? b [R] ? c [D] ? d [D] ? e [D] ? g [D] ?\nout z [R, D]\neach r in R\n";
	static const char *const wrong[] = {
		"z[r] = a + b if has(a) and has(b) and not has(g) else x[r]\n", "z[r] = x[r]\nfault bad: z[r] = a + b if has(a) and has(b) else x[r]\n",
		"z[r] = x[r]\nfault bad: z[r] = e + b if not has(c) and has(e) and has(b) else x[r]\n"
	};
	char text[512];

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		struct error e = { .code = E_NONE };
		snprintf(text, sizeof text, "%s%s", head, wrong[i]);
		if (formula_of_text("f.op", text, strlen(text), &e) || e.code != E_FORMULA) fail_msg("%zu: taken, or %s", i, e.detail);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_doubles_is_refused), cmocka_unit_test(what_has_no_end_is_refused), cmocka_unit_test(numbers_are_doubles), cmocka_unit_test(a_case_says_a_thing_once),
		cmocka_unit_test(sets_have_all_pairs), cmocka_unit_test(two_inputs_show_a_mistake)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
