/* Instructions of sm_80 in C++: copies that run on, matrices from shared memory, a warp's product.
 *
 * A warp holds tiles so, lane l with r = l/4 and c = 2(l%4), two neighbours of a row in a register:
 *   a [16,16]  (r, c) (r+8, c) (r, c+8) (r+8, c+8)          sums d [16,8]  (r, c) (r, c+1) (r+8, c) (r+8, c+1)
 *   b [8,16], of which b' is the factor: (r, c) (r, c+8) */
#ifndef ETALON_MMA_CUH
#define ETALON_MMA_CUH

#include "gpu/device/device.cuh"

namespace mma_form {

__device__ inline unsigned shared_address(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

/* 16 bytes, or zeros if not `valid`. */
__device__ inline void copy_chunk(void *to, const void *from, bool valid)
{
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n"
	             :: "r"(shared_address(to)), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

__device__ inline void commit() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }

template <int N> __device__ void wait_all_but() { asm volatile("cp.async.wait_group %0;\n" :: "n"(N) : "memory"); }

/* Four 8 x 8 matrices; lanes 8i .. 8i+7 give the rows of matrix i. */
__device__ inline void load_matrices(unsigned (&x)[4], const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
	             : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(shared_address(row)) : "memory");
}

#define MMA(type) \
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 " \
	             "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" \
	             : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))

/* d [16,8] += a [16,16] b' [8,16] */
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, f16) { MMA("f16"); }
__device__ inline void multiply(float (&d)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, bf16) { MMA("bf16"); }
#undef MMA

/* The same of the matrices turned. */
__device__ inline void load_turned(unsigned (&x)[4], const void *row)
{
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
	             : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(shared_address(row)) : "memory");
}

/* An 8 x 8 matrix turned: lane l gives and gets elements (l/4, 2(l%4) + {0,1}). */
__device__ inline unsigned turned(unsigned x)
{
	unsigned y;

	asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;\n" : "=r"(y) : "r"(x));
	return y;
}

}
#endif
