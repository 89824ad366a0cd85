/* What a verdict says: names before figures, what is seen at sight, what these inputs could not show. */
#include <math.h>
#include <string.h>

#include "compare/print/print.h"
#include "verdict_private.h"

/* "", or the faults that would give the same answer in the place of this one, and those that
 * explain the outputs as well with another answer. */
static void others(const struct verdict *v, const struct suspect *s, char *text, size_t size)
{
	size_t n = 0;
	int same = 0, as_well = 0, said = 0;

	*text = 0;
	for (int i = 0; i < v->x.n && n < size; i++) {
		const struct suspect *other = &v->x.suspect[i];
		as_well += other->as_well && !strcmp(other->as_well, s->name);
		if (!other->alike || strcmp(other->alike, s->name)) continue;
		n += (size_t)snprintf(text + n, size - n, "%s%s",
			same++ ? ", " : "; on these inputs the same as ", other->name);
	}
	if (as_well && n < size)
		n += (size_t)snprintf(text + n, size - n, "; %d name%s explain%s as well: ",
			as_well, as_well > 1 ? "s" : "", as_well > 1 ? "" : "s");
	for (int i = 0; i < v->x.n && n < size; i++) {
		const struct suspect *other = &v->x.suspect[i];
		if (!other->as_well || strcmp(other->as_well, s->name)) continue;
		n += (size_t)snprintf(text + n, size - n, "%s%s", said++ ? ", " : "", other->name);
	}
}

static void detect(struct verdict *v, const struct suspect *s)
{
	char same[256], said[SUSPECT_TEXT], evidence[160];

	others(v, s, same, sizeof same);
	suspect_said(s, said, sizeof said);
	suspect_evidence(s, evidence, sizeof evidence);
	if (s->site >= 0)
		reason(v, FAIL, "rounds %s to %s, which the contract does not allow (%s): %s",
			v->op->sites[s->site].name, rounding_name(s->format, s->rounding), s->name,
			evidence);
	else
		reason(v, FAIL, "has the fault %s: %s; %s%s", said, s->what, evidence, same);
}

/* Where the error is that nothing explains, and how large; a failure only where an explanation is required. */
static void say_unknown(struct verdict *v, bool required)
{
	const struct examination *x = &v->x;
	char left[RATIO];

	for (int i = 0; i < v->n_out; i++)
		if (v->out[i].not_finite) return;       /* that is said, and what is left has no size */
	reason(v, FAIL, "%s, %s times float32's noise is left: %s", required ? "an explanation is required, and the structure is not identified"
		: v->n_reason ? "besides, the structure is not identified"
		: "the structure is not identified, and no known fault explains the error", ratio_text(sqrt(x->left), 3, left), x->where);
	if (x->generic.share > 0)
		reason(v, FAIL, "what is left amounts to this: %s, which explains %.4g %% of it",
			x->generic.name, 100 * x->generic.share);
}

/* Faults with which the rules hold, and of which too little tells for a name. */
static void say_possible(struct verdict *v)
{
	char list[192] = "";
	size_t n = 0;
	int all = 0;

	for (int i = 0; i < v->x.n && n < sizeof list; i++)
		if (v->x.suspect[i].would_do)
			n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", all++ ? ", " : "",
				v->x.suspect[i].name);
	if (all == 1)
		reason(v, FAIL, "the rules hold with the fault %s, but too few elements tell it",
			list);
	else if (all) reason(v, FAIL,
		"%d names explain as well, and too few elements tell which: %s", all, list);
}

/* What the x-ray found goes before the figures that it explains. */
void verdict_add_examination(const struct call *call, bool required, struct verdict *v, const struct examination *x)
{
	struct verdict found = *v;

	found.x = *x;
	found.examined = true;
	found.n_reason = 0;
	examine_under(&found.x, call, v->contract);
	for (int i = 0; i < found.x.n; i++)
		if (found.x.suspect[i].state == DETECTED) detect(&found, &found.x.suspect[i]);
	if (v->outcome == FAIL) say_possible(&found);
	found.required = required && !found.x.identified;
	if (!found.x.identified && (v->outcome == FAIL || required)) say_unknown(&found, required);
	for (int i = 0; i < v->n_reason && found.n_reason < MAX_REASON; i++)
		memcpy(found.reason[found.n_reason++], v->reason[i], sizeof v->reason[i]);
	*v = found;
}

/* A pass must mean something: a suspect that these inputs would have shown. */
void verdict_need_coverage(struct verdict *v)
{
	const int *count = v->x.count;

	if (v->outcome == PASS && v->x.n && !count[RULED_OUT] && !count[DETECTED] && !count[ALLOWED])
		reason(v, UNDECIDED, "none of %d known faults and roundings could have been seen on these inputs (`etalon list cases %s` has inputs that show them)", v->x.n, v->op->name);
}

/* What the outputs are at sight goes behind the names that were found, and before all else. */
void verdict_say_plain(const struct call *call, struct verdict *v, const struct plain_outputs *plain)
{
	const int names = v->examined ? v->x.count[DETECTED] : 0;
	struct verdict said = *v;

	said.n_reason = names < v->n_reason ? names : v->n_reason;
	for (int i = 0; i < MAX_OUT; i++) {
		char text[sizeof v->reason[0]];
		if (plain->of[i].is != NOT_PLAIN)
			reason(&said, v->outcome, "%s",
				plain_output_said(plain, call, i, text, sizeof text));
	}
	for (int i = names; i < v->n_reason && said.n_reason < MAX_REASON; i++)
		memcpy(said.reason[said.n_reason++], v->reason[i], sizeof v->reason[i]);
	*v = said;
}
