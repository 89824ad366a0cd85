/* Which kernel makes a symmetric product: the forms for a type, and the choice among them. */
#ifndef ETALON_SYMMETRIC_FORMS_CUH
#define ETALON_SYMMETRIC_FORMS_CUH

#include <algorithm>
#include <type_traits>

#include "gpu/host/cuda.cuh"
#include "gpu/kernels/symmetric_fma.cuh"
#include "gpu/kernels/symmetric_mma.cuh"
#include "gpu/kernels/symmetric_wgmma.cuh"

template <class F> struct symmetric_form {
	const char *name;
	bool hopper;            /* needs sm_90a */
	int rows, columns;      /* of a tile */
	int together;           /* blocks that fit on a multiprocessor */
	double rate;            /* of the tensor cores' peak where nothing else limits, measured on an H200 */
	int (*tiles)(int s);
	cudaError_t (*launch)(const symmetric_product<F> &, cudaStream_t);
};

template <class F> const std::vector<symmetric_form<F>> &symmetric_forms()
{
	using namespace wgmma_form;
	using form = symmetric_form<F>;
	static const std::vector<form> forms = [] {
		if constexpr (std::is_same_v<F, float>)
			return std::vector<form>{
	{ "fma 64x64", false, 64, 64, 3, 0.02, lower_tiles<64, 64>, fma_form::launch_symmetric },
			};
		else
			return std::vector<form>{
	{ "mma 128x128", false, 128, 128, 2, 0.2, lower_tiles<128, 128>, mma_form::launch_symmetric<F> },
	{ "wgmma 64x72 deep", true, 64, 72, 1, 1, lower_tiles<64, 72>, launch_symmetric<1, 72, 12, F> },
	{ "wgmma 64x72", true, 64, 72, 2, 1, lower_tiles<64, 72>, launch_symmetric<1, 72, 6, F> },
	{ "wgmma 128x144", true, 128, 144, 1, 1, lower_tiles<128, 144>, launch_symmetric<2, 144, 5, F> },
	{ "wgmma 192x192", true, 192, 192, 1, 1, lower_tiles<192, 192>, launch_symmetric<3, 192, 4, F> },
			};
	}();
	return forms;
}

/* Which target this file's kernels were compiled for, as the device sees it. */
static __global__ void compiled_for_hopper([[maybe_unused]] int *yes)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	*yes = 1;
#endif
}

struct device_limits { int processors; bool hopper; };

/* Of the present device, asked once. */
inline const device_limits &limits()
{
	static const device_limits found = [] {
		std::vector<int> yes = { 0 };
		buffer flag = uploaded(yes);
		device_limits d = {};

		check(cudaDeviceGetAttribute(&d.processors, cudaDevAttrMultiProcessorCount, 0), "device 0");
		launch("compiled_for_hopper", compiled_for_hopper, 1, 1, 0, flag.as<int>());
		flag.download(yes.data());
		d.hopper = yes[0] && wgmma_form::map_encoder();
		return d;
	}();
	return found;
}

/* Cycles on the busiest multiprocessor. A slice of 64 columns: 2048 multiply-adds, 64 bytes from L2
 * a cycle. A block: 1500 until its first slice is there, and a fifth of a cycle for each element of
 * the tile to finish and store it, while another that fits beside it goes on (all measured on an H200). */
template <class F> double estimated_cycles(const symmetric_form<F> &f, const symmetric_product<F> &p)
{
	auto parts = [](size_t n, size_t each) { return (double)((n + each - 1) / each); };
	size_t blocks = (size_t)f.tiles(p.s) * p.batch, processors = limits().processors;
	double area = (double)f.rows * f.columns;
	double slice = std::max(64 * area / 2048 / f.rate, 64.0 * sizeof(F) * (f.rows + f.columns) / 64);

	return parts(blocks, processors) * parts(p.K, 64) * slice + parts(blocks, processors * f.together) * (1500 + area / 5);
}

template <class F> const symmetric_form<F> &best_form(const symmetric_product<F> &p)
{
	const symmetric_form<F> *best = nullptr;

	for (const auto &f : symmetric_forms<F>())
		if ((!f.hopper || limits().hopper) && (!best || estimated_cycles(f, p) < estimated_cycles(*best, p)))
			best = &f;
	return *best;
}

/* form NULL: the best by estimate. */
template <class F>
void multiply_symmetric(const symmetric_product<F> &p, cudaStream_t stream, const symmetric_form<F> *form = nullptr)
{
	const symmetric_form<F> &f = form ? *form : best_form(p);

	check(f.launch(p, stream), f.name);
	check(cudaGetLastError(), f.name);
}

#endif
