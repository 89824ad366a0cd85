#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "earned.h"
#include "fault_value.h"

const char *const suspect_name[] = { "ruled out", "detected", "allowed", "not identifiable", "not possible" };

/* What the outputs say of a fault that is named, or of one that is not. */
static bool try_fault(struct xray *x, int m, const struct look *look, const struct earned *names,
	const struct rivals *rivals, struct suspect *s)
{
	const struct fault_spec *spec = &x->call->op->faults[m];
	bool made = x->emulation.faults >> m & 1, named = names->faults >> m & 1;
	struct coefficient c = look->fit;

	*s = (struct suspect){ .name = spec->name, .what = spec->what, .site = -1,
		.size = look->size, .votes = look->votes };
	s->not_finite = names->not_finite >> m & 1, s->by_rules = names->by_rules >> m & 1;
	s->would_do = names->possible >> m & 1;
	s->coefficient = made ? 1 - c.value : c.value;
	s->error = c.error;
	if (made) s->state = named ? DETECTED : NOT_IDENTIFIABLE;
	else if (look->impossible) s->state = NOT_POSSIBLE, s->coefficient = 0;
	else if (look->overflows < 0) s->state = RULED_OUT, s->coefficient = s->error = 0;
	else s->state = s->size >= above_noise && c.error < 1 / certain && c.value + certain * c.error < 1 ? RULED_OUT : NOT_IDENTIFIABLE;
	if (!made && look->overflows >= 0)
		s->alike = rivals->same[m], s->as_well = rivals->as_well[m];
	if ((s->alike || s->as_well) && s->state == RULED_OUT) s->state = NOT_IDENTIFIABLE;
	s->parameter = made ? spec->parameter : NULL;
	s->number = made && spec->by > 1 ? x->emulation.value[m] : 0;
	return !s->parameter || fault_value_class(x, m, &s->value, &s->last);
}

/* The shortest number from value to last that the fitted one is rounded to, and these. */
static void number_said(const struct suspect *s, char *text, size_t size)
{
	double low = s->value, high = s->last, shown = NAN;
	char number[40] = "";

	for (int digits = 1; digits < 18 && !(shown >= low && shown <= high); digits++) {
		snprintf(number, sizeof number, "%.*g", digits, s->number);
		shown = strtod(number, NULL);
	}
	if (low == high) snprintf(text, size, "%s(%s = %.15g)", s->name, s->parameter, shown);
	else snprintf(text, size, "%s(%s = %.15g; %.8g to %.8g explain as well)", s->name, s->parameter, shown, low, high);
}

void suspect_said(const struct suspect *s, char *text, size_t size)
{
	if (s->parameter && s->number != 0) number_said(s, text, size);
	else if (!s->parameter) snprintf(text, size, "%s", s->name);
	else if (s->value == s->last) snprintf(text, size, "%s(%s = %.10g)", s->name, s->parameter, s->value);
	else snprintf(text, size, "%s(%s = %.10g to %.10g)", s->name, s->parameter, s->value, s->last);
}

bool suspect_has_coefficient(const struct suspect *s)
{
	return s->error < 1 / likely && fabs(s->coefficient - 1) <= off_one;
}

void suspect_evidence(const struct suspect *s, char *text, size_t size)
{
	int n = 0;

	*text = 0;
	if (suspect_has_coefficient(s))
		n = snprintf(text, size, "coefficient %.3f ± %.3f", s->coefficient, s->error);
	if (suspect_has_coefficient(s) && s->site < 0) return;
	if (s->not_finite)
		snprintf(text, size, "no coefficient tells it; %s",
			"the kernel is not finite just where it makes the answer so");
	else if ((double)s->votes.all >= least_votes || s->site >= 0)
		snprintf(text + n, size - (size_t)n, "%sof %zu elements that tell, %zu agree",
			n ? "; " : "", s->votes.all, s->votes.of_base);
	else snprintf(text, size, "no coefficient tells it; the rules hold with it alone");
}

/* A file's faults round to the nearest, and of tf32 a cut is one, too. */
static const char *rounding_fault(const struct op *op, const struct reading *r)
{
	const bool cut = (r->rounding == ROUND_ZERO && r->format != FMT_TF32) || r->rounding == ROUND_AWAY;

	for (const struct fault_spec *m = op->faults; m->name; m++)
		if (m->is_rounding && !cut && m->site == r->site && m->format == r->format) return m->name;
	return op->sites[r->site].name;
}

/* Is the coefficient of a rounding 1, within 0.05 and its error? */
static bool is_rounded(double coefficient, double error) { return fabs(coefficient - 1) <= 0.05 + error; }

static enum suspect_state read_state(const struct reading *r, const struct look *look, bool made)
{
	if (look->impossible) return NOT_POSSIBLE;
	if (r->state == ROUNDED && made) return DETECTED;
	return r->state == NOT_ROUNDED ? RULED_OUT : NOT_IDENTIFIABLE;
}

/* Detected: rounded, and named or allowed; see examine_under. */
static struct suspect read_site(const struct op *op, const struct reading *r, const struct look *look, bool named, bool allowed)
{
	bool told = is_rounded(r->coefficient, r->error) ? look_told(look) : look_told_closely(look), made = (named && told) || allowed;

	return (struct suspect){ .name = rounding_fault(op, r), .what = op->sites[r->site].what,
		.site = r->site, .format = r->format, .rounding = r->rounding,
		.coefficient = r->coefficient, .error = r->error, .size = look->size,
		.votes = look->votes, .told = told, .state = read_state(r, look, made) };
}

/* The emulation with or without the rounding that was read, or the fault. */
static struct look of_site(const struct xray *x, const struct reading *r)
{
	struct plan p = x->emulation;

	p.round[r->site] = p.round[r->site].on ? (struct site_rounding){ 0 } : (struct site_rounding){ true, r->format, r->rounding };
	return look_of(&p);
}

static struct look of_fault(const struct xray *x, int m)
{
	struct plan p = x->emulation;

	if (p.faults >> m & 1) plan_no_fault(&p, m);
	else plan_fault(&p, x->call->op, m);
	return look_of(&p);
}

/* Of a structure that was read: roundings that no contract to be tried allows and that no structure does without that explains as well. As any
 * other they are named where elements tell. */
static bool read_needed(struct examination *ex, struct xray *x, const struct rules_say *rules)
{
	const struct structure_said *s = &ex->structure;
	bool avoidable = !s->taken || !ex->identified || earned_by_chance(x, rules);

	for (const struct contract *k = rules->first; !avoidable && k <= rules->last; k++) avoidable = structure_within(s, x->call, k, false);
	for (int i = 0; i < s->n_rounding && !avoidable; i++) {
		const struct structure_rounding *r = &s->rounding[i];
		bool again = false;
		for (int j = 0; j < i; j++) again = again || (s->rounding[j].needed && s->rounding[j].site == r->site);
		struct votes votes;
		if (!r->needed || again || ex->n == MAX_SUSPECT) continue;
		if (!xray_votes(x, x->without[r->site], &votes)) return false;
		const struct reading at = { r->site, r->type.format, r->type.rounding, 1, 0, ROUNDED };
		ex->suspect[ex->n++] = (struct suspect){ .name = rounding_fault(x->call->op, &at), .what = x->call->op->sites[r->site].what, .site = r->site,
			.format = at.format, .rounding = at.rounding, .coefficient = 1, .size = r->effect, .votes = votes,
			.told = votes_tell(&votes), .state = DETECTED };
	}
	return true;
}

static bool read_suspects(struct examination *ex, struct xray *x, const struct contract *k, const struct earned *named)
{
	const struct op *op = x->call->op;
	struct look look[MAX_FAULT];
	struct rivals rivals;
	int sites = ex->profile.n, n = 0, of[MAX_FAULT];
	uint64_t possible = 0;

	for (int j = 0; j < sites; j++) look[j] = of_site(x, &ex->profile.reading[j]);
	if (!xray_look(x, look, (size_t)sites, LOOK_SIZE | LOOK_VOTES | (named->sites ? LOOK_FIT : 0))) return false;
	for (int j = 0; j < sites; j++) {
		struct reading *r = &ex->profile.reading[j];
		bool is_named = named->sites >> r->site & 1;
		if (is_named) r->state = ROUNDED, r->coefficient = 1 - look[j].fit.value, r->error = look[j].fit.error;
		ex->suspect[ex->n++] = read_site(op, r, &look[j], is_named, is_legal(x->call, k, r->site, &x->emulation.round[r->site]));
	}
	for (int m = 0; op->faults[m].name; m++)
		if (!op->faults[m].is_rounding) of[n] = m, look[n++] = of_fault(x, m);
	if (!xray_look(x, look, (size_t)n, LOOK_SIZE | LOOK_FIT | (named->faults ? LOOK_VOTES : 0)))
		return false;
	for (int i = 0; i < n; i++)
		if (look[i].overflows >= 0) possible |= UINT64_C(1) << of[i];
	if (!rivals_find(x, possible, &rivals)) return false;
	for (int i = 0; i < n; i++)
		if (!try_fault(x, of[i], &look[i], named, &rivals, &ex->suspect[ex->n++]))
			return false;
	return true;
}

static bool runs_free(const struct xray *x)
{
	return xray_rounds_inside(x) && x->call->op->iterates && !x->call->anchored;
}

/* What is made comes first, the largest effect before the others; the rest stays in the order of the tables. */
static void sort(struct suspect *list, int n)
{
	for (int i = 1; i < n; i++) {
		struct suspect s = list[i];
		int at = i;
		for (; s.state == DETECTED && at > 0 && !(list[at - 1].state == DETECTED && list[at - 1].size >= s.size); at--) list[at] = list[at - 1];
		list[at] = s;
	}
}

static bool examine_all(struct examination *ex, struct xray *x, const struct rules_say *rules, struct error *e)
{
	struct earned named;

	if (!earned_names(&named, x, rules, e) || !rivals_commonest(x, &named)
		|| !profile_read(&ex->profile, x)) return false;
	ex->left = xray_left(x);
	ex->identified = ex->profile.identified;
	ex->runs_free = runs_free(x);
	if (!read_suspects(ex, x, rules->contract, &named)) return false;
	if (!read_needed(ex, x, rules)) return false;
	sort(ex->suspect, ex->n);
	return ex->identified || (where_left(x, ex->where, sizeof ex->where) && generic_suspect(x, &ex->generic));
}

void examine_under(struct examination *ex, const struct call *call, const struct contract *k)
{
	memset(ex->count, 0, sizeof ex->count);
	for (int i = 0; i < ex->n; i++) {
		struct suspect *s = &ex->suspect[i];
		struct site_rounding r = { true, s->format, s->rounding };
		bool made = s->state == DETECTED || s->state == ALLOWED;
		bool allowed = s->site >= 0 && is_legal(call, k, s->site, &r);
		if (made) s->state = allowed ? ALLOWED : s->site < 0 || s->told ? DETECTED : NOT_IDENTIFIABLE;
		ex->count[s->state]++;
	}
}

void examine_nothing(struct examination *ex, const struct call *call)
{
	const struct op *op = call->op;

	*ex = (struct examination){ .n = 0 };
	for (int k = 0; op->sites[k].name; k++)
		ex->suspect[ex->n++] = (struct suspect){ .name = op->sites[k].name,
			.what = op->sites[k].what, .site = k,
			.state = NOT_IDENTIFIABLE };
	for (int m = 0; op->faults[m].name; m++)
		if (!op->faults[m].is_rounding && ex->n < MAX_SUSPECT)
			ex->suspect[ex->n++] = (struct suspect){ .name = op->faults[m].name,
				.what = op->faults[m].what, .site = -1,
				.state = NOT_IDENTIFIABLE };
	ex->count[NOT_IDENTIFIABLE] = ex->n;
}

void examine_free(struct examination *ex)
{
	for (int i = 0; i < MAX_OUT; i++) free(ex->answer[i]), ex->answer[i] = NULL;
}

static bool keep_answer(struct examination *ex, struct xray *x)
{
	bool ok = true;

	for (int i = 0; ok && i < MAX_OUT; i++) ok = !x->call->out_count[i] || (ex->answer[i] = malloc(x->call->out_count[i] * sizeof(double)));
	if (!ok) return error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "the answers of a structure");
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE)) return false;
		for (int i = 0; i < MAX_OUT; i++)
			if (ex->answer[i]) memcpy(ex->answer[i] + x->offset[i], x->base + x->first[i], (x->first[i + 1] - x->first[i]) * sizeof(double));
	}
	return true;
}

bool examine(struct examination *ex, const struct rules_say *rules, struct error *e)
{
	struct xray x;

	*ex = (struct examination){ .n = 0 };
	if (!xray_make(&x, rules->call, rules->tick, e)) return false;
	x.structure = &ex->structure;
	x.lawless = !rules->hold;
	const struct contract *k = rules->contract;
	bool ok = emulation_nearest(&x, rules->first, rules->last, &k) && emulation_search(&x, k) && examine_all(ex, &x, rules, e);
	bool asked = ex->identified && ex->structure.taken && ex->structure.as_named && !x.emulation.faults && (!rules->hold || rules->first < rules->last);
	if (ok && asked && !keep_answer(ex, &x)) {
		examine_free(ex);
		ok = false;
	}
	if (rules->tick) rules->tick("x-ray", 1, 1);
	xray_free(&x);
	return ok;
}
