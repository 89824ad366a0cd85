/* The emulation of Newton-Schulz that eigenvalues are watched on. */
#include "iterate.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "spectrum.h"

const char *const ns_algorithm_name[] = { "standard", "gram_naive", "gram", NULL };

/* ---- one product with its epilogue ---- */
struct machine { enum format format; float *a, *b, *c; double *raw; };

static bool machine_make(struct machine *m, enum format f, size_t l)
{
	*m = (struct machine){ .format = f, .a = malloc(l * sizeof(float)), .b = malloc(l * sizeof(float)),
		.c = malloc(l * sizeof(float)), .raw = malloc(l * sizeof(double)) };
	return m->a && m->b && m->c && m->raw;
}

static void machine_free(struct machine *m)
{
	free(m->a);
	free(m->b);
	free(m->c);
	free(m->raw);
}

static void round_to(enum format f, double *x, size_t n)
{
	static const enum dtype stored[FMT_COUNT] = { [FMT_BF16] = DT_BF16, [FMT_F16] = DT_F16, [FMT_F32] = DT_F32, [FMT_F64] = DT_F64 };
	uint64_t bits[256];

	if (f == FMT_F64) return;
	for (size_t i = 0; i < n; i += 256) {
		size_t k = n - i < 256 ? n - i : 256;
		dtype_store(stored[f], x + i, k, bits);
		dtype_load(stored[f], bits, k, x + i);
	}
}

static void narrow(float *y, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++) y[i] = (float)x[i];
}

/* C [m,n] <- α A B (or A B') + β D + γ I, rounded; D NULL: none. */
struct epilogue { double alpha, beta; const double *D; double gamma; };

static void product(struct machine *M, double *C, const double *A, const double *B, bool transpose, size_t m, size_t n, size_t k,
	struct epilogue p)
{
	CBLAS_TRANSPOSE t = transpose ? CblasTrans : CblasNoTrans;
	int ldb = (int)(transpose ? k : n);

	if (M->format == FMT_F64) {
		cblas_dgemm(CblasRowMajor, CblasNoTrans, t, (int)m, (int)n, (int)k, 1, A, (int)k, B, ldb, 0, M->raw, (int)n);
		for (size_t i = 0; i < m * n; i++)
			M->raw[i] = p.alpha * M->raw[i] + (p.D ? p.beta * p.D[i] : 0) + (i / n == i % n ? p.gamma : 0);
	} else {
		float alpha = (float)p.alpha, beta = (float)p.beta, gamma = (float)p.gamma;
		narrow(M->a, A, m * k);
		narrow(M->b, B, n * k);
		cblas_sgemm(CblasRowMajor, CblasNoTrans, t, (int)m, (int)n, (int)k, 1, M->a, (int)k, M->b, ldb, 0, M->c, (int)n);
		for (size_t i = 0; i < m * n; i++) {
			float c = alpha * M->c[i];
			if (p.D) c += beta * (float)p.D[i];
			if (p.gamma != 0 && i / n == i % n) c += gamma;
			M->raw[i] = (double)c;
		}
		round_to(M->format, M->raw, m * n);
	}
	memcpy(C, M->raw, m * n * sizeof *C);
}

/* ---- the start ---- */
static bool largest_singular(double *sigma, const double *x, size_t s, size_t l, struct error *e)
{
	struct singular v;

	if (!singular_of(&v, x, s, l, "x", e)) return false;
	*sigma = dd_double(v.value[0]);
	singular_free(&v);
	return *sigma > 0 || error_set(e, E_VALUE, "x", NO_OFFSET, "expected a matrix that is not zero");
}

bool iterate_begin(double *X0, const struct iteration *how, const double *x, size_t s, size_t l, struct error *e)
{
	double sum = 0, sigma = 0;

	if (how->largest > 0 && !largest_singular(&sigma, x, s, l, e)) return false;
	for (size_t i = 0; i < s * l; i++) sum += x[i] * x[i];
	bool wide = how->iterate == FMT_F64;
	double exact = how->eps_is_least ? fmax(sqrt(sum), how->eps) : sqrt(sum) + how->eps;
	float norm = how->eps_is_least ? (float)exact : (float)sqrt(sum) + (float)how->eps;
	for (size_t i = 0; i < s * l; i++)
		X0[i] = sigma > 0 ? x[i] * (how->largest / sigma) : wide ? x[i] / exact : (double)((float)x[i] / norm);
	round_to(how->iterate, X0, s * l);
	return true;
}

/* ---- the iterations ---- */
struct state { struct machine m; size_t s, l; double *X, *R, *Q, *Z, *T; };

static void gram_matrix(struct state *w)
{
	product(&w->m, w->R, w->X, w->X, true, w->s, w->s, w->l, (struct epilogue){ .alpha = 1 });
}

static void identity(double *Q, size_t s)
{
	memset(Q, 0, s * s * sizeof *Q);
	for (size_t i = 0; i < s; i++) Q[i * s + i] = 1;
}

static void standard(struct state *w, const struct polynomial *p)
{
	size_t s = w->s;

	gram_matrix(w);
	product(&w->m, w->Z, w->R, w->R, false, s, s, s, (struct epilogue){ p->c, p->b, w->R, 0 });
	product(&w->m, w->X, w->Z, w->X, false, s, w->l, s, (struct epilogue){ 1, p->a, w->X, 0 });
}

static void gram(struct state *w, const struct polynomial *p, bool naive)
{
	size_t s = w->s;
	double a = naive ? 0 : p->a;

	product(&w->m, w->Z, w->R, w->R, false, s, s, s, (struct epilogue){ p->c, p->b, w->R, naive ? p->a : 0 });
	product(&w->m, w->Q, w->Q, w->Z, false, s, s, s, (struct epilogue){ 1, a, w->Q, 0 });
	product(&w->m, w->T, w->R, w->Z, false, s, s, s, (struct epilogue){ 1, a, w->R, 0 });
	product(&w->m, w->R, w->Z, w->T, false, s, s, s, (struct epilogue){ 1, a, w->T, 0 });
}

static void record(struct trace *t, const struct state *w, size_t at)
{
	memcpy(t->X + at * t->s * t->l, w->X, t->s * t->l * sizeof(double));
	if (!t->R) return;
	memcpy(t->R + at * t->s * t->s, w->R, t->s * t->s * sizeof(double));
	memcpy(t->Q + at * t->s * t->s, w->Q, t->s * t->s * sizeof(double));
}

static void run(struct trace *t, struct state *w)
{
	const struct iteration *how = &t->how;
	bool grams = how->algorithm != NS_STANDARD;

	if (grams) {
		gram_matrix(w);
		if (how->rounds_r0) round_to(how->r0, w->R, w->s * w->s);
		identity(w->Q, w->s);
	}
	record(t, w, 0);
	for (size_t i = 0; i < how->polynomials.n; i++) {
		if (grams && how->restarts >> i & 1) {
			product(&w->m, w->X, w->Q, w->X, false, w->s, w->l, w->s, (struct epilogue){ .alpha = 1 });
			gram_matrix(w);
			identity(w->Q, w->s);
		}
		if (grams) gram(w, &how->polynomials.at[i], how->algorithm == NS_GRAM_NAIVE);
		else standard(w, &how->polynomials.at[i]);
		record(t, w, i + 1);
	}
	if (grams) product(&w->m, t->y, w->Q, w->X, false, w->s, w->l, w->s, (struct epilogue){ .alpha = 1 });
	else memcpy(t->y, w->X, w->s * w->l * sizeof(double));
}

bool trace_emulate(struct trace *t, const struct iteration *how, const double *x, size_t s, size_t l, struct error *e)
{
	size_t entries = how->polynomials.n + 1, square = s * s * sizeof(double);
	bool grams = how->algorithm != NS_STANDARD;
	double *room = calloc(s * l + 4 * s * s, sizeof *room);
	struct state w = { .s = s, .l = l };

	*t = (struct trace){ .how = *how, .s = s, .l = l, .X = malloc(entries * s * l * sizeof(double)),
		.y = malloc(s * l * sizeof(double)) };
	openblas_set_num_threads(1);            /* else the order of sums depends on their number */
	if (grams) {
		t->R = malloc(entries * square);
		t->Q = malloc(entries * square);
	}
	bool ok = (machine_make(&w.m, how->iterate, s * l) && room && t->X && t->y && (!grams || (t->R && t->Q)))
		|| error_set(e, E_MEMORY, "x", NO_OFFSET, "an emulation of [%zu,%zu]", s, l);
	if (ok) {
		w.X = room;
		w.R = w.X + s * l;
		w.Q = w.R + s * s;
		w.Z = w.Q + s * s;
		w.T = w.Z + s * s;
	}
	ok = ok && iterate_begin(w.X, how, x, s, l, e);
	if (ok) run(t, &w);
	machine_free(&w.m);
	free(room);
	if (!ok) trace_free(t);
	return ok;
}

void trace_answer(double *X, const struct trace *t, size_t at)
{
	const double *from = t->X + at * t->s * t->l;

	if (!t->Q) memcpy(X, from, t->s * t->l * sizeof *X);
	else cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)t->s, (int)t->l, (int)t->s, 1, t->Q + at * t->s * t->s,
		(int)t->s, from, (int)t->l, 0, X, (int)t->l);
}

void trace_free(struct trace *t)
{
	free(t->X);
	free(t->R);
	free(t->Q);
	free(t->y);
	*t = (struct trace){ 0 };
}
