/* Products of matrices, and how their sums are added: exactly, or as one of the arithmetics of ref/arith adds floats. */
#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "cells.h"
#include "fixtures/io/wide.h"
#include "ref/arith/calc_private.h"

/* Ada's tensor cores add as Ampere's, Blackwell's as Hopper's. half: those multiply float16 alone. */
static const struct { const struct arith *as; const char *said; bool half; } sums[] = {
	{ NULL, "exact", false }, { &arith_mma[MMA_HOPPER], "mma:hopper", false }, { &arith_mma[MMA_AMPERE], "mma:ampere", false },
	{ &arith_mma[MMA_TURING], "mma:turing", true }, { &arith_mma[MMA_VOLTA], "mma:volta", true }, { &arith_f32_fma, "f32_fma", false },
	{ &arith_f32, "f32", false }, { &arith_f32_tree, "f32_tree", false },
};

const char *sums_name(int way) { return way < 0 || (size_t)way >= sizeof sums / sizeof *sums ? NULL : sums[way].said; }
const struct arith *sums_arith(int way) { return sums[way].as; }
bool sums_of_half(int way) { return sums[way].half; }

static bool added(calc *c, const struct product *p, float *room)
{
	size_t na = p->m * p->k, nb = p->k * p->n, ny = p->m * p->n;
	float *a = room, *b = a + na, *y = b + nb;

	if (setjmp(c->no_memory)) return false;
	for (size_t i = 0; i < na; i++) a[i] = (float)p->a[i];
	for (size_t i = 0; i < nb; i++) b[i] = (float)p->b[i];
	for (size_t i = 0; i < ny && p->onto; i++) y[i] = (float)p->onto[i];
	bool on = p->onto && c->arith->gemm_add;
	(on ? c->arith->gemm_add : c->arith->gemm)(c, y, a, p->ta, b, p->tb, p->m, p->n, p->k);
	for (size_t i = 0; i < ny; i++) p->y[i] = (double)(p->onto && !on ? (float)p->onto[i] + y[i] : y[i]);
	return true;
}

/* y [n] = Σ_k x_k M_k: a vector and the rows of a matrix, which a library would copy first; rows: of x and M */
WIDE_LOOP static void along_rows(double *y, const double *x, const double *M, size_t rows, size_t n)
{
	for (size_t j = 0; j < n; j++) y[j] = 0 + x[0] * M[j];
	for (size_t k = 1; k < rows; k++)
		for (size_t j = 0; j < n; j++) y[j] += x[k] * M[k * n + j];
}

/* Products with a vector whose sums go along a matrix's rows, and those of two vectors. */
static bool of_vectors(const struct product *p)
{
	if (p->k == 1)
		for (size_t i = 0; i < p->m; i++) along_rows(p->y + i * p->n, p->a + i, p->b, 1, p->n);
	else if (p->m == 1 && !p->tb) along_rows(p->y, p->a, p->b, p->k, p->n);
	else if (p->n == 1 && p->ta) along_rows(p->y, p->b, p->a, p->k, p->m);
	else return false;
	return true;
}

static void exactly(const struct product *p)
{
	if (!of_vectors(p))
		cblas_dgemm(CblasRowMajor, p->ta ? CblasTrans : CblasNoTrans, p->tb ? CblasTrans : CblasNoTrans, (int)p->m, (int)p->n, (int)p->k, 1,
			p->a, (int)(p->ta ? p->m : p->k), p->b, (int)(p->tb ? p->k : p->n), 0, p->y, (int)p->n);
	for (size_t i = 0; i < p->m * p->n && p->onto; i++) p->y[i] += p->onto[i];
}

void multiply(const struct product *p)
{
	calc c = { .arith = sums[p->sums].as, .element = sizeof(float) };
	float *room;

	if (!p->m || !p->n || !p->k) {
		for (size_t i = 0; i < p->m * p->n; i++) p->y[i] = p->onto ? p->onto[i] : 0;
	} else if (!p->sums) {
		exactly(p);
	} else {
		room = malloc((p->m * p->k + p->k * p->n + p->m * p->n) * sizeof *room);
		if (!room || !added(&c, p, room)) p->y[0] = (double)__builtin_nan("");
		free(room);
		calc_free(&c);
	}
}
