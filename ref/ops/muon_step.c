/* muon_step: one step of Muon on a weight W [N,M] with gradient G and momentum buffer V.
 *
 *   V <- mu V + G;  U = G + mu V (Nesterov) or V;  O = orthogonalised U;  W <- W - lr wd W - lr s O
 *
 * Of momentum_kind mean V and U have (1 - mu) G in G's place. s = 0.2 sqrt(max(n,m)) or sqrt(max(1,n/m)). A fused weight is cut into
 * blocks of n rows, each a matrix of its own. */
#include "newton_schulz.h"

enum { D_N, D_M };
enum { IN_WEIGHT, IN_GRAD, IN_MOMENTUM };
enum { OUT_WEIGHT, OUT_MOMENTUM };
enum { P_LR = NS_PARAMS, P_MOMENTUM, P_NESTEROV, P_DECAY, P_SCALE, P_SPLIT, P_KIND };
enum { KIND_SUM, KIND_MEAN };
enum { RMS_SCALE, SPECTRAL_SCALE };
enum { SITE_MOMENTUM = NS_SITES, SITE_UPDATE, SITE_O, SITE_WEIGHT };
enum {
	NOT_TRANSPOSED_SCALE = NS_FAULTS, OTHER_SCALE, SCALE_MISSING, SCALE_FROM_MIN, SCALE_OF_FUSED, PER_SHARD, FUSED_QKV_AS_ONE,
	NESTEROV_MISSING, MOMENTUM_IS_MEAN, MOMENTUM_IS_SUM, MOMENTUM_STALE, DECAY_COUPLED, DECAY_WITHOUT_LR, DECAY_AFTER_UPDATE
};

struct rows { size_t first, n; };

/* X's row i is a row of the block, or a column where the block is taller than wide. */
static size_t row_at(const calc *c, struct rows r, size_t i, size_t *step)
{
	size_t M = c_dim(c, D_M);

	*step = r.n > M ? M : 1;
	return r.first * M + (r.n > M ? i : i * M);
}

static bool is_mean(const calc *c)
{
	return c_param(c, P_KIND) == KIND_MEAN ? !c_fault(c, MOMENTUM_IS_SUM) : c_fault(c, MOMENTUM_IS_MEAN);
}

/* One row of V and of U: v <- mu v + g, u <- g + mu v or v; of a mean g <- (1 - mu) g first. */
static void momentum(calc *c, struct rows r, size_t i, vec u)
{
	size_t step, at = row_at(c, r, i, &step), mark = c_mark(c);
	double mu = c_param(c, P_MOMENTUM);
	vec g = c_vec(c, u.n), v = c_vec(c, u.n), w = c_vec(c, u.n), old = c_vec(c, u.n);

	c_load(c, g, IN_GRAD, at, step);
	c_load(c, v, IN_MOMENTUM, at, step);
	c_copy(c, old, v);
	if (c_fault(c, DECAY_COUPLED)) {
		c_load(c, w, IN_WEIGHT, at, step);
		c_axpy(c, g, c_number(c, c_param(c, P_DECAY)), w);
	}
	if (is_mean(c)) {
		num rest = c_number(c, 1);
		c_sub(c, rest, rest, c_number(c, mu));
		c_mul(c, g, g, rest);
	}
	c_mul(c, v, v, c_number(c, mu));
	c_axpy(c, v, c_number(c, 1), g);
	c_store(c, OUT_MOMENTUM, at, step, v);
	c_site(c, SITE_MOMENTUM, v);
	if (c_fault(c, MOMENTUM_STALE)) c_copy(c, v, old);
	if (c_param(c, P_NESTEROV) && !c_fault(c, NESTEROV_MISSING)) {
		c_copy(c, u, g);
		c_axpy(c, u, c_number(c, mu), v);
	} else c_copy(c, u, v);
	c_site(c, SITE_UPDATE, u);
	c_release(c, mark);
}

/* s <- 0.2 sqrt(max(n,m)) or sqrt(max(1,n/m)) */
static void scale(calc *c, num s, double n, double m)
{
	bool spectral = (c_param(c, P_SCALE) == SPECTRAL_SCALE) != c_fault(c, OTHER_SCALE);
	double larger = n > m ? n : m, smaller = n > m ? m : n;

	if (c_fault(c, NOT_TRANSPOSED_SCALE)) {
		double t = n;
		n = m, m = t;
	}
	c_set(c, s, spectral ? n > m ? n : m : c_fault(c, SCALE_FROM_MIN) ? smaller : larger);
	if (spectral) c_div(c, s, s, c_number(c, m));
	c_map(c, s, FN_SQRT, s);
	if (!spectral) c_mul(c, s, s, c_number(c, 0.2));
	if (c_fault(c, SCALE_MISSING)) c_set(c, s, 1);
}

/* One row of W: w <- (1 - lr wd) w - lr s o */
static void step_row(calc *c, struct rows r, size_t i, num s, vec o)
{
	size_t step, at = row_at(c, r, i, &step), mark = c_mark(c);
	double lr = c_param(c, P_LR), wd = c_fault(c, DECAY_COUPLED) ? 0 : c_param(c, P_DECAY);
	vec w = c_vec(c, o.n);
	num keep = c_number(c, 1), decay = c_number(c, wd), rate = c_number(c, -lr);

	if (!c_fault(c, DECAY_WITHOUT_LR)) c_mul(c, decay, decay, c_number(c, lr));
	c_sub(c, keep, keep, decay);
	c_mul(c, rate, rate, s);
	c_load(c, w, IN_WEIGHT, at, step);
	if (!c_fault(c, DECAY_AFTER_UPDATE)) c_mul(c, w, w, keep);
	c_axpy(c, w, rate, o);
	if (c_fault(c, DECAY_AFTER_UPDATE)) c_mul(c, w, w, keep);
	c_site(c, SITE_WEIGHT, w);
	c_store(c, OUT_WEIGHT, at, step, w);
	c_release(c, mark);
}

/* The rows r as one matrix, its step scaled by s. */
static void step(calc *c, struct rows r, num s)
{
	size_t M = c_dim(c, D_M);
	struct ns ns = ns_make(c, r.n < M ? r.n : M, r.n < M ? M : r.n, 0, -1);

	for (size_t i = 0; i < ns.X.rows; i++) momentum(c, r, i, c_row(c, ns.X, i));
	ns_orthogonalise(c, &ns);
	c_site(c, SITE_O, flat(ns.X));
	for (size_t i = 0; i < ns.X.rows; i++) step_row(c, r, i, s, c_row(c, ns.X, i));
}

static size_t blocks(const struct call *call) { return call->param[P_SPLIT] > 0 ? (size_t)call->param[P_SPLIT] : 1; }

static struct rows block(const calc *c, size_t i)
{
	struct rows r = { 0, c_dim(c, D_N) };

	if (!(c_param(c, P_SPLIT) > 0)) return r;
	for (size_t k = 0; k <= i; k++) {
		if (k) r.first += r.n;
		r.n = (size_t)c_list(c, P_SPLIT, k, 1, 0);
	}
	return r;
}

static void matrix(calc *c, size_t i)
{
	struct rows r = block(c, i), all = { 0, c_dim(c, D_N) };
	num s = c_num(c);

	if (c_fault(c, FUSED_QKV_AS_ONE)) {
		if (i) return;
		r = all;
	}
	scale(c, s, (double)(c_fault(c, SCALE_OF_FUSED) ? all : r).n, (double)c_dim(c, D_M));
	if (c_fault(c, PER_SHARD) && r.n > 1) {
		step(c, (struct rows){ r.first, r.n / 2 }, s);
		step(c, (struct rows){ r.first + r.n / 2, r.n - r.n / 2 }, s);
	} else step(c, r, s);
}

static bool check(const struct call *call, struct error *e)
{
	double N = (double)call->dim[D_N], sum = 0;

	for (size_t i = 0; call->param[P_SPLIT] > 0 && i < blocks(call); i++) {
		double n = call_list(call, P_SPLIT, i, 1, 0);
		if (!(n >= 1 && n <= N && n == (double)(size_t)n))
			return error_set(e, E_PARAM, "split", NO_OFFSET, "expected whole numbers of rows, got %g", n);
		sum += n;
	}
	if (call->param[P_SPLIT] >= 0 && sum != N)
		return error_set(e, E_PARAM, "split", NO_OFFSET, "expected blocks of %g rows in all, got %g", N, sum);
	return ns_check(call, e);
}

static const struct tensor_spec in[] = {
	[IN_WEIGHT] = { "weight", "N,M", 0, "[out,in]" },
	[IN_GRAD] = { "grad", "N,M", 0, "its gradient" },
	[IN_MOMENTUM] = { "momentum", "N,M", 0, "the buffer from the step before" },
	{ 0 }
};
static const struct tensor_spec out[] = {
	[OUT_WEIGHT] = { "weight", "N,M", 0, "" },
	[OUT_MOMENTUM] = { "momentum", "N,M", 0, "" },
	{ 0 }
};
static const struct param_spec params[] = {
	NS_PARAM_TABLE,
	[P_LR] = { "lr", PARAM_REAL, NULL, true, 0, "learning rate" },
	[P_MOMENTUM] = { "momentum", PARAM_REAL, NULL, true, 0, "mu" },
	[P_NESTEROV] = { "nesterov", PARAM_BOOL, NULL, false, 1, "U = G + mu V, else V" },
	[P_DECAY] = { "weight_decay", PARAM_REAL, NULL, false, 0, "decoupled: W <- W - lr wd W" },
	[P_SCALE] = { "scale", PARAM_CHOICE, "0.2*sqrt(max(n,m))|sqrt(max(1,n/m))", true, 0, "of the step, n x m the block's shape" },
	[P_SPLIT] = { "split", PARAM_LIST, "rows", false, NAN, "blocks of rows that are matrices of their own: fused q, k and v" },
	[P_KIND] = { "momentum_kind", PARAM_CHOICE, "sum|mean", false, KIND_SUM, "mean: (1 - mu) G in V and U, where sum has G" },
	{ 0 }
};
static const struct site_spec sites[] = {
	NS_SITE_TABLE(-1),
	[SITE_MOMENTUM] = { "momentum", "V, as U reads it", -1, 0 },
	[SITE_UPDATE] = { "update", "U", -1, 0 },
	[SITE_O] = { "o", "the orthogonalised U", -1, 0 },
	[SITE_WEIGHT] = { "weight", "the new weight", -1, 1 + OUT_WEIGHT },
	{ 0 }
};
static const struct fault_spec faults[] = {
	NS_FAULT_TABLE,
	[NOT_TRANSPOSED_SCALE] = { "not_transposed_scale", "sqrt(max(1,m/n)): the scale of the transpose", "", -1, 0, 0, 0 },
	[OTHER_SCALE] = { "other_scale", "the scale of the other rule", "", -1, 0, 0, 0 },
	[SCALE_MISSING] = { "scale_missing", "a scale of 1", "", -1, 0, 0, 0 },
	[SCALE_FROM_MIN] = { "scale_from_min", "0.2 sqrt(min(n,m))", "", -1, 0, 0, 0 },
	[SCALE_OF_FUSED] = { "scale_of_fused", "each block scaled by the shape of the fused weight", "", -1, 0, 0, 0 },
	[PER_SHARD] = { "per_shard", "the upper and the lower half of the rows orthogonalised alone", "DeepSpeed#8437", -1, 0, 0, 0 },
	[FUSED_QKV_AS_ONE] = { "fused_qkv_as_one", "the fused weight orthogonalised as one matrix", "Megatron#7117", -1, 0, 0, 0 },
	[NESTEROV_MISSING] = { "nesterov_missing", "U = V", "", -1, 0, 0, 0 },
	[MOMENTUM_IS_MEAN] = { "momentum_is_mean", "(1 - mu) G for G: of kind sum the other kind", "", -1, 0, 0, 0 },
	[MOMENTUM_IS_SUM] = { "momentum_is_sum", "G for (1 - mu) G: of kind mean the other kind", "", -1, 0, 0, 0 },
	[MOMENTUM_STALE] = { "momentum_stale", "U from the V of the step before", "", -1, 0, 0, 0 },
	[DECAY_COUPLED] = { "decay_coupled", "wd W added to G", "", -1, 0, 0, 0 },
	[DECAY_WITHOUT_LR] = { "decay_without_lr", "W <- W - wd W", "", -1, 0, 0, 0 },
	[DECAY_AFTER_UPDATE] = { "decay_after_update", "the new W decays", "", -1, 0, 0, 0 },
	{ 0 }
};

#define STORED(...) NS_STORED(__VA_ARGS__), [SITE_O] = __VA_ARGS__
NS_STRUCTURES;
#define STORED_F16 "every matrix of the iteration stored in float16, products and multiples before their sum too or not, all else in float32"
#define STORED_BF16 "every matrix of the iteration stored in bf16, products and multiples before their sum too or not, all else in float32"
#define CAST_BF16 "U cast to bf16 before its norm, which is rounded too, and every matrix of the iteration stored in bf16"
static const struct contract contracts[] = {
	{ "f32", "all in float32", FULL, 0, {{ 0 }}, NULL },
	{ "lower_f32", "all in float32" NS_MIRRORED, LOWER, 0, {{ 0 }}, NULL },
	{ "f16", STORED_F16, FULL, 0, { NS_APART(NS_F16) }, f16_kernels },
	{ "lower_f16", STORED_F16 NS_MIRRORED, LOWER, 0, { NS_APART(NS_F16) }, f16_kernels },
	{ "bf16", STORED_BF16, FULL, 0, { NS_APART(NS_BF16) }, bf16_kernels },
	{ "lower_bf16", STORED_BF16 NS_MIRRORED, LOWER, 0, { NS_APART(NS_BF16) }, bf16_kernels },
	{ "bf16_input", CAST_BF16, FULL, 0, { NS_CAST_FIRST, NS_APART(NS_BF16) }, cast_kernels },
	{ "lower_bf16_input", CAST_BF16 NS_MIRRORED, LOWER, 0, { NS_CAST_FIRST, NS_APART(NS_BF16) }, cast_kernels },
	{ 0 }
};

static size_t pieces(const struct call *call) { return blocks(call); }

const struct op op_muon_step = {
	.name = "muon_step", .what = "V <- mu V + G; W <- W - lr wd W - lr s newton_schulz(G + mu V)",
	.dims = { "N", "M" }, .in = in, .out = out, .params = params, .sites = sites, .faults = faults,
	.contracts = contracts, .forms = NS_FORMS(matrix), .check = check, .pieces = pieces, .iterates = true
};
