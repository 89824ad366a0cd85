/* Contracts as regions: which roundings one allows, and the kernels in it. */
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

bool contract_allows(const struct contract *k, int site, const struct site_rounding *r)
{
	const struct site_rounding *a = &k->site[site];

	return a->on && ((a->format == r->format && a->rounding == r->rounding) || (r->rounding != ROUND_VIA_BF16 && bits_left(r) >= bits_left(a)));
}
