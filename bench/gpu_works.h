/* What bench-gpu does through the ops' public interface. */
#ifndef ETALON_BENCH_GPU_WORKS_H
#define ETALON_BENCH_GPU_WORKS_H

#include "fixtures/io/error.h"
#include "fixtures/io/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where sequence i of RAGGED in T tokens begins: most are short, and few at a place that is a multiple of anything. */
enum { RAGGED = 32 };
static inline size_t ragged_cut(int i, size_t T)
{
	return T * (size_t)(i * i) / (RAGGED * RAGGED) + (i > 0 && i < RAGGED ? (size_t)(i % 3) : 0);
}

/* Five iterations of Newton-Schulz, safety factor 1.05, as a parameter of the op. */
#define POLAR_EXPRESS "[[7.892582874424408, -20.38301394587957, 13.555306149406924], " \
	"[3.911484868135431, -2.5464635929060884, 0.4268988319673074], [3.760657955697423, -2.512819018216563, " \
	"0.4323647349070073], [3.160399673686287, -2.149649518898498, 0.3996366907664389], " \
	"[2.1910971618617303, -1.441662010214663, 0.328146487623155]]"

/* The calls at real sizes that are shared with rivals: inputs, what is right, and how far a kernel
 * is from it. Runs each rung of each work's op on the work's inputs, prints a row of its errors,
 * |x - y| / |y| of each output, y the reference in float64, and writes DIR/WORK.safetensors: the
 * inputs "in.NAME", the parameters, and "truth.NAME" for every output, F64 where the output is F32
 * and F32 where it is narrower. False and *e: the backend's errors, E_MEMORY, E_OPEN. */
bool bench_works(const char *dir, struct error *e);

/* |t - y| / |y|; NaN if t has one. */
double tensor_error(const struct tensor *t, const double *y);

/* Newton-Schulz of small matrices in all its forms: judge is told of each. False and *e: as above. */
typedef void judge_error(bool right, const char *type, const char *what, const char *where,
	double error, double bound);
bool test_iterations(judge_error *judge, struct error *e);

#ifdef __cplusplus
}
#endif
#endif
