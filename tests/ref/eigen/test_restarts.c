/* Coefficient lists, the scalar recurrence against MPFR, and the search for restarts against brute force. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <mpfr.h>

#include "ref/eigen/restarts.h"
#include "tests/helpers.h"

enum { BITS = 300 };

static struct schedule named(const char *name, size_t iterations)
{
	struct schedule s;
	struct error e;

	if (!schedule_find(&s, name, iterations, SAFETY, &e)) fail_msg("%s: %s", name, e.detail);
	return s;
}

/* As they stand in calls recorded from a public package, to the bit. */
static void lists_are_those_of_public_captures(void **state)
{
	static const double recorded[5][3] = {
		{ 7.892582874424408, -20.38301394587957, 13.555306149406924 }, { 3.911484868135431, -2.5464635929060884, 0.4268988319673074 },
		{ 3.760657955697423, -2.512819018216563, 0.4323647349070073 }, { 3.160399673686287, -2.149649518898498, 0.3996366907664389 },
		{ 2.1910971618617303, -1.441662010214663, 0.328146487623155 } };
	struct schedule s = named("polar_express", 0);

	(void)state;
	assert_int_equal(s.n, 5);
	for (size_t t = 0; t < 5; t++) {
		assert_true(s.at[t].a == recorded[t][0]);
		assert_true(fabs(s.at[t].b / recorded[t][1] - 1) < 4e-16 && fabs(s.at[t].c / recorded[t][2] - 1) < 4e-16);
	}
	s = named("polar_express", 12);         /* its limit, which no safety factor moves from p(1) = 1 */
	for (size_t t = 7; t < 12; t++) assert_true(s.at[t].a == 1.875 && s.at[t].b == -1.25 && s.at[t].c == 0.375);
	s = named("quintic", 0);
	assert_true(s.n == 10 && s.at[9].a + s.at[9].b + s.at[9].c == 1 && s.at[9].a + 3 * s.at[9].b + 5 * s.at[9].c == 0);
	s = named("jordan", 0);
	assert_true(s.n == 5 && s.at[4].a == 3.4445 && s.at[4].b == -4.775 && s.at[4].c == 2.0315);
	s = named("you", 3);
	assert_true(s.n == 3 && s.at[2].a == 3.7418);
}

static void lists_from_files(void **state)
{
	static const struct { const char *text; enum error_code code; } files[] = {
		{ "[[1,2,3],[4,-5,6.5]]", E_NONE }, { "{\"coefficients\": [[1,2,3],[4,-5,6.5]]}", E_NONE }, { "[]", E_PARAM },
		{ "[[1,2]]", E_PARAM },
		{ "[[1,2,\"3\"]]", E_PARAM }, { "{}", E_PARAM }, { "[[1,2,3]", E_FORMAT },
	};
	struct schedule s;
	struct error e;

	(void)state;
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		FILE *f = fopen(scratch("list.json"), "w");
		assert_true(f && fputs(files[i].text, f) >= 0 && fclose(f) == 0);
		bool ok = schedule_find(&s, scratch("list.json"), i ? 0 : 4, SAFETY, &e);
		if (files[i].code == E_NONE) {
			assert_true(ok && s.at[1].b == -5 && s.at[1].c == 6.5);
			assert_true(i ? s.n == 2 : s.n == 4 && s.at[3].a == 4);
		} else {
			assert_false(ok);
			assert_int_equal(e.code, files[i].code);
		}
	}
	assert_false(schedule_find(&s, scratch("none.json"), 0, SAFETY, &e));
	assert_int_equal(e.code, E_UNKNOWN_NAME);
	assert_false(schedule_find(&s, "quintic", 0, 0.5, &e));
	assert_false(schedule_find(&s, "quintic", 64, SAFETY, &e));
}

/* ---- the recurrence in MPFR, written as the formulas are ---- */
struct exact { mpfr_t r, q, x; };

static void exact_at(struct exact *v, const struct schedule *s, uint64_t restarts, double x, double p, size_t after)
{
	mpfr_t z, base;

	mpfr_inits2(BITS, z, base, (mpfr_ptr)0);
	mpfr_set_d(base, x, MPFR_RNDN);
	mpfr_sqr(v->r, base, MPFR_RNDN);
	mpfr_add_d(v->r, v->r, p, MPFR_RNDN);
	mpfr_set_d(v->q, 1, MPFR_RNDN);
	for (size_t t = 0; t < after; t++) {
		if (restarts >> t & 1) {
			mpfr_mul(base, base, v->q, MPFR_RNDN);
			mpfr_sqr(v->r, base, MPFR_RNDN);
			mpfr_add_d(v->r, v->r, p, MPFR_RNDN);
			mpfr_set_d(v->q, 1, MPFR_RNDN);
		}
		mpfr_mul_d(z, v->r, s->at[t].c, MPFR_RNDN);
		mpfr_add_d(z, z, s->at[t].b, MPFR_RNDN);
		mpfr_mul(z, z, v->r, MPFR_RNDN);
		mpfr_add_d(z, z, s->at[t].a, MPFR_RNDN);
		mpfr_mul(v->q, v->q, z, MPFR_RNDN);
		mpfr_mul(v->r, v->r, z, MPFR_RNDN);
		mpfr_mul(v->r, v->r, z, MPFR_RNDN);
	}
	mpfr_mul(v->x, base, v->q, MPFR_RNDN);
	mpfr_clears(z, base, (mpfr_ptr)0);
}

static double off(const mpfr_t exact, dd found)
{
	mpfr_t d;

	mpfr_init2(d, BITS);
	mpfr_sub_d(d, exact, found.hi, MPFR_RNDN);
	mpfr_sub_d(d, d, found.lo, MPFR_RNDN);
	double x = fabs(mpfr_get_d(d, MPFR_RNDN)) / fmax(1, fabs(found.hi));
	mpfr_clear(d);
	return x;
}

static void recurrence_matches_mpfr(void **state)
{
	static const char *const names[] = { "polar_express", "you", "jordan", "quintic" };
	struct step step[MAX_ITERATIONS + 1];
	struct exact v;

	(void)state;
	mpfr_inits2(BITS, v.r, v.q, v.x, (mpfr_ptr)0);
	for (size_t k = 0; k < 4; k++) {
		struct schedule s = named(names[k], 0);
		for (int i = 0; i <= 50; i++)
			for (uint64_t restarts = 0; restarts <= 8; restarts += 4)
				for (int spurious = 0; spurious < 2; spurious++) {
					double x = i / 50.0, p = spurious ? -4e-4 : 0;
					recurrence(step, &s, restarts, dd_of(x), p);
					for (size_t t = 0; t <= s.n; t++) {
						exact_at(&v, &s, restarts, x, p, t);
						assert_true(off(v.r, step[t].r) < 1e-27 && off(v.q, step[t].q) < 1e-27 && off(v.x, step[t].x) < 1e-27);
					}
				}
	}
	mpfr_clears(v.r, v.q, v.x, (mpfr_ptr)0);
}

/* Without rounding a restart changes nothing in x, and x_t = p_t(x_{t-1}), r_t = x_t^2. */
static void restarts_change_nothing_exactly(void **state)
{
	struct schedule s = named("polar_express", 0);
	struct step plain[MAX_ITERATIONS + 1], restarted[MAX_ITERATIONS + 1];

	(void)state;
	for (int i = 0; i <= 20; i++) {
		recurrence(plain, &s, 0, dd_of(i / 20.), 0);
		recurrence(restarted, &s, 0x16, dd_of(i / 20.), 0);
		for (size_t t = 1; t <= s.n; t++) {
			double x = plain[t - 1].x.hi, r = x * x;
			assert_true(fabs(dd_sub(plain[t].x, restarted[t].x).hi) < 1e-28);
			assert_true(fabs(plain[t].x.hi - x * (s.at[t - 1].a + r * (s.at[t - 1].b + r * s.at[t - 1].c))) < 1e-13);
			assert_true(fabs(dd_sub(plain[t].r, dd_mul(plain[t].x, plain[t].x)).hi) < 1e-27);
		}
	}
}

/* ---- the search ---- */
static uint64_t best(const char *name, size_t count)
{
	struct schedule s = named(name, 0);
	struct restart_choice *c;
	struct error e;
	size_t n;

	assert_true(restarts_search(&c, &n, &s, count, -4e-4, &e));
	uint64_t found = c[0].restarts;
	assert_true(c[0].worst < c[1].worst);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(__builtin_popcountll(c[i].restarts), count);
		assert_true(!(c[i].restarts & 1) && c[i].restarts >> s.n == 0);
		for (size_t j = 0; j < i; j++) assert_true(c[j].restarts != c[i].restarts);
	}
	assert_int_equal(n, count == 1 ? s.n - 1 : (s.n - 1) * (s.n - 2) / 2);
	free(c);
	return found;
}

static void known_best_restarts(void **state)
{
	(void)state;
	assert_int_equal(best("quintic", 1), 1 << 5);
	assert_int_equal(best("quintic", 2), 1 << 4 | 1 << 7);
	assert_int_equal(best("polar_express", 1), 1 << 2);
	assert_int_equal(best("polar_express", 2), 1 << 1 | 1 << 2);
}

/* The same in long double on a grid of its own: never above, and close below. */
static long double brute(const struct schedule *s, uint64_t restarts, double p)
{
	enum { N = 40000 };
	long double most[MAX_ITERATIONS], least[MAX_ITERATIONS], worst = 0;

	for (int i = 0; i <= N; i++) {
		long double u = (long double)i / N, x = u * u, r = x * x + p, q = 1;
		for (size_t t = 0; t < s->n; t++) {
			if (restarts >> t & 1) {
				x *= q;
				r = x * x + p;
				q = 1;
			}
			long double z = s->at[t].a + s->at[t].b * r + s->at[t].c * r * r;
			q *= z;
			r *= z * z;
			most[t] = i ? fmaxl(most[t], fabsl(q)) : fabsl(q);
			least[t] = i ? fminl(least[t], fabsl(q)) : fabsl(q);
		}
	}
	for (size_t t = 0; t < s->n; t++) worst = fmaxl(worst, most[t] / least[t]);
	return worst;
}

static void cost_matches_brute_force(void **state)
{
	static const char *const names[] = { "polar_express", "you", "quintic" };
	size_t at;

	(void)state;
	for (size_t k = 0; k < 3; k++) {
		struct schedule s = named(names[k], 0);
		for (uint64_t restarts = 2; restarts < 32; restarts *= 2)
			for (int i = 0; i < 2; i++) {
				double p = i ? -4e-4 : -1e-5, found = restarts_cost(&s, restarts, p, &at);
				long double expected = brute(&s, restarts, p);
				if (!(found >= (double)expected * (1 - 1e-9) && found <= (double)expected * 1.01))
					fail_msg("%s, %#lx: %.9g, brute force %.9Lg", names[k], (unsigned long)restarts, found, expected);
			}
	}
}

static void sign_change_is_infinite(void **state)
{
	struct schedule s = { .n = 2, .at = { { 1, -2, 0 }, { 1, 0, 0 } } };
	size_t at;

	(void)state;
	assert_true(isinf(restarts_cost(&s, 2, 0, &at)) && at == 1);
}

static void impossible_searches(void **state)
{
	struct schedule s = named("quintic", 40);
	struct restart_choice *c;
	struct error e;
	size_t n;

	(void)state;
	assert_false(restarts_search(&c, &n, &s, 0, -4e-4, &e));
	assert_int_equal(e.code, E_VALUE);
	assert_false(restarts_search(&c, &n, &s, 40, -4e-4, &e));
	assert_false(restarts_search(&c, &n, &s, 20, -4e-4, &e));
	assert_false(restarts_search(&c, &n, &s, 1, NAN, &e));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_are_those_of_public_captures),
		cmocka_unit_test(lists_from_files),
		cmocka_unit_test(recurrence_matches_mpfr),
		cmocka_unit_test(restarts_change_nothing_exactly),
		cmocka_unit_test(known_best_restarts),
		cmocka_unit_test(cost_matches_brute_force),
		cmocka_unit_test(sign_change_is_infinite),
		cmocka_unit_test(impossible_searches),
	};

	return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
