/* Traces from captures. */
#include "eigen_source.h"

#include <stdlib.h>

#include "ref/call/op.h"

bool iteration_of(struct iteration *how, const struct capture *c, struct error *e)
{
	const struct op *op = op_find(c->op);

	if (op && op_is_iteration(op)) return iteration_asked(how, c, e);
	return error_set(e, E_OP, c->op, NO_OFFSET, "expected a capture of %s", op_of_iteration()->name);
}

bool restarts_parse(uint64_t *restarts, const char *text, size_t K)
{
	*restarts = 0;
	while (*text) {
		char *end;
		unsigned long t = strtoul(text, &end, 10);
		if (end == text || t < 1 || t >= K || (*end && *end != ',')) return false;
		*restarts |= UINT64_C(1) << t;
		text = end + (*end == ',');
	}
	return true;
}

/* The doubles of part `batch` of a tensor of floats whose last sizes are as given (rank of them), with or without
 * a leading batch. */
static bool load(double **to, const struct tensor *x, size_t batch, size_t rank, const size_t *shape, struct error *e)
{
	size_t count = 1, lead = (size_t)x->rank - rank;
	bool ok = dtype_info[x->dtype].is_float && (lead == 0 || lead == 1) && batch < (lead ? x->shape[0] : 1);

	for (size_t i = 0; ok && i < rank; i++) {
		ok = x->shape[lead + i] == shape[i];
		count *= shape[i];
	}
	if (!ok) {
		char found[128];
		return error_set(e, E_SHAPE, x->name, NO_OFFSET, "%s %s: not floats [.., %zu, %zu] with a matrix %zu",
			dtype_info[x->dtype].name, shape_text(x, found, sizeof found), shape[rank - 2], shape[rank - 1], batch);
	}
	if (!(*to = malloc(count * sizeof(double)))) return error_set(e, E_MEMORY, x->name, NO_OFFSET, "%zu numbers", count);
	dtype_load(x->dtype, (const char *)x->data + batch * count * dtype_info[x->dtype].size, count, *to);
	return true;
}

/* [n,m] -> [m,n], in place of *x. */
static bool turn(double **x, size_t n, size_t m)
{
	double *y = malloc(n * m * sizeof *y);

	for (size_t i = 0; y && i < n; i++)
		for (size_t j = 0; j < m; j++) y[j * n + i] = (*x)[i * m + j];
	free(*x);
	*x = y;
	return y != NULL;
}

static bool oriented(double **to, const struct tensor *x, size_t batch, size_t n, size_t m, struct error *e)
{
	return load(to, x, batch, 2, (size_t[]){ n, m }, e)
		&& (n <= m || turn(to, n, m) || error_set(e, E_MEMORY, x->name, NO_OFFSET, "its transpose"));
}

static bool recorded(struct trace *t, const struct capture *c, size_t batch, struct error *e)
{
	const struct tensor *X = capture_out(c, "X"), *R = capture_out(c, "R"), *Q = capture_out(c, "Q");
	size_t entries = t->how.polynomials.n + 1;
	bool grams = t->how.algorithm != NS_STANDARD;

	if (grams && !(R && Q)) return error_set(e, E_MISSING, R ? "out.Q" : "out.R", NO_OFFSET, "a trace of %s has X, R and Q",
		ns_algorithm_name[t->how.algorithm]);
	t->recorded = true;
	return load(&t->X, X, batch, 3, (size_t[]){ entries, t->s, t->l }, e)
		&& (!grams || (load(&t->R, R, batch, 3, (size_t[]){ entries, t->s, t->s }, e)
			&& load(&t->Q, Q, batch, 3, (size_t[]){ entries, t->s, t->s }, e)));
}

bool trace_of(struct trace *t, double **y, const struct capture *c, size_t batch, struct error *e)
{
	const struct tensor *in = capture_in(c, "x"), *out = capture_out(c, "y");
	struct iteration how;
	double *x = NULL;

	*t = (struct trace){ 0 };
	*y = NULL;
	if (!iteration_of(&how, c, e)) return false;
	if (!in) return error_set(e, E_MISSING, "in.x", NO_OFFSET, "the matrix");
	if (in->rank < 2 || in->rank > 3) return error_set(e, E_RANK, "in.x", NO_OFFSET, "expected [n,m] or [B,n,m]");
	size_t n = in->shape[in->rank - 2], m = in->shape[in->rank - 1], s = n < m ? n : m, l = n < m ? m : n;
	if (!s) return error_set(e, E_EMPTY, "in.x", NO_OFFSET, "expected a matrix");
	*t = (struct trace){ .how = how, .s = s, .l = l };
	bool ok = oriented(&x, in, batch, n, m, e) && (!out || oriented(y, out, batch, n, m, e))
		&& (capture_out(c, "X") ? recorded(t, c, batch, e) : trace_emulate(t, &how, x, s, l, e));
	free(x);
	if (ok) return true;
	trace_free(t);
	free(*y);
	*y = NULL;
	return false;
}
