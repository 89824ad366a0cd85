/* A point judged; a fault's effect in the contract's own error; and the self-test without roundings. */
#include <string.h>
#include <time.h>

#include "compare/verdict/figures.h"
#include "strangers.h"

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void unit_name(const struct unit *u, char *text, size_t size)
{
	const struct point *p = &u->point;

	if (p->fault) snprintf(text, size, "%s-faults/%d", p->family->op, p->fault);
	else snprintf(text, size, "%s/%d", p->family->op, p->number);
}

/* ---- the self-test ---- */

/* Whatever is stored narrower is stored in float32, but e4m3, which is part of its op. */
static void store_wide(struct made *m)
{
	for (size_t i = 0; i < m->outs; i++)
		if (m->out[i].dtype != DT_F8_E4M3) m->out[i].dtype = DT_F32;
}

enum { TEST_RUNS = 24 };

/* The rules under contract k, in chunks of the kernel's own length where it goes by chunks: G's last bits grow with it. */
static bool keeps_rules(struct unit *u, const struct call *call, const struct contract *k, const struct answer *truth,
	const struct answer *second,
	bool *kept, struct error *e)
{
	struct plan plan = plan_plain(&arith_noisy, arith_noisy.precision);
	size_t chunk = u->point.family == &delta_family ? u->point.o.delta.chunk : 0;
	struct expected x;

	plan_contract(&plan, k);
	plan.random = true;
	if (plan.chunk && chunk) plan.chunk = chunk;
	if (!expected_make(&x, call, &plan, truth, TEST_RUNS, e)) return false;
	bool ok = *kept = true;
	for (int i = 0; ok && i < MAX_OUT; i++) {
		struct output_verdict v;
		if (!call->out_count[i]) continue;
		ok = figures(&v, call, i, truth, second, &x, e);
		for (int r = 0; ok && *kept && r < RULE_COUNT; r++) {
			if (v.rule[r].value <= v.rule[r].limit && !v.not_finite) continue;
			snprintf(u->wrong, sizeof u->wrong, "%s of %s is %.4g, at most %.3g under %s", rule_name[r],
				call->op->out[i].name, v.rule[r].value,
				v.rule[r].limit, k->name);
			*kept = false;
		}
	}
	expected_free(&x);
	return ok;
}

static bool test_capture(struct unit *u, const struct capture *c, struct error *e)
{
	struct plan wide = plan_plain(&arith_dd, arith_dd.precision), f64 = plan_plain(&arith_f64, arith_f64.precision);
	struct answer truth, second;
	struct call call;
	bool kept = false;

	if (!call_bind(&call, c, true, e) || !ref_run(&call, &wide, &truth, e)) return false;
	bool ok = ref_run(&call, &f64, &second, e);
	for (const char *const *k = u->point.family->f32; ok && *k && !kept; k++)
		ok = keeps_rules(u, &call, &call.op->contracts[op_contract(call.op, *k)], &truth, &second, &kept, e);
	if (ok) answer_free(&second);
	answer_free(&truth);
	if (kept) *u->wrong = 0;
	return ok;
}

bool unit_test(struct unit *u, struct error *e)
{
	struct point p = u->point;
	struct capture c;

	p.fault = 0;
	p.family->exact(&p);
	store_wide(&p.made);
	if (!point_capture(&p, &c, e)) return false;
	bool ok = test_capture(u, &c, e);
	capture_free(&c);
	return ok;
}

/* ---- verdicts ---- */

_Static_assert((int)SEEN_RULES == (int)RULE_COUNT, "a verdict has another number of rules");

static void see(struct seen *s, const struct verdict *v)
{
	*s = (struct seen){ .outcome = (int)v->outcome, .explained = v->examined && v->x.identified };
	snprintf(s->contract, sizeof s->contract, "%s", v->contract->name);
	snprintf(s->reason, sizeof s->reason, "%s", v->n_reason ? v->reason[0] : "");
	snprintf(s->where, sizeof s->where, "%s", v->examined && !v->x.identified ? v->x.where : "");
	for (int i = 0; v->examined && i < v->x.n; i++) {
		const struct suspect *x = &v->x.suspect[i];
		if (x->state != DETECTED) continue;
		if (!(s->faults + s->roundings)) snprintf(s->name, sizeof s->name, "%s", x->name);
		if (x->site < 0) s->faults++;
		else s->roundings++;
	}
	for (int i = 0; i < v->n_out; i++) {
		s->by_rule = s->by_rule || v->out[i].not_finite;
		for (int r = 0; r < RULE_COUNT; r++) {
			double x = v->out[i].rule[r].value / v->out[i].rule[r].limit;
			if (!(x <= s->ratio[r])) s->ratio[r] = x;
			s->by_rule = s->by_rule || !(v->out[i].rule[r].value <= v->out[i].rule[r].limit);
		}
	}
}

static double value_at(const struct tensor *t, size_t j)
{
	double x;

	dtype_load(t->dtype, (const char *)t->data + j * dtype_info[t->dtype].size, 1, &x);
	return x;
}

static double limit_of(const struct verdict *v, int out)
{
	for (int i = 0; i < v->n_out; i++)
		if (v->out[i].out == out) return v->out[i].rule[RULE_WORST].limit;
	return 0;
}

/* What the fault does to the same kernel's answer, in sigma. What has no sigma is exact: there any change is infinite. */
static struct effect measure(const struct call *right, const struct call *wrong, const struct expected *x,
	const struct verdict *v)
{
	struct effect f = { 0, 0, 1 };

	for (int i = 0; i < MAX_OUT; i++) {
		double sum = 0, n = 0;
		for (size_t j = 0; j < right->out_count[i]; j++) {
			double d = fabs(value_at(wrong->out[i], j) - value_at(right->out[i], j)), sigma = x->sigma[i][j];
			double z = d == 0 ? 0 : sigma > 0 && isfinite(d) ? d / sigma : INFINITY;
			if (sigma > 0) sum += z * z, n++;
			if (z / limit_of(v, i) > f.worst / f.limit) f.worst = z, f.limit = limit_of(v, i);
		}
		if (n > 0) f.rms = fmax(f.rms, sqrt(sum / n));
	}
	return f;
}

static bool judge_fault(struct unit *u, struct yardstick *y, const struct call *right, const struct verdict *v, struct error *e)
{
	const struct expected *x;
	struct capture c;
	struct call call;
	struct verdict w;

	if (!point_capture(&u->point, &c, e)) return false;
	bool ok = call_bind(&call, &c, true, e) && judge_by(y, &c, &(struct judging){ .contract = u->point.contract }, &w, e);
	if (ok) see(&u->seen, &w);
	if (ok && (ok = (x = yardstick_under(y, right, v->contract, false, e)))) u->effect = measure(right, &call, x, v);
	if (ok && (ok = (x = yardstick_under(y, right, w.contract, false, e)))) u->there = measure(right, &call, x, &w);
	capture_free(&c);
	return ok;
}

bool unit_judge(struct unit *u, struct error *e)
{
	struct point p = u->point;
	struct yardstick y = { .tick = NULL };
	struct capture c;
	struct call call;
	struct verdict v;
	double start = seconds();

	p.fault = 0;
	u->seen.outcome = u->right.outcome = -1;
	if (!point_capture(&p, &c, e)) return false;
	bool ok = call_bind(&call, &c, true, e) && yardstick_make(&y, &call, &(struct yardstick_of){ .truth = NULL }, NULL, e)
		&& judge_by(&y, &c, &(struct judging){ .contract = p.contract }, &v, e);
	if (ok) see(&u->right, &v);
	if (ok && u->point.fault) ok = judge_fault(u, &y, &call, &v, e);
	yardstick_free(&y);
	capture_free(&c);
	u->seconds = seconds() - start;
	return ok;
}

/* ---- what is asked ---- */

static bool beyond(const struct effect *f) { return f->rms >= 2 || f->worst > f->limit; }
bool unit_visible(const struct unit *u) { return beyond(&u->effect); }
bool unit_excused(const struct unit *u) { return unit_visible(u) && !beyond(&u->there); }

bool unit_named_rightly(const struct unit *u)
{
	const char *name = u->point.fault ? u->point.family->flaws[u->point.fault - 1].name : NULL;
	int named = u->seen.faults + u->seen.roundings;

	return !named || (name && named == 1 && !strcmp(u->seen.name, name));
}

bool unit_good(const struct unit *u)
{
	bool right = !*u->wrong && u->right.outcome != FAIL;

	if (!u->point.fault) return right;
	return right && unit_named_rightly(u) && (u->seen.outcome == FAIL || !unit_visible(u) || unit_excused(u));
}
