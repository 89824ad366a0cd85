/* Element by element: functions, sums, products, comparisons. */
#include <math.h>

#include "evaluate.h"
#include "fixtures/io/wide.h"
#include "ref/approx/approx.h"

double cell_function(enum fn f, double x)
{
	if (f > FN_COUNT) return (double)approx((enum approx)(f - FN_APPROX(0)), (float)x, false);
	switch (f) {
	case FN_NEG: return -x;
	case FN_EXP: return exp(x);
	case FN_EXP2: return exp2(x);
	case FN_PER_LN2: return x * M_LOG2E;
	case FN_SIGMOID: return 1 / (1 + exp(-x));
	case FN_SOFTPLUS: return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
	case FN_SILU: return x / (1 + exp(-x));
	case FN_SQRT: return sqrt(x);
	case FN_RSQRT: return 1 / sqrt(x);
	case FN_RECIP: return 1 / x;
	case FN_SIN: return sin(x);
	case FN_COS: return cos(x);
	case FN_TANH: return tanh(x);
	case FN_LOG: return log(x);
	case FN_ERF: return erf(x);
	case FN_ABS: return fabs(x);
	default: return x;
	}
}

double cell_binary(enum binary op, double a, double b)
{
	switch (op) {
	case OP_ADD: return a + b;
	case OP_SUB: return a - b;
	case OP_MUL: return a * b;
	case OP_DIV: return a / b;
	case OP_MAX: return isnan(a) || a > b ? a : b;
	case OP_POW: return pow(a, b);
	}
	return (double)NAN;
}

static bool compared(enum node_kind op, double a, double b)
{
	switch (op) {
	case NODE_EQ: return a == b;
	case NODE_NE: return a != b;
	case NODE_LT: return a < b;
	case NODE_LE: return a <= b;
	case NODE_GT: return a > b;
	default: return a >= b;
	}
}

#define ROW(u_step, w_step, expression) for (size_t j = 0; j < y.cols; j++) { double u = p[j * (u_step)], w = q[j * (w_step)]; to[j] = (expression); }
#define ROWS(expression) do { \
	for (size_t i = 0; i < y.rows; i++) { \
		double *to = y.at + i * y.cols; \
		const double *p = a.at + i * step_down(a), *q = b.at + i * step_down(b); \
		if (step_along(a) && step_along(b)) ROW(1, 1, expression) \
		else if (step_along(a)) ROW(1, 0, expression) \
		else if (step_along(b)) ROW(0, 1, expression) \
		else ROW(0, 0, expression) \
	} } while (0)

#define ZIP(type) switch ((enum binary)op) { \
	case OP_ADD: ROWS((double)(type)(u + w)); break; \
	case OP_SUB: ROWS((double)(type)(u - w)); break; \
	case OP_MUL: ROWS((double)(type)(u * w)); break; \
	default: ROWS((double)(type)cell_binary((enum binary)op, u, w)); break; \
	}
WIDE_LOOP void cell_zip(int op, struct block y, struct block a, struct block b) { ZIP(double) }
WIDE_LOOP void cell_zip_floats(int op, struct block y, struct block a, struct block b) { ZIP(float) }
#undef ZIP

WIDE_LOOP void cell_select(struct block y, struct block a, struct block b, struct block where)
{
	for (size_t i = 0; i < y.rows; i++) {
		double *to = y.at + i * y.cols;
		const double *p = a.at + i * step_down(a), *q = b.at + i * step_down(b), *is = where.at + i * y.cols;
		for (size_t j = 0; j < y.cols; j++) {
			double u = p[j * step_along(a)], w = q[j * step_along(b)];
			to[j] = is[j] != 0 ? u : w;
		}
	}
}

void cell_compare(int op, struct block y, struct block a, struct block b) { ROWS(compared((enum node_kind)op, u, w) ? 1.0 : 0.0); }
