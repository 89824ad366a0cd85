/* What an arithmetic computes element by element. */
#ifndef ETALON_FN_H
#define ETALON_FN_H

enum binary { OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_MAX, OP_POW };

/* per_ln2 x / ln 2, sigmoid 1/(1+e^-x), softplus log(1+e^x), silu x·sigmoid(x). */
enum fn { FN_ID, FN_NEG, FN_EXP, FN_EXP2, FN_PER_LN2, FN_SIGMOID, FN_SOFTPLUS, FN_SILU, FN_SQRT, FN_RSQRT, FN_RECIP, FN_SIN, FN_COS, FN_TANH,
	FN_LOG, FN_ERF, FN_ABS, FN_COUNT };
/* A GPU's approximate instruction (approx.h) on x rounded to a float: the same number in every arithmetic; c_map knows it. */
#define FN_APPROX(name) ((enum fn)(FN_COUNT + 1 + (int)(name)))

#endif
