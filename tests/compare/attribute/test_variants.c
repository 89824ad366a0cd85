/* What correct kernels that people ship do otherwise than we do, and the contracts that allow it. */
#include <dirent.h>
#include <math.h>

#include "compare/verdict/verdict.h"
#include "tests/kernel_model.h"

#define FOLDER "fixtures/captures/"

static double bf16(double x) { return format_round(FMT_BF16, ROUND_NEAREST_EVEN, x, 0); }

/* The rules alone. */
static struct verdict ruled(const struct capture *c, const char *contract)
{
	const struct judging how = { .truth = "f64", .contract = contract, .quick = true };
	struct verdict v;
	struct error e;

	no_error(judge(c, &how, &v, &e), &e);
	return v;
}

/* ---- kernels as their sources have them, in float32 but for what they round to bf16 ---- */
enum { MOST_SITES = 12 };
static const struct {
	const char *what, *op, *name;
	const char *site[MOST_SITES];
	const char *contract, *fails;   /* a contract that does not allow it, where the rules show that */
} kernels[] = {
	{ "Liger rms_norm, llama", "rmsnorm", "plain_f32", { "xhat", "y" }, "xhat_bf16", "f32" },
	{ "vLLM rms_norm", "rmsnorm", "plain_f32", { "xhat", "weighted" }, "xhat_bf16", "f32" },
	{ "vLLM fused_add_rms_norm", "rmsnorm", "residual", { "residual", "xhat", "weighted" }, "xhat_bf16", "f32" },
	{ "quack, Liger rms_norm, gemma", "rmsnorm", "zero_centred_256", { NULL }, "f32", NULL },
	{ "Liger rms_norm, none", "rmsnorm", "plain_f32", { "mean_square", "y" }, "bf16", "f32" },
	{ "eager rms_norm in bf16", "rmsnorm", "plain_f32", { "squares", "mean_square", "inverse_root", "xhat", "weighted" }, "bf16", "f32" },
	{ "rope in float32, cached in bf16", "rope", "full", { "cos_sin" }, "cos_sin_bf16", "f32" },
	{ "eager rope", "rope", "partial_f32", { "cos_sin", "x1_cos", "x2_sin", "x2_cos", "x1_sin" }, "bf16", "cos_sin_bf16" },
	{ "Liger rope: x1's products fused", "rope", "partial_f32", { "cos_sin", "x2_sin", "x2_cos" }, "bf16", "f32" },
	{ "the other two fused", "rope", "partial_f32", { "cos_sin", "x1_cos", "x1_sin" }, "bf16", "f32" },
	{ "the cosine's fused", "rope", "partial_f32", { "cos_sin", "x2_sin", "x1_sin" }, "bf16", "f32" },
	{ "the sine's fused", "rope", "partial_f32", { "cos_sin", "x1_cos", "x2_cos" }, "bf16", "f32" },
	{ "vLLM causal_conv1d", "causal_conv1d", "short_sequences", { "products" }, "bf16", "f32" },
	{ "convolution in bf16", "causal_conv1d", "short_sequences", { "products", "conv" }, "bf16", "f32" },
	{ "torch.optim.Muon", "newton_schulz", "tall_standard_f32", { "input", "norm", "x0", "gram", "z", "x" }, "bf16_input", "f32" },
	{ "a step of it", "muon_step", "mean_f32", { "input", "norm", "x0", "gram", "z", "x", "o" }, "bf16_input", "f32" },
};

static void each_has_a_contract(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
		const struct op *op = op_find(kernels[i].op);
		struct plan p = plan_plain(&arith_f32, 24);
		struct capture c;
		make_case(&c, kernels[i].op, kernels[i].name);
		for (int s = 0; kernels[i].site[s]; s++) {
			assert_true(op_site(op, kernels[i].site[s]) >= 0);
			p.round[op_site(op, kernels[i].site[s])] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		}
		answer_by(&c, &p);
		struct verdict v = ruled(&c, kernels[i].contract);
		if (v.outcome != PASS) fail_msg("%s under %s: %s", kernels[i].what, kernels[i].contract, v.reason[0]);
		if (kernels[i].fails && ruled(&c, kernels[i].fails).outcome != FAIL)
			fail_msg("%s passes under %s", kernels[i].what, kernels[i].fails);
		/* what it rounds the contract names; the store is no matter of contracts */
		for (int s = 0; kernels[i].site[s]; s++) {
			int site = op_site(op, kernels[i].site[s]);
			if (!op->sites[site].store && !v.contract->site[site].on)
				fail_msg("%s rounds %s, which %s does not allow", kernels[i].what, kernels[i].site[s], v.contract->name);
		}
		capture_free(&c);
	}
}

/* ---- sites by hand ---- */

/* silu(bias + the sum of bf16(weight x)), of four taps that all lie in the call. */
static void products_of_a_convolution(void **state)
{
	const struct op *op = op_find("causal_conv1d");
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);
	struct capture c;
	struct call call;
	struct answer a;
	struct error e;

	(void)state;
	make_case(&c, "causal_conv1d", "prefill_silu");
	p.round[op_site(op, "products")] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	no_error(call_bind(&call, &c, false, &e) && ref_run(&call, &p, &a, &e), &e);
	struct tensor *x = capture_in(&c, "x"), *w = capture_in(&c, "weight"), *bias = capture_in(&c, "bias");
	size_t C = x->shape[1], W = w->shape[1], t = x->shape[0] - 1;
	assert_true(t >= W);
	for (size_t i = 0; i < C; i++) {
		double sum = bias ? get(bias, i) : 0;
		for (size_t k = 0; k < W; k++) sum += bf16(get(w, i * W + k) * get(x, (t + 1 + k - W) * C + i));
		assert_true(fabs(a.hi[0][t * C + i] - sum / (1 + exp(-sum))) <= 1e-14 * fabs(sum));
	}
	answer_free(&a);
	capture_free(&c);
}

/* Each square rounded: the plain norm of those. */
static void squares_of_a_norm(void **state)
{
	const struct op *op = op_find("rmsnorm");
	struct capture c;
	struct call call;
	struct error e;

	(void)state;
	make_case(&c, "rmsnorm", "tiny_rows");
	no_error(call_bind(&call, &c, false, &e), &e);
	struct tensor *x = capture_in(&c, "x"), *w = capture_in(&c, "weight");
	size_t D = x->shape[1];
	double offset = capture_number(&c, "weight_offset", 0), eps = capture_number(&c, "eps", 1e-6);
	for (int on = 0; on < 2; on++) {
		struct plan p = plan_plain(&arith_f64, arith_f64.precision);
		struct answer a;
		p.round[op_site(op, "squares")] = (struct site_rounding){ on, FMT_BF16, ROUND_NEAREST_EVEN };
		no_error(ref_run(&call, &p, &a, &e), &e);
		for (size_t r = 0; r < x->shape[0]; r++) {
			double mean = 0;
			for (size_t i = 0; i < D; i++) {
				double square = get(x, r * D + i) * get(x, r * D + i);
				mean += (on ? bf16(square) : square) / (double)D;
			}
			for (size_t i = 0; i < D; i++) {
				double y = get(x, r * D + i) / sqrt(mean + eps) * (offset + get(w, i));
				assert_true(fabs(a.hi[0][r * D + i] - y) <= 1e-12 * fabs(y));
			}
		}
		answer_free(&a);
	}
	capture_free(&c);
}

/* ---- recorded calls ---- */

/* Every recorded call of a public kernel declares the contract that its source keeps: its rules hold there, and where that is not the
 * op's first they break under the first. Of the gated delta rule, whose calls are large, the gate is enough. */
static void recorded_calls_keep_what_they_declare(void **state)
{
	DIR *folder = opendir(FOLDER);
	int calls = 0;

	(void)state;
	assert_non_null(folder);
	for (struct dirent *d; (d = readdir(folder));) {
		char path[512];
		struct capture c;
		struct error e;
		if (!strstr(d->d_name, ".safetensors") || strstr(d->d_name, ".etalon.") || !strncmp(d->d_name, "gated_delta_rule.", 17)) continue;
		snprintf(path, sizeof path, FOLDER "%.255s", d->d_name);
		no_error(capture_read(&c, path, &e), &e);
		const char *first = op_find(c.op)->contracts[0].name;
		if (!c.contract) fail_msg("%s declares no contract", d->d_name);
		struct verdict v = ruled(&c, NULL);
		if (v.outcome != PASS) fail_msg("%s under %s: %s", d->d_name, c.contract, v.reason[0]);
		if (strcmp(c.contract, first) && ruled(&c, first).outcome != FAIL) fail_msg("%s passes under %s", d->d_name, first);
		calls++;
		capture_free(&c);
	}
	closedir(folder);
	assert_true(calls >= 24);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_has_a_contract), cmocka_unit_test(products_of_a_convolution), cmocka_unit_test(squares_of_a_norm),
		cmocka_unit_test(recorded_calls_keep_what_they_declare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
