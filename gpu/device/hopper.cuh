/* Instructions of sm_90 (barriers that count bytes, the copy of a run of bytes) and of sm_90a (the rest: the tensor copy,
 * warpgroup products) in C++. Empty elsewhere, so that a kernel compiles (and traps) for other targets. */
#ifndef ETALON_HOPPER_CUH
#define ETALON_HOPPER_CUH

#include <cuda.h>

#include "gpu/device/device.cuh"

#if defined __CUDA_ARCH__ && __CUDA_ARCH__ >= 900
#define FROM_HOPPER(...) asm volatile(__VA_ARGS__)
#else
#define FROM_HOPPER(...) (void)0
#endif
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define ON_HOPPER(...) asm volatile(__VA_ARGS__)
#else
#define ON_HOPPER(...) (void)0
#endif

namespace hopper {

__device__ inline unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

/* ---- barriers in shared memory: phase after phase, each of `count` arrivals and the bytes expected ---- */

__device__ inline void barrier_init([[maybe_unused]] uint64_t &b, [[maybe_unused]] unsigned count)
{
	FROM_HOPPER("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(shared_address(&b)), "r"(count) : "memory");
}

/* Makes the barriers known to the copy engine. */
__device__ inline void barrier_fence() { FROM_HOPPER("fence.mbarrier_init.release.cluster;" ::: "memory"); }

__device__ inline void arrive([[maybe_unused]] uint64_t &b)
{
	ON_HOPPER("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(shared_address(&b)) : "memory");
}

__device__ inline void arrive_expecting([[maybe_unused]] uint64_t &b, [[maybe_unused]] unsigned bytes)
{
	FROM_HOPPER("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
	          :: "r"(shared_address(&b)), "r"(bytes) : "memory");
}

/* Until the phase of that parity has ended. */
__device__ inline void wait([[maybe_unused]] uint64_t &b, [[maybe_unused]] unsigned parity)
{
	FROM_HOPPER("{\n"
	          ".reg .pred done;\n"
	          "again:\n"
	          "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
	          "@!done bra again;\n"
	          "}" :: "r"(shared_address(&b)), "r"(parity) : "memory");
}

/* ---- copies ---- */

/* What this thread wrote to shared memory is seen by copies and products that it or, after a barrier, another issues. */
__device__ inline void shared_fence() { FROM_HOPPER("fence.proxy.async.shared::cta;" ::: "memory"); }

/* `bytes`, a multiple of 16, between 16-byte boundaries; they arrive at b. */
__device__ inline void copy_run([[maybe_unused]] void *to, [[maybe_unused]] const void *from, [[maybe_unused]] unsigned bytes,
                                [[maybe_unused]] uint64_t &b)
{
	FROM_HOPPER("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
	            :: "r"(shared_address(to)), "l"(from), "r"(bytes), "r"(shared_address(&b)) : "memory");
}

/* `bytes` of shared memory, as copy_run has them, to memory; this thread's such copies belong to one group once committed. */
__device__ inline void store_run([[maybe_unused]] void *to, [[maybe_unused]] const void *from, [[maybe_unused]] unsigned bytes)
{
	FROM_HOPPER("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
	            :: "l"(to), "r"(shared_address(from)), "r"(bytes) : "memory");
}

__device__ inline void stores_commit() { FROM_HOPPER("cp.async.bulk.commit_group;" ::: "memory"); }

/* Until this thread's groups have read what they store; until they have stored it. */
__device__ inline void stores_have_read() { FROM_HOPPER("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ inline void stores_done() { FROM_HOPPER("cp.async.bulk.wait_group 0;" ::: "memory"); }

/* The box of map that begins at column x, row y of matrix z, to `to`; its bytes arrive at b. */
__device__ inline void copy_box([[maybe_unused]] void *to, [[maybe_unused]] const CUtensorMap &map, [[maybe_unused]] int x,
                                [[maybe_unused]] int y, [[maybe_unused]] int z, [[maybe_unused]] uint64_t &b)
{
	ON_HOPPER("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
	          "[%0], [%1, {%2, %3, %4}], [%5];"
	          :: "r"(shared_address(to)), "l"(&map), "r"(x), "r"(y), "r"(z), "r"(shared_address(&b)) : "memory");
}

/* The map itself is under way. */
__device__ inline void prefetch_map([[maybe_unused]] const CUtensorMap &map)
{
	ON_HOPPER("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

/* ---- two 8 x 8 matrices of 16-bit elements: a warp's rows 0-7 and 8-15 of eight columns, lane l
 * with elements (l/4 + {0,8}, 2(l%4) + {0,1}) as x[0], x[1]; row: what lane l names, of matrix
 * l/8 the row l%8, for l < 16 ---- */

__device__ inline void load_matrices([[maybe_unused]] unsigned (&x)[2], [[maybe_unused]] const void *row)
{
	ON_HOPPER("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
	          : "=r"(x[0]), "=r"(x[1]) : "r"(shared_address(row)) : "memory");
}

__device__ inline void store_matrices([[maybe_unused]] void *row, [[maybe_unused]] const unsigned (&x)[2])
{
	ON_HOPPER("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};"
	          :: "r"(shared_address(row)), "r"(x[0]), "r"(x[1]) : "memory");
}

/* row: of the matrices turned. */
__device__ inline void store_turned([[maybe_unused]] void *row, [[maybe_unused]] const unsigned (&x)[2])
{
	ON_HOPPER("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};"
	          :: "r"(shared_address(row)), "r"(x[0]), "r"(x[1]) : "memory");
}

/* ---- grids that overlap ---- */

/* Until the grid before is done and what it wrote is seen. */
__device__ inline void wait_for_earlier_grid() { ON_HOPPER("griddepcontrol.wait;" ::: "memory"); }

/* Once all blocks have said so, those of the next grid are placed where there is room. */
__device__ inline void let_later_grid_begin() { ON_HOPPER("griddepcontrol.launch_dependents;" ::: "memory"); }

/* Multiprocessors of the device, or a few more. */
__device__ inline int processors()
{
	int n = 1;

	FROM_HOPPER("mov.u32 %0, %%nsmid;" : "=r"(n));
	return n;
}

/* ---- products of a warpgroup ---- */

/* Rows of 128 bytes in shared memory, K along the row, with the 128-byte swizzle: 1024 bytes from
 * eight rows to the next. p is 1024-byte aligned; a place is 2 more for each 16 elements of K. */
__device__ inline unsigned matrix_place(const void *p) { return shared_address(p) >> 4 | 1 << 16; }
__device__ inline uint64_t matrix_descriptor(unsigned place) { return ((uint64_t)1 << 30 | 1024 >> 4) << 32 | place; }

__device__ inline void products_begin() { ON_HOPPER("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void products_commit() { ON_HOPPER("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int N> __device__ void products_wait() { ON_HOPPER("wgmma.wait_group.sync.aligned %0;" :: "n"(N) : "memory"); }

/* Products run on after they are issued: no use of d moves across this. */
template <int N> __device__ void hold(float (&d)[N])
{
#pragma unroll
	for (int i = 0; i < N; i++)
		asm volatile("" : "+f"(d[i]) :: "memory");
}

#define TEN(t) "%" #t "0, %" #t "1, %" #t "2, %" #t "3, %" #t "4, %" #t "5, %" #t "6, %" #t "7, %" #t "8, %" #t "9, "
#define THIRTY "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, " TEN(1) TEN(2)
#define OUT4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OUT32(i) OUT4(i), OUT4(i + 4), OUT4(i + 8), OUT4(i + 12), OUT4(i + 16), OUT4(i + 20), OUT4(i + 24), OUT4(i + 28)
#define WGMMA(N, type, sums, factors, ...) \
	ON_HOPPER("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." type "." type " {" sums "}, " factors ", 1, 1, 1, 0, 0;" \
	          : __VA_ARGS__ : "l"(matrix_descriptor(a)), "l"(matrix_descriptor(b)))
#define MULTIPLY(N, sums, factors, ...) \
template <class F> __device__ void multiply([[maybe_unused]] float (&d)[N / 2], \
                                            [[maybe_unused]] unsigned a, [[maybe_unused]] unsigned b) \
{ \
	if constexpr (__is_same(F, f16)) \
		WGMMA(N, "f16", sums, factors, __VA_ARGS__); \
	else \
		WGMMA(N, "bf16", sums, factors, __VA_ARGS__); \
}

/* The same with K down the rows: rows of 64 elements, those beyond 64 a multiple of 1024 bytes later, `beyond`; a step of 16 of K
 * is 2048 bytes. */
__device__ inline uint64_t turned_descriptor(const void *p, unsigned beyond)
{
	return ((uint64_t)1 << 30 | 1024 >> 4) << 32 | beyond >> 4 << 16 | shared_address(p) >> 4;
}

/* d [64,N] += a [64,16] b' [N,16]; a, b: matrix places. Warp w, lane l holds rows
 * 16w + l/4 + {0,8}, columns 8j + 2(l%4) + {0,1}, as d[4j + {0,1}] and d[4j + 2 + {0,1}]. */
MULTIPLY(64, THIRTY "%30, %31", "%32, %33", OUT32(0))
MULTIPLY(72, THIRTY "%30, %31, %32, %33, %34, %35", "%36, %37", OUT32(0), OUT4(32))
MULTIPLY(144, THIRTY TEN(3) TEN(4) TEN(5) TEN(6) "%70, %71", "%72, %73", OUT32(0), OUT32(32), OUT4(64), OUT4(68))
MULTIPLY(192, THIRTY TEN(3) TEN(4) TEN(5) TEN(6) TEN(7) TEN(8) "%90, %91, %92, %93, %94, %95", "%96, %97",
         OUT32(0), OUT32(32), OUT32(64))

/* b' [N,16] as N / 8 pairs of 8 x 8 matrices, 128 bytes each: of eight rows, columns 0-7, then 8-15. */
__device__ inline uint64_t matrices_descriptor(const void *p)
{
	return (uint64_t)(256 >> 4) << 32 | 128 >> 4 << 16 | shared_address(p) >> 4;
}

/* d [64,N] = a [64,16] b' [N,16] in bf16, or += if `add`; b: a descriptor, TURNED if K is down its rows. a: of each warp sixteen
 * rows as mma.cuh has a. */
#define MULTIPLY_HELD(N, sums, a0, a1, a2, a3, b0, yes, turned, ...) \
template <int TURNED = 0> __device__ void multiply([[maybe_unused]] float (&d)[N / 2], [[maybe_unused]] const unsigned (&a)[4], \
                                [[maybe_unused]] uint64_t b, [[maybe_unused]] int add) \
{ \
	ON_HOPPER("{\n.reg .pred yes;\nsetp.ne.b32 yes, " yes ", 0;\n" \
	          "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" sums "}, " \
	          "{" a0 ", " a1 ", " a2 ", " a3 "}, " b0 ", yes, 1, 1, " turned ";\n}" \
	          : __VA_ARGS__ : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TURNED)); \
}
MULTIPLY_HELD(64, THIRTY "%30, %31", "%32", "%33", "%34", "%35", "%36", "%37", "%38", OUT32(0))
MULTIPLY_HELD(128, THIRTY TEN(3) TEN(4) TEN(5) "%60, %61, %62, %63", "%64", "%65", "%66", "%67", "%68", "%69", "%70",
              OUT32(0), OUT32(32))

/* Products run on: what they read is not overwritten before this. */
template <int M, int N> __device__ void keep(unsigned (&a)[M][N][4])
{
#pragma unroll
	for (int m = 0; m < M; m++)
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int i = 0; i < 4; i++)
				asm volatile("" : "+r"(a[m][n][i]) :: "memory");
}

#undef MULTIPLY_HELD
#undef TEN
#undef THIRTY
#undef OUT4
#undef OUT32
#undef WGMMA
#undef MULTIPLY

}
#endif
