/* What the kernel's own contract and auto say of each fault. */
#include <math.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "loosest.h"

enum { SMALL_FAULTS = 8, CASES = 4 };

static double worst_share(const struct verdict *v)
{
	double worst = 0;

	for (int i = 0; i < v->n_out; i++)
		for (int r = 0; r < RULE_COUNT; r++) {
			double x = v->out[i].rule[r].value / v->out[i].rule[r].limit;
			if (!(x <= worst)) worst = isnan(x) ? INFINITY : x;
		}
	return worst;
}

/* A contract allows all that another does. */
static bool is_wider(const struct contract *wide, const struct contract *k)
{
	for (int s = 0; s < MAX_SITE; s++)
		if (k->site[s].on && !contract_allows(wide, s, &k->site[s])) return false;
	return true;
}

/* The tightest contract that allows the kernel's own roundings, among them a fault that is one: in
 * the kernel's form where there is one, else in any. */
static const struct contract *own_contract(const struct model *m, const struct fault *f)
{
	const struct fault_spec *spec = f ? &m->op->faults[f->fault] : NULL;
	const struct contract *other = NULL;

	if (!spec || !spec->is_rounding) return m->contract;
	const struct site_rounding r = { true, spec->format, ROUND_NEAREST_EVEN };
	for (const struct contract *k = m->op->contracts; k->name; k++) {
		if (!is_wider(k, m->contract) || !contract_allows(k, spec->site, &r)) continue;
		if (k->form == m->contract->form) return k;
		if (!other) other = k;
	}
	return other ? other : m->contract;
}

/* Fills the row from the outputs as they are: the rules alone where they fail, else the x-ray. */
static bool judge_row(
	struct setting *s, const struct contract *own, struct row *row, struct error *e)
{
	struct verdict v;

	if (!setting_judge(s, own->name, true, &v, e)
		|| (v.outcome != FAIL && !setting_judge(s, own->name, false, &v, e)))
		return false;
	row->own_outcome = (int)v.outcome;
	row->value = worst_share(&v);
	snprintf(row->own, sizeof row->own, "%s", own->name);
	if (!setting_judge(s, "auto", false, &v, e)) return false;
	row->chosen_outcome = (int)v.outcome;
	snprintf(row->chosen, sizeof row->chosen, "%s", v.contract->name);
	return true;
}

static bool clean(struct rows *r, struct setting *s, struct error *e)
{
	const struct kernel *k = s->kernel;
	char what[MAX_NAME];
	double start = processor_seconds();

	snprintf(what, sizeof what, "no fault, %s", s->kase->name);
	struct row row = row_named(FAULTS, k->model.op->name, k->name, what, s->kase->name);
	return row_is_done(r, &row)
		|| (judge_row(s, own_contract(&k->model, NULL), &row, e)
			&& row_add(r, &row, start, e));
}

/* One fault on one case. *judged: it is visible there, and has its row now. */
static bool one(struct rows *r, struct setting *s, struct xray *x, const struct fault *like,
	uint64_t right, bool *judged, struct error *e)
{
	const struct kernel *k = s->kernel;
	struct row row = row_named(FAULTS, k->model.op->name, k->name, like->name, s->kase->name);
	struct plan p = model_plan(&k->model, NULL);
	double start = processor_seconds();

	*judged = row_is_done(r, &row);
	if (*judged || fault_is_foreign(&k->model, like, &s->call)) return true;
	struct fault f = fault_drawn(&k->model, like, &s->call);
	if (s->call.anchored && !model_answer(&s->call, &p, e)) return false;
	if (!fault_size(x, &k->model, &f, &row.size))
		return error_set(e, E_MEMORY, row.op, NO_OFFSET, "a fault's size");
	if (!(row.size >= above_noise)) return true;
	p = model_plan(&k->model, &f);
	if (!model_answer(&s->call, &p, e)) return false;
	if (outputs_fingerprint(&s->call) == right) return true;
	*judged = true;
	return judge_row(s, own_contract(&k->model, &f), &row, e) && row_add(r, &row, start, e);
}

/* At most `most` faults of the list, spread over it; those that are judged leave it. */
static bool on_case(struct rows *r, const struct kernel *k, const struct test_case *t,
	struct fault *list, int *n, int most, struct error *e)
{
	struct setting s;
	struct xray x;
	int left = 0, judged = 0, all = *n;

	bool ok = setting_make(&s, k, t, e) && clean(r, &s, e);
	uint64_t right = ok ? outputs_fingerprint(&s.call) : 0;
	bool made = ok && (ok = model_xray(&x, &k->model, NULL, &s.call, e));
	for (int i = 0; ok && i < all; i++) {
		struct fault f = list[i];
		bool is = false;
		bool due = judged * all <= i * most && judged < most;
		if (due) ok = one(r, &s, &x, &f, right, &is, e);
		judged += is;
		if (!is) list[left++] = f;
	}
	if (made) xray_free(&x);
	setting_free(&s);
	*n = left;
	return ok;
}

/* Each fault on the cheapest case that shows it. */
bool fill_faults(struct rows *r, const struct kernel *k, bool small, struct error *e)
{
	struct fault list[MAX_PLANTED];
	const struct test_case *kase[CASES + 1];
	int n = 0, all = faults_of(k->model.op, list),
	    cases = cases_for(k, kase, small ? 1 : CASES);

	for (int i = 0; i < all; i++)
		if (list[i].fault >= 0) list[n++] = list[i];
	for (int c = 0; c < cases && n; c++)
		if (!on_case(r, k, kase[c], list, &n, small ? SMALL_FAULTS : MAX_PLANTED, e))
			return false;
	for (int i = 0; i < n && cases && !small; i++) {
		struct row row = row_named(FAULTS, k->model.op->name, k->name, list[i].name, "-");
		if (!row_is_done(r, &row) && !row_add(r, &row, processor_seconds(), e))
			return false;
	}
	return true;
}
