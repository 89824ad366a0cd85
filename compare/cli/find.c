/* Reads a capture and judges it. */
#include "find.h"

#include <string.h>

#include "compare/isolate/isolate_laws.h"
#include "compare/limits/limits.h"
#include "gpu/host/backend.h"
#include "isolate_captures.h"

/* Before all other reasons; the last is lost where there are too many. */
static void say_first(struct verdict *v, const char *text)
{
	if (v->n_reason == MAX_REASON) v->n_reason--;
	memmove(v->reason + 1, v->reason, (size_t)v->n_reason * sizeof *v->reason);
	snprintf(v->reason[0], sizeof v->reason[0], "%s", text);
	v->n_reason++;
}

/* Which request's memory is wrong, from where on; and the fault, where its answer is all that is
 * wrong. */
static void say_isolated(struct verdict *v, const struct isolated *i)
{
	const struct breach *b = &i->breach;
	char text[sizeof v->reason[0]];
	size_t n = (size_t)snprintf(text, sizeof text, "isolate: %s", b->what);

	if (b->step >= 0 && n < sizeof text)
		n += (size_t)snprintf(text + n, sizeof text - n,
			"; first wrong step %d, slot %d, layer %d", b->step, b->slot, b->layer);
	if (i->wrong && n < sizeof text)
		snprintf(text + n, sizeof text - n, "; %zu of %zu tokens %s wrong", i->wrong,
			i->tokens, i->wrong == 1 ? "is" : "are");
	say_first(v, text);
	if (!i->named.fault) return;
	snprintf(text, sizeof text,
		"has the fault %s: %s; its answer is what all %zu wrong tokens hold",
		i->named.fault->name, i->named.fault->what, i->wrong);
	say_first(v, text);
}

/* Is the cause known without a search? A fault whose answer is all that is wrong and no other's, or
 * one request's memory: most tokens are right, as they are not where an intermediate is computed
 * otherwise, and those that are wrong are off by more than any rounding. */
static bool tells(const struct isolated *i)
{
	const struct named *n = &i->named;

	if (n->fault) return n->alone && n->explained == i->wrong;
	if (strcmp(i->breach.law, laws[LAW_VALUES].name)) return true;
	return (double)i->wrong <= isolated_share * (double)i->tokens && i->share >= isolated_size;
}

/* A call of mixed_batch is held against the laws of isolation first, which take a hundredth of a
 * search's time. It fails by the rules alone: what isolation says is the cause. */
static bool judge_isolated(
	struct finding *f, const char *path, const struct capture *c, const struct judging *how)
{
	const struct op *op = op_find(c->op);
	struct judging quick = *how;
	struct isolated found;
	struct capture under = *c;
	struct error e;
	const char *name = NULL;
	bool broken;

	if (how->quick || !op || !op_in_slots(op)) return false;
	if (how->contract && !contract_said(how->contract, op, &name, &e)) return false;
	if (name && strcmp(name, "auto")) under.contract = name;
	if (!isolate_capture(&found, &broken, false, &under, &e) || !broken) return false;
	quick.quick = true;
	finding_judge(f, path, c, &quick);
	if (!f->judged || f->verdict.outcome != FAIL) return false;
	under.contract = f->verdict.contract->name;
	if (!isolate_capture(&found, &broken, true, &under, &e) || !broken || !tells(&found))
		return false;
	say_isolated(&f->verdict, &found);
	f->quick = false;
	return true;
}

int find(const char *path, const struct judging *how, struct finding *f)
{
	struct capture c;
	struct error e;

	if (capture_read(&c, path, &e)) {
		if (!judge_isolated(f, path, &c, how)) finding_judge(f, path, &c, how);
		if (f->judged) judge_stale(&c, gpu_source_sha256(c.op), &f->verdict);
		capture_free(&c);
	} else finding_unread(f, path, &e);
	return finding_exit(f);
}

void find_options(FILE *to, const struct judging *how)
{
	if (how->contract) fprintf(to, " --contract %s", how->contract);
	if (how->truth) fprintf(to, " --truth %s", how->truth);
	if (how->quick) fputs(" --quick", to);
	if (how->explained == ALL_EXPLAINED) fputs(" --require-explained", to);
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct judging *how = state->input;

	switch (key) {
	case 'c':
		if (how->contract)
			argp_error(state, "--contract: expected once, its parts with commas between them");
		how->contract = text;
		return 0;
	case 't': how->truth = text; return 0;
	case 'q': how->quick = true; return 0;
	case 'r': how->explained = ALL_EXPLAINED; return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{ "contract", 'c', "[OP=]NAME,...", 0,
		"what a kernel may round, whatever its capture says; OP=NAME: calls of this op alone; auto: the tightest that it meets "
		"(each capture's own, else its op's tightest)",
		0 },
	{ "truth", 't', "ARITH", 0, "f64, dd or mpfr:BITS (dd where the work allows, else f64)", 0 },
	{ "require-explained", 'r', NULL, 0, "fail an error within the rules that nothing explains (`gate` does so of etalon's own kernels)", 0 },
	{ "quick", 'q', NULL, 0, "the contracts' rules only, no x-ray of roundings and faults", 0 }, { 0 }
};
const struct argp find_argp = { options, parse, NULL, NULL, NULL, NULL, NULL };
