/* The op's formula with every product rounded, each iterate kept: what eigenvalues are watched on. */
#include "iterate.h"

#include <cblas.h>
#include <stdlib.h>
#include <string.h>

#include "ref/call/op.h"
#include "spectrum.h"

const char *const ns_algorithm_name[] = { "standard", "gram_naive", "gram", NULL }, *const ns_eps_name[] = { "sum", "max", "only", NULL };

static bool largest_singular(double *sigma, const double *x, size_t s, size_t l, struct error *e)
{
	struct singular v;

	if (!singular_of(&v, x, s, l, "x", e)) return false;
	*sigma = dd_double(v.value[0]);
	singular_free(&v);
	return *sigma > 0 || error_set(e, E_VALUE, "x", NO_OFFSET, "expected a matrix that is not zero");
}

/* What the op's parameters are for `how`. */
static json_t *params_of(const struct iteration *how)
{
	json_t *coefficients = json_array(), *restarts = json_array();

	for (size_t i = 0; i < how->polynomials.n; i++) {
		const struct polynomial *p = &how->polynomials.at[i];
		json_array_append_new(coefficients, json_pack("[f,f,f]", p->a, p->b, p->c));
		if (how->restarts >> i & 1) json_array_append_new(restarts, json_integer((json_int_t)i));
	}
	return json_pack("{s:s,s:o,s:o,s:f,s:s}", "algorithm", ns_algorithm_name[how->algorithm], "coefficients", coefficients, "restarts", restarts,
		"eps", how->largest > 0 ? 1 : how->eps, "eps_kind", how->largest > 0 ? "only" : ns_eps_name[how->eps_kind]);
}

/* The op's call of x, which comes scaled where `largest` is asked for. */
static bool call_of(struct capture *c, const struct iteration *how, const double *x, size_t s, size_t l, struct error *e)
{
	struct tensor *in = tensors_add(&c->tensors, "in.x", DT_F64, 2, (size_t[]){ s, l });
	double sigma = 1;

	if (!in) return error_set(e, E_MEMORY, "x", NO_OFFSET, "an emulation of [%zu,%zu]", s, l);
	if (how->largest > 0 && !largest_singular(&sigma, x, s, l, e)) return false;
	for (size_t i = 0; i < s * l; i++) ((double *)in->data)[i] = how->largest > 0 ? x[i] * (how->largest / sigma) : x[i];
	c->op = op_of_iteration()->name;
	c->params = params_of(how);
	return c->params || error_set(e, E_MEMORY, "x", NO_OFFSET, "the parameters");
}

/* Each product once to `iterate`, its terms not; all in double where that is f64. */
static struct plan plan_of(const struct op *op, const struct iteration *how)
{
	static const char *const stored[] = { "x0", "gram", "z", "q", "rz", "r", "x", "y" };
	struct plan p = plan_plain(how->iterate == FMT_F64 ? &arith_f64 : &arith_f32, 0);
	struct site_rounding to = { .on = true, .format = how->iterate };

	if (how->iterate == FMT_F16 || how->iterate == FMT_BF16)
		for (size_t i = 0; i < sizeof stored / sizeof *stored; i++) p.round[op_site(op, stored[i])] = to;
	to.format = how->r0;
	if (how->rounds_r0 && how->r0 != FMT_F64) p.round[op_site(op, "gram")] = to;
	return p;
}

/* Takes output `name` of the answer. */
static double *taken(const struct op *op, struct answer *a, const char *name)
{
	for (int i = 0; op->out[i].name; i++) {
		double *x = a->hi[i];
		if (strcmp(op->out[i].name, name)) continue;
		a->hi[i] = NULL;
		return x;
	}
	return NULL;
}

bool trace_emulate(struct trace *t, const struct iteration *how, const double *x, size_t s, size_t l, struct error *e)
{
	const struct op *op = op_of_iteration();
	struct capture c = { 0 };
	struct answer a = { 0 };
	struct call call;

	*t = (struct trace){ .how = *how, .s = s, .l = l };
	bool ok = call_of(&c, how, x, s, l, e) && call_bind(&call, &c, false, e);
	if (ok) {
		struct plan plan = plan_of(op, how);
		call_trace(&call);
		ok = ref_run(&call, &plan, &a, e);
	}
	if (ok) t->X = taken(op, &a, "X"), t->y = taken(op, &a, "y");
	if (ok && how->algorithm != NS_STANDARD) t->R = taken(op, &a, "R"), t->Q = taken(op, &a, "Q");
	answer_free(&a);
	capture_free(&c);
	return ok;
}

void trace_answer(double *X, const struct trace *t, size_t at)
{
	const double *from = t->X + at * t->s * t->l;

	if (!t->Q) memcpy(X, from, t->s * t->l * sizeof *X);
	else cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, (int)t->s, (int)t->l, (int)t->s, 1, t->Q + at * t->s * t->s,
		(int)t->s, from, (int)t->l, 0, X, (int)t->l);
}

void trace_free(struct trace *t)
{
	free(t->X);
	free(t->R);
	free(t->Q);
	free(t->y);
	*t = (struct trace){ 0 };
}
