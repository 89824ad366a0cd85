/* What GPUs' programs compute otherwise than rounded right: elementary functions of PTX's approximate instructions, to the bit, each step rounded
 * to a float; running sums in the orders that kernels have. */
#include <math.h>
#include <string.h>

#include "evaluate.h"
#include "ref/approx/approx.h"

static float over(float x) { return approx(APPROX_RCP, x, false); }
static float ex2(float x) { return approx(APPROX_EX2, x, false); }
static float lg2_ln2(float x) { return approx(APPROX_LG2, x, false) * 0x1.62e43p-1f; }
static float root(float x) { return approx(APPROX_SQRT, x, false); }
static float rsqrt(float x) { return approx(APPROX_RSQRT, x, false); }
static float over_root(float x) { return over(root(x)); }
static float over_exact_root(float x) { return 1 / sqrtf(x); }
static float sine(float x) { return approx(APPROX_SIN, x, false); }
static float cosine(float x) { return approx(APPROX_COS, x, false); }
static float hyperbolic(float x) { return approx(APPROX_TANH, x, false); }
static float sigmoid(float x) { return over(1 + approx_expf(-x)); }
static float fast_sigmoid(float x) { return over(1 + approx_fast_expf(-x)); }
static float softplus(float x) { return x > 20 ? x : (float)log1p((double)approx_expf(x)); }      /* PyTorch's */
static float silu(float x) { return x * sigmoid(x); }
static float fast_silu(float x) { return x * fast_sigmoid(x); }

/* said: with its argument in brackets behind it */
static const struct { float (*of)(float x); const char *said; } ways[FN_COUNT][MAX_WAY] = {
	[FN_EXP] = { { approx_expf, "expf" }, { approx_fast_expf, "fast_expf" } },
	[FN_EXP2] = { { ex2, "ex2_approx" } },
	[FN_LOG] = { { lg2_ln2, "ln(2) * lg2_approx" } },
	[FN_SQRT] = { { root, "sqrt_approx" } },
	[FN_RSQRT] = { { rsqrt, "rsqrt_approx" }, { over_exact_root, "1 / sqrt" }, { over_root, "1 / sqrt_approx" } },
	[FN_RECIP] = { { over, "rcp_approx" } },
	[FN_SIN] = { { sine, "sin_approx" } },
	[FN_COS] = { { cosine, "cos_approx" } },
	[FN_TANH] = { { hyperbolic, "tanh_approx" } },
	[FN_SIGMOID] = { { sigmoid, "sigmoid_expf" }, { fast_sigmoid, "sigmoid_fast_expf" } },
	[FN_SOFTPLUS] = { { softplus, "log1p_expf" } },
	[FN_SILU] = { { silu, "silu_expf" }, { fast_silu, "silu_fast_expf" } },
};

const char *way_name(enum fn f, int way) { return f >= FN_COUNT || way < 1 || way > MAX_WAY ? NULL : ways[f][way - 1].said; }
double way_value(enum fn f, int way, double x) { return (double)ways[f][way - 1].of((float)x); }

/* Of a vector: in each warp of 32 by doubling distances, then onto the sum of those before; or in turn. */
void sum_scan(const struct cell *c, struct block y, struct block a)
{
	size_t n = a.rows * a.cols;

	if (c->cols.n > 1 && c->rows.n > 1) {
		for (size_t i = 0; i < n; i++) y.at[i] = a.at[i] + (i >= a.cols ? y.at[i - a.cols] : 0), y.at[i] = c->exact ? y.at[i] : round_one(y.at[i], IN_F32);
		return;
	}
	if (c->exact || c->p[0] == SCAN_IN_TURN) {
		for (size_t i = 0; i < n; i++) y.at[i] = a.at[i] + (i ? y.at[i - 1] : 0), y.at[i] = c->exact ? y.at[i] : round_one(y.at[i], IN_F32);
		return;
	}
	memcpy(y.at, a.at, n * sizeof *y.at);
	for (size_t b = 0; b < n; b += 32) {
		size_t m = n - b < 32 ? n - b : 32;
		for (size_t d = 1; d < 32; d *= 2)
			for (size_t i = m; i-- > d;) y.at[b + i] = round_one(y.at[b + i] + y.at[b + i - d], IN_F32);
		for (size_t i = 0; i < m && b; i++) y.at[b + i] = round_one(y.at[b + i] + y.at[b - 1], IN_F32);
	}
}
