#include <math.h>

#include "figures.h"

/* Entries are the third axis from the last: [B?, K+1, rows, columns]. */
static size_t matrix_size(const struct call *call, int i, size_t *entries)
{
	size_t shape[MAX_RANK];
	int rank = call_out_shape(call, i, shape);

	*entries = shape[rank - 3];
	return shape[rank - 2] * shape[rank - 1];
}

static bool holds(const struct format_info *wide, const struct format_info *narrow)
{
	return wide->precision >= narrow->precision && wide->emin <= narrow->emin && wide->max >= narrow->max;
}

int trace_too_narrow(const struct call *call, const struct contract *k)
{
	for (int s = 0; call->op->sites[s].name; s++) {
		int i = call->op->sites[s].store - 1;
		enum format iterate = k->site[s].on ? k->site[s].format : FMT_F32;
		if (i < 0 || !call->out_count[i] || !(call->op->out[i].flags & TRACE)) continue;
		if (!holds(&format_info[dtype_info[out_dtype(call, i)].format], &format_info[iterate])) return i;
	}
	return -1;
}

static double squared_distance(double got, const struct answer *a, int i, size_t j)
{
	double d = (got - a->hi[i][j]) - (a->lo[i] ? a->lo[i][j] : 0);

	return d * d;
}

void trace_figures(struct trace_entries *t, const struct call *call, int i, const struct answer *anchored, const struct answer *unanchored,
	const struct expected *x)
{
	const struct tensor *out = call->out[i];
	size_t counted[MAX_ENTRY] = { 0 }, size = dtype_info[out->dtype].size;

	*t = (struct trace_entries){ .out = i };
	size_t each = matrix_size(call, i, &t->n);
	double n = (double)call->out_count[i] / (double)t->n;
	for (size_t j = 0; j < call->out_count[i]; j++) {
		size_t k = j / each % t->n;
		double got;
		dtype_load(out->dtype, (const char *)out->data + j * size, 1, &got);
		double d2 = squared_distance(got, anchored, i, j), s = x->sigma[i][j];
		t->entry[k].anchored += d2 / n;
		t->entry[k].free += squared_distance(got, unanchored, i, j) / n;
		if (s > 0) t->entry[k].sigma += d2 / (s * s), counted[k]++;
	}
	for (size_t k = 0; k < t->n; k++) {
		t->entry[k].sigma = counted[k] ? sqrt(t->entry[k].sigma / (double)counted[k]) : 0;
		t->entry[k].anchored = sqrt(t->entry[k].anchored);
		t->entry[k].free = sqrt(t->entry[k].free);
	}
	t->limit = rms_limit(fmax(1, x->freedom[i] / (double)t->n));
}

bool trace_free_running(const struct call *call, struct answer *a, struct error *e)
{
	struct call unanchored = *call;
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);

	unanchored.anchored = false;
	return ref_run(&unanchored, &p, a, e);
}
