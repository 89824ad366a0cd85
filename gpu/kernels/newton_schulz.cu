/* Newton-Schulz: the polar factor of matrices, nearly, by polynomials of X X'.
 *
 *   X = x / (|x| + eps), or x / max(|x|, eps)               x' instead of x if taller than wide
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
#include "gpu/kernels/newton_schulz_plan.cuh"

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
	by_iterate(c, [&](auto zero) { run_in<decltype(zero)>(c); });
	return "newton_schulz";
}
