/* Flips and verdicts of logits. */
#include "tests/compare/logits/logits_made.h"

enum { RUNS = 4 };
struct trial { double x[T * V], y[T * V]; struct made a, b, noise[RUNS]; };

/* A reference, RUNS correct answers and an engine, whose errors have a size of their own at each position and run. */
static struct trial *try(uint64_t seed)
{
	static double z[T * V];
	struct trial *m = calloc(1, sizeof *m);

	assert_non_null(m);
	draw(m->x, T * V, 3, &seed);
	make(&m->a, DT_F64, m->x, T);
	for (int k = 0; k <= RUNS; k++) {
		double *to = k < RUNS ? z : m->y;
		for (size_t t = 0; t < T; t++) {
			double size = 1e-4 * (1 + (double)(t % 7)) * exp(0.5 * normal(&seed));
			for (size_t v = 0; v < V; v++) to[t * V + v] = m->x[t * V + v] + size * normal(&seed);
		}
		if (k < RUNS) make(&m->noise[k], DT_F64, z, T);
	}
	return m;
}

/* The verdict on the engine's y, with so many of the noisy runs; frees the trial. */
static struct logit_report verdict(struct trial *m, size_t runs)
{
	struct logit_comparison c = { .reference = &m->a.s, .got = &m->b.s, .n_noise = runs, .top = TOP };
	struct logit_report r;
	struct error e;

	make(&m->b, DT_F64, m->y, T);
	for (size_t k = 0; k < runs; k++) c.noise[k] = &m->noise[k].s;
	no_error(logits_compare(&r, &c, &e), &e);
	for (int k = 0; k < RUNS; k++) free(m->noise[k].t.data);
	free(m->a.t.data);
	free(m->b.t.data);
	free(m);
	return r;
}

static void no_false_alarm(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 12; seed++) {
		struct logit_report r = verdict(try(seed), seed % 2 ? RUNS : 1);
		if (r.outcome != PASS) fail_msg("seed %d: %s", (int)seed, r.reason[0]);
		assert_true(r.rule[LOGIT_RMS].value > 0.3 && r.rule[LOGIT_RMS].value < 1.2);
		logits_free(&r);
	}
}

/* Fails, and for no other reason than the rules named. */
static void fails(struct trial *m, size_t runs, unsigned rules)
{
	struct logit_report r = verdict(m, runs);

	int said = 0;
	for (int i = 0; i < r.n_reason; i++) said += strstr(r.reason[i], "at most") != NULL;
	assert_int_equal(r.outcome, FAIL);
	assert_int_equal(said, __builtin_popcount(rules));
	for (int i = 0; i < LOGIT_RULES; i++)
		if ((r.rule[i].value <= r.rule[i].limit) == (rules >> i & 1)) fail_msg("%s: %g, limit %g", logit_rule_name[i],
			r.rule[i].value, r.rule[i].limit);
	logits_free(&r);
}

static void each_rule_finds_its_fault(void **state)
{
	struct trial *m = try(1);

	(void)state;
	for (size_t i = 0; i < T * V; i++) m->y[i] += 2.5 * (m->y[i] - m->x[i]);
	fails(m, RUNS, 1 << LOGIT_RMS | 1 << LOGIT_KL);
	m = try(2);
	for (size_t v = 0; v < V; v++) m->y[17 * V + v] += 60 * (m->y[17 * V + v] - m->x[17 * V + v]);
	struct logit_report r = verdict(m, RUNS);
	assert_true(r.outcome == FAIL && r.rule[LOGIT_ROW].value > r.rule[LOGIT_ROW].limit
		&& r.rule[LOGIT_SPIKE].value <= r.rule[LOGIT_SPIKE].limit);
	assert_int_equal(r.rms.at, 17);
	logits_free(&r);
	m = try(3);
	m->y[100 * V + 5] += 0.1;
	fails(m, 1, 1 << LOGIT_SPIKE);
}

static void equal_logits_pass_alone(void **state)
{
	struct trial *m = try(4);

	(void)state;
	memcpy(m->y, m->x, sizeof m->y);
	struct logit_report r = verdict(m, 0);
	assert_true(r.outcome == PASS && r.kl.max == 0 && r.agree == T && r.n_reason == 0);
	logits_free(&r);
	m = try(4);
	memcpy(m->y, m->x, sizeof m->y);
	m->y[7] = nextafter(m->y[7], 1e9);
	r = verdict(m, 0);
	assert_int_equal(r.outcome, UNDECIDED);
	logits_free(&r);
}

static void noise_that_is_none_allows_none(void **state)
{
	struct trial *m = try(5);

	(void)state;
	free(m->noise[0].t.data);
	make(&m->noise[0], DT_F64, m->x, T);
	fails(m, 1, 1 << LOGIT_RMS | 1 << LOGIT_KL);
}

/* The engine's first token at position t is the reference's second, by the margin given. */
static enum flip flip_of(double margin, double error, bool emulation)
{
	struct trial *m = try(6);
	double *x = m->x + 40 * V, *y = m->y + 40 * V;
	static double z[T * V];
	struct made other;
	struct logit_comparison c = { .reference = &m->a.s, .got = &m->b.s, .top = TOP };
	struct logit_report r;
	struct error e;

	x[3] = 20, x[9] = 20 - margin;
	memcpy(y, x, V * sizeof *y);
	y[9] = 20 - margin + error;
	free(m->a.t.data);
	make(&m->a, DT_F64, m->x, T);
	make(&m->b, DT_F64, m->y, T);
	memcpy(z, emulation ? m->y : m->x, sizeof z);
	make(&other, DT_F64, z, T);
	c.emulation = &other.s;
	for (size_t k = 0; k < RUNS; k++) {     /* a noise of 1e-3 at every position */
		uint64_t seed = k;
		free(m->noise[k].t.data);
		for (size_t i = 0; i < T * V; i++) z[i] = m->x[i] + 1e-3 * normal(&seed);
		make(&m->noise[k], DT_F64, z, T);
		c.noise[c.n_noise++] = &m->noise[k].s;
	}
	no_error(logits_compare(&r, &c, &e), &e);
	enum flip flip = r.position[40].flip;
	assert_true(r.agree == T - 1 && r.flips[flip] == 1);
	assert_true((flip == FLIP_BEYOND) == (strstr(r.n_reason ? r.reason[r.n_reason - 1] : "", "first tokens differ") != NULL));
	logits_free(&r);
	for (int k = 0; k < RUNS; k++) free(m->noise[k].t.data);
	free(m->a.t.data);
	free(m->b.t.data);
	free(other.t.data);
	free(m);
	return flip;
}

static void flips_are_told_apart(void **state)
{
	(void)state;
	assert_int_equal(flip_of(0x1p-50, 1e-3, false), FLIP_TIE);
	assert_int_equal(flip_of(1e-3, 2e-3, false), FLIP_NOISE);
	assert_int_equal(flip_of(1e-3, 2e-3, true), FLIP_EMULATION);
	assert_int_equal(flip_of(0.5, 0.6, true), FLIP_EMULATION);
	assert_int_equal(flip_of(0.5, 0.6, false), FLIP_BEYOND);
}

/* Whatever the noise, and wherever it is. */
static void bad_values_fail(void **state)
{
	static const double bad[] = { (double)NAN, (double)INFINITY, (double)-INFINITY };

	(void)state;
	for (size_t k = 0; k < 9; k++) {
		struct trial *m = try(7);
		size_t at = k < 3 ? 0 : k < 6 ? T * V / 2 : T * V - 1;
		m->y[at] = bad[k % 3];
		struct logit_report r = verdict(m, k % 2 ? RUNS : 0);
		assert_true(r.outcome == FAIL && r.bad == 1 && r.position[at / V].nan == (k % 3 == 0));
		assert_true(r.position[at / V].inf == (k % 3 == 1) && r.position[at / V].mask == (k % 3 == 2));
		logits_free(&r);
	}
	struct trial *m = try(8);
	for (size_t v = 0; v < V; v++) m->y[3 * V + v] = (double)-INFINITY;
	struct logit_report r = verdict(m, RUNS);
	assert_true(r.outcome == FAIL && r.bad == 1 && r.position[3].mask == V);
	logits_free(&r);
}

static void masks_of_both_are_legal(void **state)
{
	struct trial *m = try(9);

	(void)state;
	for (size_t t = 0; t < T; t++) m->x[t * V + 60] = m->y[t * V + 60] = (double)-INFINITY;
	memcpy(m->y, m->x, sizeof m->y);
	free(m->a.t.data);
	make(&m->a, DT_F64, m->x, T);
	struct logit_report r = verdict(m, 0);
	assert_true(r.outcome == PASS && r.masked == T && r.bad == 0);
	logits_free(&r);
}

static void a_bad_reference_is_refused(void **state)
{
	static const double bad[] = { (double)NAN, (double)INFINITY };
	static double x[T * V];
	struct made a, b;
	struct logit_report r;
	struct error e;

	(void)state;
	for (int k = 0; k < 3; k++) {
		uint64_t seed = 3;
		draw(x, T * V, 3, &seed);
		make(&b, DT_F64, x, T);
		if (k < 2) x[97 * V + 4] = bad[k];
		for (size_t v = 0; k == 2 && v < V; v++) x[97 * V + v] = (double)-INFINITY;
		make(&a, DT_F64, x, T);
		assert_false(logits_compare(&r, &(struct logit_comparison){ .reference = &a.s, .got = k == 2 ? &a.s : &b.s, .top = TOP }, &e));
		assert_true(e.code == E_VALUE && strstr(e.detail, "97") && error_exit(&e) == EXIT_INPUT);
		assert_false(logits_compare(&r, &(struct logit_comparison){ .reference = &b.s, .got = &b.s, .noise = { &a.s }, .n_noise = 1,
			.top = TOP }, &e));
		assert_int_equal(error_exit(&e), EXIT_INPUT);
		free(a.t.data);
		free(b.t.data);
	}
}

/* A reference whose own error is no small part of sigma decides nothing; nor does one whose error is not known. */
static void a_reference_must_be_good(void **state)
{
	static const struct { double rms; enum outcome outcome; } rows[] = { { 0, PASS }, { 0.9e-7, PASS }, { 1.1e-7, UNDECIDED },
		{ (double)INFINITY, UNDECIDED }, { (double)NAN, UNDECIDED } };
	struct logit_position position[] = { { .sigma = 3e-5 }, { .sigma = 1e-5 }, { .sigma = 2e-5 } };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct logit_report r = { .positions = 3, .position = position, .outcome = PASS };
		logits_truth(&r, "f64", "dd", 2, rows[i].rms);
		assert_int_equal(r.outcome, rows[i].outcome);
		assert_int_equal(r.n_reason, rows[i].outcome != PASS);
		assert_int_equal(r.truth_tokens, 2);
	}
	struct logit_report failed = { .positions = 3, .position = position, .outcome = FAIL };
	logits_truth(&failed, "f64", "dd", 2, 1);
	assert_int_equal(failed.outcome, FAIL);
	position[1].sigma = NAN;
	struct logit_report r = { .positions = 3, .position = position, .outcome = PASS };
	logits_truth(&r, "f64", "dd", 2, 1e-9);
	assert_int_equal(r.outcome, UNDECIDED);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_false_alarm), cmocka_unit_test(each_rule_finds_its_fault),
		cmocka_unit_test(equal_logits_pass_alone), cmocka_unit_test(noise_that_is_none_allows_none),
		cmocka_unit_test(flips_are_told_apart), cmocka_unit_test(bad_values_fail), cmocka_unit_test(masks_of_both_are_legal),
		cmocka_unit_test(a_bad_reference_is_refused), cmocka_unit_test(a_reference_must_be_good),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
