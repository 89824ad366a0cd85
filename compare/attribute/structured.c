/* The emulation by the structure that is read from the outputs, where it is none that is known. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulation_private.h"

/* The exact reference in the structure's form and chunks, with its faults. */
static struct plan exact(const struct xray *x, const struct structure_reading *r, uint64_t faults, const double *value)
{
	const struct op *op = x->call->op;
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);

	for (int i = 0; op->faults[i].name; i++)
		if (faults >> i & 1) plan_fault_at(&p, op, i, value[i]);
	if (r->fault >= 0) plan_fault(&p, op, r->fault);
	p.form = op_form(op, r->form);
	p.chunk = r->chunk;
	return p;
}

/* x->shift becomes what the structure answers less what the plan does. */
static bool shift_to(struct xray *x, const struct structure_reading *r, const struct plan *p)
{
	struct answer a;

	if (!ref_run(x->call, p, &a, x->e)) return false;
	double *shift = malloc((x->all + 1) * sizeof *shift);
	for (int o = 0; o < MAX_OUT && shift; o++)
		for (size_t i = 0; i < x->call->out_count[o]; i++) shift[x->first_element[o] + i] = r->answer[o][i] - a.hi[o][i];
	answer_free(&a);
	free(x->shift);
	x->shift = shift;
	return shift || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "the answers of a structure");
}

/* x->without becomes the structure's. */
static bool keep_without(struct xray *x, const struct structure_reading *r)
{
	bool ok = true;

	for (int k = 0; k < MAX_SITE; k++) {
		free(x->without[k]);
		x->without[k] = NULL;
		for (int o = 0; o < MAX_OUT && ok; o++) {
			if (!r->without[k][o]) continue;
			if (!x->without[k]) ok = (x->without[k] = calloc(x->all + 1, sizeof *x->without[k])) != NULL;
			if (ok) memcpy(x->without[k] + x->first_element[o], r->without[k][o], x->call->out_count[o] * sizeof *x->without[k]);
		}
	}
	return ok || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "the answers of a structure");
}

static void say(struct structure_said *to, const struct structure_reading *r)
{
	size_t n = r->text ? strlen(r->text) : 0;

	*to = (struct structure_said){ .asked = true, .identified = r->identified, .stopped = r->stopped, .given_up = r->given_up, .as_named = r->as_named, .work = r->work,
		.tries = r->tries, .form = r->form, .chunk = r->chunk, .n_rounding = r->n_rounding };
	memcpy(to->rounding, r->rounding, sizeof to->rounding);
	if (n >= sizeof to->formula)
		for (n = sizeof to->formula - 1; n && r->text[n - 1] != '\n'; n--) {}
	if (n) memcpy(to->formula, r->text, n);
	to->formula[n] = 0;
}

/* Does the contract clearly allow the rounding? At a site as it says. Where there is no name its region is one of arrangements of products,
 * in the types that it allows at more than one site at a product: of a single one, the state's, nothing is arranged. */
static bool allows(const struct call *call, const struct contract *k, const struct structure_rounding *r)
{
	int n = 0;

	if (r->site >= 0) return is_legal(call, k, r->site, &r->type);
	for (int i = 0; call->op->sites[i].name && r->arranged; i++) n += (r->products >> i & 1) && contract_allows(k, i, &r->type);
	return n > 1;
}

struct allowing { const struct call *call; const struct contract *k; };

static bool is_allowed(const struct structure_rounding *r, const void *with)
{
	const struct allowing *a = with;

	return allows(a->call, a->k, r);
}

bool structure_within(const struct structure_said *s, const struct call *call, const struct contract *k, bool at_sites)
{
	for (int i = 0; i < s->n_rounding; i++)
		if ((s->rounding[i].site >= 0 || !at_sites) && !allows(call, k, &s->rounding[i])) return false;
	return true;
}

/* *allowed: by k, where it is not NULL. */
static bool read_with(struct xray *x, const struct contract *k, uint64_t faults, const double *value, double work, bool *found, bool *allowed)
{
	struct structure_reading r;
	const char *why;

	*found = false;
	const struct allowing a = { x->call, k };
	const struct structure_search how = { .work = work, .faults = faults, .value = value,
		.answer = true, .lawless = x->lawless, .allows = k ? is_allowed : NULL, .with = &a };
	if (!structure_read(&r, x->call, &how, &why, x->e)) return false;
	if (why) return true;
	struct plan p = exact(x, &r, faults, value);
	say(x->structure, &r);
	*found = r.identified;
	bool ok = !*found || (shift_to(x, &r, &p) && keep_without(x, &r));
	*allowed = !k || structure_within(x->structure, x->call, k, false);
	structure_free(&r);
	if (!ok || !*found) return ok;
	x->emulation = p;
	x->refreshed = false;
	if (!xray_refresh(x) || !emulation_identified(x, found)) return false;
	x->structure->taken = *found;
	return !*found || emulation_forward(x);
}

/* Back to what stood before. */
static bool unshift(struct xray *x, const struct plan *p)
{
	free(x->shift);
	x->shift = NULL;
	x->refreshed = false;
	x->emulation = *p;
	return xray_refresh(x);
}

/* x->shift and the emulation, put aside. */
static bool keep_for_later(struct xray *x, const struct plan *before)
{
	x->structure->taken = false;
	x->kept_shift = x->shift;
	x->kept_plan = x->emulation;
	x->shift = NULL;
	return unshift(x, before);
}

bool emulation_by_kept(struct xray *x)
{
	x->shift = x->kept_shift;
	x->kept_shift = NULL;
	x->emulation = x->kept_plan;
	x->refreshed = false;
	x->structure->taken = true;
	return xray_refresh(x);
}

bool emulation_by_structure(struct xray *x, const struct contract *k, bool *found)
{
	const struct plan before = x->emulation;
	const bool faulty = before.faults && xray_left(x) <= coarsest, fault_first = x->lawless && faulty, bare = !x->structure->asked;
	bool allowed = true;

	*found = false;
	if (fault_first) {
		if (!read_with(x, NULL, before.faults, before.value, structure_work / 2, found, &allowed)) return false;
	} else if (bare && !read_with(x, k, 0, before.value, structure_work, found, &allowed)) {
		return false;
	}
	if (*found && !allowed) {
		*found = false;
		return keep_for_later(x, &before);
	}
	if (!*found && x->shift && !unshift(x, &before)) return false;
	if (!*found && faulty && !fault_first && !read_with(x, NULL, before.faults, before.value, structure_work, found, &allowed)) return false;
	return *found || !x->shift || unshift(x, &before);
}
