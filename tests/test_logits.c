/* Figures, flips and verdicts of logits in memory, against plain loops. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/logits.h"
#include "tests/model.h"

enum { T = 120, V = 401, TOP = 5 };

struct made { struct tensor t; struct logit_source s; };

static double uniform(uint64_t *state) { return (double)(random_bits(state) >> 11) * 0x1p-53; }

/* Of variance 1, and about normal. */
static double normal(uint64_t *state)
{
	return sqrt(3) * (uniform(state) + uniform(state) + uniform(state) + uniform(state) - 2);
}

/* x [positions,V] as a source of this type, and x as that type holds it. */
static void make(struct made *m, enum dtype type, double *x, size_t positions)
{
	struct error e;

	m->t = (struct tensor){ .name = (char *)(uintptr_t)"x", .offset = NO_OFFSET };
	assert_true(shape_set(&m->t, type, 2, (const size_t[]){ positions, V }));
	m->t.data = malloc(m->t.bytes);
	dtype_store(type, x, m->t.count, m->t.data);
	dtype_load(type, m->t.data, m->t.count, x);
	no_error(source_of_tensor(&m->s, &m->t, "x", &e), &e);
}

static void draw(double *x, size_t n, double spread, uint64_t *seed)
{
	for (size_t i = 0; i < n; i++) x[i] = spread * normal(seed);
}

/* ---- figures ---- */
static size_t first_of(const double *x)
{
	size_t best = 0;

	for (size_t v = 1; v < V; v++) best = x[v] > x[best] ? v : best;
	return best;
}

static size_t rank_of(const double *x, size_t token)
{
	size_t rank = 1;

	for (size_t v = 0; v < V; v++) rank += x[v] > x[token] || (x[v] == x[token] && v < token);
	return rank;
}

static long double nll(const double *x, size_t id)
{
	long double sum = 0;

	for (size_t v = 0; v < V; v++) sum += expl(x[v] - x[id]);
	return logl(sum);
}

static long double divergence(const double *x, const double *y)
{
	long double kl = 0;

	for (size_t v = 0; v < V; v++) kl += expl(-nll(x, v)) * (nll(y, v) - nll(x, v));
	return kl;
}

static void near(double found, long double expected, double relative)
{
	if (!(fabsl(found - expected) <= relative * (1e-3L + fabsl(expected)))) fail_msg("%.17g, expected %.17Lg", found, expected);
}

/* That share q of x [T] is at most p, and not for anything smaller in x. */
static void is_percentile(double p, const double *x, double q)
{
	size_t at_most = 0, below = 0;

	for (size_t t = 0; t < T; t++) at_most += x[t] <= p, below += x[t] < p;
	assert_true((double)at_most >= q * T - 1e-6 && (double)below < q * T - 1e-6);
}

static void figures_are_those_of_loops(void **state)
{
	static double x[T * V], y[T * V], kl[T];
	static size_t ids[T];
	long double sum_kl = 0, squares = 0, d_sum = 0, d_squares = 0;
	struct made a, b;
	struct logit_report r;
	struct error e;
	uint64_t seed = 11;
	size_t agree = 0;
	double common = 0;

	(void)state;
	draw(x, T * V, 3, &seed);
	for (size_t i = 0; i < T * V; i++) y[i] = x[i] + 0.3 * normal(&seed);
	for (size_t t = 0; t < T; t++) ids[t] = random_bits(&seed) % V;
	make(&a, DT_F64, x, T);
	make(&b, DT_BF16, y, T);
	no_error(logits_compare(&r, &(struct logit_comparison){ .reference = &a.s, .got = &b.s, .ids = ids, .top = TOP }, &e), &e);
	for (size_t t = 0; t < T; t++) {
		const double *p = x + t * V, *q = y + t * V;
		const struct logit_position *at = &r.position[t];
		size_t mine = first_of(p), theirs = first_of(q), both = 0;
		kl[t] = at->kl;
		near(at->kl, divergence(p, q), 1e-12);
		near(at->kl_back, divergence(q, p), 1e-12);
		sum_kl += divergence(p, q);
		agree += mine == theirs;
		for (size_t v = 0; v < V; v++) squares += (q[v] - p[v]) * (q[v] - p[v]), both += rank_of(p, v) <= TOP && rank_of(q, v) <= TOP;
		assert_int_equal(at->common, both);
		common += (double)both / T;
		assert_true((mine != theirs) == (at->flip != NO_FLIP));
		for (size_t k = 0; k < TOP; k++) assert_true(rank_of(p, at->top_reference[k].token) == k + 1 && rank_of(q,
			at->top_got[k].token) == k + 1);
		if (mine != theirs) {
			assert_true(at->margin_reference == p[mine] - p[theirs] && at->margin_got == q[theirs] - q[mine]);
			assert_true(at->rank_reference == rank_of(p, theirs) && at->rank_got == rank_of(q, mine));
			assert_int_equal(at->flip, FLIP_UNKNOWN);
		}
		if (t + 1 == T) continue;
		long double d = nll(q, ids[t + 1]) - nll(p, ids[t + 1]);
		d_sum += d, d_squares += d * d;
		near(at->nll_got, nll(q, ids[t + 1]), 1e-12);
	}
	assert_true(agree > T / 2 && agree < T && r.agree == agree && r.targets == T - 1);
	near(r.common, common, 1e-12);
	near(r.kl.mean, sum_kl / T, 1e-12);
	is_percentile(r.kl.p50, kl, 0.5), is_percentile(r.kl.p90, kl, 0.9), is_percentile(r.kl.p99, kl, 0.99), is_percentile(r.kl.p999,
		kl, 0.999);
	assert_true(kl[r.kl.at] == r.kl.max);
	for (size_t t = 0; t < T; t++) assert_true(kl[t] <= r.kl.max);
	near(r.rms_all, sqrtl(squares / (T * V)), 1e-12);
	long double n = T - 1, mean = d_sum / n;
	near(r.nll_difference, mean, 1e-12);
	near(r.nll_error, sqrtl((d_squares - n * mean * mean) / (n - 1) / n), 1e-9);
	assert_int_equal(r.outcome, UNDECIDED);
	logits_free(&r);
	free(a.t.data);
	free(b.t.data);
}

/* ---- verdicts ---- */
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
static enum flip flip_of(double margin, double error, bool replica)
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
	memcpy(z, replica ? m->y : m->x, sizeof z);
	make(&other, DT_F64, z, T);
	c.replica = &other.s;
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
	assert_int_equal(flip_of(1e-3, 2e-3, true), FLIP_REPLICA);
	assert_int_equal(flip_of(0.5, 0.6, true), FLIP_REPLICA);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(figures_are_those_of_loops), cmocka_unit_test(no_false_alarm), cmocka_unit_test(each_rule_finds_its_fault),
		cmocka_unit_test(equal_logits_pass_alone), cmocka_unit_test(noise_that_is_none_allows_none),
		cmocka_unit_test(flips_are_told_apart), cmocka_unit_test(bad_values_fail), cmocka_unit_test(masks_of_both_are_legal),
		cmocka_unit_test(a_bad_reference_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
