// What people use instead of etalon's double-double, as they use it. One source for all types of number.
#include "bench/bench.h"

extern "C" {
#include <cblas.h>
}
#include <vector>

#include "bench/mpfr.h"

enum { N = BENCH_STATE, M = BENCH_M, L = BENCH_N, K = BENCH_K };

template <class T> static std::vector<T> drawn(size_t n)
{
	std::vector<T> x(n);

	for (size_t i = 0; i < n; i++)
		x[i] = bench_drawn(i), x[i] /= 7ul;
	return x;
}

/* Lives until the process ends. */
template <class W> static peer peer_of(double scale = 1)
{
	return { [](void *w) { static_cast<W *>(w)->run(); }, new W, scale };
}

template <class T> struct step {
	std::vector<T> S = drawn<T>(N * N), k = drawn<T>(N), q = drawn<T>(N), v = drawn<T>(N), u, o;
	T decay, beta;

	step() : u(N), o(N) { decay = 0.97, beta = 0.3; }
	void read(std::vector<T> &y, const std::vector<T> &x)
	{
		for (T &z : y) z = 0.0;
		for (int i = 0; i < N; i++)
			for (int j = 0; j < N; j++) y[j] += S[i * N + j] * x[i];
	}
	void run()
	{
		for (T &s : S) s *= decay;
		read(u, k);
		update();
		read(o, q);
	}
	void update()
	{
		for (int j = 0; j < N; j++) u[j] = v[j] - u[j], u[j] *= beta;
		for (int i = 0; i < N; i++)
			for (int j = 0; j < N; j++) S[i * N + j] += k[i] * u[j];
	}
};

/* [M,TERMS] times [TERMS,L]; slow peers do an eighth of the terms. */
template <class T, int TERMS> struct product {
	std::vector<T> a = drawn<T>(M * TERMS), b = drawn<T>(TERMS * L), c = std::vector<T>(M * L);

	void run()
	{
		for (int i = 0; i < M; i++) {
			for (int j = 0; j < L; j++) c[i * L + j] = 0.0;
			for (int l = 0; l < TERMS; l++)
				for (int j = 0; j < L;
					j++) c[i * L + j] += a[i * TERMS + l] * b[l * L + j];
		}
	}
};

peer peer_mpfr_step() { return peer_of<step<mp>>(); }
peer peer_mpfr_product() { return peer_of<product<mp, K / 8>>(8); }
peer peer_quad_step() { return peer_of<step<__float128>>(); }
peer peer_quad_product() { return peer_of<product<__float128, K / 8>>(8); }

// ---- QD's double-double (Hida, Li and Bailey) ----
#if __has_include(<qd/dd_real.h>)
#include <qd/dd_real.h>
struct dd : dd_real {
	using dd_real::operator=;
	dd &operator/=(unsigned long n) { return *static_cast<dd_real *>(this) /= (double)n, *this;
		}
};
peer peer_qd_step() { return peer_of<step<dd>>(); }
peer peer_qd_product() { return peer_of<product<dd, K>>(); }
#else
peer peer_qd_step() { return {}; }
peer peer_qd_product() { return {}; }
#endif

// ---- Arb ----
#if __has_include(<arb_mat.h>)
#include <arb_mat.h>
struct ball {
	enum { BITS = 106 };
	struct term { const ball &a, &b; };
	struct difference { const ball &a, &b; };
	arb_t x;

	ball() { arb_init(x); }
	~ball() { arb_clear(x); }
	ball(const ball &) = delete;
	ball &operator=(double d) { return arb_set_d(x, d), *this; }
	ball &operator=(difference p) { return arb_sub(x, p.a.x, p.b.x, BITS), *this; }
	ball &operator+=(term p) { return arb_addmul(x, p.a.x, p.b.x, BITS), *this; }
	ball &operator*=(const ball &b) { return arb_mul(x, x, b.x, BITS), *this; }
	ball &operator/=(unsigned long n) { return arb_div_ui(x, x, n, BITS),
		mag_zero(arb_radref(x)), *this; }
};
static ball::term operator*(const ball &a, const ball &b) { return { a, b }; }
static ball::difference operator-(const ball &a, const ball &b) { return { a, b }; }

template <bool DOT> struct arb_step : step<ball> {
	void read(std::vector<ball> &y, const std::vector<ball> &x)
	{
		if (!DOT) return step<ball>::read(y, x);
		for (int j = 0; j < N; j++) arb_dot(y[j].x, nullptr, 0, S[j].x, N, x[0].x, 1, N,
			ball::BITS);
	}
	void run()
	{
		for (ball &s : S) s *= decay;
		read(u, k);
		update();
		read(o, q);
		for (ball &s : S) mag_zero(arb_radref(s.x));    /* radii would grow from turn to turn */
	}
};

struct arb_product {
	arb_mat_struct a[1], b[1], c[1];

	arb_product()
	{
		arb_mat_init(a, M, K), arb_mat_init(b, K, L), arb_mat_init(c, M, L);
		for (arb_mat_struct *m : { a, b })
			for (slong i = 0; i < arb_mat_nrows(m); i++)
				for (slong j = 0; j < arb_mat_ncols(m); j++) {
					arb_ptr x = arb_mat_entry(m, i, j);
					arb_set_d(x,
						bench_drawn((size_t)(i * 7919 + j + (m == b))));
					arb_div_ui(x, x, 7, ball::BITS), mag_zero(arb_radref(x));
				}
	}
	void run() { arb_mat_mul(c, a, b, ball::BITS); }
};

peer peer_arb_step() { return peer_of<arb_step<false>>(); }
peer peer_arb_dot_step() { return peer_of<arb_step<true>>(); }
peer peer_arb_product() { return peer_of<arb_product>(); }
#else
peer peer_arb_step() { return {}; }
peer peer_arb_dot_step() { return {}; }
peer peer_arb_product() { return {}; }
#endif

// ---- float64 through OpenBLAS ----
struct f64_step : step<double> {
	void run()
	{
		cblas_dscal(N * N, decay, S.data(), 1);
		u = v;
		cblas_dgemv(CblasRowMajor, CblasTrans, N, N, -beta, S.data(), N, k.data(), 1, beta,
			u.data(), 1);
		cblas_dger(CblasRowMajor, N, N, 1, k.data(), 1, u.data(), 1, S.data(), N);
		cblas_dgemv(CblasRowMajor, CblasTrans, N, N, 1, S.data(), N, q.data(), 1, 0,
			o.data(), 1);
	}
};

struct f64_product : product<double, K> {
	void run()
	{
		cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, M, L, K, 1, a.data(), K,
			b.data(), L, 0, c.data(), L);
	}
};

peer peer_f64_step() { return peer_of<f64_step>(); }
peer peer_f64_product() { return peer_of<f64_product>(); }
