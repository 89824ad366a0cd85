/* Binds an op to a capture: every name, rank, shape, dtype and parameter is checked. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "call_private.h"

static int dim_index(const struct op *op, const char *symbol, size_t n)
{
	for (int i = 0; op->dims[i]; i++)
		if (strlen(op->dims[i]) == n && !strncmp(op->dims[i], symbol, n)) return i;
	abort();        /* a table names a symbol that the op does not list: tests bind every op */
}

/* The next symbol of a shape: its index in dims and the number added to it. */
static const char *shape_next(const struct op *op, const char *s, int *dim, long *plus)
{
	size_t n = strcspn(s, "+-,?");

	*dim = dim_index(op, s, n);
	s += n + (s[n] == '?');
	*plus = *s && *s != ',' ? strtol(s, (char **)&s, 10) : 0;
	return *s == ',' ? s + 1 : s;
}

/* The shape behind a first symbol that may be missing; NULL where there is none. */
static const char *without_batch(const char *shape)
{
	size_t n = strcspn(shape, ",");

	return n && shape[n - 1] == '?' ? shape + n + 1 : NULL;
}

/* Does t lack the symbol that may be missing? The first input that could have it decides for all. */
static bool lacks_batch(struct call *call, bool *decided, const struct tensor_spec *spec, const struct tensor *t)
{
	if (!without_batch(spec->shape)) return false;
	if (!*decided) call->no_batch = t->rank < symbols_in(spec->shape);
	*decided = true;
	return call->no_batch;
}

/* Binds the symbols of a shape to t's sizes; bound says which are known already. */
static bool bind_shape(struct call *call, bool *bound, const char *shape, const struct tensor *t, struct error *e)
{
	const char *s = shape;
	char text[128];

	if (t->rank != symbols_in(s))
		return error_set(e, E_RANK, t->name, t->offset, "expected [%s], got %s", s, shape_text(t, text, sizeof text));
	for (int i = 0; i < t->rank; i++) {
		int d;
		long plus;
		s = shape_next(call->op, s, &d, &plus);
		size_t size = t->shape[i] - (size_t)plus;
		if (plus > 0 && t->shape[i] < (size_t)plus) size = 0;
		if (size == 0 && !(plus < 0 && t->shape[i] == 0))
			return error_set(e, E_EMPTY, t->name, t->offset, "%s of [%s] is 0 in %s", call->op->dims[d], shape, shape_text(t, text, sizeof text));
		if (bound[d] && call->dim[d] != size)
			return error_set(e, E_DIM, t->name, t->offset, "expected [%s] with %s = %zu, got %s", shape, call->op->dims[d],
				call->dim[d], shape_text(t, text, sizeof text));
		bound[d] = true;
		call->dim[d] = size;
	}
	return true;
}

static bool right_kind(const struct tensor_spec *spec, enum dtype d)
{
	return spec->flags & INTEGER ? d == DT_I32 || d == DT_I64 : dtype_info[d].is_float;
}

/* Whole numbers are computed with as doubles: beyond 2^53 most have none of their own. */
static bool right_numbers(const struct tensor *t, struct error *e)
{
	for (size_t i = 0; t->dtype == DT_I64 && i < t->count; i++) {
		int64_t x;
		memcpy(&x, (const char *)t->data + i * sizeof x, sizeof x);
		if (fabs((double)x) >= 0x1p63 || (int64_t)(double)x != x)
			return error_set(e, E_VALUE, t->name, t->offset == NO_OFFSET ? NO_OFFSET : t->offset + i * sizeof x,
				"expected whole numbers that a double holds, as all from -2^53 to 2^53, got %lld in element %zu", (long long)x, i);
	}
	return true;
}

/* The capture has no `name`; a tensor of its bare name? */
static bool lacks(const struct call *call, const char *name, const char *bare, const char *shape, struct error *e)
{
	bool found = tensors_find(&call->capture->tensors, bare) != NULL;

	return error_set(e, E_MISSING, name, NO_OFFSET, "expected [%s]%s%s%s", shape, found ? "; found '" : "", found ? bare : "",
		found ? "', and names begin with in. or out." : "");
}

static bool bind_tensors(struct call *call, struct error *e)
{
	bool bound[MAX_DIM] = { false }, batch = false;

	for (int pass = 0; pass < 2; pass++) {
		const struct tensor_spec *spec = pass ? call->op->out : call->op->in;
		if (pass && call->op->derive) call->op->derive(call);
		for (int d = 0; d < MAX_DIM; d++) bound[d] = call->dim[d] != 0;
		for (int i = 0; spec[i].name; i++) {
			const struct tensor *t = pass ? capture_out(call->capture, spec[i].name) : capture_in(call->capture, spec[i].name);
			char name[64];
			snprintf(name, sizeof name, "%s.%s", pass ? "out" : "in", spec[i].name);
			*(pass ? &call->out[i] : &call->in[i]) = t;
			if (!t && (pass || spec[i].flags & OPTIONAL)) continue;
			if (!t) return lacks(call, name, spec[i].name, spec[i].shape, e);
			if (!right_kind(&spec[i], t->dtype))
				return error_set(e, E_KIND, name, t->offset, "expected %s, got %s",
					spec[i].flags & INTEGER ? "I32 or I64" : "a floating-point type", dtype_info[t->dtype].name);
			const char *shape = lacks_batch(call, &batch, &spec[i], t) ? without_batch(spec[i].shape) : spec[i].shape;
			if (!bind_shape(call, bound, shape, t, e) || !right_numbers(t, e)) return false;
		}
	}
	for (int d = 0; call->op->dims[d]; d++)
		if (!bound[d]) call->dim[d] = 1;
	return true;
}

static bool known(const struct tensor_spec *spec, const char *name)
{
	for (; spec->name; spec++)
		if (!strcmp(spec->name, name)) return true;
	return false;
}

static bool no_extra_tensors(const struct call *call, struct error *e)
{
	const struct tensors *t = &call->capture->tensors;

	for (size_t i = 0; i < t->n; i++) {
		const char *name = t->item[i].name;
		if (!strncmp(name, "in.", 3) ? known(call->op->in, name + 3) : !strncmp(name, "out.", 4) && known(call->op->out, name + 4)) continue;
		bool out = !strncmp(name, "out.", 4);
		if (!out && strncmp(name, "in.", 3)) return error_set(e, E_EXTRA, name, t->item[i].offset, "names begin with in. or out.");
		char all[160] = "";
		for (const struct tensor_spec *s = out ? call->op->out : call->op->in; s->name; s++) {
			size_t n = strlen(all);
			snprintf(all + n, sizeof all - n, "%s%s.%s", n ? ", " : "", out ? "out" : "in", s->name);
		}
		return error_set(e, E_EXTRA, name, t->item[i].offset, "%s has %s", call->op->name, all);
	}
	return true;
}

/* The call has no output, and its op requires none. */
static bool has_none(const struct call *call)
{
	const struct tensor_spec *spec = call->op->out;

	for (int i = 0; spec[i].name; i++)
		if (call->out[i] || !(spec[i].flags & (OPTIONAL | TRACE))) return false;
	return true;
}

/* An output comes with the call unless its spec names an input that is not there. One that is
 * optional comes where it is asked for; of an op that requires none, all come where none is. */
static bool has_output(const struct call *call, int i)
{
	const struct tensor_spec *spec = &call->op->out[i];

	if (spec->flags & TRACE) return call->out[i] != NULL;
	if (spec->flags & OPTIONAL) return call->out[i] || has_none(call);
	return !spec->with || capture_in(call->capture, spec->with);
}

int call_shape(const struct call *call, const char *all, size_t shape[MAX_RANK])
{
	const char *s = call->no_batch && without_batch(all) ? without_batch(all) : all;
	int rank = symbols_in(s);

	for (int r = 0; r < rank; r++) {
		int d;
		long plus;
		s = shape_next(call->op, s, &d, &plus);
		shape[r] = call->dim[d] + (size_t)plus;
	}
	return rank;
}

int call_out_shape(const struct call *call, int i, size_t shape[MAX_RANK])
{
	return call_shape(call, call->op->out[i].shape, shape);
}

const char *call_out_axis(const struct call *call, int i, int axis, char *text, size_t size)
{
	const char *all = call->op->out[i].shape, *batched = without_batch(all);
	const char *s = call->no_batch && batched ? batched : all;

	for (; axis > 0; axis--) s += strcspn(s, ",") + 1;
	snprintf(text, size, "%.*s", (int)strcspn(s, "?,"), s);
	return text;
}

bool call_check_cuts(const struct call *call, int in, int dim_tokens, int dim_n, struct error *e)
{
	const struct tensor *t = call->in[in];
	size_t n = call->dim[dim_n];
	double last = 0, x;

	if (!t) return true;
	for (size_t i = 0; i <= n; i++) {
		size_t size = dtype_info[t->dtype].size;
		dtype_load(t->dtype, (const char *)t->data + i * size, 1, &x);
		if (!(i ? x >= last : x == 0) || (i == n && !(x == (double)call->dim[dim_tokens])))
			return error_set(e, E_VALUE, t->name, t->offset == NO_OFFSET ? NO_OFFSET : t->offset + i * size,
				"expected 0 <= ... <= %zu, not falling; element %zu is %.0f", call->dim[dim_tokens], i, x);
		last = x;
	}
	return true;
}

size_t call_sequences(const struct call *call)
{
	size_t most = 1;

	for (const struct tensor_spec *spec = call->op->in; spec->name; spec++) {
		int d;
		long plus;
		if (symbols_in(spec->shape) != 1 || !(spec->flags & INTEGER)) continue;
		shape_next(call->op, spec->shape, &d, &plus);
		if (plus == 1 && call->dim[d] > most) most = call->dim[d];
	}
	return most;
}

static size_t output_count(const struct call *call, int i)
{
	size_t shape[MAX_RANK], n = 1;

	for (int r = call_out_shape(call, i, shape); r-- > 0;) n *= shape[r];
	return n;
}

/* All the traces that the call has or none, and no other. */
static bool sound_traces(struct call *call, struct error *e)
{
	const struct tensor_spec *out = call->op->out;
	const struct tensor *any = NULL;
	char name[64];

	for (int i = 0; out[i].name; i++) {
		if (!(out[i].flags & TRACE) || !call->out[i]) continue;
		any = call->out[i];
		if (!call->op->has_trace(call, i))
			return error_set(e, E_EXTRA, any->name, any->offset, "this call of %s has no such trace", call->op->name);
	}
	for (int i = 0; any && out[i].name; i++) {
		if (!(out[i].flags & TRACE) || call->out[i] || !call->op->has_trace(call, i)) continue;
		snprintf(name, sizeof name, "out.%s", out[i].name);
		return error_set(e, E_MISSING, name, NO_OFFSET, "expected it beside %s: traces are recorded all or none", any->name);
	}
	call->anchored = any != NULL;
	return true;
}

bool call_trace(struct call *call)
{
	bool any = false;

	for (int i = 0; call->op->out[i].name; i++) {
		if (!(call->op->out[i].flags & TRACE) || !call->op->has_trace(call, i)) continue;
		call->out_count[i] = output_count(call, i);
		any = true;
	}
	return any;
}

static bool no_op(const char *name, struct error *e)
{
	const struct op *own = op_added(0);

	return !own ? op_unknown(name, e) : error_set(e, E_OP, name, NO_OFFSET, "%s has %s; etalon.op in the capture's metadata names the op",
		own->file ? own->file : "--op", own->name);
}

bool call_bind(struct call *call, const struct capture *c, bool need_outputs, struct error *e)
{
	*call = (struct call){ .op = op_find(c->op), .capture = c };
	if (!call->op) return no_op(c->op, e);
	if (!call_bind_params(call, e) || !bind_tensors(call, e) || !no_extra_tensors(call, e)) return false;
	if (!call->op->check(call, e) || !sound_traces(call, e)) return false;
	call->anchored = call->anchored && need_outputs;
	for (int i = 0; call->op->out[i].name; i++) {
		if (call->out[i] && !has_output(call, i))
			return error_set(e, E_EXTRA, call->out[i]->name, call->out[i]->offset, "it comes only with in.%s", call->op->out[i].with);
		if (!has_output(call, i)) continue;
		call->out_count[i] = output_count(call, i);
		if (need_outputs && call->out_count[i] && !call->out[i]) {
			char name[64];
			snprintf(name, sizeof name, "out.%s", call->op->out[i].name);
			return lacks(call, name, call->op->out[i].name, call->op->out[i].shape, e);
		}
	}
	return true;
}
