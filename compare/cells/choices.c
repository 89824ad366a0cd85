/* Where a candidate is asked what it does. */
#include "lower.h"

#include "fixtures/io/random.h"

/* Where its place stands, or may stand. */
static int slot_of(const struct keys *k, uint64_t id)
{
	int slot = (int)(random_mix(id) % KEY_SLOTS);

	while (k->slot[slot] && k->at[k->slot[slot] - 1].id != id) slot = (slot + 1) % KEY_SLOTS;
	return slot;
}

int key_there(const struct keys *k, uint64_t id) { return k->slot[slot_of(k, id)] - 1; }

int key_find(struct keys *k, uint64_t id, enum choice_kind kind, enum what what, int n, int def)
{
	int slot = slot_of(k, id);

	if (k->slot[slot]) return k->slot[slot] - 1;
	if (k->n == MAX_KEY) {
		k->full = true;
		return -1;
	}
	k->at[k->n] = (struct key){ id, kind, what, n, def, true, false, 0 };
	k->slot[slot] = (short)(k->n + 1);
	return k->n++;
}

static int met_at(const struct met *m, int key)
{
	int i = m->n - 1;

	while (i >= 0 && m->key[i] != key) i--;
	return i;
}

int met_site(const struct met *m, int key)
{
	int i = met_at(m, key);

	return i < 0 ? -1 : m->site[i];
}

int choose(struct lowering_run *l, int about, enum what what, int i, int n, enum choice_kind kind)
{
	l->asked = -1;
	if (l->h->exact || l->bare || n < 2) return 0;
	int k = l->asked = key_find(l->h->keys, key_id(l->h->form, about, what, i), kind, what, n, l->def);
	if (k < 0) return 0;
	if (l->h->keys->at[k].n < n) l->h->keys->at[k].n = n;
	if (!(l->met[k / 64] >> (k % 64) & 1)) {
		l->met[k / 64] |= UINT64_C(1) << (k % 64);
		l->to->met.site[l->to->met.n] = -1;
		l->to->met.key[l->to->met.n++] = k;
	}
	int v = l->h->config->value[k];
	return v < n ? v : 0;
}

static uint64_t reads(const struct sym *x)
{
	uint64_t u = x->kind == SYM_NAME ? UINT64_C(1) << x->def : 0;

	for (int i = 0; i < x->n && x->kind != SYM_NAME; i++) u |= reads(x->arg[i]);
	return u;
}

static bool is_carried(const struct sym *x)
{
	int dense = 0;
	bool any = x->kind == SYM_CARRY || x->kind == SYM_FINAL;

	for (int i = 0; i < x->n && x->kind == SYM_PRODUCT; i++) dense += x->role[i] == DENSE;
	for (int i = 0; i < x->n && dense < 2 && !any; i++) any = is_carried(x->arg[i]);
	return any;
}

struct val low_single(struct lowering_run *l, struct val v)
{
	if (l->h->exact || l->wide || v.cell < 0 || cell_at(l, v)->grid != AS_IT_IS) return v;
	return (struct val){ cell_round(l->h->cells, v.cell, IN_F32), v.text, v.whole };
}

/* The way in which f is computed, the same at all places that are not made apart; of one number only there. */
int choose_way(struct lowering_run *l, enum fn f, struct val of, bool apart)
{
	bool constant = of.cell >= 0 && !cell_at(l, of)->in && cell_at(l, of)->rows.n * cell_at(l, of)->cols.n == 1;
	int n = 1;

	while (way_name(f, n)) n++;
	return l->wide || (constant && !apart) ? 0 : choose(l, (int)f, W_WAY, apart, n, CHOOSE_LAST);
}

int choose_sums(struct lowering_run *l)
{
	int n = 1;

	while (sums_name(n)) n++;
	return l->sums = l->wide ? 0 : choose(l, 0, W_SUMS, 0, n, CHOOSE_SUMS);
}

/* Types of operands; that of eight bits where an input has it. */
static int operand_types(const struct call *c)
{
	for (int i = 0; i < MAX_IN; i++)
		if (c->in[i] && c->in[i]->dtype == DT_F8_E4M3) return TYPES;
	return IN_E4M3;
}

/* Where a kernel may round; nowhere where nothing could be. */
struct val low_site(struct lowering_run *l, struct val v, int about, enum what what, int i, enum choice_kind kind, const struct sym *of)
{
	static const enum type of_default[] = { IN_F32, IN_BF16, IN_F16, IN_TF32 };
	bool operand = kind == CHOOSE_OPERAND;

	if (l->h->exact || l->bare || v.cell < 0 || cell_at(l, v)->grid == IN_BF16) return v;
	/* a part that the op has a name for may be an operand of a sum that tensor cores make */
	int c = choose(l, about, what, i, operand || (kind == CHOOSE_INNER && of && of->site >= 0) ? operand_types(l->h->f->program->call) : IN_F16 + 1, kind), k = l->asked;
	enum type t = c ? (enum type)c : of_default[choose(l, (int)kind, W_EVERY, 0, operand ? 4 : 3, CHOOSE_DEFAULT)];
	if (of && k >= 0) l->to->met.site[met_at(&l->to->met, k)] = (short)of->site, l->h->keys->at[k].arranged = operand || of->kind == SYM_PRODUCT,
		l->h->keys->at[k].carried = !operand && is_carried(of);
	if (of && k >= 0 && operand) l->h->keys->at[k].reads = reads(of);
	if (t == IN_F32) return v;
	int x = cell_round(l->h->cells, low_single(l, v).cell, t);
	return x == v.cell ? v : (struct val){ x, said(l, "%s(%s)", type_names[t], v.text), true };
}
