/* bench-gpu --selftest: every form of the symmetric product, cuBLAS' products and the iterations
 * against loops in double precision on the host. */
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "compare/bench_gpu.h"

using doubles = std::vector<double>;

static std::mt19937 random_bits(20);

template <class F> constexpr enum dtype dtype_of = std::is_same_v<F, f16> ? DT_F16 : std::is_same_v<F, bf16> ? DT_BF16 : DT_F32;
template <class F> constexpr double half_ulp = std::is_same_v<F, f16> ? 0x1p-11 : std::is_same_v<F, bf16> ? 0x1p-8 : 0x1p-24;

static size_t tried, wrong;

static void judge(bool right, const char *type, const char *what, const std::string &where, double error, double bound)
{
	tried++;
	wrong += !right;
	if (!right)
		printf("WRONG  %-4s  %-18s %s: error %.3g, at most %.3g\n", type, what, where.c_str(), error, bound);
}

/* rows x columns of [-1,1) in F, rows of ld, zeros beyond; exact: the same in double. */
template <class F> static std::vector<F> draw(doubles &exact, int batch, int rows, int columns, int ld)
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
					bound[at] = bound[mirror] = (K + 4) * 0x1p-23 * size + half_ulp<F> * 1.01 * fabs(value[at]) + 0x1p-25;
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
	std::vector<F> A = draw<F>(e.A, batch, s, K, e.ld_in), B = draw<F>(e.B, batch, s, K, e.ld_in), C = draw<F>(e.C, batch, s, s, e.ld);

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
		judge(worst <= 1, type, form.name, "s " + std::to_string(s) + ", K " + std::to_string(K) + ", batch " + std::to_string(batch),
		      worst, 1);
	}
}

/* cuBLAS as cublas.cuh calls it: A B and A B' of odd sizes, with pads. */
template <class F> static void general_products(const char *type, cublas &general, bool turned)
{
	const int M = 65, N = 130, K = 37, batch = 2, ld_a = 40, ld_d = 136, rows_b = turned ? N : K, ld_b = turned ? 40 : 136;
	doubles a, b, c;
	std::vector<F> A = draw<F>(a, batch, M, K, ld_a), B = draw<F>(b, batch, rows_b, turned ? K : N, ld_b), C = draw<F>(c, batch, M, N, ld_d);
	std::vector<F> out(C.size());
	doubles got(C.size());
	double worst = 0;

	buffer da = uploaded(A), db = uploaded(B), dc = uploaded(C), dd(C.size() * sizeof(F));
	dd.poison();
	general.multiply({ M, N, K, ld_a, ld_b, ld_d, batch, turned }, 0.5f, da.as<const F>(), db.as<const F>(), 2.0f, dc.as<const F>(),
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
				double expected = 0.5 * sum + 2 * c[at], ratio = fabs(got[at] - expected) / (half_ulp<F> * 1.01 * fabs(expected) + 1e-5);
				if (!(ratio <= worst))
					worst = std::isnan(ratio) ? INFINITY : ratio;
			}
	judge(worst <= 1, type, turned ? "cuBLAS A B'" : "cuBLAS A B", "", worst, 1);
}

/* ---- the iterations ---- */

/* A B [n,k] [k,m], or A B' for turned. */
static doubles times(const doubles &A, const doubles &B, int n, int k, int m, bool turned = false)
{
	doubles C((size_t)n * m);

	for (int i = 0; i < n; i++)
		for (int j = 0; j < m; j++)
			for (int d = 0; d < k; d++)
				C[(size_t)i * m + j] += A[(size_t)i * k + d] * (turned ? B[(size_t)j * k + d] : B[(size_t)d * m + j]);
	return C;
}

/* a I + b R + c R^2 */
static doubles evaluate(polynomial h, const doubles &R, int s)
{
	doubles Z = times(R, R, s, s, s);

	for (size_t i = 0; i < Z.size(); i++)
		Z[i] = (double)h.a * (i / s == i % s) + (double)h.b * R[i] + (double)h.c * Z[i];
	return Z;
}

/* The matrices after each iteration, behind each other; y is turned back. */
struct history { doubles X, R, Q, y; };

static history iterate_exactly(const newton_schulz_plan &plan, doubles x, int n, int m)
{
	int s = std::min(n, m), l = std::max(n, m);
	doubles X(x.size()), I((size_t)s * s), R, Q;
	double squares = 0;
	history h;

	for (double z : x)
		squares += z * z;
	for (size_t i = 0; i < X.size(); i++)
		X[i] = x[n > m ? i % l * s + i / l : i] / (sqrt(squares) + plan.eps);
	for (int i = 0; i < s; i++)
		I[(size_t)i * s + i] = 1;
	R = times(X, X, s, l, s, true);
	Q = I;
	for (size_t t = 0; t <= plan.coefficients.size(); t++) {
		h.X.insert(h.X.end(), X.begin(), X.end());
		h.R.insert(h.R.end(), R.begin(), R.end());
		h.Q.insert(h.Q.end(), Q.begin(), Q.end());
		if (t == plan.coefficients.size())
			break;
		if (plan.restart[t]) {
			X = times(Q, X, s, s, l);
			R = times(X, X, s, l, s, true);
			Q = I;
		}
		doubles Z = evaluate(plan.coefficients[t], R, s);
		if (plan.algorithm == STANDARD) {
			X = times(Z, X, s, s, l);
			R = times(X, X, s, l, s, true);
		} else {
			Q = times(Q, Z, s, s, s);
			R = times(Z, times(R, Z, s, s, s), s, s, s);
		}
	}
	X = times(Q, X, s, s, l);
	h.y.resize(X.size());
	for (size_t i = 0; i < X.size(); i++)
		h.y[n > m ? i % l * s + i / l : i] = X[i];
	return h;
}

/* |got - expected| / |expected|, of matrix `m` of `batch`. */
static double distance(const buffer &from, const doubles &expected, int m, int batch)
{
	std::vector<float> got(expected.size() * batch);
	double error = 0, size = 0;

	from.download(got.data());
	for (size_t i = 0; i < expected.size(); i++) {
		double d = got[m * expected.size() + i] - expected[i];
		error += d * d;
		size += expected[i] * expected[i];
	}
	return sqrt(error / size);
}

template <class F> static void iterations(const char *type, cublas &general, enum algorithm a, int n, int m, double bound)
{
	static const char *const names[] = { "standard", "gram_naive", "gram" };
	const int batch = 3, s = std::min(n, m), entries = 6;
	newton_schulz_plan plan = polar_express(a);
	doubles x;
	std::vector<float> drawn = draw<float>(x, batch, n, m, m);
	size_t wide = sizeof(float) * batch * n * m, square = sizeof(float) * batch * s * s;
	buffer in = uploaded(drawn), y(wide), X(wide * entries), R(square * entries), Q(square * entries);
	auto to = [](buffer &b) { return result{ b.as<void>(), DT_F32 }; };
	newton_schulz<F> work(plan, n, m, batch, general, OWN, nullptr);

	for (buffer *b : { &y, &X, &R, &Q })
		b->poison();
	work.load({ in.as<const void>(), DT_F32 });
	work.iterate(true, [&](int t) {
		work.write_X(to(X), t, entries);
		if (a != STANDARD) {
			work.write_R(to(R), t, entries);
			work.write_Q(to(Q), t, entries);
		}
	});
	work.answer(to(y));
	for (int k = 0; k < batch; k++) {
		history h = iterate_exactly(plan, doubles(x.begin() + (ptrdiff_t)k * n * m, x.begin() + (ptrdiff_t)(k + 1) * n * m), n, m);
		double error = fmax(distance(y, h.y, k, batch), distance(X, h.X, k, batch));

		if (a != STANDARD)
			error = fmax(error, fmax(distance(R, h.R, k, batch), distance(Q, h.Q, k, batch)));
		judge(error <= bound, type, names[a], std::to_string(n) + " x " + std::to_string(m), error, bound);
	}
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
	static const int shapes[][2] = { { 1, 1 }, { 1, 7 }, { 7, 1 }, { 5, 9 }, { 9, 5 }, { 64, 96 }, { 40, 200 }, { 150, 33 } };

	products<f16>("F16", general);
	products<bf16>("BF16", general);
	products<float>("F32", general);
	for (auto [n, m] : shapes) {
		for (enum algorithm a : { STANDARD, GRAM_NAIVE, GRAM })
			iterations<float>("F32", general, a, n, m, 2e-3);
		if (std::min(n, m) < 30 || std::max(n, m) < 3 * std::min(n, m))
			continue;               /* half precision amplifies too much there for a bound that says anything */
		iterations<f16>("F16", general, STANDARD, n, m, 0.05);
		iterations<f16>("F16", general, GRAM, n, m, 0.05);
		iterations<bf16>("BF16", general, STANDARD, n, m, 0.3);
	}
	printf("selftest: %zu of %zu comparisons wrong%s\n", wrong, tried,
	       limits().hopper ? "" : "; the wgmma forms were NOT tried: no sm_90a");
	return wrong == 0 && tried > 0;
}
