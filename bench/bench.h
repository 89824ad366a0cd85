/* What the programs of `make bench` share: time, and what people use instead. */
#ifndef ETALON_BENCH_H
#define ETALON_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "bench/row.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { BENCH_REPEATS = 5, BENCH_TURNS = 15 };

/* QUICK=1 in the environment: small sizes, for a look at whether all runs. */
bool bench_quick(void);

double bench_median(double *t, size_t n);

/* Median seconds of one call of run, over BENCH_REPEATS turns of some 20 ms each at least. */
double bench_time(void (*run)(void *), void *data);

/* Of two that take turns, so that what else the machine does meets both: median seconds of each,
 * and the median of how often the first fits into the second. */
struct bench_pair { double own, other, ratio; };
struct bench_pair bench_turns(void (*run)(void *), void *data, void (*other)(void *), void *others);

/* Numbers in [-0.5, 0.5), the same for all. */
double bench_drawn(size_t i);

/* A process ends: out of memory, or what is measured failed. */
void bench_stop(const char *what) __attribute__((noreturn));

/* ---- the peers ---- */
enum { BENCH_STATE = 128, BENCH_M = 256, BENCH_N = 256, BENCH_K = 1024 };

/* One call of run, `scale` times, is the work. NULL for run: was not there when this was built. */
struct peer { void (*run)(void *); void *data; double scale; };

/* The step: S <- e^g S, u = beta (v - S'k), S <- S + k u', o = S'q of one head; the product: 256 x
 * 256 x 1024. */
struct peer peer_mpfr_step(void), peer_mpfr_product(void);      /* mpfr_t in arrays, mul and add, 128 bits */
struct peer peer_arb_step(void), peer_arb_dot_step(void), peer_arb_product(void);      /* 106 bits */
struct peer peer_quad_step(void), peer_quad_product(void);      /* __float128 */
struct peer peer_f64_step(void), peer_f64_product(void);        /* OpenBLAS, one thread */
struct peer peer_qd_step(void), peer_qd_product(void);          /* dd_real */
/* Eigenvalues and vectors of A [n,n], in MPFR at 128 bits; peer_eigen_apart: the largest distance
 * of its values from hi + lo [n], ascending. */
struct peer peer_eigen(const double *A, int n);
double peer_eigen_apart(struct peer *p, const double *hi, const double *lo);

/* Seconds; NaN where the peer is missing. */
double peer_time(struct peer p);
double peer_python(const char *what);   /* bench/peers.py */

#ifdef __cplusplus
}
#endif
#endif
