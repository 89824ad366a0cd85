// QD's double-double (Hida, Li and Bailey), as C++ writes it.
extern "C" {
#include "bench.h"
}
#include <cmath>
#if __has_include(<qd/dd_real.h>)
#include <qd/dd_real.h>
#include <vector>

enum { N = BENCH_STATE, M = BENCH_M, L = BENCH_N, K = BENCH_K };
typedef std::vector<dd_real> row;
struct step { row S, k, q, v, u, o; };

static void read(row &y, const row &S, const row &x)
{
	for (int j = 0; j < N; j++) y[j] = 0.0;
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) y[j] += S[i * N + j] * x[i];
}

static void one_step(void *data)
{
	step &d = *static_cast<step *>(data);
	dd_real g = 0.97, beta = 0.3;

	for (auto &s : d.S) s *= g;
	read(d.u, d.S, d.k);
	for (int j = 0; j < N; j++) d.u[j] = beta * (d.v[j] - d.u[j]);
	for (int i = 0; i < N; i++)
		for (int j = 0; j < N; j++) d.S[i * N + j] += d.k[i] * d.u[j];
	read(d.o, d.S, d.q);
}

static row drawn(size_t n)
{
	row x(n);
	for (size_t i = 0; i < n; i++) x[i] = dd_real((double)((i * 0x9e3779b97f4a7c15u >> 40) & 0xffff) / 65536 - 0.5) / 7.0;
	return x;
}

struct product { row a, b, c; };
static void one_product(void *data)
{
	product &d = *static_cast<product *>(data);

	for (int i = 0; i < M; i++) {
		for (int j = 0; j < L; j++) d.c[i * L + j] = 0.0;
		for (int l = 0; l < K; l++)
			for (int j = 0; j < L; j++) d.c[i * L + j] += d.a[i * K + l] * d.b[l * L + j];
	}
}

extern "C" double peer_qd_step(void)
{
	step d = { drawn(N * N), drawn(N), drawn(N), drawn(N), drawn(N), drawn(N) };
	return bench_time(one_step, &d);
}

extern "C" double peer_qd_product(void)
{
	product d = { drawn(M * K), drawn(K * L), row(M * L) };
	return bench_time(one_product, &d);
}
#else
extern "C" double peer_qd_step(void) { return NAN; }
extern "C" double peer_qd_product(void) { return NAN; }
#endif
