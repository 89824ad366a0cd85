/* The pools of mixed_batch: what one head keeps of them, and its way into a row and back. */
#include "mixed_batch.h"

struct memory mixed_memory(calc *c, const struct head *p, size_t inputs)
{
	return (struct memory){ c_mat(c, c_dim(c, D_DK), c_dim(c, D_DV)), c_mat(c, inputs, p->channels) };
}

static size_t state_at(const calc *c, const struct head *p, size_t slot)
{
	return ((slot * c_dim(c, D_L) + p->layer) * c_dim(c, D_HV) + p->h) * c_dim(c, D_DK) * c_dim(c, D_DV);
}

static size_t inputs_at(const calc *c, const struct head *p, size_t slot, size_t channel)
{
	return ((slot * c_dim(c, D_L) + p->layer) * c_dim(c, D_C) + channel) * c_dim(c, D_H);
}

static void slot_load(calc *c, const struct head *p, size_t slot, struct memory m)
{
	size_t H = c_dim(c, D_H);

	c_load(c, flat(m.S), IN_STATES, state_at(c, p, slot), 1);
	for (size_t j = 0; j < H; j++)
		for (const struct range *r = p->range; r < p->range + RANGES; r++)
			c_load(c, c_part(c, c_row(c, m.inputs, j), r->at, r->n), IN_INPUTS, inputs_at(c, p, slot, r->channel) + j, H);
}

static void slot_store(calc *c, const struct head *p, size_t slot, struct memory m)
{
	size_t H = c_dim(c, D_H);

	c_store(c, OUT_STATES, state_at(c, p, slot), 1, flat(m.S));
	for (size_t j = 0; j < H; j++)
		for (const struct range *r = p->range + (p->first_of_group ? Q : V); r < p->range + RANGES; r++)
			c_store(c, OUT_INPUTS, inputs_at(c, p, slot, r->channel) + j, H, c_part(c, c_row(c, m.inputs, j), r->at, r->n));
}

struct memory *mixed_pool_load(calc *c, const struct head *p, const struct tables *t)
{
	struct memory *pool = c_bytes(c, t->slots * sizeof *pool);
	bool *used = c_bytes(c, t->slots);

	for (size_t r = 0; r < t->rows; r++) {
		if (t->row[r].read >= 0) used[t->row[r].read] = true;
		if (t->row[r].read_inputs >= 0) used[t->row[r].read_inputs] = true;
	}
	for (size_t i = 0; i < t->tokens; i++) {
		if (t->write[i] >= 0) used[t->write[i]] = true;
		if (t->write_inputs[i] >= 0) used[t->write_inputs[i]] = true;
	}
	for (size_t s = 0; s < t->slots; s++) {
		if (!used[s]) continue;
		pool[s] = mixed_memory(c, p, c_dim(c, D_H));
		slot_load(c, p, s, pool[s]);
	}
	return pool;
}

void mixed_pool_store(calc *c, const struct head *p, const struct tables *t, const struct memory *pool)
{
	struct memory untouched = mixed_memory(c, p, c_dim(c, D_H));

	for (size_t s = 0; s < t->slots; s++) {
		if (!pool[s].S.at) slot_load(c, p, s, untouched);
		slot_store(c, p, s, pool[s].S.at ? pool[s] : untouched);
	}
}

vec mixed_input(calc *c, struct memory now, int64_t position)
{
	return c_row(c, now.inputs, (size_t)position % now.inputs.rows);
}

/* Where column j of a slot is among the last W inputs, the next token being at `next`. */
static vec column(calc *c, struct memory now, int64_t next, size_t j)
{
	bool ring = c_param(c, P_LAYOUT) == LAYOUT_RING;

	return ring ? c_row(c, now.inputs, j) : mixed_input(c, now, next + (int64_t)(now.inputs.rows + j) - (int64_t)c_dim(c, D_H));
}

void mixed_recall(calc *c, const struct memory *pool, const struct row *r, struct memory now)
{
	if (r->read < 0) c_set(c, flat(now.S), 0);
	else c_copy(c, flat(now.S), flat(pool[r->read].S));
	if (r->read_inputs < 0) c_set(c, flat(now.inputs), 0);
	for (size_t j = 0; r->read_inputs >= 0 && j < c_dim(c, D_H); j++)
		c_copy(c, column(c, now, r->position, j), c_row(c, pool[r->read_inputs].inputs, j));
}

void mixed_keep(calc *c, const struct memory *pool, const struct tables *t, size_t token, int64_t next, struct memory now)
{
	int64_t s = t->write[token], i = t->write_inputs[token];

	if (s >= 0) {
		c_copy(c, flat(pool[s].S), flat(now.S));
		c_site(c, SITE_POOL, flat(pool[s].S));
	}
	for (size_t j = 0; i >= 0 && j < c_dim(c, D_H); j++) c_copy(c, c_row(c, pool[i].inputs, j), column(c, now, next, j));
}
