/* Contracts as regions: which roundings one allows, and the kernels in it. */
#include <stdio.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "op.h"

int contract_structures(const struct contract *k)
{
	int n = 0;

	while (k->structures && k->structures[n].name) n++;
	return n ? n : 1;
}

static const struct site_rounding *sites_of(const struct contract *k, int i)
{
	return k->structures ? k->structures[i].site : k->site;
}

void plan_structure(struct plan *p, const struct contract *k, int i)
{
	p->form = k->form;
	p->chunk = k->chunk;
	memcpy(p->round, sites_of(k, i), sizeof p->round);
}

void plan_contract(struct plan *p, const struct contract *k) { plan_structure(p, k, 0); }

void plan_draw(struct plan *p, const struct contract *k, uint64_t seed)
{
	static const size_t chunks[] = { 64, 32, LONGEST_CHUNK, SHORTEST_CHUNK };
	uint64_t r = random_at(seed);
	int n = contract_structures(k);

	if (n == 1) return;
	for (int site = 0; site < MAX_SITE; site++) p->round[site] = sites_of(k, (int)(random_next(&r) % (uint64_t)n))[site];
	if (p->chunk) p->chunk = chunks[random_next(&r) % (sizeof chunks / sizeof *chunks)];
}

/* Significant bits that a rounding leaves: one less where it truncates, which errs by up to a whole step. */
static int bits_left(const struct site_rounding *r) { return format_info[r->format].precision - (r->rounding == ROUND_ZERO); }

/* The formats that the call holds data in, as bits. */
static unsigned format_of_tensor(const struct tensor *t)
{
	return t && dtype_info[t->dtype].is_float ? 1u << dtype_info[t->dtype].format : 0;
}

/* Of a parameter whose choice is a type's name: "BF16". */
static unsigned format_of_choice(const struct param_spec *p, double value)
{
	const char *text = p->choices;
	char name[16];
	enum dtype d;

	if (p->kind != PARAM_CHOICE || !(value >= 0)) return 0;
	for (int i = 0; i < (int)value && *text; i++) text += strcspn(text, "|") + 1;
	snprintf(name, sizeof name, "%.*s", (int)strcspn(text, "|"), text);
	return dtype_by_name(name, &d) && dtype_info[d].is_float ? 1u << dtype_info[d].format : 0;
}

/* Formats of inputs and parameters. */
static unsigned formats_of_operands(const struct call *call)
{
	unsigned formats = 0;

	for (int i = 0; call->op->in[i].name; i++) formats |= format_of_tensor(call->in[i]);
	for (int p = 0; call->op->params && call->op->params[p].name; p++) formats |= format_of_choice(&call->op->params[p], call->param[p]);
	return formats;
}

static unsigned formats_of(const struct call *call, const char *name)
{
	unsigned formats = !strcmp(name, "operands") ? formats_of_operands(call) : 0;

	for (int i = 0; call->op->in[i].name; i++)
		if (!strcmp(call->op->in[i].name, name)) formats |= format_of_tensor(call->in[i]);
	for (int i = 0; call->op->out[i].name; i++)
		if (!strcmp(call->op->out[i].name, name)) formats |= format_of_tensor(call->out[i]);
	return formats;
}

/* Is the format one of these, or one of operands alone and finer than one of these? */
static bool is_called_for(enum format f, unsigned formats)
{
	bool yes = formats >> f & 1;

	for (int g = 0; g < FMT_COUNT && (f == FMT_TF32 || f == FMT_BF16X2); g++)
		yes = yes || (formats >> g & 1 && format_info[g].precision < format_info[f].precision);
	return yes;
}

bool contract_called_for(const struct contract *k, const struct call *call)
{
	unsigned formats = 0;

	for (int i = 0; k->as && k->as[i]; i++) formats |= formats_of(call, k->as[i]);
	for (int s = 0; s < MAX_SITE; s++)
		if (k->site[s].on && !is_called_for(k->site[s].format, formats)) return false;
	return true;
}

bool contract_allows(const struct contract *k, int site, const struct site_rounding *r)
{
	const struct site_rounding *a = &k->site[site];

	return a->on && ((a->format == r->format && a->rounding == r->rounding) || (r->rounding != ROUND_VIA_BF16 && bits_left(r) >= bits_left(a)));
}
