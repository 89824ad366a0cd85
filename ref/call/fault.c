/* Faults by name, those with a parameter at a value of it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "op.h"

static size_t dim_of(const struct call *call, const char *name)
{
	int i = 0;

	while (call->op->dims[i] && strcmp(call->op->dims[i], name)) i++;
	return call->op->dims[i] ? call->dim[i] : 0;
}

/* Points of the grid of numbers near the right one; even, so that this one is between two. */
enum { GRID = 16 };

double fault_right(const struct call *call, int fault)
{
	double right = call->op->right ? call->op->right(call, fault) : (double)NAN;

	return right != 0 && isfinite(right) ? right : (double)NAN;
}

size_t fault_values(const struct call *call, int fault)
{
	const struct fault_spec *m = &call->op->faults[fault];

	if (m->by > 1) return isnan(fault_right(call, fault)) ? 0 : GRID;
	return !m->parameter ? 0 : m->size ? dim_of(call, m->size) : m->n;
}

double fault_value(const struct call *call, int fault, size_t i)
{
	const struct fault_spec *m = &call->op->faults[fault];

	if (m->by > 1) return fault_right(call, fault) * pow(m->by, (2.0 * (double)i + 1) / GRID - 1);
	return m->list ? m->list[i] : m->first + (double)i;
}

double fault_value_in(const struct call *call, int fault, double value)
{
	const struct fault_spec *m = &call->op->faults[fault];

	if (!isnan(value)) return value;
	if (m->by > 1) return isnan(fault_right(call, fault)) ? m->by : fault_right(call, fault) * fmin(10, sqrt(m->by));
	return floor((double)fault_values(call, fault) / 2);
}

void plan_fault_at(struct plan *p, const struct op *op, int fault, double value)
{
	const struct fault_spec *m = &op->faults[fault];

	if (m->form > 0) p->form = m->form;
	if (m->is_rounding) p->round[m->site] = (struct site_rounding){ true, m->format, ROUND_NEAREST_EVEN };
	else p->faults |= UINT64_C(1) << fault, p->value[fault] = value;
	if (op->forms[p->form].chunked && !p->chunk) p->chunk = DEFAULT_CHUNK;
}

double fault_usual(const struct op *op, int fault)
{
	const struct fault_spec *m = &op->faults[fault];

	return !m->parameter ? 0 : m->size || m->by > 1 ? (double)NAN : m->list ? m->list[0] : m->first;
}

void plan_fault(struct plan *p, const struct op *op, int fault) { plan_fault_at(p, op, fault, fault_usual(op, fault)); }

void plan_no_fault(struct plan *p, int fault)
{
	p->faults &= ~(UINT64_C(1) << fault);
	p->value[fault] = 0;
}

bool plan_impossible(const struct plan *p, const struct error *e)
{
	bool plain = !p->faults;

	for (int k = 0; k < MAX_SITE; k++) plain = plain && !p->round[k].on;
	return !plain && (e->code == E_VALUE || e->code == E_FORMULA);
}

/* Is it one of the parameter's values? Of a size any whole number may be, of numbers any. */
static bool is_value(const struct fault_spec *m, double value)
{
	if (m->by > 1) return isfinite(value);
	if (m->size) return value >= 0 && value == floor(value);
	for (size_t i = 0; i < m->n; i++)
		if (value == (m->list ? m->list[i] : m->first + (double)i)) return true;
	return false;
}

int fault_named(const struct op *op, const char *text, double *value)
{
	size_t n = strcspn(text, "("), p;
	const char *at = text + n;
	char *end;

	for (int m = 0; op->faults[m].name; m++) {
		const struct fault_spec *f = &op->faults[m];
		if (strlen(f->name) != n || strncmp(f->name, text, n)) continue;
		*value = fault_usual(op, m);
		if (!*at) return m;
		if (!f->parameter) return -1;
		at++;
		p = strlen(f->parameter);
		if (!strncmp(at, f->parameter, p) && strspn(at + p, " =")) at += p + strspn(at + p, " =");
		*value = strtod(at, &end);
		return end > at && !strcmp(end, ")") && is_value(f, *value) ? m : -1;
	}
	return -1;
}

void fault_said(const struct op *op, int fault, double value, char *text, size_t size)
{
	const struct fault_spec *m = &op->faults[fault];

	if (!m->parameter || isnan(value)) snprintf(text, size, "%s", m->name);
	else snprintf(text, size, "%s(%s = %.10g)", m->name, m->parameter, value);
}
