/* Double-double against its peers: a step of the delta rule, alone and in the op, and a product of
 * matrices; how exact the product is; what a state in the cache saves. On one core. */
#include <cblas.h>
#include <mpfr.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "bench/call.h"
#include "ref/dd/dd_form.h"

enum { N = BENCH_STATE, M = BENCH_M, L = BENCH_N, K = BENCH_K, HEADS = 128 };
static double S[2][N * N], vectors[6][2][N], A[2][M * K], B[2][K * L], C[2][M * L];

static dds of(double *hi, double *lo) { return (dds){ hi, lo }; }
static dds vector(int i) { return of(vectors[i][0], vectors[i][1]); }

static void fill(double *hi, double *lo, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		dd x = dd_div(dd_of(bench_drawn(i)), dd_of(7));
		hi[i] = x.hi, lo[i] = x.lo;
	}
}

/* As arith_dd does each operation of the gated delta rule, on one head's state. */
static void step_of(dds s)
{
	const struct dd_form *f = dd_form();
	dds k = vector(0), q = vector(1), v = vector(2), u = vector(3), o = vector(4),
		scalars = vector(5);

	f->binary(OP_MUL, s, s, scalars, 0, N * N);
	f->gemv_t(u, s, k, N, N);
	f->binary(OP_SUB, u, v, u, 1, N);
	f->binary(OP_MUL, u, u, of(scalars.hi + 1, scalars.lo + 1), 0, N);
	for (size_t i = 0; i < N; i++)
		f->axpy(of(s.hi + i * N, s.lo + i * N), (dd){ k.hi[i], k.lo[i] }, u, N);
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
	dd_form()->gemm(of(C[0], C[1]), L, (struct dd_operand){ of(A[0], A[1]), K, 1 },
		(struct dd_operand){ of(B[0], B[1]), L, 1 }, M, L, K, false);
}

/* ---- against the peers ---- */
static const char step_name[] = "delta-rule step 128 × 128";
static const char product_name[] = "product 256 × 256 × 1024";
static const struct versus {
	const char *what;
	void (*run)(void *);
	const char *rival;
	struct peer (*peer)(void);      /* NULL: mpmath, in Python */
	double goal;                    /* on AVX-512, and two thirds of it on AVX2; 0: none */
	bool once;                      /* against the first form only */
} versus[] = {
	{ step_name, step, "MPFR at 128 bits", peer_mpfr_step, 100, false },
	{ step_name, step, "Arb at 106 bits, arb_addmul", peer_arb_step, 40, false },
	{ step_name, step, "Arb at 106 bits, arb_dot", peer_arb_dot_step, 40, false },
	{ step_name, step, "libquadmath's __float128", peer_quad_step, 0, true },
	{ step_name, step, "QD's dd_real", peer_qd_step, 0, true },
	{ step_name, step, "mpmath at 106 bits", NULL, 0, true },
	{ step_name, step, "float64, OpenBLAS", peer_f64_step, 0, true },
	{ product_name, product, "Arb at 106 bits, arb_mat_mul", peer_arb_product, 12, false },
	{ product_name, product, "MPFR at 128 bits", peer_mpfr_product, 0, true },
	{ product_name, product, "libquadmath's __float128", peer_quad_product, 0, true },
	{ product_name, product, "QD's dd_real", peer_qd_product, 0, true },
	{ product_name, product, "float64, OpenBLAS", peer_f64_product, 0, true },
};

static double goal_on(const struct dd_form *f, double goal)
{
	return f == &dd_avx512 ? goal : f == &dd_plain ? 0 : round(2 * goal / 3);
}

/* The own time is taken before and after the rival's, so that both meet the same load. */
static void measure(const struct versus *v, const struct dd_form *f)
{
	double before = bench_time(v->run, NULL);
	double theirs = v->peer ? peer_time(v->peer()) : peer_python("step");
	double own = (before + bench_time(v->run, NULL)) / 2;

	row_print((struct row){ .table = "peers", .row = v->what, .way = f->name, .ours = own,
		.unit = "s",
		.rival = v->rival, .theirs = theirs, .ratio = isnan(theirs) ? 0 : theirs / own,
		.goal = goal_on(f, v->goal) });
}

static void peers(void)
{
	bool first = true;

	for (const struct dd_form *const *f = dd_forms; *f; f++) {
		if (!(*f)->runs()) continue;
		dd_use(*f);
		for (size_t i = 0; i < sizeof versus / sizeof *versus; i++)
			if (first || !versus[i].once) measure(&versus[i], *f);
		first = false;
	}
	dd_use(NULL);
}

/* ---- the op, as etalon runs it ---- */
enum { OP_TOKENS = 64, OP_HEADS = 4, OP_STEPS = OP_TOKENS * OP_HEADS };

static struct peer operations_alone(void) { return (struct peer){ step, NULL, 1 }; }

/* A step of a head in the whole op, its norms, gates and inputs with it. Turns, so that the ratio
 * holds still. */
static void op(void)
{
	static const struct { const char *name; struct peer (*make)(void); } rivals[] = {
		{ "MPFR at 128 bits", peer_mpfr_step }, { "float64, OpenBLAS", peer_f64_step },
		{ "the step's dd operations alone", operations_alone }
	};
	struct case_dim dims[] = DELTA(OP_TOKENS, OP_HEADS, OP_HEADS, N);
	struct bench_call k;

	bench_bind(&k, "gated_delta_rule", "prefill", dims, "dd");
	for (size_t i = 0; i < sizeof rivals / sizeof *rivals; i++) {
		struct peer peer = rivals[i].make();
		struct bench_pair t = bench_turns(bench_run, &k, peer.run, peer.data);
		row_print((struct row){ .table = "peers",
			.row = "gated_delta_rule, a step of 64 × 4 heads of 128",
			.way = dd_form()->name, .ours = t.own / OP_STEPS, .unit = "s",
			.rival = rivals[i].name, .theirs = t.other, .ratio = t.ratio * OP_STEPS });
	}
	capture_free(&k.capture);
}

/* ---- how exact the product is ---- */

/* The largest distance of every 61st element from MPFR's at 256 bits, which holds a sum of so many
 * products exactly, as a share of Σ|a b|. */
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
		mpfr_sub_d(sum, sum, C[0][at], MPFR_RNDN),
			mpfr_sub_d(sum, sum, C[1][at], MPFR_RNDN);
		mpfr_div(sum, sum, size, MPFR_RNDN);
		worst = fmax(worst, fabs(mpfr_get_d(sum, MPFR_RNDN)));
	}
	mpfr_clears(sum, size, a, b, (mpfr_ptr)NULL);
	return worst;
}

static void spread(double *hi, double *lo, size_t n, int octaves)
{
	fill(hi, lo, n);
	for (size_t i = 0; i < n; i++) {
		size_t among = (size_t)(2 * octaves + 1);
		double by = ldexp(1, (int)((i * 0xbf58476d1ce4e5b9u >> 33) % among) - octaves);
		hi[i] *= by, lo[i] *= by;
	}
}

static void accuracy(void)
{
	static const struct { const char *name; int octaves; double goal; } spreads[] = {
		{ "0", 0, -104 }, { "20", 20, -100 }, { "60", 60, -100 }
	};

	for (size_t i = 0; i < sizeof spreads / sizeof *spreads; i++) {
		spread(A[0], A[1], M * K, spreads[i].octaves),
			spread(B[0], B[1], K * L, spreads[i].octaves);
		product(NULL);
		row_print((struct row){ .table = "accuracy", .row = spreads[i].name,
			.ours = log2(distance()),
			.unit = "log2", .goal = spreads[i].goal });
	}
}

/* ---- the state in the cache ---- */
static void token(void *states)
{
	for (size_t h = 0; h < HEADS; h++)
		step_of(of((double *)states + 2 * h * N * N,
			(double *)states + (2 * h + 1) * N * N));
}

/* The reference takes one head after the other through all tokens: what a step costs so, and where
 * each token goes through all heads, whose states no cache holds. */
static void locality(void)
{
	double *states = calloc(HEADS * 2 * N * N, sizeof *states);

	if (!states) bench_stop("no memory");
	for (size_t h = 0; h < HEADS; h++) memcpy(states + 2 * h * N * N, S, sizeof S);
	row_print((struct row){ .table = "locality",
		.row = "one head after the other: in the second cache", .unit = "s",
		.ours = bench_time(step, NULL), .moved = sizeof S });
	row_print((struct row){ .table = "locality",
		.row = "each token through 128 heads: 32 MiB in all", .unit = "s",
		.ours = bench_time(token, states) / HEADS, .moved = HEADS * sizeof S });
	free(states);
}

int main(void)
{
	omp_set_num_threads(1), openblas_set_num_threads(1);
	fill(S[0], S[1], N * N);
	for (int i = 0; i < 6; i++) fill(vectors[i][0], vectors[i][1], N);
	fill(A[0], A[1], M * K), fill(B[0], B[1], K * L);
	peers();
	op();
	accuracy();
	locality();
	return 0;
}
