/* Ops that etalon does not have, each a file in tests/ops and a kernel here, written in float32 from its definition: right, it passes;
 * with a fault of its file, that fault is named; with one of no file, it is rejected. And so from the command line. */
#define _GNU_SOURCE     /* memfd_create */
#include <math.h>
#include <stdlib.h>

#include "ref/formula/formula.h"
#include "tests/judged.h"
#include "tests/program.h"

enum { NO_FAULT, FIRST, SECOND, THIRD, FOURTH, OF_NO_FILE };

static float *floats(const struct tensor *t)
{
	float *x = malloc(t->count * sizeof *x);

	for (size_t i = 0; i < t->count; i++) {
		double v;
		dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &v);
		x[i] = (float)v;
	}
	return x;
}

static void store(struct tensor *t, size_t i, float x) { set(t, i, x); }

static void l2norm(struct capture *c, int fault)
{
	struct tensor *in = capture_in(c, "x"), *y = capture_out(c, "y");
	size_t R = in->shape[0], D = in->shape[1];
	float *x = floats(in);

	for (size_t r = 0; r < R; r++) {
		float s = 0;
		for (size_t i = 0; i < D; i++) s += x[r * D + i] * x[r * D + i];
		if (fault == FIRST) s /= (float)D;
		if (fault == SECOND) s = (float)stored_as(DT_BF16, s, 0);
		if (fault == OF_NO_FILE) s -= x[r * D] * x[r * D];
		s = 1 / sqrtf(s + 1e-6f);
		for (size_t i = 0; i < D; i++) store(y, r * D + i, x[r * D + i] * s);
	}
	free(x);
}

static void layer_norm(struct capture *c, int fault)
{
	struct tensor *in = capture_in(c, "x"), *y = capture_out(c, "y"), *given = capture_in(c, "bias");
	size_t R = in->shape[0], D = in->shape[1];
	float *x = floats(in), *w = floats(capture_in(c, "weight")), *b = given ? floats(given) : NULL;

	for (size_t r = 0; r < R; r++) {
		float m = 0, v = 0;
		for (size_t i = 0; i < D; i++) m += x[r * D + i];
		m /= (float)D;
		for (size_t i = 0; i < D; i++) v += (x[r * D + i] - m) * (x[r * D + i] - m);
		v /= (float)(fault == FIRST ? D - 1 : D);
		float s = fault == THIRD ? 1 / (sqrtf(v) + 1e-5f) : 1 / sqrtf(v + 1e-5f);
		for (size_t i = 0; i < D; i++) {
			float d = fault == SECOND ? x[r * D + i] : x[r * D + i] - m;
			size_t at = fault == OF_NO_FILE ? (i ^ 1) : i;
			store(y, r * D + i, d * s * w[at] + (b && fault != FOURTH ? b[i] : 0));
		}
	}
	free(x), free(w), free(b);
}

static void gelu(struct capture *c, int fault)
{
	struct tensor *in = capture_in(c, "x"), *y = capture_out(c, "y");
	bool by_tanh = !strcmp(capture_string(c, "approximate", "none"), "tanh");
	float *x = floats(in);

	for (size_t i = 0; i < in->count; i++) {
		float v = x[i], p = by_tanh || fault == FIRST ? tanhf(0.7978845608f * (v + 0.044715f * v * v * v)) : erff(v * 0.70710678f);
		if (fault == OF_NO_FILE) p = erff(v);
		store(y, i, fault == SECOND ? v / (1 + expf(-1.702f * v)) : 0.5f * v * (1 + p));
	}
	free(x);
}

static void cross_entropy(struct capture *c, int fault)
{
	struct tensor *in = capture_in(c, "x"), *target = capture_in(c, "target");
	size_t R = in->shape[0], V = in->shape[1];
	float *x = floats(in), *to = floats(target), z = (float)capture_number(c, "z", 0);

	for (size_t r = 0; r < R; r++) {
		const float *row = x + r * V;
		float m = row[0], s = 0;
		for (size_t i = 1; i < V; i++) m = fmaxf(m, row[i]);
		for (size_t i = 0; i < V; i++) s += expf(row[i] - m);
		float l = logf(s) + (fault == FIRST ? 0 : m);
		size_t at = ((size_t)to[r] + (fault == SECOND)) % V;
		store(capture_out(c, "logsumexp"), r, l);
		store(capture_out(c, "loss"), r, l - row[fault == OF_NO_FILE ? V - 1 - at : at] + (fault == THIRD ? 0 : z * l * l));
	}
	free(x), free(to);
}

static void scores(struct capture *c, int fault)
{
	struct tensor *qs = capture_in(c, "q"), *ks = capture_in(c, "k"), *p = capture_out(c, "p");
	size_t T = qs->shape[0], H = qs->shape[1], D = qs->shape[2], S = ks->shape[0], G = ks->shape[1];
	bool causal = capture_bool(c, "causal", true);
	float *q = floats(qs), *k = floats(ks), *e = malloc(S * sizeof *e);

	for (size_t h = 0; h < H; h++)
		for (size_t t = 0; t < T; t++) {
			size_t g = fault == FIRST ? h % G : h / (H / G), seen = causal ? S - T + t + 1 + (fault == SECOND) : S;
			float m = -INFINITY, sum = 0;
			for (size_t s = 0; s < S && s < seen; s++) {
				float x = 0;
				for (size_t i = 0; i < D; i++) x += q[(t * H + h) * D + i] * k[(s * G + g) * D + i];
				e[s] = fault == THIRD ? x : fault == OF_NO_FILE ? x / (float)D : x / sqrtf((float)D);
				m = fmaxf(m, e[s]);
			}
			for (size_t s = 0; s < S && s < seen; s++) sum += e[s] = expf(e[s] - m);
			for (size_t s = 0; s < S; s++) store(p, (h * T + t) * S + s, s < seen ? e[s] / sum : 0);
		}
	free(q), free(k), free(e);
}

static const struct kernel { const char *op; void (*run)(struct capture *c, int fault); int faults; } kernels[] = {
	{ "l2norm", l2norm, 2 }, { "layer_norm", layer_norm, 4 }, { "gelu", gelu, 2 }, { "cross_entropy", cross_entropy, 3 }, { "scores", scores, 3 }
};
enum { KERNELS = sizeof kernels / sizeof *kernels };

static const char *path_of(const char *op)
{
	static char path[64];

	snprintf(path, sizeof path, "tests/ops/%s.op", op);
	return path;
}

static const struct formula *formula[KERNELS];

static int load(void **state)
{
	struct error e;

	for (size_t i = 0; i < KERNELS; i++) {
		if (!(formula[i] = formula_read(path_of(kernels[i].op), &e))) fail_msg("%s: %s", e.file, e.detail);
		op_add(formula_op(formula[i]));
	}
	return scratch_make(state);
}

static void right_ones_pass(void **state)
{
	(void)state;
	for (size_t i = 0; i < KERNELS; i++)
		for (const struct test_case *k = formula_op(formula[i])->cases; k->op; k++) {
			struct capture c;
			struct error e;
			no_error(case_make(&c, k, 3, true, &e), &e);
			kernels[i].run(&c, NO_FAULT);
			struct verdict v = judged(&c, "f32", false);
			if (v.outcome != PASS) fail_msg("%s %s: %s", k->op, k->name, v.reason[0]);
			capture_free(&c);
		}
}

/* On one of its cases at least; nowhere anything else is named. */
static void faults_are_named(void **state)
{
	(void)state;
	for (size_t i = 0; i < KERNELS; i++)
		for (int fault = 1; fault <= kernels[i].faults; fault++) {
			const char *name = formula_op(formula[i])->faults[fault - 1].name;
			bool named = false;
			for (const struct test_case *k = formula_op(formula[i])->cases; k->op; k++) {
				struct capture c;
				struct error e;
				no_error(case_make(&c, k, 3, true, &e), &e);
				kernels[i].run(&c, fault);
				struct verdict v = judged(&c, "f32", false);
				for (int s = 0; v.examined && s < v.x.n; s++) {
					if (v.x.suspect[s].state != DETECTED) continue;
					if (strcmp(v.x.suspect[s].name, name)) fail_msg("%s: %s is named %s", k->op, name, v.x.suspect[s].name);
					named = v.outcome == FAIL;
				}
				capture_free(&c);
			}
			if (!named) print_message("%s: %s is not named\n", kernels[i].op, name), fail();
		}
}

static void unknown_ones_are_rejected(void **state)
{
	(void)state;
	for (size_t i = 0; i < KERNELS; i++) {
		struct capture c;
		struct error e;
		no_error(case_make(&c, formula_op(formula[i])->cases, 3, true, &e), &e);
		kernels[i].run(&c, OF_NO_FILE);
		struct verdict v = judged(&c, "f32", false);
		assert_int_equal(v.outcome, FAIL);
		for (int s = 0; v.examined && s < v.x.n; s++)
			if (v.x.suspect[s].state == DETECTED) fail_msg("%s is given the name %s", kernels[i].op, v.x.suspect[s].name);
		capture_free(&c);
	}
}

/* inputs, a kernel, check; a file that is not sound. */
static void from_the_command_line(void **state)
{
	const char *inputs = scratch("in.safetensors"), *call = scratch("call.safetensors"), *bad = scratch("bad.op");
	struct capture c;
	struct error e;

	(void)state;
	expect(EXIT_PASS, "inputs", "--op", "tests/ops/l2norm.op", "--case", "plain", "-o", inputs);
	no_error(case_make(&c, op_case(op_find("l2norm"), "plain"), 1, true, &e), &e);
	l2norm(&c, NO_FAULT);
	no_error(tensors_write(&c.tensors, call, &e), &e);
	expect(EXIT_PASS, "check", "--op", "tests/ops/l2norm.op", call);
	l2norm(&c, FIRST);
	no_error(tensors_write(&c.tensors, call, &e), &e);
	expect(EXIT_FAIL, "check", "--op", "tests/ops/l2norm.op", call);
	assert_non_null(strstr(out, "mean_for_sum"));
	expect(EXIT_FAIL, "gate", "--op", "tests/ops/l2norm.op", call);
	expect(EXIT_INPUT, "check", call);
	assert_non_null(strstr(err, "unknown op"));
	capture_free(&c);
	FILE *f = fopen(bad, "w");
	fputs("op bad\nin x [R]\nout y [R]\ny[:] = x[:] +* 2\n", f);
	fclose(f);
	expect(EXIT_INPUT, "list", "--op", bad, "ops");
	assert_int_equal(lines(err), 1);
	assert_non_null(strstr(err, "bad.op:4:14: "));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(right_ones_pass), cmocka_unit_test(faults_are_named), cmocka_unit_test(unknown_ones_are_rejected),
		cmocka_unit_test(from_the_command_line)
	};

	(void)argc;
	program_find(argv[0]);
	return cmocka_run_group_tests(tests, load, scratch_remove);
}
