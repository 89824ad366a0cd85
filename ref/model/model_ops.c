/* The ops that a model is made of. Sites and faults of a part at a place are made from the part's own: "PLACE.NAME". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>

#include "model_private.h"

enum { MAX_CONTRACT = 8 };
static struct {
	struct op op;
	struct site_spec site[MAX_SITE + 1];
	struct fault_spec fault[2 * MAX_FAULT];
	struct contract contract[MAX_CONTRACT + 1];
} made[MODEL_PARTS];

static bool layer_check(const struct call *call, struct error *e) { (void)call, (void)e; return true; }
static size_t one_piece(const struct call *call) { (void)call; return 1; }

/* The next of words apart; false at their end. */
static bool next(const char **list, char *word, size_t size)
{
	*list += strspn(*list, " ");
	size_t n = strcspn(*list, " ");

	snprintf(word, size, "%.*s", (int)n, *list);
	*list += n;
	return n > 0;
}

/* "PLACE.NAME" or "PLACE: WHAT"; made once and kept. */
static const char *joined(const char *a, const char *between, const char *b)
{
	size_t n = strlen(a) + strlen(between) + strlen(b) + 1;
	char *text = malloc(n);

	if (!text) abort();
	snprintf(text, n, "%s%s%s", a, between, b);
	return text;
}

static int count_sites(const struct site_spec *s) { int n = 0; while (s[n].name) n++; return n; }
static int count_faults(const struct fault_spec *m) { int n = 0; while (m[n].name) n++; return n; }

static void add_sites(int part, const struct place *p)
{
	struct site_spec *site = made[part].site;
	const struct op *op = op_own(p->op);
	const char *list = p->sites;
	char word[64];

	for (int n = count_sites(site); next(&list, word, sizeof word); n++) {
		const struct site_spec *own = &op->sites[op_site(op, word)];
		if (n >= MAX_SITE) abort();
		site[n] = (struct site_spec){ joined(p->name, ".", own->name), joined(p->text, ": ", own->what), 0, 0 };
	}
}

/* Those that are roundings or those that are not. */
static void add_faults(int part, const struct place *p, bool roundings)
{
	struct fault_spec *fault = made[part].fault;
	const struct op *op = op_own(p->op);
	const char *list = p->faults;
	char word[64];

	for (int n = count_faults(fault); next(&list, word, sizeof word);) {
		const struct fault_spec *own = &op->faults[op_fault(op, word)];
		if (own->is_rounding != roundings) continue;
		if (n >= (roundings ? 2 * MAX_FAULT - 1 : MAX_FAULT)) abort();
		fault[n] = *own;
		fault[n].name = joined(p->name, ".", own->name);
		fault[n].what = joined(p->text, ": ", own->what);
		fault[n].form = 0;
		if (roundings) {
			char site[128];
			snprintf(site, sizeof site, "%s.%s", p->name, op->sites[own->site].name);
			if ((fault[n].site = op_site(&made[part].op, site)) < 0) abort();
		}
		n++;
	}
}

static void add_contract(int part, int k)
{
	struct contract *to = &made[part].contract[k];
	const char *list = model_contracts[k].sites[part];
	char word[64];

	*to = (struct contract){ .name = model_contracts[k].name, .what = model_contracts[k].what };
	while (next(&list, word, sizeof word)) {
		int site = op_site(&made[part].op, word);
		if (site < 0) abort();
		to->site[site] = (struct site_rounding){ true, FMT_BF16, ROUND_NEAREST_EVEN };
	}
}

static void make_ops(void)
{
	for (int part = 0; part < MODEL_PARTS; part++) {
		const struct place *places = model_tables[part].places;
		memcpy(made[part].site, model_tables[part].op.sites,
			(size_t)count_sites(model_tables[part].op.sites) * sizeof *made[part].site);
		memcpy(made[part].fault, model_tables[part].op.faults,
			(size_t)count_faults(model_tables[part].op.faults) * sizeof *made[part].fault);
		struct op op = model_tables[part].op;
		op.sites = made[part].site;
		op.faults = made[part].fault;
		op.contracts = made[part].contract;
		op.check = layer_check;
		op.pieces = one_piece;
		memcpy(&made[part].op, &op, sizeof op);
		for (const struct place *p = places; p && p->name; p++) add_sites(part, p);
		for (int roundings = 0; roundings < 2; roundings++)
			for (const struct place *p = places; p && p->name; p++) add_faults(part, p, roundings);
		for (int k = 0; k < MAX_CONTRACT && model_contracts[k].name; k++) add_contract(part, k);
	}
}

const struct op *model_op(int part)
{
	static once_flag once = ONCE_FLAG_INIT;

	call_once(&once, make_ops);
	return &made[part].op;
}
