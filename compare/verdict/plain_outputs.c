#include "plain_outputs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "compare/truth/expected.h"

enum { AT_A_TIME = 1 << 10 };

static void load(const struct tensor *t, size_t at, size_t n, double *x)
{
	dtype_load(t->dtype, (const char *)t->data + at * dtype_info[t->dtype].size, n, x);
}

/* ---- what values are ---- */
/* What is true of all values so far. */
struct values { bool any, zero, equal, nan, no_number; double first; };

static struct values no_values(void) { return (struct values){ false, true, true, true, true, 0 }; }

static void add_values(struct values *v, const double *x, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (!v->any) v->first = x[i], v->any = true;
		v->zero = v->zero && x[i] == 0;
		v->equal = v->equal && x[i] == v->first;
		v->nan = v->nan && isnan(x[i]);
		v->no_number = v->no_number && !isfinite((float)x[i]);
	}
}

static bool is_any(const struct values *v) { return v->zero || v->equal || v->no_number; }

/* One number, or an input, again and again: a few may be so by chance. */
static bool is_enough(size_t n) { return (double)n >= least_votes; }

static enum sight sight_of(const struct values *v, size_t n)
{
	if (v->zero) return ALL_ZERO;
	if (v->nan) return ALL_NAN;
	if (v->no_number) return NO_NUMBER;
	return v->equal && is_enough(n) ? ALL_EQUAL : NOT_PLAIN;
}

/* n values of an output as it stores them. */
static void stored(const struct call *call, int out, double *x, size_t n)
{
	const struct dtype_info *d = &dtype_info[out_dtype(call, out)];

	if (d->is_float) format_round_all(d->format, ROUND_NEAREST_EVEN, x, n);
}

/* Are n values of output `out`, from `at` on, those of the input, as the output would store
 * them? */
static bool equals_input(const struct call *call, int out, int in, size_t at, const double *x,
	size_t n)
{
	double y[AT_A_TIME];
	bool equal = true;

	for (size_t i = 0, m; i < n && equal; i += m) {
		m = n - i < AT_A_TIME ? n - i : AT_A_TIME;
		load(call->in[in], at + i, m, y);
		stored(call, out, y, m);
		for (size_t j = 0; j < m && equal; j++) equal = x[i + j] == y[j];
	}
	return equal;
}

static size_t elements(const struct tensor *t) { return t ? t->count : 0; }

/* Is the kernel's output that input? */
static bool is_input(const struct call *call, int out, int in)
{
	double x[AT_A_TIME];
	size_t n = call->out_count[out], m;
	bool equal = elements(call->in[in]) == n && is_enough(n);

	for (size_t at = 0; at < n && equal; at += m) {
		m = n - at < AT_A_TIME ? n - at : AT_A_TIME;
		load(call->out[out], at, m, x);
		equal = equals_input(call, out, in, at, x, m);
	}
	return equal;
}

/* ---- rows of zeros ---- */
/* The leading axes that output and input share, but not all of the output's: their indices name
 * a row of both. Its number, 0 for none. */
static size_t shared_rows(const struct call *call, int out, int in)
{
	size_t of_out[MAX_RANK], rows = 1;
	int rank = call_out_shape(call, out, of_out);
	const struct tensor *t = call->in[in];

	for (int r = 0; r + 1 < rank && r + 1 < t->rank && of_out[r] == t->shape[r]; r++)
		rows *= of_out[r];
	return rows;
}

/* Of n values: are all 0? Is none a number? */
static void look_at_row(const struct tensor *t, size_t at, size_t n, bool *zero, bool *any_number)
{
	double x[AT_A_TIME];

	*zero = true, *any_number = false;
	for (size_t i = 0, m; i < n && (*zero || !*any_number); i += m) {
		m = n - i < AT_A_TIME ? n - i : AT_A_TIME;
		load(t, at + i, m, x);
		for (size_t j = 0; j < m; j++)
			*zero = *zero && x[j] == 0, *any_number = *any_number || !isnan(x[j]);
	}
}

/* Is the output NaN in each row where the input is all zeros, and in no other? */
static bool is_nan_of_zero_rows(const struct call *call, int out, int in)
{
	const struct tensor *x = call->in[in], *y = call->out[out];
	size_t rows = x && dtype_info[x->dtype].is_float ? shared_rows(call, out, in) : 0,
		zeros = 0;

	for (size_t r = 0; r < rows && rows > 1; r++) {
		bool zero, other, number, any;
		look_at_row(y, r * (y->count / rows), y->count / rows, &other, &number);
		look_at_row(x, r * (x->count / rows), x->count / rows, &zero, &any);
		if (zero == number) return false;
		zeros += zero;
	}
	return zeros > 0 && zeros < rows;
}

/* ---- the outputs ---- */
static struct plain_output look_at_output(const struct call *call, int out)
{
	const struct op *op = call->op;
	struct values v = no_values();
	double x[AT_A_TIME];
	size_t n = call->out_count[out];

	for (size_t at = 0, m; at < n && is_any(&v); at += m) {
		m = n - at < AT_A_TIME ? n - at : AT_A_TIME;
		load(call->out[out], at, m, x);
		add_values(&v, x, m);
	}
	struct plain_output p = { is_any(&v) ? sight_of(&v, n) : NOT_PLAIN, 0, v.first };
	for (int i = 0; op->in[i].name && p.is == NOT_PLAIN; i++)
		if (is_input(call, out, i)) p.is = AS_INPUT, p.input = i;
	for (int i = 0; op->in[i].name && p.is == NOT_PLAIN; i++)
		if (is_nan_of_zero_rows(call, out, i)) p.is = NAN_OF_ZERO_ROWS, p.input = i;
	return p;
}

static bool is_plain(const struct plain_output *o)
{
	return o->is != NOT_PLAIN && o->is != NAN_OF_ZERO_ROWS;
}

/* ---- what a plan answers ---- */
/* Of the plain outputs, those that are so in what was seen of a plan's answer. */
struct as_plan { struct values values[MAX_OUT]; bool input[MAX_OUT]; };

static void see_strip(const struct plain_outputs *p, const struct call *call, const struct strip *s,
	struct answer *a, struct as_plan *as)
{
	for (int i = 0; i < MAX_OUT; i++) {
		if (!s->count[i] || !is_plain(&p->of[i])) continue;
		stored(call, i, a->hi[i], s->count[i]);
		add_values(&as->values[i], a->hi[i], s->count[i]);
		as->input[i] = as->input[i] && p->of[i].is == AS_INPUT
			&& equals_input(call, i, p->of[i].input, s->first[i], a->hi[i],
				s->count[i]);
	}
}

static unsigned so_far(const struct plain_outputs *p, const struct call *call,
	const struct as_plan *as)
{
	unsigned outputs = 0;

	for (int i = 0; i < MAX_OUT; i++) {
		const enum sight is = p->of[i].is;
		const struct values *v = &as->values[i];
		bool so = is == ALL_ZERO ? v->zero : is == ALL_EQUAL ? v->equal : is == AS_INPUT
			? as->input[i] : v->no_number;
		if (call->out_count[i] && is_plain(&p->of[i])) outputs |= (unsigned)so << i;
	}
	return outputs;
}

/* *outputs: of the plain ones, those that the plan answers so. No more strips are run than it
 * takes to see that none is. */
static bool answers_so(const struct plain_outputs *p, const struct call *call,
	const struct plan *plan, unsigned *outputs, struct error *e)
{
	const size_t strips = check_strips(call);
	struct stream l = { .plan = *plan };
	struct answer a = { 0 };
	struct as_plan as;
	struct error why = { 0 };
	size_t room[MAX_OUT];
	bool ok, ran = true;

	call_room(call, 0, strips, strips, room);
	ok = answer_make(&a, room, false)
		|| error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "the answer of a fault");
	for (int i = 0; i < MAX_OUT; i++) as.values[i] = no_values(), as.input[i] = true;
	*outputs = ~0u;
	for (size_t s = 0; s < strips && ok && ran && *outputs; s++) {
		struct strip strip = call_strip(call, s, strips);
		ran = ref_strip(call, &l, s, strips, &a, &why);
		if (ran) see_strip(p, call, &strip, &a, &as);
		*outputs = so_far(p, call, &as);
	}
	stream_end(&l);
	answer_free(&a);
	if (!ran) *outputs = 0;
	if (!ran && !plan_impossible(plan, &why)) *e = why, ok = false;
	return ok;
}

/* Does one fault alone make each plain output so? */
static bool one_fault_does(const struct plain_outputs *p, const struct call *call,
	const struct contract *k, unsigned all, bool *yes,
	struct error *e)
{
	const struct op *op = call->op;

	*yes = false;
	for (int m = 0; op->faults[m].name && !*yes; m++) {
		const struct fault_spec *f = &op->faults[m];
		if (f->is_rounding || f->parameter || (f->form >= 0 && f->form != k->form))
			continue;
		for (int i = 0; i < contract_structures(k) && !*yes; i++) {
			struct plan plan = plan_plain(&arith_f32, arith_f32.precision);
			unsigned so;
			plan_structure(&plan, k, i);
			plan_fault(&plan, op, m);
			if (!answers_so(p, call, &plan, &so, e)) return false;
			*yes = (so & all) == all;
		}
	}
	return true;
}

/* Zeros, one number and no numbers are what any of many faults makes; of an input not every
 * element is. */
static bool tells_nothing(const struct plain_outputs *p, const struct call *call)
{
	bool nothing = true;

	for (int i = 0; i < MAX_OUT; i++)
		if (call->out_count[i])
			nothing = nothing && is_plain(&p->of[i]) && p->of[i].is != AS_INPUT;
	return nothing;
}

bool plain_outputs_find(struct plain_outputs *p, const struct call *call, const struct contract *k,
	struct error *e)
{
	struct plan exact = plan_plain(&arith_f64, arith_f64.precision);
	unsigned plain = 0, so = 0;
	bool one = false;

	*p = (struct plain_outputs){ .any = false };
	for (int i = 0; i < MAX_OUT; i++) {
		if (call->out_count[i]) p->of[i] = look_at_output(call, i);
		plain |= (unsigned)is_plain(&p->of[i]) << i;
		p->any = p->any || p->of[i].is != NOT_PLAIN;
	}
	if (!plain) return true;
	if (!answers_so(p, call, &exact, &so, e)) return false;
	for (int i = 0; i < MAX_OUT; i++)
		if (so & plain & 1u << i) p->of[i].is = NOT_PLAIN;
	plain &= ~so;
	p->any = false;
	for (int i = 0; i < MAX_OUT; i++) p->any = p->any || p->of[i].is != NOT_PLAIN;
	if (!plain) return true;
	if (!tells_nothing(p, call) && !one_fault_does(p, call, k, plain, &one, e)) return false;
	p->ends = !one;
	return true;
}

const char *plain_output_said(const struct plain_outputs *p, const struct call *call, int out,
	char *text, size_t size)
{
	const struct plain_output *o = &p->of[out];
	const char *name = call->op->out[out].name, *in = call->op->in[o->input].name;
	size_t shape[MAX_RANK];
	int rank = call_out_shape(call, out, shape), n = 0;
	char first[2 * MAX_RANK + 2] = "";

	for (int r = 0; r < rank; r++)
		n += snprintf(first + n, sizeof first - (size_t)n, "%s0", r ? "," : "[");
	if (rank) snprintf(first + n, sizeof first - (size_t)n, "]");
	switch (o->is) {
	case ALL_ZERO: snprintf(text, size, "out.%s is all zeros", name); break;
	case ALL_EQUAL: snprintf(text, size, "out.%s is %.9g everywhere", name, o->value); break;
	case ALL_NAN: snprintf(text, size, "out.%s is NaN from %s on", name, first); break;
	case NO_NUMBER: snprintf(text, size, "out.%s has no finite element", name); break;
	case AS_INPUT: snprintf(text, size, "out.%s equals in.%s", name, in); break;
	case NAN_OF_ZERO_ROWS:
		snprintf(text, size, "out.%s is NaN where the row of in.%s is all zeros", name, in);
		break;
	case NOT_PLAIN: *text = 0; break;
	}
	return text;
}
