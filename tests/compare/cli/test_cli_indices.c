/* Ops whose values become indices: what a check tries and no kernel can have done is no error of the file or of the capture. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>

#include "ref/formula/formula.h"
#include "tests/kernel_model.h"
#include "tests/program.h"

/* Rows of a table; with the second fault the last slot of the first case is not in it. */
static const char gather[] =
	"op gather\nin table [V, D] slot [T] integer scale [T]\nout y [T, D]\neach t in T\nrow = table[slot[t]]\ny[t] = scale[t] * row\n"
	"fault next_row: row = table[(slot[t] + 1) mod V]\nfault beyond: row = table[slot[t] + 1]   # one further on\n"
	"case plain: V = 30, D = 16, T = 12, slot = [0, 29, 3, 7]\ncase inside as plain: slot = [0, 28, 3, 7]\n";

/* The two most likely of 16 experts and their weights. In eight bits 15 is 16. */
static const char gate[] =
	"op gate\nin logits [T, E]\nout w [T, K]  index [T, K]\nlet K = 2\nheld p [T, E]  route [T, K] integer\nform gate\neach t in T\n"
	"e = exp(logits[t] - max(logits[t]))\np[t] = e / sum(e)\nbest = top(e, 2)\nroute[t] = best\nindex[t] = best\neach t in T\n"
	"for c in chunks of 0:K by 2\n  chosen = p[t, route[t, c]]\n  w[t, c] = chosen / sum(chosen)\n"
	"fault not_renormalised: w[t, c] = chosen\ncontract f32\ncase plain: T = 40, E = 16\n";

static const struct formula *formula;

static const char *written(const char *name, struct capture *c)
{
	static char path[512];
	struct error e;

	snprintf(path, sizeof path, "%s", scratch(name));
	no_error(tensors_write(&c->tensors, path, &e), &e);
	capture_free(c);
	return path;
}

static struct capture inputs(const char *op, const char *kase)
{
	struct capture c;
	struct error e;

	formula = op_added_from(op);
	no_error(case_make(&c, op_case(formula_op(formula), kase), 1, true, &e), &e);
	return c;
}

/* y of each token from the row `on` slots further, in turn. */
static const char *gathered(const char *op, const char *kase, int on)
{
	struct capture c = inputs(op, kase);
	const float *table = capture_in(&c, "table")->data, *scale = capture_in(&c, "scale")->data;
	const int32_t *slot = capture_in(&c, "slot")->data;
	float *y = capture_out(&c, "y")->data;

	for (int i = 0; i < 12 * 16; i++) y[i] = scale[i / 16] * table[(slot[i / 16] + on) % 30 * 16 + i % 16];
	return written("gathered", &c);
}

static void a_fault_that_leaves_its_axis(void **state)
{
	char op[512];

	(void)state;
	snprintf(op, sizeof op, "%s", scratch_text("gather.op", gather));
	const char *right = gathered(op, "plain", 0);
	expect(EXIT_PASS, "check", "--op", op, right);
	assert_non_null(strstr(out, "; 1 not possible on these inputs: beyond\n"));
	expect(EXIT_PASS, "check", "--op", op, right, "--explain");
	assert_non_null(strstr(out, "not possible\n"));
	expect(EXIT_PASS, "profile", "--op", op, right);
	expect(EXIT_FAIL, "check", "--op", op, gathered(op, "plain", 1));
	assert_non_null(strstr(out, "has the fault next_row"));
	right = gathered(op, "plain", 0);
	refused("in the fault beyond: element 1 is 29, which makes 30;", "ref", "--op", op, right, "-o", scratch("x"), "--fault", "beyond");
	expect(EXIT_PASS, "audit", "--op", op, right, "--rule", "allclose:1e-5,1e-5", "--quick");
	/* where it can be made it is found */
	expect(EXIT_FAIL, "check", "--op", op, gathered(op, "inside", 1));
	assert_null(strstr(out, "not possible"));
}

static const char *of_type(const char *type, char text[2048])
{
	snprintf(text, 2048, "%.*s integer%s, index = %s\n", (int)(strstr(gate, "index [T, K]") - gate) + 12, gate, strstr(gate, "\nlet"), type);
	char *end = strstr(text, "16\n, index");
	memmove(end + 2, end + 3, strlen(end + 3) + 1);
	return text;
}

/* A kernel's answer; swapped: the second expert before the first; off: token 5 names another one beside. */
static const char *gated(const char *op, bool swapped, bool off)
{
	struct capture c = inputs(op, "plain");
	const float *x = capture_in(&c, "logits")->data;
	float *w = capture_out(&c, "w")->data;
	struct tensor *index = capture_out(&c, "index");
	double named[80];

	for (int t = 0; t < 40; t++) {
		float most = -INFINITY, sum = 0, p[16];
		int best[2] = { 0, 0 };
		for (int i = 0; i < 16; i++) most = fmaxf(most, x[t * 16 + i]);
		for (int i = 0; i < 16; i++) sum += p[i] = expf(x[t * 16 + i] - most);
		for (int i = 0; i < 16; i++) p[i] /= sum;
		for (int i = 1; i < 16; i++) best[0] = p[i] > p[best[0]] ? i : best[0];
		best[1] = best[0] == 0;
		for (int i = 0; i < 16; i++) best[1] = i != best[0] && p[i] > p[best[1]] ? i : best[1];
		for (int k = 0; k < 2; k++) {
			w[2 * t + k] = p[best[swapped ? 1 - k : k]] / (p[best[0]] + p[best[1]]);
			named[2 * t + k] = best[swapped ? 1 - k : k];
		}
	}
	if (off) named[11] = named[11] > 0 ? named[11] - 1 : 1;
	dtype_store(index->dtype, named, 80, index->data);
	return written("gated", &c);
}

static void an_index_is_not_rounded(void **state)
{
	const struct { bool swapped, off; int exit; } call[] = {
		{ false, false, EXIT_PASS }, { true, false, EXIT_FAIL }, { false, true, EXIT_FAIL }
	};

	char op[512];

	(void)state;
	snprintf(op, sizeof op, "%s", scratch_text("gate.op", gate));
	for (int i = 0; i < 3; i++) {
		const char *path = gated(op, call[i].swapped, call[i].off);
		expect(call[i].exit, "check", "--op", op, path);
		expect(EXIT_PASS, "profile", "--op", op, path);
	}
	expect(EXIT_PASS, "list", "sites", "--op", op);
	assert_non_null(strstr(out, "chosen"));
	assert_null(strstr(out, "best "));
	assert_null(strstr(out, "route "));
}

/* As whole numbers, of which float32 moves none: equal, or not. */
static void an_output_of_whole_numbers(void **state)
{
	char text[2048], op[512];

	(void)state;
	for (int i = 0; i < 3; i++) {
		snprintf(op, sizeof op, "%s", scratch_text("whole.op", i == 2 ? gate : of_type(i ? "i64" : "i32", text)));
		expect(EXIT_PASS, "check", "--op", op, gated(op, false, false));
		assert_non_null(strstr(out, "  exact: 0 of 80 differ"));
		const char *path = gated(op, false, true);
		expect(EXIT_FAIL, "check", "--op", op, path);
		assert_non_null(strstr(out, "  exact: 1 of 80 differ"));
		assert_non_null(strstr(out, "out.index: 1 of 80 elements differ"));
		assert_null(strstr(out, "inf"));
		expect(EXIT_PASS, "profile", "--op", op, path);
		expect(EXIT_PASS, "ref", "--op", op, path, "-o", scratch("answer"), "--json");
		assert_non_null(strstr(out, i == 0 ? "\"I32\"" : i == 1 ? "\"I64\"" : "\"F32\""));
		expect(EXIT_PASS, "check", "--op", op, scratch("answer"), "--json");
		json_t *j = json_out(), *outputs = json_object_get(json_array_get(j, 0), "outputs");
		assert_false(json_is_true(json_object_get(json_array_get(outputs, 0), "exact")));
		assert_true(json_is_true(json_object_get(json_array_get(outputs, 1), "exact")));
		json_decref(j);
	}
	snprintf(op, sizeof op, "%s", scratch_text("whole.op", of_type("i32", text)));
	expect(EXIT_PASS, "list", "tensors", "--op", op);
	assert_non_null(strstr(out, "integer"));
	expect(EXIT_PASS, "inputs", "--op", op, "--case", "plain", "-o", scratch("in"));
	expect(EXIT_PASS, "ref", "--op", op, scratch("in"), "-o", scratch("answer"), "--json");
	assert_non_null(strstr(out, "\"I32\""));
	/* what is no whole number is none of an integer output */
	snprintf(op, sizeof op, "%s", scratch_text("half.op", "op half\nin x [R]\nout y [R] integer\neach r in R\ny[r] = x[r]\n"
		"case k: R = 4, x = [1, 2, 2.5]\ncase l: R = 2, x = [1, -7]\n"));
	expect(EXIT_PASS, "inputs", "--op", op, "--case", "k", "-o", scratch("in"));
	refused("element 2 is 2.5", "ref", "--op", op, scratch("in"), "-o", scratch("answer"));
	expect(EXIT_PASS, "inputs", "--op", op, "--case", "l", "-o", scratch("in"));
	expect(EXIT_PASS, "ref", "--op", op, scratch("in"), "-o", scratch("answer"));
	expect(EXIT_PASS, "check", "--op", op, scratch("answer"));
}

/* With sites of its own the file may say that one is rounded; what then leaves its axis is no candidate. */
static void a_rounding_that_leaves_its_axis(void **state)
{
	char text[2048], op[512];

	(void)state;
	snprintf(text, sizeof text, "%ssite e\nsite best\nsite w\nsite index\n", gate);
	snprintf(op, sizeof op, "%s", scratch_text("listed.op", text));
	expect(EXIT_FAIL, "check", "--op", op, gated(op, true, false));
	expect(EXIT_PASS, "profile", "--op", op, gated(op, true, false));
	expect(EXIT_PASS, "check", "--op", op, gated(op, false, false));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_that_leaves_its_axis), cmocka_unit_test(an_index_is_not_rounded), cmocka_unit_test(an_output_of_whole_numbers),
		cmocka_unit_test(a_rounding_that_leaves_its_axis)
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
