/* What the parts of `make bench` share. */
#ifndef ETALON_BENCH_H
#define ETALON_BENCH_H

#include <stdbool.h>
#include <stddef.h>

#include "fixtures/io/tensor.h"

enum { BENCH_REPEATS = 5, BENCH_TURNS = 15 };

/* Median seconds of one call of run, over BENCH_REPEATS turns of some 20 ms each at least. */
double bench_time(void (*run)(void *), void *data);

/* Of two that take turns, so that what else the machine does meets both: median seconds of each, and the median of how
 * often the first fits into the second. */
struct bench_pair { double own, other, ratio; };
struct bench_pair bench_turns(void (*run)(void *), void *data, void (*other)(void *), void *others);

/* "3.21 ms"; "missing" for a NaN. In a buffer that the next but seven calls use again. */
const char *bench_seconds(double s);

/* A row "what | own | peer | its time | peer / own | goal" of the table of ratios. NaN: the peer is missing. */
void bench_ratio(const char *what, double own, const char *peer, double seconds, const char *goal);

enum { BENCH_STATE = 128, BENCH_M = 256, BENCH_N = 256, BENCH_K = 1024 };

void bench_dd(void);            /* dd against its peers */
void bench_check(void);         /* the memory of a check */
void bench_check_call(size_t T);        /* judges a call of T tokens; prints the bytes of its tensors, and the most KiB of this process */
void bench_memory(void);        /* comparison against reading */
/* Divergences both ways and top 10 of rows of `width`, on all cores. */
void bench_divergences(const struct tensor *a, const struct tensor *b, size_t width);
/* spectrum_of against MPFR, a row of the table, and, where `say`, what lies between the two. */
void bench_eigen(int n, const char *form, const char *goal, bool say);

/* Seconds of the peers, NaN where one was not there when this was built. The step: S <- e^g S, u = beta (v - S'k),
 * S <- S + k u', o = S'q; the product: 256 x 256 x 1024. */
double peer_mpfr_step(void), peer_mpfr_product(void);          /* mpfr_t in arrays, mul and add, 128 bits */
double peer_arb_step(void), peer_arb_dot_step(void), peer_arb_product(void);   /* 106 bits: arb_addmul, arb_dot */
double peer_quad_step(void), peer_quad_product(void);           /* __float128 */
double peer_f64_step(void), peer_f64_product(void);             /* OpenBLAS, one thread */
double peer_qd_step(void), peer_qd_product(void);               /* dd_real */
double peer_mpmath_step(void), peer_numpy(void);                /* bench/bench_peers.py; all figures of 2^26 F32 */

#endif
