/* A calc is one run of a reference over one piece of a call: an arithmetic, the roundings asked
 * for at sites, the faults asked for, and an arena for temporaries.
 *
 * Operations name their result first. A num is a vec of one element; where the last operand of an
 * elementwise operation is a num, it is broadcast. Nothing returns an error: when memory is short
 * the run is abandoned as a whole (see ref_run). Vectors live until the piece ends or c_release. */
#ifndef ETALON_CALC_H
#define ETALON_CALC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ref/arith/calc_arena.h"
#include "fixtures/io/dtype.h"

/* ---- the call ---- */
struct program *c_program(const calc *c);               /* of an op that is a formula */
int64_t c_int(const calc *c, int in, size_t index);     /* an element of an integer input */

typedef struct { size_t first, last; } span;            /* [first, last) */

/* ---- strips: of a piece that is cut, what is computed now ---- */
span c_strip(const calc *c);                            /* of dims[0]: all of it where the call is not cut */
/* x and *at as c_suspend left them, with the random stream; false, and nothing changes, where the piece begins. */
bool c_resume(calc *c, vec x, size_t *at);
bool c_goes_first(const calc *c, size_t k, size_t before);      /* of equal numbers, by the plan's draw: does number k before the other? */
void c_stream(calc *c, size_t i);                       /* the random stream of piece i of an anchored call, which may have more */
void c_suspend(calc *c, vec x, size_t at);              /* for the next strip, which goes on at `at` */

/* ---- in and out: element `first`, then every `step`-th ---- */
void c_load(calc *c, vec y, int in, size_t first, size_t step);
void c_load_trace(calc *c, vec y, int out, size_t first, size_t step);  /* of an anchored call, as the kernel wrote it */
size_t c_store(calc *c, int out, size_t first, size_t step, vec x);     /* how many of them are of this strip */
/* So much was stored there: in an output, or, from MAX_OUT on, in what pieces hold. */
void c_wrote(calc *c, int tensor, size_t first, size_t step, size_t n);

/* ---- stages of a piece ---- */
/* Values that a stage, or pieces, leave for the next, [rows,cols] row-major, in no arithmetic: hi + lo, lo NULL unless that is wide. */
typedef struct { double *hi, *lo; size_t rows, cols; } field;
field c_field(calc *c, size_t rows, size_t cols);
void c_get(calc *c, vec y, field f, size_t first, size_t step);         /* element `first`, then every `step`-th */
mat c_matrix(calc *c, field f);                         /* all of f, which may be f itself: not to be written to */
void c_put(calc *c, field f, size_t first, size_t step, vec x);
/* Runs part(d, i, with) for all i < n, in parallel, each d a calc of the same plan with an arena and a random stream of its
 * own. Parts know nothing of each other: they write different elements of fields and outputs. */
void c_stage(calc *c, size_t n, void (*part)(calc *d, size_t i, void *with), void *with);

/* x rounded as the plan asks at this site; nothing when it asks nothing. */
void c_site(calc *c, int site, vec x);
/* x rounded to nearest, for faults that are more than a rounding at a site. */
void c_round(calc *c, enum format f, vec x);

/* ---- constants and decisions ---- */
void c_set(calc *c, vec y, double x);
void c_ramp(calc *c, vec y, double first);              /* first, first + 1, ... */
num c_number(calc *c, double x);                        /* a new num of that value */
double c_value(calc *c, num x);                         /* nearest double */
double *c_values(calc *c, vec x);                       /* nearest doubles, to be read or changed before anything else is computed */
void c_given(calc *c, vec y, const double *x);          /* y = x, rounded as the arithmetic does */
bool c_finite(calc *c, vec x);                          /* are all? */

/* Is what follows computed of indices? Then it is whole numbers, which no algebra rounds. What was said before. */
bool c_indices(calc *c, bool on);

/* ---- elementwise ---- */
void c_copy(calc *c, vec y, vec x);
void c_transpose(calc *c, mat Y, mat X);                /* Y = X', apart from it */
void c_mirror(calc *c, mat A);                          /* what is above the diagonal becomes what is below it */
void c_add(calc *c, vec y, vec a, vec b);
void c_sub(calc *c, vec y, vec a, vec b);
void c_mul(calc *c, vec y, vec a, vec b);
void c_div(calc *c, vec y, vec a, vec b);
void c_max(calc *c, vec y, vec a, vec b);
void c_pow(calc *c, vec y, vec a, vec b);               /* a^b, a > 0 */
void c_binary(calc *c, enum binary op, vec y, vec a, vec b);     /* any of these but c_copy */
void c_map(calc *c, vec y, enum fn f, vec x);

/* ---- sums ---- */
void c_scan(calc *c, vec y, vec x);                     /* y_i = x_0 + ... + x_i; not in place */
void c_dot(calc *c, num y, vec a, vec b);               /* y = Σ a_i b_i */
void c_axpy(calc *c, vec y, num a, vec x);              /* y += a x */
void c_gemv_t(calc *c, vec y, mat A, vec x);            /* y = A'x */
void c_ger(calc *c, mat A, vec x, vec y);               /* A += x y' */
enum trans { NN, NT, TN };
void c_gemm(calc *c, mat C, enum trans t, mat A, mat B);        /* C = A B, A B', A'B */
void c_gemm_add(calc *c, mat C, enum trans t, mat A, mat B);    /* C += the same */

#endif
