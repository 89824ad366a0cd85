/* bench-gpu --selftest: the iterations and their traces against double precision on the host. */
#include <cmath>

#include "bench/bench_gpu_selftest.h"

/* A B [n,k] [k,m], or A B' for turned. */
static doubles times(const doubles &A, const doubles &B, int n, int k, int m, bool turned = false)
{
	doubles C((size_t)n * m);

	for (int i = 0; i < n; i++)
		for (int j = 0; j < m; j++)
			for (int d = 0; d < k; d++)
				C[(size_t)i * m + j] += A[(size_t)i * k + d] * B[turned ? (size_t)j * k + d : (size_t)d * m + j];
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

template <class F>
static void iterate_in(const char *type, cublas &general, enum algorithm a, int n, int m, double bound)
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
		auto first = x.begin() + (ptrdiff_t)k * n * m;
		history h = iterate_exactly(plan, doubles(first, first + (ptrdiff_t)n * m), n, m);
		double error = fmax(distance(y, h.y, k, batch), distance(X, h.X, k, batch));

		if (a != STANDARD)
			error = fmax(error, fmax(distance(R, h.R, k, batch), distance(Q, h.Q, k, batch)));
		judge(error <= bound, type, names[a], std::to_string(n) + " x " + std::to_string(m), error, bound);
	}
}

void test_iterations(cublas &general)
{
	static const int shapes[][2] = { { 1, 1 }, { 1, 7 }, { 7, 1 }, { 5, 9 }, { 9, 5 }, { 64, 96 }, { 40, 200 }, { 150, 33 } };

	for (auto [n, m] : shapes) {
		for (enum algorithm a : { STANDARD, GRAM_NAIVE, GRAM })
			iterate_in<float>("F32", general, a, n, m, 2e-3);
		if (std::min(n, m) < 30 || std::max(n, m) < 3 * std::min(n, m))
			continue;       /* half precision amplifies too much there for a bound that says anything */
		iterate_in<f16>("F16", general, STANDARD, n, m, 0.05);
		iterate_in<f16>("F16", general, GRAM, n, m, 0.05);
		iterate_in<bf16>("BF16", general, STANDARD, n, m, 0.3);
	}
}
