/* Symmetric eigenvalues and vectors in double-double against MPFR: time, and how far apart the
 * values are. */
#include <cblas.h>
#include <omp.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "ref/dd/dd_form.h"
#include "ref/eigen/spectrum.h"

enum { N = BENCH_STATE };

static void solve(void *A)
{
	struct spectrum s;
	struct error e;

	if (!spectrum_of(&s, A, "bench", &e)) bench_stop("spectrum_of");
	spectrum_free(&s);
}

/* Both in log2, relative to the largest value. */
static void distance(const struct ddm *A, struct peer *peer)
{
	double hi[N], lo[N], largest = 0;
	struct spectrum s;
	struct error e;

	if (!spectrum_of(&s, A, "bench", &e)) bench_stop("spectrum_of");
	for (int i = 0; i < N; i++) {
		hi[i] = s.value[i].hi, lo[i] = s.value[i].lo;
		largest = fmax(largest, fabs(hi[i]));
	}
	row_print((struct row){ .table = "eigenvalues",
		.ours = log2(peer_eigen_apart(peer, hi, lo) / largest),
		.goal = log2(s.bound / largest), .unit = "log2" });
	spectrum_free(&s);
}

int main(void)
{
	static double x[N * N];
	struct ddm A;

	omp_set_num_threads(1), openblas_set_num_threads(1);
	if (!ddm_make(&A, N, N)) bench_stop("no memory");
	for (size_t i = 0; i < N; i++)
		for (size_t j = 0; j < N; j++) {
			x[i * N + j] = bench_drawn((i > j ? i : j) * N + (i > j ? j : i));
			ddm_put(&A, i, j, dd_of(x[i * N + j]));
		}
	struct peer peer = peer_eigen(x, N);
	for (const struct dd_form *const *f = dd_forms; *f != &dd_plain; f++) {
		if (!(*f)->runs()) continue;
		dd_use(*f);
		double own = bench_time(solve, &A), theirs = peer_time(peer);
		row_print((struct row){ .table = "peers",
			.row = "symmetric eigenvalues and vectors, n = 128",
			.way = (*f)->name, .ours = own, .unit = "s",
			.rival = "MPFR, 128 bits: Householder and QL", .theirs = theirs,
			.ratio = theirs / own,
			.goal = *f == &dd_avx512 ? 40 : 27 });
	}
	distance(&A, &peer);
	ddm_free(&A);
	return 0;
}
