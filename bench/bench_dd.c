/* Double-double against its peers: a step of the delta rule, a product of matrices, symmetric eigenvalues. */
#include <cblas.h>
#include <math.h>
#include <mpfr.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "ref/arith/dd_form.h"

enum { N = BENCH_STATE, M = BENCH_M, L = BENCH_N, K = BENCH_K };
static double S[2][N * N], vectors[6][2][N], A[2][M * K], B[2][K * L], C[2][M * L];

static dds of(double *hi, double *lo) { return (dds){ hi, lo }; }
static dds vector(int i) { return of(vectors[i][0], vectors[i][1]); }

static void fill(double *hi, double *lo, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		dd x = dd_div(dd_of((double)((i * 0x9e3779b97f4a7c15u >> 40) & 0xffff) / 65536 - 0.5), dd_of(7));
		hi[i] = x.hi, lo[i] = x.lo;
	}
}

/* As arith_dd does each operation of ref/ops/gated_delta_rule.c, on one head's state. */
static void step_of(dds s)
{
	const struct dd_form *f = dd_form();
	dds k = vector(0), q = vector(1), v = vector(2), u = vector(3), o = vector(4), scalars = vector(5);

	f->binary(OP_MUL, s, s, scalars, 0, N * N);
	f->gemv_t(u, s, k, N, N);
	f->binary(OP_SUB, u, v, u, 1, N);
	f->binary(OP_MUL, u, u, of(scalars.hi + 1, scalars.lo + 1), 0, N);
	for (size_t i = 0; i < N; i++) f->axpy(of(s.hi + i * N, s.lo + i * N), (dd){ k.hi[i], k.lo[i] }, u, N);
	f->gemv_t(o, s, q, N, N);
}

static void step(void *unused)
{
	(void)unused;
	step_of(of(S[0], S[1]));
}

static void product(void *unused)
{
	(void)unused;
	dd_form()->gemm(of(C[0], C[1]), L, (struct dd_operand){ of(A[0], A[1]), K, 1 }, (struct dd_operand){ of(B[0], B[1]), L, 1 },
		M, L, K, false);
}

/* Each row's own time is taken beside its peer's, so that both meet the same load. */
static const struct row {
	const char *what;
	void (*run)(void *);
	const char *peer;
	double goal;                    /* on AVX-512, and two thirds of it on AVX2; 0: none */
	double (*time)(void);
	bool once;                      /* against the first form only */
} rows[] = {
	{ "delta-rule step 128 × 128", step, "MPFR at 128 bits", 100, peer_mpfr_step, false },
	{ "delta-rule step 128 × 128", step, "Arb at 106 bits, arb_addmul", 40, peer_arb_step, false },
	{ "delta-rule step 128 × 128", step, "Arb at 106 bits, arb_dot", 40, peer_arb_dot_step, false },
	{ "delta-rule step 128 × 128", step, "libquadmath's __float128", 0, peer_quad_step, true },
	{ "delta-rule step 128 × 128", step, "QD's dd_real", 0, peer_qd_step, true },
	{ "delta-rule step 128 × 128", step, "mpmath at 106 bits", 0, peer_mpmath_step, true },
	{ "delta-rule step 128 × 128", step, "float64, OpenBLAS", 0, peer_f64_step, true },
	{ "product 256 × 256 × 1024", product, "Arb at 106 bits, arb_mat_mul", 12, peer_arb_product, false },
	{ "product 256 × 256 × 1024", product, "MPFR at 128 bits", 0, peer_mpfr_product, true },
	{ "product 256 × 256 × 1024", product, "libquadmath's __float128", 0, peer_quad_product, true },
	{ "product 256 × 256 × 1024", product, "QD's dd_real", 0, peer_qd_product, true },
	{ "product 256 × 256 × 1024", product, "float64, OpenBLAS", 0, peer_f64_product, true },
};

static const char *goal_of(const struct dd_form *f, double goal, char *text, size_t size)
{
	snprintf(text, size, "%.0f", f == &dd_avx512 ? goal : 2 * goal / 3);
	return goal == 0 || f == &dd_plain ? "" : text;
}

/* ---- how exact the product is ---- */

/* The largest distance of every 61st element from MPFR's at 256 bits, which holds a sum of so many products exactly, as a
 * share of Σ|a b|. */
static double distance(void)
{
	mpfr_t sum, size, a, b;
	double worst = 0;

	mpfr_inits2(256, sum, size, a, b, (mpfr_ptr)NULL);
	for (size_t at = 0; at < M * L; at += 61) {
		mpfr_set_zero(sum, 1), mpfr_set_zero(size, 1);
		for (size_t k = 0; k < K; k++) {
			size_t i = at / L * K + k, j = k * L + at % L;
			mpfr_set_d(a, A[0][i], MPFR_RNDN), mpfr_add_d(a, a, A[1][i], MPFR_RNDN);
			mpfr_set_d(b, B[0][j], MPFR_RNDN), mpfr_add_d(b, b, B[1][j], MPFR_RNDN);
			mpfr_mul(a, a, b, MPFR_RNDN), mpfr_add(sum, sum, a, MPFR_RNDN);
			mpfr_abs(a, a, MPFR_RNDN), mpfr_add(size, size, a, MPFR_RNDN);
		}
		mpfr_sub_d(sum, sum, C[0][at], MPFR_RNDN), mpfr_sub_d(sum, sum, C[1][at], MPFR_RNDN), mpfr_div(sum, sum, size, MPFR_RNDN);
		worst = fmax(worst, fabs(mpfr_get_d(sum, MPFR_RNDN)));
	}
	mpfr_clears(sum, size, a, b, (mpfr_ptr)NULL);
	return worst;
}

static void spread(double *hi, double *lo, size_t n, int octaves)
{
	fill(hi, lo, n);
	for (size_t i = 0; i < n; i++) {
		double by = ldexp(1, (int)((i * 0xbf58476d1ce4e5b9u >> 33) % (size_t)(2 * octaves + 1)) - octaves);
		hi[i] *= by, lo[i] *= by;
	}
}

static void accuracy(void)
{
	static const int octaves[] = { 0, 20, 60 };

	printf("\n| product 256 × 256 × 1024, dd | largest error, as a share of Σ\\|a b\\| | goal |\n|---|--:|--:|\n");
	for (size_t i = 0; i < sizeof octaves / sizeof *octaves; i++) {
		spread(A[0], A[1], M * K, octaves[i]), spread(B[0], B[1], K * L, octaves[i]);
		product(NULL);
		printf("| entries spread over 2^±%d | 2^%.1f | 2^-%d |\n", octaves[i], log2(distance()), octaves[i] ? 100 : 104);
	}
	puts("\nAgainst MPFR at 256 bits, every 61st element.");
}

/* ---- the state in the cache ---- */
enum { HEADS = 128 };
static void token(void *states)
{
	for (size_t h = 0; h < HEADS; h++) step_of(of((double *)states + 2 * h * N * N, (double *)states + (2 * h + 1) * N * N));
}

/* The reference takes one head after the other through all tokens. What a step costs so, and where each token goes through
 * all heads, whose states no cache holds. */
static void locality(void)
{
	double *states = calloc(HEADS * 2 * N * N, sizeof *states);

	if (!states) exit(4);
	for (size_t h = 0; h < HEADS; h++) memcpy(states + 2 * h * N * N, S, sizeof S);
	double fused = bench_time(step, NULL), other = bench_time(token, states) / HEADS;
	printf("\n| a delta-rule step 128 × 128, dd, its state of %zu KiB | |\n|---|--:|\n| one head after the other: in the second cache | %s |\n"
		"| each token through %d heads: %zu MiB in all | %s |\n", sizeof S >> 10, bench_seconds(fused), HEADS,
		HEADS * sizeof S >> 20, bench_seconds(other));
	free(states);
}

void bench_dd(void)
{
	int threads = omp_get_max_threads();
	bool first = true;

	omp_set_num_threads(1);
	openblas_set_num_threads(1);
	fill(S[0], S[1], N * N);
	for (int i = 0; i < 6; i++) fill(vectors[i][0], vectors[i][1], N);
	fill(A[0], A[1], M * K), fill(B[0], B[1], K * L);
	for (const struct dd_form *const *f = dd_forms; *f; f++) {
		if (!(*f)->runs()) continue;
		dd_use(*f);
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
			char what[96], goal[16];
			if (rows[i].once && !first) continue;
			double before = bench_time(rows[i].run, NULL), peer = rows[i].time(), after = bench_time(rows[i].run, NULL);
			snprintf(what, sizeof what, "%s, dd, %s", rows[i].what, (*f)->name);
			bench_ratio(what, (before + after) / 2, rows[i].peer, peer, goal_of(*f, rows[i].goal, goal, sizeof goal));
		}
		first = false;
	}
	for (const struct dd_form *const *f = dd_forms; *f != &dd_plain; f++) {
		char goal[16];
		if (!(*f)->runs()) continue;
		dd_use(*f);
		bench_eigen(N, (*f)->name, goal_of(*f, 40, goal, sizeof goal), f[1] == &dd_plain);
	}
	dd_use(NULL);
	accuracy();
	locality();
	omp_set_num_threads(threads);
}
