/* bench-gpu --selftest: every form of the symmetric product and cuBLAS' products against loops in
 * double precision on the host. */
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "bench/gpu.h"
#include "bench/gpu_works.h"

using doubles = std::vector<double>;

static std::mt19937 random_bits(20);

template <class F>
constexpr enum dtype dtype_of =
	std::is_same_v<F, f16> ? DT_F16 : std::is_same_v<F, bf16> ? DT_BF16 : DT_F32;
template <class F>
constexpr double half_ulp =
	std::is_same_v<F, f16> ? 0x1p-11 : std::is_same_v<F, bf16> ? 0x1p-8 : 0x1p-24;

static size_t tried, wrong;

static void judge(bool right, const char *type, const char *what, const char *where, double error,
	double bound)
{
	tried++;
	wrong += !right;
	if (!right)
		printf("WRONG  %-4s  %-18s %s: error %.3g, at most %.3g\n", type, what, where,
			error, bound);
}

/* rows x columns of [-1,1) in F, rows of ld, zeros beyond; exact: the same in double. */
template <class F> static std::vector<F> draw(doubles &exact, int batch, int rows, int columns,
	int ld)
{
	std::vector<F> x((size_t)batch * rows * ld);

	exact.assign(x.size(), 0);
	for (size_t i = 0; i < x.size(); i++)
		if ((int)(i % ld) < columns)
			exact[i] = (double)random_bits() / 0x1p31 - 1;
	dtype_store(dtype_of<F>, exact.data(), x.size(), x.data());
	dtype_load(dtype_of<F>, x.data(), x.size(), exact.data());
	return x;
}

/* D [batch,M,N] = alpha A B + beta C + diagonal I, A [batch,M,K], B [batch,K,N] or turned
 * [batch,N,K]; rows of ld_*. A symmetric D is what lies on and below the diagonal, mirrored, and
 * its pads are zeros. A sum of K products may be wrong by K + 4 roundings of 2^-23 of what is
 * added, and is rounded to F. */
template <class F> struct expectation {
	int M, N, K, ld_a, ld_b, ld_d, batch;
	bool turned, symmetric;
	float alpha, beta, diagonal;
	doubles a, b, c, value, bound;
	std::vector<F> A, B, C;

	void fill()
	{
		A = draw<F>(a, batch, M, K, ld_a), C = draw<F>(c, batch, M, N, ld_d);
		B = turned ? draw<F>(b, batch, N, K, ld_b) : draw<F>(b, batch, K, N, ld_b);
		for (size_t i = 0; symmetric && i < C.size(); i++) {
			size_t m = i / ((size_t)M * ld_d), row = i / ld_d % M, column = i % ld_d;
			if (column < row)
				C[(m * M + column) * ld_d + row] = C[i],
					c[(m * M + column) * ld_d + row] = c[i];
		}
	}

	void compute()
	{
		value.assign(c.size(), 0), bound = value;
		for (int m = 0; m < batch; m++)
			for (int i = 0; i < M; i++)
				for (int j = 0; j < (symmetric ? i + 1 : N); j++) {
					const double *x = &a[((size_t)m * M + i) * ld_a];
					size_t first = turned ? ((size_t)m * N + j) * ld_b
						: (size_t)m * K * ld_b + j;
					size_t at = ((size_t)m * M + i) * ld_d + j,
						step = turned ? 1 : ld_b;
					const double *y = &b[first];
					double sum = 0, size = 0, d = i == j ? diagonal : 0;

					for (int k = 0; k < K; k++)
						sum += x[k] * y[k * step],
							size += fabs(x[k] * y[k * step]);
					value[at] = alpha * sum + beta * c[at] + d;
					size = alpha * size + fabs(beta * c[at]) + d;
					bound[at] = (K + 4) * 0x1p-23 * size
						+ half_ulp<F> * 1.01 * fabs(value[at]) + 0x1p-25;
					if (symmetric) {
						size_t mirror = ((size_t)m * M + j) * ld_d + i;
						value[mirror] = value[at],
							bound[mirror] = bound[at];
					}
				}
	}

	/* The worst; infinity for a NaN, and of a symmetric one for other bits above the diagonal
	 * or a pad that is not zero. */
	double worst(const std::vector<F> &got) const
	{
		doubles x(got.size());
		double most = 0;

		dtype_load(dtype_of<F>, got.data(), got.size(), x.data());
		for (int m = 0; m < batch; m++)
			for (int i = 0; i < M; i++)
				for (int j = 0; j < (symmetric ? ld_d : N); j++) {
					size_t row = ((size_t)m * M + i) * ld_d;
					double r = j < N
						? fabs(x[row + j] - value[row + j]) / bound[row + j]
						: x[row + j] == 0 ? 0 : INFINITY;
					if (symmetric && j < N
						&& x[row + j] != x[((size_t)m * M + j) * ld_d + i])
						r = INFINITY;
					most = r <= most ? most : std::isnan(r) ? INFINITY : r;
				}
		return most;
	}
};

enum { GUARD = 256 };

/* NaN in every element, zeros in the pads, and GUARD elements of ones behind. */
template <class F> static std::vector<F> poisoned(int batch, int s, int ld)
{
	doubles x((size_t)batch * s * ld + GUARD, 1);
	std::vector<F> made(x.size());

	for (size_t i = 0; i + GUARD < x.size(); i++)
		x[i] = (int)(i % ld) < s ? NAN : 0;
	dtype_store(dtype_of<F>, x.data(), x.size(), made.data());
	return made;
}

template <class F> static void symmetric_products(const char *type, int s, int K, int batch)
{
	int ld_in = (K + 7) / 8 * 8, ld = (s + 7) / 8 * 8;
	expectation<F> e = { s, s, K, ld_in, ld_in, ld, batch, true, true, 1.25f, -0.75f, 0.5f, {},
		{}, {}, {}, {}, {}, {}, {} };

	e.fill();
	e.compute();
	buffer a = uploaded(e.A), b = uploaded(e.B), c = uploaded(e.C);
	for (const auto &form : symmetric_forms<F>()) {
		if (form.hopper && !limits().hopper)
			continue;
		std::vector<F> out = poisoned<F>(batch, s, ld), guard(out.end() - GUARD, out.end());
		buffer d = uploaded(out);

		multiply_symmetric<F>({ a.as<const F>(), b.as<const F>(), c.as<const F>(),
			d.as<F>(), s, K, ld_in, ld, batch, e.alpha,
			e.beta, e.diagonal }, nullptr, &form);
		check(cudaDeviceSynchronize(), form.name);
		d.download(out.data());
		bool kept = memcmp(guard.data(), &out[out.size() - GUARD], GUARD * sizeof(F)) == 0;
		double worst = kept ? e.worst(out) : INFINITY;
		std::string where = "s " + std::to_string(s) + ", K " + std::to_string(K)
			+ ", batch " + std::to_string(batch);
		judge(worst <= 1, type, form.name, where.c_str(), worst, 1);
	}
}

/* cuBLAS as cublas.cuh calls it: A B and A B' of odd sizes, with pads. */
template <class F> static void general_products(const char *type, cublas &general, bool turned)
{
	expectation<F> e = { 65, 130, 37, 40, turned ? 40 : 136, 136, 2, turned, false, 0.5f, 2, 0,
		{}, {}, {}, {}, {}, {}, {}, {} };

	e.fill();
	e.compute();
	std::vector<F> out(e.C.size());
	buffer a = uploaded(e.A), b = uploaded(e.B), c = uploaded(e.C), d(out.size() * sizeof(F));
	d.poison();
	general.multiply<F>({ e.M, e.N, e.K, e.ld_a, e.ld_b, e.ld_d, e.batch, turned }, e.alpha,
		a.as<F>(), b.as<F>(), e.beta,
	                    c.as<F>(), d.as<F>(), nullptr);
	d.download(out.data());
	double worst = e.worst(out);
	judge(worst <= 1, type, turned ? "cuBLAS A B'" : "cuBLAS A B", "", worst, 1);
}

template <class F> static void products(const char *type, cublas &general)
{
	for (int s : { 1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 191, 193, 200, 257, 385, 512 })
		for (int K : { s, 200, 611 })
			symmetric_products<F>(type, s, K, s <= 257 ? 3 : 1);
	for (bool turned : { false, true })
		general_products<F>(type, general, turned);
}

bool selftest(cublas &general)
{
	struct error e;

	products<f16>("F16", general);
	products<bf16>("BF16", general);
	products<float>("F32", general);
	if (!test_iterations(judge, &e))
		throw e;
	printf("selftest: %zu of %zu comparisons wrong%s\n", wrong, tried,
	       limits().hopper ? "" : "; the wgmma forms were NOT tried: no sm_90a");
	return wrong == 0 && tried > 0;
}
