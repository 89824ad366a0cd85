/* A rounding of what flows through a layer errs anew with every number, and may be a correct engine's. A rounding of what no x
 * reaches, a frequency, a position, 1 + w, errs the same way each time: the layer has another constant, and its error grows where
 * the constant is multiplied. Which of the two a rounding is its effect on other numbers shows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "fixtures/io/random.h"
#include "layer_private.h"

/* Numbers that are so far apart, relatively, have other roundings to bf16. */
static const double apart = 0x1p-6;

static struct tensor *other_numbers(struct tensors *room, const struct tensor *x)
{
	struct tensor *y = tensors_add(room, "x", DT_F64, x->rank, x->shape);

	for (size_t i = 0; y && i < y->count; i++) {
		double z;
		dtype_load(x->dtype, (const char *)x->data + i * dtype_info[x->dtype].size, 1, &z);
		((double *)y->data)[i] = z * (1 + apart * ((double)(random_at(i) >> 11) * 0x1p-52 - 1));
	}
	return y;
}

/* move [n] <- what the fault changes in the exact layer. */
static bool effect(const struct call *call, int fault, size_t n, double *move)
{
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);
	struct answer a, b;

	if (!ref_run(call, &p, &a, NULL)) return false;
	plan_fault(&p, call->op, fault);
	bool ok = ref_run(call, &p, &b, NULL);
	for (size_t i = 0; ok && i < n; i++) move[i] = b.hi[0][i] - a.hi[0][i];
	answer_free(&a);
	if (ok) answer_free(&b);
	return ok;
}

bool layer_find_constant(const struct reader *d, struct layer_suspect *s)
{
	struct tensors room = { 0 };
	struct call call = *d->call;
	double *one = malloc(2 * d->n * sizeof *one), *two = one + d->n, a = 0, b = 0, both = 0;
	const int in = model_in(call.op, "x");

	if (s->kind != SUSPECT_FAULT || !call.op->faults[s->index].is_rounding) return free(one), true;
	bool ok = one && effect(&call, s->index, d->n, one) && (call.in[in] = other_numbers(&room, call.in[in]))
		&& effect(&call, s->index, d->n, two);
	for (size_t i = 0; ok && i < d->n; i++) a += one[i] * one[i], b += two[i] * two[i], both += one[i] * two[i];
	s->constant = ok && both > layer_constant_agrees * sqrt(a * b);
	free(one);
	tensors_free(&room);
	return ok;
}
