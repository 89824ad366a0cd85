/* What the parts of bench-gpu --selftest share. */
#ifndef ETALON_BENCH_GPU_SELFTEST_H
#define ETALON_BENCH_GPU_SELFTEST_H

#include <cstdio>
#include <random>

#include "bench/bench_gpu.h"

using doubles = std::vector<double>;

inline std::mt19937 random_bits(20);

template <class F>
constexpr enum dtype dtype_of = std::is_same_v<F, f16> ? DT_F16 : std::is_same_v<F, bf16> ? DT_BF16 : DT_F32;
template <class F> constexpr double half_ulp = std::is_same_v<F, f16> ? 0x1p-11 : std::is_same_v<F, bf16> ? 0x1p-8 : 0x1p-24;

inline size_t tried, wrong;

inline void judge(bool right, const char *type, const char *what, const std::string &where, double error, double bound)
{
	tried++;
	wrong += !right;
	if (!right)
		printf("WRONG  %-4s  %-18s %s: error %.3g, at most %.3g\n", type, what, where.c_str(), error, bound);
}

/* rows x columns of [-1,1) in F, rows of ld, zeros beyond; exact: the same in double. */
template <class F> std::vector<F> draw(doubles &exact, int batch, int rows, int columns, int ld)
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

void test_iterations(cublas &general);

#endif
