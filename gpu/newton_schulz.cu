/* Newton-Schulz: the polar factor of matrices, nearly, by polynomials of X X'.
 *
 *   X = x / (|x| + eps)                                     x' instead of x if taller than wide
 *   standard    A = X X';  B = b A + c A^2;  X <- a X + B X
 *   gram_naive  R = X X', Q = I;  Z = a I + b R + c R^2;  Q <- Q Z;  RZ = R Z;  R <- Z RZ;  y = Q X
 *   gram        as gram_naive, but Z = b R + c R^2;  Q <- Q Z + a Q;  RZ = R Z + a R;
 *               R <- Z RZ + a RZ;  before restart iterations  X <- Q X, R <- X X', Q <- I
 *
 * in.x, out.y [n,m] or [B,n,m]; with s = min(n,m), l = max(n,m), K iterations, and optional:
 * out.X [B,K+1,s,l], out.R, out.Q [B,K+1,s,s] (gram forms), entry t after t iterations.
 *
 * Threads: products of symmetric matrices and X X' by symmetric_*.cuh, products with X by cuBLAS.
 *
 * Numbers: the norm is summed in f32 in a fixed order; x / (|x| + eps) in f32, then rounded to the
 * iterate's type. A product and the terms added to it are f32, rounded once to that type. A
 * product with Q = I is not computed: it would give the other factor to the bit. */
#include "gpu/newton_schulz.cuh"

#include <cmath>
#include <cstring>

static enum algorithm algorithm_of(const capture &c)
{
	static const char *const names[] = { "standard", "gram_naive", "gram" };
	const char *given = capture_string(&c, "algorithm", "");

	for (int a = STANDARD; a <= GRAM; a++)
		if (strcmp(given, names[a]) == 0)
			return (enum algorithm)a;
	refuse(E_PARAM, "algorithm", "standard, gram_naive or gram, not '%s'", given);
}

static float coefficient(const json_t *row, size_t i, size_t t)
{
	const json_t *x = json_array_get(row, i);

	if (!json_is_number(x) || !std::isfinite((float)json_number_value(x)))
		refuse(E_PARAM, "coefficients", "row %zu is not three finite numbers", t);
	return (float)json_number_value(x);
}

static std::vector<polynomial> coefficients_of(const capture &c)
{
	const json_t *rows = json_object_get(c.params, "coefficients");
	std::vector<polynomial> list;

	if (json_array_size(rows) == 0)
		refuse(E_PARAM, "coefficients", "a list of [a,b,c], one for each iteration, must be given");
	for (size_t t = 0; t < json_array_size(rows); t++) {
		const json_t *row = json_array_get(rows, t);

		if (json_array_size(row) != 3)
			refuse(E_PARAM, "coefficients", "row %zu is not three finite numbers", t);
		list.push_back({ coefficient(row, 0, t), coefficient(row, 1, t), coefficient(row, 2, t) });
	}
	return list;
}

/* [K]; without the parameter: before the third iteration of gram, where there is one. */
static std::vector<bool> restarts_of(const capture &c, enum algorithm a, size_t K)
{
	const json_t *given = json_object_get(c.params, "restarts");
	std::vector<bool> restart(K);

	if (!given && a == GRAM && K > 2)
		restart[2] = true;
	if (given && !json_is_array(given))
		refuse(E_PARAM, "restarts", "a list of iterations, counted from 0");
	if (json_array_size(given) > 0 && a != GRAM)
		refuse(E_PARAM, "restarts", "the gram algorithm alone restarts");
	for (size_t i = 0; i < json_array_size(given); i++) {
		const json_t *t = json_array_get(given, i);

		if (!json_is_integer(t) || json_integer_value(t) < 1 || json_integer_value(t) >= (json_int_t)K)
			refuse(E_PARAM, "restarts", "element %zu is not an iteration from 1 to %zu", i, K - 1);
		restart[json_integer_value(t)] = true;
	}
	return restart;
}

static newton_schulz_plan plan_of(const capture &c)
{
	newton_schulz_plan plan = { algorithm_of(c), coefficients_of(c), {}, (float)capture_number(&c, "eps", 1e-7) };

	plan.restart = restarts_of(c, plan.algorithm, plan.coefficients.size());
	return plan;
}

/* Refuses a trace that the iterates would be rounded for, and one that the algorithm has not. */
template <class F> static void check_trace(const output &trace, bool present, const char *name, bool has)
{
	bool wide = present && trace.host().dtype == DT_F32;

	if (present && !has)
		refuse(E_PARAM, name, "the standard iteration has no such matrix");
	if (present)
		by_dtype(trace.host(), [&](auto zero) {
			if (!wide && !std::is_same_v<decltype(zero), F>)
				refuse(E_DTYPE, name, "F32 or the iterate's type, not %s", dtype_info[trace.host().dtype].name);
		});
}

template <class F> static void run_in(capture &c)
{
	newton_schulz_plan plan = plan_of(c);
	bool gram = plan.algorithm != STANDARD;
	input x(c, "x", REQUIRED);
	output y(c, "y", REQUIRED), X(c, "X", OPTIONAL), R(c, "R", OPTIONAL), Q(c, "Q", OPTIONAL);
	int rank = x.host().rank, entries = (int)plan.coefficients.size() + 1;

	if (rank != 2 && rank != 3)
		refuse(E_RANK, "in.x", "[n,m] or [B,n,m], not of rank %d", rank);
	float_dtypes({ &x.host() });
	same_dtype({ &x.host(), &y.host() });
	check_trace<F>(X, capture_out(&c, "X"), "X", true);
	check_trace<F>(R, capture_out(&c, "R"), "R", gram);
	check_trace<F>(Q, capture_out(&c, "Q"), "Q", gram);

	int batch = rank == 3 ? small(x.dim(0), "B", 65535) : 1;
	int n = small(x.dim(rank - 2), "n", 1 << 20), m = small(x.dim(rank - 1), "m", 1 << 20);
	cublas general;
	newton_schulz<F> work(plan, n, m, batch, general, OWN, nullptr);
	work.load(x.any());
	work.iterate(R.any().data || Q.any().data, [&](int t) {
		if (X.any().data)
			work.write_X(X.any(), t, entries);
		if (R.any().data)
			work.write_R(R.any(), t, entries);
		if (Q.any().data)
			work.write_Q(Q.any(), t, entries);
	});
	work.answer(y.any());
	for (output *o : { &y, &X, &R, &Q })
		o->fetch();
}

const char *run_newton_schulz(capture &c)
{
	const char *type = capture_string(&c, "iterate_dtype", "F32");

	if (strcmp(type, "F16") == 0)
		run_in<f16>(c);
	else if (strcmp(type, "BF16") == 0)
		run_in<bf16>(c);
	else if (strcmp(type, "F32") == 0)
		run_in<float>(c);
	else
		refuse(E_PARAM, "iterate_dtype", "F16, BF16 or F32, not %s", type);
	return "newton_schulz";
}
