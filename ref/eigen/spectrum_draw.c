/* Matrices of a given spectrum. */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "iterate.h"

static uint64_t bits(uint64_t *state)          /* splitmix64 */
{
	uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
	return z ^ z >> 31;
}

static double gaussian(uint64_t *state)
{
	double r = ldexp((double)(bits(state) >> 11) + 0.5, -53), phi = ldexp((double)(bits(state) >> 11), -52) * M_PI;

	return sqrt(-2 * log(r)) * cos(phi);
}

/* s orthonormal rows of l, of Haar's measure: Gram-Schmidt, twice, on Gaussian rows. */
static void orthonormal(double *V, size_t s, size_t l, uint64_t *state)
{
	for (size_t i = 0; i < s; i++) {
		double *v = V + i * l;
		for (size_t j = 0; j < l; j++) v[j] = gaussian(state);
		for (int twice = 0; twice < 2; twice++)
			for (size_t k = 0; k < i; k++) cblas_daxpy((int)l, -cblas_ddot((int)l, V + k * l, 1, v, 1), V + k * l, 1, v, 1);
		cblas_dscal((int)l, 1 / cblas_dnrm2((int)l, v, 1), v, 1);
	}
}

static double sigma(int shape, double decades, size_t i, size_t s)
{
	switch (shape) {
	case 0: return s > 1 ? pow(10, -decades * (double)i / (double)(s - 1)) : 1;
	case 1: return 1 - (double)i / (double)s;
	case 2: return 1 / (double)(i + 1);
	default: return 1;
	}
}

bool spectrum_draw(double *x, size_t s, size_t l, const char *shape, double decades, uint64_t seed, struct error *e)
{
	static const char *const shapes[] = { "exp", "linear", "power", "flat" };
	int which = 0;

	while (which < 4 && strcmp(shapes[which], shape)) which++;
	if (which == 4) return error_set(e, E_UNKNOWN_NAME, shape, NO_OFFSET, "expected a spectrum: exp, linear, power, flat");
	double *U = malloc(s * s * sizeof *U), *V = malloc(s * l * sizeof *V);
	if (U && V) {
		orthonormal(U, s, s, &seed);
		orthonormal(V, s, l, &seed);
		for (size_t i = 0; i < s; i++) cblas_dscal((int)l, sigma(which, decades, i, s), V + i * l, 1);
		cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)s, (int)l, (int)s, 1, U, (int)s, V, (int)l, 0, x, (int)l);
	}
	bool ok = U && V;
	free(U);
	free(V);
	return ok || error_set(e, E_MEMORY, shape, NO_OFFSET, "a matrix of [%zu,%zu]", s, l);
}
