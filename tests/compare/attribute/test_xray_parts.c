/* What the x-ray adds up part by part: the same of any number of threads and as one element after the other; and what is left out is known. */
#include <math.h>
#include <omp.h>

#include "compare/attribute/emulation.h"
#include "compare/attribute/xray_private.h"
#include "compare/limits/limits.h"
#include "tests/kernel_model.h"

struct bed { struct capture c; struct call call; struct xray x; struct error e; };

static struct plan structure_of(const struct contract *k, int i)
{
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);

	plan_structure(&p, k, i);
	return p;
}

static void begin(struct bed *b, const char *op, const char *name, const struct plan *kernel)
{
	*b = (struct bed){ 0 };
	make_case(&b->c, op, name);
	answer_by(&b->c, kernel);
	no_error(call_bind(&b->call, &b->c, true, &b->e) && xray_make(&b->x, &b->call, NULL, &b->e), &b->e);
}

static void end(struct bed *b)
{
	xray_free(&b->x);
	capture_free(&b->c);
}

static void close_to(double a, double b) { assert_true(fabs(a - b) <= 1e-9 * (1 + fabs(b))); }
static double number(int i) { return (double)(i * 7919 % 101 - 50) / 8; }

/* Where an element takes no part there may be no number. */
static void sums_are_those_of_their_elements(void **state)
{
	enum { N = 23 };
	double w[N], y[N], d[N], f[N], with[N], without[N];
	float noise[NOISE_RUNS * N];

	(void)state;
	for (int i = 0; i < N; i++) {
		bool in = i % 5 != 2;
		w[i] = f[i] = in ? 1 + i : 0;
		y[i] = in ? number(i) : i % 2 ? (double)NAN : (double)INFINITY;
		d[i] = in ? number(i + 50) : (double)NAN, without[i] = number(i), with[i] = without[i] + d[i];
		for (size_t k = 0; k < NOISE_RUNS; k++) noise[k * N + (size_t)i] = (float)number(3 * i + (int)k);
	}
	for (size_t n = 0; n <= N; n++) {
		struct sums_of_fit fit = { 0 };
		struct sums_of_size size = { 0 };
		double yy = 0, dy = 0, dd = 0, of[NOISE_RUNS] = { 0 }, d2 = 0, stored2 = 0, term = 0, weight = 0, step = 0, step_weight = 0;
		for (size_t i = 0; i < n; i++) {
			if (!(w[i] > 0)) continue;
			double v = f[i] + 0.5, r2 = y[i] * y[i];
			yy += w[i] * y[i] * y[i], dy += w[i] * d[i] * y[i], dd += w[i] * d[i] * d[i];
			for (size_t k = 0; k < NOISE_RUNS; k++) of[k] += w[i] * d[i] * (double)noise[k * N + i];
			d2 += d[i] * d[i] / f[i], stored2 += (with[i] - without[i]) * (with[i] - without[i]) / f[i];
			term += (2 * v / (v + r2) * r2 - f[i]) / (v * v), weight += 1 / (v * v);
		}
		double one[N];
		for (int i = 0; i < N; i++) one[i] = 1;
		sums_of_fit(w, y, d, noise, N, n, &fit);
		sums_of_size(d, with, without, f, n, &size);
		sums_of_step(y, one, f, 0.5, n, &step, &step_weight);
		close_to(sum_of_squares(w, y, n), yy);
		close_to(fit.dy, dy);
		close_to(fit.dd, dd);
		for (size_t k = 0; k < NOISE_RUNS; k++) close_to(fit.noise[k], of[k]);
		close_to(size.d2, d2);
		close_to(size.stored2, stored2);
		close_to(step, term);
		close_to(step_weight, weight);
	}
}

/* To the bit. */
static void threads_do_not_matter(void **state)
{
	const struct contract *k = contract_of("gated_delta_rule", "bf16_operands");
	struct plan kernel = structure_of(k, 0), wrong = structure_of(k, 0);
	struct look first = { .size = 0 };
	double score = 0, left = 0;

	(void)state;
	plan_fault(&wrong, op_find("gated_delta_rule"), 0);
	kernel.arith = &arith_f32, kernel.bits = 24;
	for (int threads = 1; threads <= 5; threads += 2) {
		struct bed b;
		struct look look = look_of(&wrong);
		bool even;
		omp_set_num_threads(threads);
		begin(&b, "gated_delta_rule", "prefill", &kernel);
		assert_true(b.x.n > 2 * WORTH);
		b.x.emulation = structure_of(k, 1);
		no_error(xray_refresh(&b.x) && xray_is_even(&b.x, &even) && xray_look(&b.x, &look, 1, LOOK_SIZE | LOOK_FIT | LOOK_VOTES), &b.e);
		if (threads == 1) first = look, score = b.x.score, left = b.x.left;
		assert_true(look.size == first.size && look.size > 0 && look.votes.all == first.votes.all && look.votes.of_base == first.votes.of_base);
		assert_memory_equal(&look.fit.value, &first.fit.value, 3 * sizeof look.fit.value);
		assert_true(b.x.score == score && b.x.left == left);
		end(&b);
	}
}

/* Whatever the kernel is. */
static void no_score_is_less_than_is_said_before(void **state)
{
	static const struct { const char *op, *name, *contract; } of[] = {
		{ "gated_delta_rule", "prefill", "bf16_operands" }, { "gated_delta_rule", "weak_decay", "bf16_operands" }, { "rmsnorm", "zero_centred_256", "bf16" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		const struct contract *k = contract_of(of[i].op, of[i].contract);
		for (int made = 0; made < contract_structures(k); made++) {
			struct bed b;
			struct plan kernel = structure_of(k, made);
			begin(&b, of[i].op, of[i].name, &kernel);
			for (int j = 0; j < contract_structures(k); j++) {
				struct plan p = structure_of(k, j);
				double least;
				no_error(xray_score_at_least(&b.x, &p, &least), &b.e);
				b.x.emulation = p;
				no_error(xray_refresh(&b.x), &b.e);
				if (!(least <= b.x.score && least > -1e9)) fail_msg("%s %s: %g is said, the score is %g", of[i].op, of[i].name, least, b.x.score);
			}
			end(&b);
		}
	}
}

/* The one that the kernel has, whichever comes first. */
static void each_known_structure_is_nearest(void **state)
{
	const struct contract *k = contract_of("gated_delta_rule", "bf16_operands"), *nearest = NULL;

	(void)state;
	for (int made = 0; made < contract_structures(k); made++) {
		struct bed b;
		struct plan kernel = structure_of(k, made);
		begin(&b, "gated_delta_rule", "prefill", &kernel);
		no_error(emulation_nearest(&b.x, k, k + 1, &nearest), &b.e);
		assert_ptr_equal(nearest, k);
		assert_memory_equal(b.x.emulation.round, kernel.round, sizeof kernel.round);
		end(&b);
	}
}

/* Looks at all roundings and faults are not begun where patience ends before them, of a call that is explained and keeps the rules. */
static void looks_that_do_not_end_are_not_begun(void **state)
{
	enum { EXPLAINED, ENOUGH, LAWLESS, NOT_EXPLAINED, CASES };
	const struct contract *k = contract_of("gated_delta_rule", "bf16_operands");
	uint64_t spent[CASES], run[CASES];

	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct plan kernel = structure_of(k, 0);
		struct bed b;
		begin(&b, "gated_delta_rule", "prefill", &kernel);
		b.x.emulation = i == NOT_EXPLAINED ? plan_plain(&arith_f64, arith_f64.precision) : kernel;
		b.x.lawless = i == LAWLESS;
		no_error(xray_refresh(&b.x), &b.e);
		const uint64_t before = b.x.work;
		run[i] = b.x.run_work;
		b.x.patience = before + (i == ENOUGH ? 4 * MAX_FAULT : 4) * run[i];
		no_error(emulation_forward(&b.x), &b.e);
		spent[i] = (b.x.work - before) / run[i];
		end(&b);
	}
	assert_true(run[EXPLAINED] > 0);
	for (int i = ENOUGH; i < CASES; i++) assert_true(spent[i] > 20 + spent[EXPLAINED]);
}

/* Of a kernel that breaks the rules the other types are looked at where there is patience for all of them: one that rounds a value to e4m3. */
static void types_that_do_not_end_are_not_begun(void **state)
{
	(void)state;
	for (int lawless = 0; lawless < 2; lawless++)
		for (int enough = 0; enough < 2; enough++) {
			struct plan plain = plan_plain(&arith_f64, arith_f64.precision), kernel = plain;
			const int site = op_site(op_find("rmsnorm"), "xhat");
			struct bed b;
			kernel.round[site] = (struct site_rounding){ true, FMT_E4M3, ROUND_NEAREST_EVEN };
			begin(&b, "rmsnorm", "zero_centred_256", &kernel);
			b.x.emulation = plain;
			b.x.lawless = lawless, b.x.no_faults = true;
			no_error(xray_refresh(&b.x), &b.e);
			b.x.patience = b.x.work + (enough ? 1000 : 30) * b.x.run_work;
			no_error(emulation_forward(&b.x), &b.e);
			assert_true(b.x.emulation.round[site].on == (enough || !lawless));
			end(&b);
		}
}

/* What a fault leaves that no rounding could is not read beside it. */
static void no_structure_is_read_beside_a_fault_that_leaves_too_much(void **state)
{
	(void)state;
	for (int much = 0; much < 2; much++) {
		struct structure_said said = { .asked = false };
		struct plan kernel = plan_plain(&arith_f32, arith_f32.precision);
		struct bed b;
		bool found;
		plan_fault(&kernel, op_find("rmsnorm"), op_fault(op_find("rmsnorm"), "plain_weight_for_zero_centred"));
		kernel.round[op_site(op_find("rmsnorm"), "xhat")] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		begin(&b, "rmsnorm", "zero_centred_256", &kernel);
		b.x.emulation = plan_plain(&arith_f64, arith_f64.precision);
		b.x.emulation.faults = kernel.faults;
		b.x.lawless = true, b.x.structure = &said;
		no_error(xray_refresh(&b.x), &b.e);
		if (much) b.x.left = 2 * coarsest;
		no_error(emulation_by_structure(&b.x, NULL, &found), &b.e);
		assert_true(said.asked && found == !much);
		end(&b);
	}
}

/* Passes that are left out would say what the one before did. */
static void scores_are_those_of_all_passes(void **state)
{
	const struct contract *k = contract_of("gated_delta_rule", "bf16_operands");
	int less = 0;

	(void)state;
	for (int made = 0; made < 2; made++) {
		struct plan kernel = structure_of(k, made);
		struct scoring s = { 0 }, all = { 0 };
		struct bed b;
		int passes = 0;
		begin(&b, "gated_delta_rule", "prefill", &kernel);
		b.x.emulation = structure_of(k, 0);
		no_error(xray_refresh(&b.x), &b.e);
		for (; s.pass < SCORE_PASSES; passes++) scoring_add(&b.x, &s, b.x.r), scoring_pass(&b.x, &s);
		for (int i = 0; i < SCORE_PASSES; i++) all.pass = i, scoring_add(&b.x, &all, b.x.r), scoring_pass(&b.x, &all);
		less += passes < SCORE_PASSES;
		assert_memory_equal(s.a, all.a, sizeof s.a);
		assert_true(s.score == all.score && s.score == b.x.score);
		end(&b);
	}
	assert_true(less > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_are_those_of_their_elements),
		cmocka_unit_test(threads_do_not_matter),
		cmocka_unit_test(no_score_is_less_than_is_said_before),
		cmocka_unit_test(each_known_structure_is_nearest),
		cmocka_unit_test(scores_are_those_of_all_passes), cmocka_unit_test(looks_that_do_not_end_are_not_begun), cmocka_unit_test(types_that_do_not_end_are_not_begun),
		cmocka_unit_test(no_structure_is_read_beside_a_fault_that_leaves_too_much),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
