/* Spectra of Newton-Schulz, iteration by iteration: the emulation, the table, and the cause that is found. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/eigen/eigen.h"
#include "tests/helpers.h"

static struct iteration iteration(enum ns_algorithm algorithm, const char *coefficients, enum format iterate, uint64_t restarts)
{
	struct iteration how = { .algorithm = algorithm, .iterate = iterate, .restarts = restarts, .eps = 1e-7 };
	struct error e;

	assert_true(schedule_find(&how.polynomials, coefficients, 0, SAFETY, &e));
	return how;
}

static void run(struct eigen *g, struct trace *t, const struct iteration *how, size_t s, size_t l, const char *shape,
	double decades, uint64_t seed)
{
	double *x = malloc(s * l * sizeof *x);
	struct error e = { 0 };

	assert_non_null(x);
	if (!(spectrum_draw(x, s, l, shape, decades, seed, &e) && trace_emulate(t, how, x, s, l, &e)
		&& eigen_make(g, t, NULL, 0.1, NULL, &e)))
		fail_msg("%s: %s", e.item, e.detail);
	free(x);
}

/* ---- the known finding ---- */
static void naive_gram_blows_up_in_bf16(void **state)
{
	struct iteration naive = iteration(NS_GRAM_NAIVE, "quintic", FMT_BF16, 0), restarted = naive;
	struct trace t;
	struct eigen g;

	(void)state;
	restarted.restarts = 1 << 5;
	for (uint64_t seed = 0; seed < 2; seed++) {
		run(&g, &t, &naive, 128, 512, "exp", 10, seed);
		for (size_t i = 0; i <= 9; i++) assert_true(g.step[i].least_r < 0 && g.step[i].exact_least_r > 0);
		assert_true(g.step[0].least_r < -5e-5 && g.step[0].least_r > -1e-3);
		for (size_t i = 0; i <= 6; i++) assert_true(g.step[i].error < 0.1);
		assert_in_range(g.left, 7, 10);
		assert_true(!g.step[10].finite || g.step[10].error > 1e3);
		assert_int_equal(g.cause, NEGATIVE);
		assert_int_equal(g.cause_at, 0);
		assert_true(g.cause_value == g.step[0].least_r && g.cause_share > 0.5);
		eigen_free(&g);
		trace_free(&t);
		run(&g, &t, &restarted, 128, 512, "exp", 10, seed);
		assert_int_equal(g.cause, FOLLOWS);
		assert_true(g.left == 11 && g.step[10].error < 0.1 && g.y_error < 0.1);
		eigen_free(&g);
		trace_free(&t);
	}
}

static void one_rounding_of_r0_suffices(void **state)
{
	struct iteration how = iteration(NS_GRAM_NAIVE, "quintic", FMT_F64, 0);
	struct trace t;
	struct eigen g;

	(void)state;
	run(&g, &t, &how, 64, 256, "exp", 3, 1);
	assert_true(g.cause == FOLLOWS && g.step[10].error < 1e-5 && g.step[0].least_r > -1e-15);
	eigen_free(&g);
	trace_free(&t);
	how.rounds_r0 = true;
	how.r0 = FMT_BF16;
	run(&g, &t, &how, 64, 256, "exp", 3, 1);
	assert_true(g.cause == NEGATIVE && g.step[0].least_r < -1e-5 && g.left < 11);
	eigen_free(&g);
	trace_free(&t);
}

static void sigma_above_one_runs_away(void **state)
{
	struct iteration how = iteration(NS_STANDARD, "polar_express", FMT_F32, 0);
	struct trace t;
	struct eigen g;

	(void)state;
	how.largest = 1;
	run(&g, &t, &how, 32, 64, "linear", 0, 1);
	assert_true(g.cause == FOLLOWS && !g.exact_diverges && g.y_orthogonality < 1);
	assert_true(fabs(g.sigma_max - 1) < 1e-6);
	eigen_free(&g);
	trace_free(&t);
	how.largest = 1.1;
	run(&g, &t, &how, 32, 64, "linear", 0, 1);
	assert_true(g.exact_diverges && fabs(g.sigma_max - 1.1) < 1e-6);
	assert_true(g.step[2].error < 1e-2 && g.step[2].orthogonality > 10);     /* it follows a curve that runs away */
	eigen_free(&g);
	trace_free(&t);
}

/* The exact curve within [0,1], but R_2 given an eigenvalue of 1.5 in one direction, and run on from there. */
static void sigma_above_one_is_the_cause(void **state)
{
	enum { S = 24, L = 40 };
	struct iteration how = iteration(NS_GRAM, "polar_express", FMT_F64, 0);
	struct trace t;
	struct eigen g;
	struct error e;

	(void)state;
	how.largest = 0.9;
	run(&g, &t, &how, S, L, "linear", 0, 3);
	assert_int_equal(g.cause, FOLLOWS);
	eigen_free(&g);
	struct singular v;
	assert_true(singular_of(&v, t.X, S, L, "X", &e));
	for (size_t k = 2; k <= 5; k++) {       /* the last direction: r -> 9 from R_2 on, q as the polynomials make of it */
		double old_q = 0, *R = t.R + k * S * S, *Q = t.Q + k * S * S;
		double r = 9, q = 1;
		for (size_t i = 2; i < k; i++) {
			const struct polynomial *p = &how.polynomials.at[i];
			double z = p->a + r * (p->b + r * p->c);
			q *= z;
			r *= z * z;
		}
		for (size_t i = 0; i < S; i++)
			for (size_t j = 0; j < S; j++) old_q += v.u.hi[i * S + S - 1] * t.Q[2 * S * S + i * S + j] * v.u.hi[j * S + S - 1];
		for (size_t i = 0; i < S; i++)
			for (size_t j = 0; j < S; j++) {
				double uu = v.u.hi[i * S + S - 1] * v.u.hi[j * S + S - 1];
				R[i * S + j] += fmin(r, 1e9) * uu;
				if (k > 2) Q[i * S + j] += (fmin(q, 1e9) - 1) * old_q * uu;
			}
	}
	assert_true(eigen_make(&g, &t, NULL, 0.1, NULL, &e));
	assert_true(g.cause == ABOVE_ONE && g.left == 3 && g.cause_at == 2 && g.cause_value > 9 && g.cause_share > 0.9);
	assert_false(g.exact_diverges);
	singular_free(&v);
	eigen_free(&g);
	trace_free(&t);
}

/* Q turned out of its eigenvectors, R untouched: neither a negative nor a large eigenvalue is to blame. */
static void turned_eigenvectors_are_drift(void **state)
{
	enum { S = 24, L = 40 };
	struct iteration how = iteration(NS_GRAM, "polar_express", FMT_F64, 0);
	struct trace t;
	struct eigen g;
	struct error e;

	(void)state;
	run(&g, &t, &how, S, L, "exp", 2, 3);
	assert_int_equal(g.cause, FOLLOWS);
	for (size_t i = 0; i <= 5; i++)
		assert_true(g.step[i].drift[M_R] < 1e-9 && g.step[i].drift[M_Q] < 1e-9 && g.step[i].drift[M_X] < 1e-9);
	eigen_free(&g);
	for (size_t k = 3; k <= 5; k++) {       /* rows 2i and 2i + 1 exchanged, and the columns: PQP' */
		double turned[S * S], *Q = t.Q + k * S * S;
		for (size_t i = 0; i < S * S; i++) turned[i] = Q[(i / S ^ 1) * S + (i % S ^ 1)];
		memcpy(Q, turned, sizeof turned);
	}
	assert_true(eigen_make(&g, &t, NULL, 0.1, NULL, &e));
	assert_true(g.cause == DRIFT && g.left == 3 && g.step[3].drift[M_Q] > 0.1 && g.step[2].drift[M_Q] < 1e-9);
	assert_true(g.step[3].drift[M_R] < 1e-9 && g.step[3].drift[M_X] > 0.1);
	for (size_t i = 0; i < g.rows; i++)     /* what is turned keeps its eigenvalues, and shows in u'Qu */
		if (g.row[i].matrix == M_Q) assert_true(fabs(g.row[i].error) < 1e-9 * g.row[i].exact);
	eigen_free(&g);
	trace_free(&t);
}

/* ---- the table ---- */
static void rows_in_f64_are_the_recurrence(void **state)
{
	static const enum ns_algorithm algorithms[] = { NS_STANDARD, NS_GRAM_NAIVE, NS_GRAM, NS_GRAM };
	struct trace t;
	struct eigen g;

	(void)state;
	for (size_t k = 0; k < 4; k++) {
		struct iteration how = iteration(algorithms[k], "polar_express", FMT_F64, k == 3 ? 0xC : 0);
		size_t s = 20, per = algorithms[k] == NS_STANDARD ? 1 : 3;
		run(&g, &t, &how, s, 31, "exp", 2, 7);
		assert_int_equal(g.rows, s * (per * 6 + 1));
		bool seen[MATRICES] = { 0 };
		for (size_t i = 0; i < g.rows; i++) {
			const struct eigen_row *r = &g.row[i];
			seen[r->matrix] = true;
			assert_true(r->sigma > 0 && r->sigma < 1 && isfinite(r->observed));
			if (!(fabs(r->error) < 1e-9 && fabs(r->along - r->exact) < 1e-9))        /* 1e-16, amplified by up to 1e6 */
				fail_msg("%s %s_%zu: error %g, along %g", ns_algorithm_name[algorithms[k]], matrix_name[r->matrix], r->t, r->error,
					r->along - r->exact);
			assert_true(fabs(r->observed - r->exact - r->error) <= 0x1p-51 * fmax(1, r->exact));
			double p = r->sigma, q = 1;     /* the law on its own: x_t = p_t(x_{t-1}) */
			for (size_t j = 0; j < r->t; j++) {
				const struct polynomial *h = &how.polynomials.at[j];
				double z = h->a + p * p * (h->b + p * p * h->c);
				if (how.restarts >> j & 1) q = 1;
				p *= z;
				q *= z;
			}
			assert_true(fabs(r->exact - (r->matrix == M_R ? p * p : r->matrix == M_Q ? q : p)) < 1e-12 * fmax(1, q));
		}
		assert_true(seen[M_X] && seen[M_Y] && seen[M_R] == (per == 3) && seen[M_Q] == (per == 3));
		eigen_free(&g);
		trace_free(&t);
	}
}

/* σ in exact binary, an identity padded with zeros: nothing is rounded, and every form gives the same. */
static void emulation_by_hand(void **state)
{
	static const enum ns_algorithm algorithms[] = { NS_STANDARD, NS_GRAM_NAIVE, NS_GRAM };
	const double x[2 * 3] = { 0.5, 0, 0, 0, 0, 1 };
	struct iteration how = { .polynomials = { .n = 2, .at = { { 1, 0.5, 0.25 }, { 2, -1, 0 } } }, .iterate = FMT_F32, .largest = 1 };
	struct trace t;
	struct error e;

	(void)state;
	for (size_t k = 0; k < 6; k++) {        /* x = 1/2: z = 1 + 1/8 + 1/64 = 73/64; x = 1: z = 7/4 */
		how.algorithm = algorithms[k % 3];
		how.iterate = k < 3 ? FMT_F32 : FMT_F64;
		assert_true(trace_emulate(&t, &how, x, 2, 3, &e));
		double a = 73 / 128., b = 7 / 4.;
		assert_true(t.X[0] == 0.5 && t.X[5] == 1);
		double answer[6];
		trace_answer(answer, &t, 1);
		assert_true(answer[0] == a && answer[5] == b && answer[1] == 0);
		assert_true(fabs(t.y[0] - a * (2 - a * a)) < 1e-7 && fabs(t.y[5] - b * (2 - b * b)) < 1e-7);
		if (t.R) assert_true(t.R[0] == 0.25 && t.R[3] == 1 && t.R[4] == a * a && t.R[7] == b * b && t.Q[0] == 1 && t.Q[4] == 73 / 64.);
		trace_free(&t);
	}
}

/* X_0 of x [1,3]. */
static void begun(double *X, const struct iteration *how, const double *x)
{
	struct trace t;
	struct error e;

	if (!trace_emulate(&t, how, x, 1, 3, &e)) fail_msg("%s: %s", e.item, e.detail);
	memcpy(X, t.X, 3 * sizeof *X);
	trace_free(&t);
}

/* X / (|X|_F + eps), in float32 but for f64, where eps weighs: |X|_F = eps; X / max(|X|_F, eps) of an eps of 2 |X|_F. */
static void emulation_normalises(void **state)
{
	const double x[3] = { 0x1p-24, 0x1p-23, 0x1p-23 };
	struct iteration how = { .polynomials = { .n = 1, .at = { { 1, 0, 0 } } }, .eps = 3 * 0x1p-24 };
	static const enum format formats[] = { FMT_F64, FMT_F32, FMT_BF16 };
	double X[3];

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		how.iterate = formats[k];
		begun(X, &how, x);
		for (size_t i = 0; i < 3; i++) {
			double exact = (i ? 2 : 1) / 6.;
			assert_true(X[i] == (k == 0 ? exact : k == 1 ? (double)(float)exact : format_round(FMT_BF16, ROUND_NEAREST_EVEN, exact, 0)));
		}
	}
	how.eps_kind = 1;
	how.eps *= 2;
	for (size_t k = 0; k < 2; k++) {
		how.iterate = formats[k];
		begun(X, &how, x);
		assert_true(X[0] == (k == 0 ? 1 / 6. : (double)(1 / 6.f)));
	}
	how.iterate = FMT_BF16;
	how.eps_kind = 0;
	how.eps = 0;
	begun(X, &how, x);
	assert_true(fabs(X[0] - 1 / 3.) < 1e-2);
}

/* Each product rounded once to the iterate's type: every entry of a trace is one of its numbers. */
static void emulation_rounds_to_its_type(void **state)
{
	static const enum format formats[] = { FMT_BF16, FMT_F16, FMT_F32 };
	struct trace t;
	struct eigen g;

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		struct iteration how = iteration(NS_GRAM, "polar_express", formats[k], 4);
		run(&g, &t, &how, 16, 40, "linear", 0, 2);
		for (size_t i = 0; i < 6 * 16 * 16; i++) {
			assert_true(format_round(formats[k], ROUND_NEAREST_EVEN, t.R[i], 0) == t.R[i]);
			assert_true(format_round(formats[k], ROUND_NEAREST_EVEN, t.Q[i], 0) == t.Q[i]);
		}
		for (size_t i = 0; i < 6 * 16 * 40; i++) assert_true(format_round(formats[k], ROUND_NEAREST_EVEN, t.X[i], 0) == t.X[i]);
		assert_true(g.cause == FOLLOWS && g.step[5].error > 0.01 * format_ulp(formats[k], 1));
		assert_memory_equal(t.X, t.X + 16 * 40, 16 * 40 * sizeof(double));       /* X changes at the restart alone */
		assert_true(memcmp(t.X, t.X + 3 * 16 * 40, 16 * 40 * sizeof(double)) != 0);
		eigen_free(&g);
		trace_free(&t);
	}
}

static void smallest_matrix(void **state)
{
	struct iteration how = iteration(NS_GRAM, "quintic", FMT_BF16, 1 << 5);
	struct trace t;
	struct eigen g;

	(void)state;
	run(&g, &t, &how, 1, 1, "flat", 0, 0);
	assert_true(g.cause == FOLLOWS && g.rows == 34);
	eigen_free(&g);
	trace_free(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(naive_gram_blows_up_in_bf16),
		cmocka_unit_test(one_rounding_of_r0_suffices),
		cmocka_unit_test(sigma_above_one_runs_away),
		cmocka_unit_test(sigma_above_one_is_the_cause),
		cmocka_unit_test(turned_eigenvectors_are_drift),
		cmocka_unit_test(rows_in_f64_are_the_recurrence),
		cmocka_unit_test(emulation_by_hand),
		cmocka_unit_test(emulation_normalises),
		cmocka_unit_test(emulation_rounds_to_its_type),
		cmocka_unit_test(smallest_matrix),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
