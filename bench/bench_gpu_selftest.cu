/* bench-gpu --selftest: every form of the symmetric product and cuBLAS' products against loops in
 * double precision on the host. */
#include <cmath>
#include <cstring>

#include "bench/bench_gpu_selftest.h"

/* Compares got [batch,s,ld] with alpha AB' + beta C + diagonal below the diagonal, mirrored above;
 * a sum of K products may be wrong by K + 4 roundings of 2^-23 of what is added, and is rounded to F. */
template <class F> struct expectation {
	int s, K, ld_in, ld, batch;
	doubles A, B, C;
	static constexpr double alpha = 1.25, beta = -0.75, diagonal = 0.5;
	doubles value, bound;

	void compute()
	{
		value.assign((size_t)batch * s * ld, 0);
		bound.assign(value.size(), 0);
		for (int m = 0; m < batch; m++)
			for (int i = 0; i < s; i++)
				for (int j = 0; j <= i; j++) {
					const double *a = &A[((size_t)m * s + i) * ld_in], *b = &B[((size_t)m * s + j) * ld_in];
					size_t at = ((size_t)m * s + i) * ld + j, mirror = ((size_t)m * s + j) * ld + i;
					double sum = 0, size = 0, d = i == j ? diagonal : 0;

					for (int k = 0; k < K; k++) {
						sum += a[k] * b[k];
						size += fabs(a[k] * b[k]);
					}
					value[at] = value[mirror] = alpha * sum + beta * C[at] + d;
					size = alpha * size + fabs(beta * C[at]) + d;
					double rounding = half_ulp<F> * 1.01 * fabs(value[at]) + 0x1p-25;
					bound[at] = bound[mirror] = (K + 4) * 0x1p-23 * size + rounding;
				}
	}

	/* Worst error over its bound; infinity for an asymmetric result or a pad that is not zero. */
	double worst(const std::vector<F> &got) const
	{
		doubles x(got.size());
		double most = 0;

		dtype_load(dtype_of<F>, got.data(), got.size(), x.data());
		for (size_t i = 0; i < value.size(); i++) {
			size_t m = i / ((size_t)s * ld), row = i / ld % s, column = i % ld;
			bool pad = (int)column >= s;
			double ratio = pad ? (x[i] == 0 ? 0 : INFINITY) : fabs(x[i] - value[i]) / bound[i];

			if (!pad && x[i] != x[(m * s + column) * ld + row])
				ratio = INFINITY;
			if (!(ratio <= most))
				most = std::isnan(ratio) ? INFINITY : ratio;
		}
		return most;
	}
};

/* NaN in every element, zeros in the pads, and GUARD elements of ones behind. */
enum { GUARD = 256 };
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
	expectation<F> e = { s, K, (K + 7) / 8 * 8, (s + 7) / 8 * 8, batch, {}, {}, {}, {}, {} };
	std::vector<F> A = draw<F>(e.A, batch, s, K, e.ld_in), B = draw<F>(e.B, batch, s, K, e.ld_in);
	std::vector<F> C = draw<F>(e.C, batch, s, s, e.ld);

	for (size_t i = 0; i < C.size(); i++) {         /* C becomes symmetric */
		size_t m = i / ((size_t)s * e.ld), row = i / e.ld % s, column = i % e.ld, mirror = (m * s + column) * e.ld + row;
		if (column < row) {
			C[mirror] = C[i];
			e.C[mirror] = e.C[i];
		}
	}
	e.compute();
	buffer a = uploaded(A), b = uploaded(B), c = uploaded(C);
	for (const auto &form : symmetric_forms<F>()) {
		if (form.hopper && !limits().hopper)
			continue;
		std::vector<F> out = poisoned<F>(batch, s, e.ld), guard(out.end() - GUARD, out.end());
		buffer d = uploaded(out);

		multiply_symmetric<F>({ a.as<const F>(), b.as<const F>(), c.as<const F>(), d.as<F>(), s, K, e.ld_in, e.ld, batch,
			(float)e.alpha, (float)e.beta, (float)e.diagonal }, nullptr, &form);
		check(cudaDeviceSynchronize(), form.name);
		d.download(out.data());
		bool kept = memcmp(guard.data(), &out[out.size() - GUARD], GUARD * sizeof(F)) == 0;
		double worst = kept ? e.worst(out) : INFINITY;
		using std::to_string;
		judge(worst <= 1, type, form.name, "s " + to_string(s) + ", K " + to_string(K) + ", batch " + to_string(batch),
		      worst, 1);
	}
}

/* cuBLAS as cublas.cuh calls it: A B and A B' of odd sizes, with pads. */
template <class F> static void general_products(const char *type, cublas &general, bool turned)
{
	const int M = 65, N = 130, K = 37, batch = 2, ld_a = 40, ld_d = 136, rows_b = turned ? N : K, ld_b = turned ? 40 : 136;
	doubles a, b, c;
	std::vector<F> A = draw<F>(a, batch, M, K, ld_a), B = draw<F>(b, batch, rows_b, turned ? K : N, ld_b);
	std::vector<F> C = draw<F>(c, batch, M, N, ld_d), out(C.size());
	doubles got(C.size());
	double worst = 0;

	buffer da = uploaded(A), db = uploaded(B), dc = uploaded(C), dd(C.size() * sizeof(F));
	dd.poison();
	general.multiply<F>({ M, N, K, ld_a, ld_b, ld_d, batch, turned }, 0.5f, da.as<F>(), db.as<F>(), 2.0f, dc.as<F>(),
	                    dd.as<F>(), nullptr);
	dd.download(out.data());
	dtype_load(dtype_of<F>, out.data(), out.size(), got.data());
	for (int m = 0; m < batch; m++)
		for (int i = 0; i < M; i++)
			for (int j = 0; j < N; j++) {
				size_t at = ((size_t)m * M + i) * ld_d + j;
				double sum = 0;
				for (int k = 0; k < K; k++)
					sum += a[((size_t)m * M + i) * ld_a + k] *
					       b[turned ? ((size_t)m * N + j) * ld_b + k : ((size_t)m * K + k) * ld_b + j];
				double expected = 0.5 * sum + 2 * c[at], bound = half_ulp<F> * 1.01 * fabs(expected) + 1e-5;
				double ratio = fabs(got[at] - expected) / bound;
				if (!(ratio <= worst))
					worst = std::isnan(ratio) ? INFINITY : ratio;
			}
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
	products<f16>("F16", general);
	products<bf16>("BF16", general);
	products<float>("F32", general);
	test_iterations(general);
	printf("selftest: %zu of %zu comparisons wrong%s\n", wrong, tried,
	       limits().hopper ? "" : "; the wgmma forms were NOT tried: no sm_90a");
	return wrong == 0 && tried > 0;
}
