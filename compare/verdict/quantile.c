#include <math.h>

#include "quantile.h"

/* lgamma writes signgam, which all threads share. */
static double log_gamma(double x)
{
	int sign;

	return lgamma_r(x, &sign);
}

static double log_tail(double nu, double t)
{
	double c = log_gamma((nu + 1) / 2) - log_gamma(nu / 2) - log(nu * M_PI) / 2;

	return log(2) + c + log(nu / ((nu - 1) * t)) - (nu - 1) / 2 * log1p(t * t / nu);
}

double student_quantile(double nu, double p)
{
	double low = 0, high = 1;

	while (log_tail(nu, high) > log(p)) high *= 2;
	for (int i = 0; i < 60; i++) {
		double middle = (low + high) / 2;
		if (log_tail(nu, middle) > log(p)) low = middle;
		else high = middle;
	}
	return high;
}

double mean_square_bound(double n, double p)
{
	double x = log(1 / p);

	return 1 + 2 * sqrt(x / n) + 2 * x / n;
}

static void swap(double *a, double *b)
{
	double t = *a;

	*a = *b;
	*b = t;
}

/* Hoare's selection, pivot in the middle. */
double select_smallest(double *x, size_t n, size_t k)
{
	ptrdiff_t low = 0, high = (ptrdiff_t)n - 1, at = (ptrdiff_t)k;

	while (low < high) {
		double pivot = x[low + (high - low) / 2];
		ptrdiff_t i = low, j = high;
		while (i <= j) {
			while (x[i] < pivot) i++;
			while (x[j] > pivot) j--;
			if (i <= j) swap(&x[i++], &x[j--]);
		}
		if (at <= j) high = j;
		else if (at >= i) low = i;
		else break;
	}
	return x[at];
}
