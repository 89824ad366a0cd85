/* Vectors and matrices of a calc, in its arena: for formulas and for arithmetics alike. */
#ifndef ETALON_CALC_ARENA_H
#define ETALON_CALC_ARENA_H

#include "arith.h"

typedef struct { void *at; size_t n; } vec;             /* contiguous */
typedef struct { void *at; size_t rows, cols; } mat;    /* row-major, contiguous */
typedef vec num;                                        /* n == 1 */

/* Zero at first. */
num c_num(calc *c);
vec c_vec(calc *c, size_t n);
vec c_room(calc *c, size_t n);                          /* of any values: to be written before it is read */
mat c_mat(calc *c, size_t rows, size_t cols);
void *c_bytes(calc *c, size_t n);                       /* for tables, in no arithmetic */
vec c_part(const calc *c, vec x, size_t first, size_t n);       /* x[first, first + n) */
size_t c_element(const calc *c);                         /* bytes from one to the next */
vec c_row(const calc *c, mat A, size_t i);
static inline vec flat(mat A) { return (vec){ A.at, A.rows * A.cols }; }
size_t c_mark(const calc *c);
void c_release(calc *c, size_t mark);                   /* forgets all made since c_mark */

#endif
