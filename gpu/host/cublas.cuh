/* Products of cuBLAS (its Lt interface: C and D may differ, so no copy is needed), loaded at run
 * time: a program that multiplies nothing runs where cuBLAS is absent.
 *
 * Row-major D [M,N] = alpha A B + beta C, or A B' for `turned`: A [M,K], B [K,N] or [N,K]. To
 * cuBLAS, which counts columns first, this is D' = B' A'. Sums in f32. */
#ifndef ETALON_CUBLAS_CUH
#define ETALON_CUBLAS_CUH

#include <dlfcn.h>
#include <memory>
#include <string>
#include <type_traits>

#include "gpu/host/cuda.cuh"

#if __has_include(<cublasLt.h>)
#include <cublasLt.h>

#ifndef CUDA_HOME
#define CUDA_HOME "/usr/local/cuda"
#endif

template <class F> constexpr cudaDataType_t cuda_type = CUDA_R_32F;
template <> inline constexpr cudaDataType_t cuda_type<f16> = CUDA_R_16F;
template <> inline constexpr cudaDataType_t cuda_type<bf16> = CUDA_R_16BF;

class cublas {
public:
	cublas() : library_(open()), workspace_(WORKSPACE)
	{
		check(function<decltype(cublasLtCreate)>("cublasLtCreate")(&handle_), "cublasLtCreate");
	}
	~cublas() { function<decltype(cublasLtDestroy)>("cublasLtDestroy")(handle_); }
	cublas(const cublas &) = delete;
	cublas &operator=(const cublas &) = delete;

	/* `batch` matrices behind each other; ld.. elements from row to row; C, D rows of ld_d. C is
	 * NULL or D for a product in place. aligned: bytes that divide every address. */
	struct product { int M, N, K, ld_a, ld_b, ld_d, batch; bool turned; unsigned aligned = 256; };
	template <class F, class G>
	void multiply(const product &p, float alpha, const F *A, const F *B, float beta, const std::common_type_t<G> *C, G *D,
	              cudaStream_t stream)
	{
		const plan &found = plan_for(p, cuda_type<F>, cuda_type<G>);

		check(matmul_(handle_, found.operation, &alpha, B, found.first, A, found.second, &beta, C ? C : D, found.out,
		              D, found.out, &found.algorithm, workspace_.as<void>(), WORKSPACE, stream), "cublasLtMatmul");
	}

private:
	enum { WORKSPACE = 32 << 20 };
	struct plan {
		product p;
		cudaDataType_t type, out_type;
		cublasLtMatmulDesc_t operation;
		cublasLtMatrixLayout_t first, second, out;
		cublasLtMatmulAlgo_t algorithm;
	};
	void *library_;
	buffer workspace_;
	cublasLtHandle_t handle_;
	std::vector<plan> plans_;
	decltype(&cublasLtMatmul) matmul_ = function<decltype(cublasLtMatmul)>("cublasLtMatmul");

	static void check(cublasStatus_t status, const char *doing)
	{
		if (status != CUBLAS_STATUS_SUCCESS)
			refuse(E_DEVICE, doing, "cuBLAS status %d", (int)status);
	}

	static void *open()
	{
		const std::string name = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
		static const char *const folders[] = {
			"", CUDA_HOME "/lib64/", CUDA_HOME "/targets/x86_64-linux/lib/", "/usr/local/cuda/lib64/"
		};

		for (const char *folder : folders)
			if (void *library = dlopen((folder + name).c_str(), RTLD_NOW | RTLD_LOCAL))
				return library;
		refuse(E_NO_BACKEND, name.c_str(), "not found; install cuBLAS of CUDA %d, or name its folder in LD_LIBRARY_PATH",
		       CUBLAS_VER_MAJOR);
	}

	template <class Function> Function *function(const char *name) const
	{
		void *found = dlsym(library_, name);

		if (!found)
			refuse(E_NO_BACKEND, name, "not in this cuBLAS");
		return reinterpret_cast<Function *>(found);
	}

	cublasLtMatrixLayout_t layout(cudaDataType_t type, int rows, int columns, int ld, int batch, int64_t stride) const
	{
		auto create = function<decltype(cublasLtMatrixLayoutCreate)>("cublasLtMatrixLayoutCreate");
		auto set = function<decltype(cublasLtMatrixLayoutSetAttribute)>("cublasLtMatrixLayoutSetAttribute");
		cublasLtMatrixLayout_t made;

		check(create(&made, type, rows, columns, ld), "cublasLtMatrixLayoutCreate");
		check(set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch), "cublasLt: batch");
		check(set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride), "cublasLt: stride");
		return made;
	}

	/* Plans live as long as the program's cuBLAS does: a few for each shape. */
	const plan &plan_for(const product &p, cudaDataType_t type, cudaDataType_t out)
	{
		for (const plan &old : plans_)
			if (old.type == type && old.out_type == out && !memcmp(&old.p, &p, offsetof(product, turned)) && old.p.turned == p.turned
			    && old.p.aligned == p.aligned)
				return old;
		plans_.push_back(make_plan(p, type, out));
		return plans_.back();
	}

	plan make_plan(const product &p, cudaDataType_t type, cudaDataType_t out) const
	{
		auto create = function<decltype(cublasLtMatmulDescCreate)>("cublasLtMatmulDescCreate");
		auto set = function<decltype(cublasLtMatmulDescSetAttribute)>("cublasLtMatmulDescSetAttribute");
		auto prefer = function<decltype(cublasLtMatmulPreferenceCreate)>("cublasLtMatmulPreferenceCreate");
		auto limit = function<decltype(cublasLtMatmulPreferenceSetAttribute)>("cublasLtMatmulPreferenceSetAttribute");
		auto choose = function<decltype(cublasLtMatmulAlgoGetHeuristic)>("cublasLtMatmulAlgoGetHeuristic");
		cublasOperation_t first = p.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
		cublasLtMatmulPreference_t preference;
		cublasLtMatmulHeuristicResult_t best;
		size_t workspace = WORKSPACE;
		int found = 0;
		unsigned whole = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;        /* parts of a sum stay f32 */
		plan made = { p, type, out, {}, {}, {}, {}, {} };

		check(create(&made.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
		check(set(made.operation, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first), "cublasLt: transposed");
		int b_rows = p.turned ? p.N : p.K, b_columns = p.turned ? p.K : p.N;
		made.first = layout(type, b_columns, b_rows, p.ld_b, p.batch, (int64_t)b_rows * p.ld_b);
		made.second = layout(type, p.K, p.M, p.ld_a, p.batch, (int64_t)p.M * p.ld_a);
		made.out = layout(out, p.N, p.M, p.ld_d, p.batch, (int64_t)p.M * p.ld_d);
		check(prefer(&preference), "cublasLtMatmulPreferenceCreate");
		check(limit(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace),
		      "cublasLt: workspace");
		check(limit(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &whole, sizeof whole), "cublasLt: reduction");
		for (auto which : { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
		                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES })
			check(limit(preference, which, &p.aligned, sizeof p.aligned), "cublasLt: alignment");
		check(choose(handle_, made.operation, made.first, made.second, made.out, made.out, preference, 1, &best, &found),
		      "cublasLtMatmulAlgoGetHeuristic");
		if (found == 0)
			refuse(E_DEVICE, "cublasLt", "no algorithm for a product of %d x %d x %d", p.M, p.K, p.N);
		made.algorithm = best.algo;
		return made;
	}
};

#else

/* Built without cuBLAS' headers: products that need it are refused. */
class cublas {
public:
	cublas() { refuse(E_NO_BACKEND, "cuBLAS", "this etalon was built without cublasLt.h; install cuBLAS and build again"); }
	struct product { int M, N, K, ld_a, ld_b, ld_d, batch; bool turned; unsigned aligned = 256; };
	template <class F, class G>
	void multiply(const product &, float, const F *, const F *, float, const std::common_type_t<G> *, G *, cudaStream_t) {}
};

#endif
#endif
