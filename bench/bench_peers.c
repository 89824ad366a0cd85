/* What people use instead, as they use it. */
#include <cblas.h>
#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

enum { N = BENCH_STATE, M = BENCH_M, L = BENCH_N, K = BENCH_K, BITS = 128 };

static double drawn(size_t i) { return (double)((i * 0x9e3779b97f4a7c15u >> 40) & 0xffff) / 65536 - 0.5; }

/* ---- MPFR ---- */
static mpfr_t *numbers(size_t n)
{
	mpfr_t *x = malloc(n * sizeof *x);

	if (!x) exit(4);
	for (size_t i = 0; i < n; i++) {
		mpfr_init2(x[i], BITS);
		mpfr_set_d(x[i], drawn(i), MPFR_RNDN);
		mpfr_div_ui(x[i], x[i], 7, MPFR_RNDN);
	}
	return x;
}

static void forget(mpfr_t *x, size_t n)
{
	for (size_t i = 0; i < n; i++) mpfr_clear(x[i]);
	free(x);
}

/* y += a b */
static void add_product(mpfr_t y, const mpfr_t a, const mpfr_t b, mpfr_t t)
{
	mpfr_mul(t, a, b, MPFR_RNDN);
	mpfr_add(y, y, t, MPFR_RNDN);
}

struct mpfr_data { mpfr_t *S, *k, *q, *v, *u, *o, *rest; };
static void mpfr_read(mpfr_t *y, mpfr_t *S, mpfr_t *x, mpfr_t t)
{
	for (int j = 0; j < N; j++) mpfr_set_zero(y[j], 1);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) add_product(y[j], S[i * N + j], x[i], t);
}

static void mpfr_step(void *data)
{
	struct mpfr_data *d = data;

	for (int i = 0; i < N * N; i++) mpfr_mul(d->S[i], d->S[i], d->rest[0], MPFR_RNDN);
	mpfr_read(d->u, d->S, d->k, d->rest[1]);
	for (int j = 0; j < N; j++) {
		mpfr_sub(d->u[j], d->v[j], d->u[j], MPFR_RNDN);
		mpfr_mul(d->u[j], d->u[j], d->rest[2], MPFR_RNDN);
	}
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) add_product(d->S[i * N + j], d->k[i], d->u[j], d->rest[1]);
	mpfr_read(d->o, d->S, d->q, d->rest[1]);
}

double peer_mpfr_step(void)
{
	struct mpfr_data d = { numbers(N * N), numbers(N), numbers(N), numbers(N), numbers(N), numbers(N), numbers(3) };
	double s = bench_time(mpfr_step, &d);

	forget(d.S, N * N), forget(d.k, N), forget(d.q, N), forget(d.v, N), forget(d.u, N), forget(d.o, N), forget(d.rest, 3);
	return s;
}

/* An eighth of the terms. */
static void mpfr_product(void *data)
{
	struct mpfr_data *d = data;

	for (int i = 0; i < M; i++)
		for (int j = 0; j < L; j++) {
			mpfr_set_zero(d->o[0], 1);
			for (int l = 0; l < K / 8; l++) add_product(d->o[0], d->S[i * K / 8 + l], d->k[l * L + j], d->rest[0]);
		}
}

double peer_mpfr_product(void)
{
	struct mpfr_data d = { .S = numbers(M * K / 8), .k = numbers(L * K / 8), .o = numbers(1), .rest = numbers(1) };
	double s = 8 * bench_time(mpfr_product, &d);

	forget(d.S, M * K / 8), forget(d.k, L * K / 8), forget(d.o, 1), forget(d.rest, 1);
	return s;
}

/* ---- Arb ---- */
#if __has_include(<arb_mat.h>)
#include <arb_mat.h>
enum { ARB = 106 };
struct arb_data { arb_ptr S, k, q, v, u, o; arb_t g, beta; };

static void arb_read_by_dot(arb_ptr y, arb_ptr S, arb_ptr x)
{
	for (int j = 0; j < N; j++) arb_dot(y + j, NULL, 0, S + j, N, x, 1, N, ARB);
}

static void arb_read_by_addmul(arb_ptr y, arb_ptr S, arb_ptr x)
{
	for (int j = 0; j < N; j++) arb_zero(y + j);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) arb_addmul(y + j, S + i * N + j, x + i, ARB);
}

static void arb_step_with(struct arb_data *d, void (*read)(arb_ptr, arb_ptr, arb_ptr))
{
	_arb_vec_scalar_mul(d->S, d->S, N * N, d->g, ARB);
	read(d->u, d->S, d->k);
	_arb_vec_sub(d->u, d->v, d->u, N, ARB);
	_arb_vec_scalar_mul(d->u, d->u, N, d->beta, ARB);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) arb_addmul(d->S + i * N + j, d->k + i, d->u + j, ARB);
	read(d->o, d->S, d->q);
	for (int i = 0; i < N * N; i++) mag_zero(arb_radref(d->S + i));  /* radii would grow from turn to turn */
}

static void arb_addmul_step(void *data) { arb_step_with(data, arb_read_by_addmul); }
static void arb_dot_step(void *data) { arb_step_with(data, arb_read_by_dot); }

static arb_ptr balls(size_t n)
{
	arb_ptr x = _arb_vec_init((slong)n);

	for (size_t i = 0; i < n; i++) {
		arb_set_d(x + i, drawn(i));
		arb_div_ui(x + i, x + i, 7, ARB);
		mag_zero(arb_radref(x + i));
	}
	return x;
}

static double arb_step(void (*run)(void *))
{
	struct arb_data d = { balls(N * N), balls(N), balls(N), balls(N), balls(N), balls(N), {}, {} };

	arb_init(d.g), arb_init(d.beta);
	arb_set_d(d.g, 0.97), arb_set_d(d.beta, 0.3);
	double s = bench_time(run, &d);
	_arb_vec_clear(d.S, N * N);
	_arb_vec_clear(d.k, N), _arb_vec_clear(d.q, N), _arb_vec_clear(d.v, N), _arb_vec_clear(d.u, N), _arb_vec_clear(d.o, N);
	arb_clear(d.g), arb_clear(d.beta);
	return s;
}

double peer_arb_step(void) { return arb_step(arb_addmul_step); }
double peer_arb_dot_step(void) { return arb_step(arb_dot_step); }

static void arb_product(void *data)
{
	arb_mat_struct *m = data;

	arb_mat_mul(m + 2, m, m + 1, ARB);
}

double peer_arb_product(void)
{
	arb_mat_struct m[3];

	arb_mat_init(m, M, K), arb_mat_init(m + 1, K, L), arb_mat_init(m + 2, M, L);
	for (int k = 0; k < 2; k++)
		for (slong i = 0; i < arb_mat_nrows(m + k); i++)
			for (slong j = 0; j < arb_mat_ncols(m + k); j++) {
				arb_ptr x = arb_mat_entry(m + k, i, j);
				arb_set_d(x, drawn((size_t)(i * 7919 + j + k)));
				arb_div_ui(x, x, 7, ARB);
				mag_zero(arb_radref(x));
			}
	double s = bench_time(arb_product, m);
	for (int k = 0; k < 3; k++) arb_mat_clear(m + k);
	return s;
}
#else
double peer_arb_step(void) { return NAN; }
double peer_arb_dot_step(void) { return NAN; }
double peer_arb_product(void) { return NAN; }
#endif

/* ---- C's own types: __float128, and float64 through OpenBLAS ---- */
#define STEP(T, name) \
	struct name##_data { T S[N * N], k[N], q[N], v[N], u[N], o[N]; }; \
	static void name##_read(T *y, const T *S, const T *x) \
	{ \
		for (int j = 0; j < N; j++) y[j] = 0; \
		for (int i = 0; i < N; i++) \
			for (int j = 0; j < N; j++) y[j] += S[i * N + j] * x[i]; \
	} \
	static void name##_step(void *data) \
	{ \
		struct name##_data *d = data; \
		for (int i = 0; i < N * N; i++) d->S[i] *= (T)0.97; \
		name##_read(d->u, d->S, d->k); \
		for (int j = 0; j < N; j++) d->u[j] = (T)0.3 * (d->v[j] - d->u[j]); \
		for (int i = 0; i < N; i++) \
			for (int j = 0; j < N; j++) d->S[i * N + j] += d->k[i] * d->u[j]; \
		name##_read(d->o, d->S, d->q); \
	}
STEP(__float128, quad)

double peer_quad_step(void)
{
	static struct quad_data d;

	for (size_t i = 0; i < N * N; i++) d.S[i] = (__float128)drawn(i) / 7;
	for (size_t i = 0; i < N; i++) d.k[i] = d.q[i] = d.v[i] = (__float128)drawn(i) / 70;
	return bench_time(quad_step, &d);
}

static __float128 qa[M * K / 8], qb[L * K / 8], qc[M * L];
static void quad_product(void *unused)
{
	(void)unused;
	for (int i = 0; i < M; i++) {
		for (int j = 0; j < L; j++) qc[i * L + j] = 0;
		for (int l = 0; l < K / 8; l++)
			for (int j = 0; j < L; j++) qc[i * L + j] += qa[i * K / 8 + l] * qb[l * L + j];
	}
}

double peer_quad_product(void)
{
	for (size_t i = 0; i < M * K / 8; i++) qa[i] = qb[i] = (__float128)drawn(i) / 7;
	return 8 * bench_time(quad_product, NULL);
}

struct f64_data { double S[N * N], k[N], q[N], v[N], u[N], o[N]; };
static void f64_step(void *data)
{
	struct f64_data *d = data;

	cblas_dscal(N * N, 0.97, d->S, 1);
	for (int j = 0; j < N; j++) d->u[j] = d->v[j];
	cblas_dgemv(CblasRowMajor, CblasTrans, N, N, -0.3, d->S, N, d->k, 1, 0.3, d->u, 1);
	cblas_dger(CblasRowMajor, N, N, 1, d->k, 1, d->u, 1, d->S, N);
	cblas_dgemv(CblasRowMajor, CblasTrans, N, N, 1, d->S, N, d->q, 1, 0, d->o, 1);
}

double peer_f64_step(void)
{
	static struct f64_data d;

	for (size_t i = 0; i < N * N; i++) d.S[i] = drawn(i) / 7;
	for (size_t i = 0; i < N; i++) d.k[i] = d.q[i] = d.v[i] = drawn(i) / 70;
	return bench_time(f64_step, &d);
}

static double fa[M * K], fb[K * L], fc[M * L];
static void f64_product(void *unused)
{
	(void)unused;
	cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, M, L, K, 1, fa, K, fb, L, 0, fc, L);
}

double peer_f64_product(void)
{
	for (size_t i = 0; i < M * K; i++) fa[i] = fb[i] = drawn(i) / 7;
	return bench_time(f64_product, NULL);
}

/* ---- Python ---- */
static double python(const char *what)
{
	char command[256];
	double s = NAN;

	snprintf(command, sizeof command, "for p in python3 /usr/bin/python3; do $p bench/bench_peers.py %s 2>/dev/null && break; done",
		what);
	FILE *f = popen(command, "r");
	if (f && fscanf(f, "%lf", &s) != 1) s = NAN;
	if (f) pclose(f);
	return s;
}

double peer_mpmath_step(void) { return python("step"); }
double peer_numpy(void) { return python("compare"); }
