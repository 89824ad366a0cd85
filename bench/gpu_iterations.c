/* bench-gpu --selftest: the iterations and their traces, through the op, against its reference in
 * double precision. */
#include <string.h>

#include "bench/gpu_works.h"
#include "fixtures/cases/cases.h"
#include "gpu/host/backend.h"
#include "ref/call/op.h"

/* Of a batch of three. The gram forms alone have R and Q; gram restarts before the third
 * iteration. */
static const struct case_tensor in[] = { { "x", "B,N,M", DT_F32, DRAW_UNIFORM, -1, 1 }, { 0 } };
static const struct case_tensor out[] = { { .name = "y", .shape = "B,N,M", .dtype = DT_F32 },
	{ .name = "X", .shape = "B,K+1,S,L", .dtype = DT_F32 },
	{ .name = "R", .shape = "B,K+1,S,S", .dtype = DT_F32 },
	{ .name = "Q", .shape = "B,K+1,S,S", .dtype = DT_F32 }, { 0 } };

static const struct form_tested { const char *algorithm, *more; int outputs; } forms[] = {
	{ "standard", "", 2 }, { "gram_naive", "", 4 }, { "gram", ", \"restarts\": [2]", 4 }
};
enum { STANDARD, NAIVE, GRAM };

/* The largest error of y and of the traces. */
static bool iterate(const struct form_tested *f, const char *type, size_t n, size_t m,
	double *worst, struct error *e)
{
	struct case_dim dims[] = { { "B", 3 }, { "N", n }, { "M", m }, { "K", 5 },
		{ "S", n < m ? n : m }, { "L", n < m ? m : n }, { 0 } };
	struct case_tensor given[5] = { { 0 } };
	char params[1024];
	struct test_case k = { .op = "newton_schulz", .name = "selftest", .params = params,
		.dims = dims, .in = in, .out = given };
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);
	struct answer right = { 0 };
	struct capture c;
	struct call call;

	memcpy(given, out, (size_t)f->outputs * sizeof *out);
	snprintf(params, sizeof params, "{\"algorithm\": \"%s\", \"coefficients\": " POLAR_EXPRESS "%s, \"iterate_dtype\": \"%s\"}",
		f->algorithm, f->more, type);
	*worst = 0;
	if (!case_make(&c, &k, 20, true, e))
		return false;
	bool ok = call_bind(&call, &c, false, e) && call_trace(&call)
		&& ref_run(&call, &p, &right, e) && backend_run("cuda", &c, e);
	for (int i = 0; ok && i < f->outputs; i++) {
		double error = tensor_error(capture_out(&c, out[i].name), right.hi[i]);
		if (!(error <= *worst)) *worst = error;
	}
	answer_free(&right);
	capture_free(&c);
	return ok;
}

bool test_iterations(judge_error *judge, struct error *e)
{
	static const size_t shapes[][2] = { { 1, 1 }, { 1, 7 }, { 7, 1 }, { 5, 9 }, { 9, 5 },
		{ 64, 96 }, { 40, 200 }, { 150, 33 } };
	static const struct { int form; const char *type; double bound; bool wide; } tests[] = {
		{ STANDARD, "F32", 2e-3, false }, { NAIVE, "F32", 2e-3, false },
		{ GRAM, "F32", 2e-3, false },
		/* half precision amplifies too much elsewhere for a bound that says anything */
		{ STANDARD, "F16", 0.05, true }, { GRAM, "F16", 0.05, true },
		{ STANDARD, "BF16", 0.3, true }
	};

	for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
		for (size_t t = 0; t < sizeof tests / sizeof *tests; t++) {
			size_t n = shapes[i][0], m = shapes[i][1], s = n < m ? n : m;
			const struct form_tested *f = &forms[tests[t].form];
			char where[32];
			double error;
			if (tests[t].wide && (s < 30 || n + m - s < 3 * s)) continue;
			snprintf(where, sizeof where, "%zu x %zu", n, m);
			if (!iterate(f, tests[t].type, n, m, &error, e)) return false;
			judge(error <= tests[t].bound, tests[t].type, f->algorithm, where, error,
				tests[t].bound);
		}
	return true;
}
