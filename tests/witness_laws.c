/* The laws that hold for every op's faults and sites. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/witness.h"

enum { MOST = 64, MOST_SAMPLES = 12 };

#define SHOWS 0x1p-40           /* far above f64's rounding, which plain and faulty runs share */

/* The plan of the fault, or of the plain reference in the same form. */
static struct plan fault_plan(const char *arith, const struct op *op, int fault, bool make_it)
{
	struct plan p = plan_in(arith), q = p;

	plan_fault(&p, op, fault);
	if (make_it) return p;
	q.form = p.form;
	q.chunk = p.chunk;
	return q;
}

void faults_show(const struct sample *s, size_t n)
{
	const struct op *op = op_find(s->op);
	static struct outcome seen[MOST_SAMPLES][MOST];
	double largest[MOST] = { 0 };
	int m;

	assert_true(n <= MOST_SAMPLES);
	for (size_t i = 0; i < n; i++) {
		struct capture c;
		made(&c, &s[i], i);
		for (m = 0; op->faults[m].name; m++) {
			struct plan with = fault_plan("f64", op, m, true), without = fault_plan("f64", op, m, false);
			struct outcome plain;
			run_plan(&seen[i][m], &c, &with);
			run_plan(&plain, &c, &without);
			largest[m] = fmax(largest[m], distance(&plain, &seen[i][m]));
			outcome_free(&plain);
		}
		capture_free(&c);
	}
	for (m = 0; op->faults[m].name; m++) {
		if (!(largest[m] > SHOWS)) fail_msg("%s changes nothing on these samples", op->faults[m].name);
		for (int k = 0; k < m; k++) {
			double apart = 0;
			for (size_t i = 0; i < n; i++) apart = fmax(apart, distance(&seen[i][k], &seen[i][m]));
			if (!(apart > SHOWS)) fail_msg("%s and %s are the same", op->faults[m].name, op->faults[k].name);
		}
	}
	for (size_t i = 0; i < n; i++)
		for (m = 0; op->faults[m].name; m++) outcome_free(&seen[i][m]);
}

void faults_are(const struct same_as *m, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct op *op = op_find(m[i].sample->op);
		double value;
		int fault = fault_named(op, m[i].fault, &value);
		struct sample edited = *m[i].sample;
		struct capture a, b;
		struct outcome faulty, plain, truth;

		if (fault < 0) fail_msg("%s has no fault %s", op->name, m[i].fault);
		if (m[i].params) edited.params = m[i].params;
		if (m[i].tensors) edited.tensors = m[i].tensors;
		made(&a, m[i].sample, 7);
		made(&b, &edited, 7);
		if (m[i].edit) m[i].edit(&b);
		struct plan with = fault_plan("mpfr:128", op, fault, true), without = fault_plan("mpfr:128", op, fault, false);
		plan_fault_at(&with, op, fault, value);
		run_plan(&faulty, &a, &with);
		run_plan(&truth, &a, &without);
		run_plan(&plain, &b, &without);
		double same = distance(&plain, &faulty), shows = distance(&truth, &faulty);
		if (!(same <= 0x1p-100)) fail_msg("%s is not what it says: %g", m[i].fault, same);
		if (!(shows > SHOWS)) fail_msg("%s changes nothing on its sample", m[i].fault);
		outcome_free(&faulty);
		outcome_free(&truth);
		outcome_free(&plain);
		capture_free(&a);
		capture_free(&b);
	}
}

/* How far rounding site s to f moves the answer. */
static double effect(const struct capture *c, const char *arith, int form, size_t chunk, int s, enum format f)
{
	struct plan p = plan_in(arith);
	struct outcome plain, rounded;

	p.form = form;
	p.chunk = form ? chunk : 0;
	run_plan(&plain, c, &p);
	p.round[s] = (struct site_rounding){ true, f, ROUND_NEAREST_EVEN };
	run_plan(&rounded, c, &p);
	double d = distance(&plain, &rounded);
	if (d == 0) assert_true(same_outcome(&plain, &rounded));
	outcome_free(&plain);
	outcome_free(&rounded);
	return d;
}

void sites_show(const struct sample *s, size_t n, size_t chunk)
{
	const struct op *op = op_find(s->op);
	double largest[MAX_FORM][MAX_SITE] = { { 0 } };

	for (size_t i = 0; i < n; i++) {
		struct capture c;
		made(&c, &s[i], i);
		for (int k = 0; op->sites[k].name; k++) {
			for (int form = 0; form < MAX_FORM && op->forms[form].name; form++) {
				if (!site_in_form(op, k, form)) continue;
				largest[form][k] = fmax(largest[form][k], effect(&c, "f64", form, chunk, k, FMT_E4M3));
				assert_true(effect(&c, "f64", form, chunk, k, FMT_F64) == 0);
				assert_true(effect(&c, "f32", form, chunk, k, FMT_F64) == 0);
			}
		}
		capture_free(&c);
	}
	for (int k = 0; op->sites[k].name; k++)
		for (int form = 0; form < MAX_FORM && op->forms[form].name; form++)
			if (site_in_form(op, k, form) && !(largest[form][k] > SHOWS))
				fail_msg("site %s changes nothing in form %s", op->sites[k].name, op->forms[form].name);
}

/* Rounds an input in place; or an output of the run. */
static void round_by_hand(struct capture *c, struct outcome *r, const char *tensor)
{
	if (c) {
		for (size_t j = 0; j < count(c, tensor); j++)
			put(c, tensor, j, format_round(FMT_BF16, ROUND_NEAREST_EVEN, at(c, tensor, j), 0));
		return;
	}
	for (int i = 0; r->call.op->out[i].name; i++)
		for (size_t j = 0; !strcmp(r->call.op->out[i].name, tensor + 4) && j < r->call.out_count[i]; j++)
			r->a.hi[i][j] = format_round(FMT_BF16, ROUND_NEAREST_EVEN, r->a.hi[i][j], 0);
}

void sites_are(const struct rounded_as *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct op *op = op_find(r[i].sample->op);
		int s = op_site(op, r[i].site);
		bool input = !strncmp(r[i].tensor, "in.", 3);
		struct plan plain = plan_in("f64"), asked = plain;
		struct outcome by_hand, rounded, truth;
		struct capture a, b;

		if (s < 0) fail_msg("%s has no site %s", op->name, r[i].site);
		asked.round[s] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
		made(&a, r[i].sample, 3);
		made(&b, r[i].sample, 3);
		if (input) round_by_hand(&b, NULL, r[i].tensor);
		run_plan(&truth, &a, &plain);
		run_plan(&rounded, &a, &asked);
		run_plan(&by_hand, &b, &plain);
		if (!input) round_by_hand(NULL, &by_hand, r[i].tensor);
		if (!same_outcome(&rounded, &by_hand)) fail_msg("site %s is not %s rounded", r[i].site, r[i].tensor);
		if (same_outcome(&rounded, &truth)) fail_msg("site %s changes nothing on its sample", r[i].site);
		outcome_free(&truth);
		outcome_free(&rounded);
		outcome_free(&by_hand);
		capture_free(&a);
		capture_free(&b);
	}
}
