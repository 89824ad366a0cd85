/* The tables of mixed_batch as they came, and what is refused. */
#include <stdarg.h>

#include "mixed_batch.h"

struct tables mixed_tables(calc *c)
{
	struct tables t = { c_dim(c, D_K), c_dim(c, D_R), c_dim(c, D_T), c_dim(c, D_P), NULL, NULL, NULL, NULL };

	t.step = c_bytes(c, (t.steps + 1) * sizeof *t.step);
	t.row = c_bytes(c, t.rows * sizeof *t.row);
	t.write = c_bytes(c, t.tokens * sizeof *t.write);
	t.write_inputs = c_bytes(c, t.tokens * sizeof *t.write_inputs);
	for (size_t k = 0; k <= t.steps; k++) t.step[k] = (size_t)c_int(c, IN_STEPS, k);
	for (size_t r = 0; r < t.rows; r++) {
		span s = c_sequence(c, IN_CU, D_T, r);
		int64_t slot = c_int(c, IN_READ, r);
		t.row[r] = (struct row){ (enum kind)c_int(c, IN_KINDS, r), s.first, s.last,
			c_has(c, IN_POSITION) ? c_int(c, IN_POSITION, r) : 0, slot, slot, false };
	}
	for (size_t i = 0; i < t.tokens; i++) t.write[i] = t.write_inputs[i] = c_int(c, IN_WRITE, i);
	return t;
}

/* ---- what is refused ---- */

static int64_t value(const struct call *call, int in, size_t i)
{
	const struct tensor *t = call->in[in];
	double x;

	dtype_load(t->dtype, (const char *)t->data + i * dtype_info[t->dtype].size, 1, &x);
	return (int64_t)x;
}

__attribute__((format(printf, 5, 6)))
static bool refuse(const struct call *call, int in, size_t i, struct error *e, const char *format, ...)
{
	const struct tensor *t = call->in[in];
	char text[200];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	return error_set(e, E_VALUE, t->name, t->offset == NO_OFFSET ? NO_OFFSET : t->offset + i * dtype_info[t->dtype].size,
		"%s; element %zu is %lld", text, i, (long long)value(call, in, i));
}

/* Cut points [n+1] that begin at 0, rise, and end at `end`. */
static bool rising(const struct call *call, int in, int dim_end, int dim_n, struct error *e)
{
	size_t n = call->dim[dim_n];

	if (!call_check_cuts(call, in, dim_end, dim_n, e)) return false;
	for (size_t i = 1; i <= n; i++)
		if (value(call, in, i) == value(call, in, i - 1)) return refuse(call, in, i, e, "expected no empty part");
	return true;
}

static bool is_slot(const struct call *call, int64_t slot) { return slot >= -1 && slot < (int64_t)call->dim[D_P]; }

static bool sound_row(const struct call *call, size_t r, struct error *e)
{
	int64_t kind = value(call, IN_KINDS, r), first = value(call, IN_CU, r), n = value(call, IN_CU, r + 1) - first;
	int64_t read = value(call, IN_READ, r);

	if (kind < 0 || kind >= KINDS) return refuse(call, IN_KINDS, r, e, "expected 0 .. %d", KINDS - 1);
	if ((kind == DECODE || kind == PADDING) && n != 1)
		return refuse(call, IN_KINDS, r, e, "expected one token in a row that decodes or pads, got %lld", (long long)n);
	if (!is_slot(call, read)) return refuse(call, IN_READ, r, e, "expected -1 .. %zu", call->dim[D_P] - 1);
	if (kind == PADDING && read != -1) return refuse(call, IN_READ, r, e, "expected -1 in row %zu, which pads", r);
	if (kind == PADDING && value(call, IN_WRITE, (size_t)first) != -1)
		return refuse(call, IN_WRITE, (size_t)first, e, "expected -1 in row %zu, which pads", r);
	if (call->in[IN_POSITION] && value(call, IN_POSITION, r) < 0)
		return refuse(call, IN_POSITION, r, e, "expected 0 or more");
	return true;
}

/* Of a step's rows [first, last): none writes a slot that another writes or reads, or its own twice. */
static bool sound_step(const struct call *call, size_t first, size_t last, struct error *e)
{
	size_t end = (size_t)value(call, IN_CU, last);

	for (size_t r = first; r < last; r++)
		for (size_t i = (size_t)value(call, IN_CU, r); i < (size_t)value(call, IN_CU, r + 1); i++) {
			int64_t slot = value(call, IN_WRITE, i);
			for (size_t j = i + 1; slot >= 0 && j < end; j++)
				if (value(call, IN_WRITE, j) == slot)
					return refuse(call, IN_WRITE, j, e, "expected a slot that token %zu of the same step does not write", i);
			for (size_t s = first; slot >= 0 && s < last; s++)
				if (s != r && value(call, IN_READ, s) == slot)
					return refuse(call, IN_WRITE, i, e, "expected a slot that row %zu of the same step does not read", s);
		}
	return true;
}

static bool sound_sizes(const struct call *call, struct error *e)
{
	const size_t *d = call->dim;
	bool ring = call->param[P_LAYOUT] == LAYOUT_RING;
	size_t Hk = d[D_C] > d[D_HV] * d[D_DV] ? (d[D_C] - d[D_HV] * d[D_DV]) / (2 * d[D_DK]) : 0;

	if (!Hk || d[D_C] != 2 * Hk * d[D_DK] + d[D_HV] * d[D_DV] || d[D_HV] % Hk)
		return error_set(e, E_DIM, "in.x", call->in[IN_X]->offset, "expected C = 2 Hk Dk + Hv Dv with an Hk that divides Hv; C = %zu, "
			"Hv = %zu, Dk = %zu, Dv = %zu", d[D_C], d[D_HV], d[D_DK], d[D_DV]);
	if (d[D_H] != d[D_W] && (ring || d[D_H] != d[D_W] - 1))
		return error_set(e, E_DIM, "in.conv_pool", call->in[IN_INPUTS]->offset, "expected [P,L,C,H] with H = %zu%s, got %zu", d[D_W],
			ring ? "" : " or one less", d[D_H]);
	if (ring && !call->in[IN_POSITION])
		return error_set(e, E_MISSING, "in.position", NO_OFFSET, "expected it where conv_layout is ring");
	return true;
}

bool mixed_check(const struct call *call, struct error *e)
{
	if (!sound_sizes(call, e) || !rising(call, IN_STEPS, D_R, D_K, e) || !rising(call, IN_CU, D_T, D_R, e)) return false;
	for (size_t r = 0; r < call->dim[D_R]; r++)
		if (!sound_row(call, r, e)) return false;
	for (size_t i = 0; i < call->dim[D_T]; i++)
		if (!is_slot(call, value(call, IN_WRITE, i))) return refuse(call, IN_WRITE, i, e, "expected -1 .. %zu", call->dim[D_P] - 1);
	for (size_t k = 0; k < call->dim[D_K]; k++)
		if (!sound_step(call, (size_t)value(call, IN_STEPS, k), (size_t)value(call, IN_STEPS, k + 1), e)) return false;
	return true;
}
