/* The search for restart steps: all choices. */
#include "restarts.h"

#include <stdlib.h>

enum { POINTS = 1024, GRID = 2 * POINTS + 1, GOLDEN = 64, MOST = 100000 };

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void grid(double *x)
{
	for (int i = 0; i < POINTS; i++) {
		x[i] = (double)i / POINTS;
		x[POINTS + i] = pow(10, -10. * (i + 0.5) / POINTS);
	}
	x[GRID - 1] = 1;
	qsort(x, GRID, sizeof *x, ascending);
}

static dd q_at(const struct schedule *s, uint64_t restarts, double p, size_t t, dd x)
{
	struct step step[MAX_ITERATIONS + 1];

	recurrence(step, s, restarts, x, p);
	return step[t].q;
}

/* The extreme of |q_t|, largest (sign 1) or smallest (-1), between low and high. */
static double golden(const struct schedule *s, uint64_t restarts, double p, size_t t, double low, double high, double sign)
{
	const double part = (3 - sqrt(5)) / 2;
	dd a = dd_of(low), b = dd_of(high), best = dd_of(-INFINITY);

	for (int i = 0; i < GOLDEN; i++) {
		dd step = dd_mul(dd_sub(b, a), dd_of(part)), c = dd_add(a, step), d = dd_sub(b, step);
		dd fc = dd_scale(dd_abs(q_at(s, restarts, p, t, c)), sign), fd = dd_scale(dd_abs(q_at(s, restarts, p, t, d)), sign);
		if (dd_less(fc, fd)) a = c;
		else b = d;
		if (dd_less(best, fc)) best = fc;
		if (dd_less(best, fd)) best = fd;
	}
	return sign * best.hi;
}

double restarts_cost(const struct schedule *s, uint64_t restarts, double p, size_t *at)
{
	double x[GRID], extreme[MAX_ITERATIONS + 1][2], worst = 0;
	size_t where[MAX_ITERATIONS + 1][2] = { 0 };
	bool negative[MAX_ITERATIONS + 1] = { 0 }, crosses[MAX_ITERATIONS + 1] = { 0 };
	struct step step[MAX_ITERATIONS + 1];

	grid(x);
	for (size_t i = 0; i < GRID; i++) {
		recurrence(step, s, restarts, dd_of(x[i]), p);
		for (size_t t = 1; t <= s->n; t++) {
			double q = fabs(step[t].q.hi);
			if (!i) negative[t] = step[t].q.hi < 0;
			if (!(isfinite(q) && q > 0) || negative[t] != (step[t].q.hi < 0)) crosses[t] = true;
			for (int k = 0; k < 2; k++)
				if (!i || (k ? q < extreme[t][k] : q > extreme[t][k])) {
					extreme[t][k] = q;
					where[t][k] = i;
				}
		}
	}
	*at = 0;
	for (size_t t = 1; t <= s->n; t++) {
		double e[2];
		for (int k = 0; k < 2; k++) {
			size_t i = where[t][k];
			double refined = golden(s, restarts, p, t, x[i ? i - 1 : 0], x[i + 1 < GRID ? i + 1 : i], k ? -1 : 1);
			e[k] = k ? fmin(refined, extreme[t][k]) : fmax(refined, extreme[t][k]);
		}
		double condition = crosses[t] ? INFINITY : e[0] / e[1];
		if (!(condition <= worst)) {
			worst = condition;
			*at = t;
		}
	}
	return worst;
}

static int by_worst(const void *a, const void *b)
{
	const struct restart_choice *x = a, *y = b;

	if (x->worst != y->worst) return (x->worst > y->worst) - (x->worst < y->worst);
	return (x->restarts > y->restarts) - (x->restarts < y->restarts);
}

/* The next larger number with as many ones. */
static uint64_t next_choice(uint64_t x)
{
	uint64_t low = x & -x, up = x + low;

	return up | ((x ^ up) / low >> 2);
}

bool restarts_search(struct restart_choice **choice, size_t *n, const struct schedule *s, size_t count, double p, struct error *e)
{
	double choices = 1;

	*choice = NULL;
	if (!count || count >= s->n)
		return error_set(e, E_VALUE, "restarts", NO_OFFSET, "expected 1 to %zu of them, for %zu iterations", s->n - 1, s->n);
	if (!isfinite(p)) return error_set(e, E_VALUE, "spurious", NO_OFFSET, "expected a finite number");
	for (size_t i = 1; i <= count; i++) choices = choices * (double)(s->n - 1 - count + i) / (double)i;
	if (choices > MOST) return error_set(e, E_VALUE, "restarts", NO_OFFSET, "%.0f choices are more than %d", choices, MOST);
	*n = (size_t)(choices + 0.5);
	if (!(*choice = calloc(*n, sizeof **choice))) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu choices", *n);
	uint64_t bits = (UINT64_C(1) << count) - 1;
	for (size_t i = 0; i < *n; i++, bits = next_choice(bits)) (*choice)[i].restarts = bits << 1;
	#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < *n; i++) (*choice)[i].worst = restarts_cost(s, (*choice)[i].restarts, p, &(*choice)[i].at);
	qsort(*choice, *n, sizeof **choice, by_worst);
	return true;
}
