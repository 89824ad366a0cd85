/* Traces from captures. */
#include "eigen_source.h"

#include <stdlib.h>
#include <string.h>

static bool choice(const struct capture *c, const char *param, const char *absent, const char *const *names, int *which,
	struct error *e)
{
	const char *text = capture_string(c, param, absent);

	for (*which = 0; names[*which]; ++*which)
		if (!strcmp(names[*which], text)) return true;
	return error_set(e, E_PARAM, param, NO_OFFSET, "'%s' is none of %s, %s%s%s", text, names[0], names[1], names[2] ? ", " : "",
		names[2] ? names[2] : "");
}

static bool restarts_of(struct iteration *how, const json_t *j, struct error *e)
{
	const json_t *step;
	size_t i, K = how->polynomials.n;

	if (!j) {
		how->restarts = how->algorithm == NS_GRAM && K > 2 ? 1 << 2 : 0;
		return true;
	}
	if (!json_is_array(j)) return error_set(e, E_PARAM, "restarts", NO_OFFSET, "expected a list of steps");
	json_array_foreach(j, i, step) {
		json_int_t t = json_integer_value(step);
		if (!json_is_integer(step) || t < 1 || t >= (json_int_t)K)
			return error_set(e, E_PARAM, "restarts", NO_OFFSET, "expected steps from 1 to %zu", K - 1);
		how->restarts |= UINT64_C(1) << t;
	}
	return true;
}

bool iteration_of(struct iteration *how, const struct capture *c, struct error *e)
{
	static const char *const dtypes[] = { "F16", "BF16", "F32", NULL };
	static const enum format formats[] = { FMT_F16, FMT_BF16, FMT_F32 };
	static const char *const eps_kinds[] = { "sum", "max", NULL };
	const json_t *eps = json_object_get(c->params, "eps");
	int which;

	*how = (struct iteration){ 0 };
	if (strcmp(c->op, "newton_schulz")) return error_set(e, E_OP, c->op, NO_OFFSET, "expected a capture of newton_schulz");
	if (!choice(c, "algorithm", "", ns_algorithm_name, &which, e)) return false;
	how->algorithm = (enum ns_algorithm)which;
	if (!choice(c, "iterate_dtype", "F32", dtypes, &which, e)) return false;
	how->iterate = formats[which];
	if (eps && !(json_is_number(eps) && json_number_value(eps) >= 0))
		return error_set(e, E_PARAM, "eps", NO_OFFSET, "expected a number, 0 or more");
	how->eps = capture_number(c, "eps", 1e-7);
	if (!choice(c, "eps_kind", "sum", eps_kinds, &which, e)) return false;
	how->eps_is_least = which == 1;
	return schedule_json(&how->polynomials, json_object_get(c->params, "coefficients"), "coefficients", e)
		&& restarts_of(how, json_object_get(c->params, "restarts"), e);
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
