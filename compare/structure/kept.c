/* Values that are kept, found by cell and recurrence; when there are too many, those that lay idle longest go. */
#include "evaluate.h"

#include <stdlib.h>

#include "fixtures/io/random.h"

static int slot_of(const struct kept_value *kept, int slots, struct kept_key k)
{
	int s = (int)(random_mix((uint64_t)(unsigned)k.cell << 32 ^ k.recurrence) & (uint64_t)(slots - 1));

	while (kept[s].v.at && (kept[s].key.cell != k.cell || kept[s].key.recurrence != k.recurrence)) s = (s + 1) & (slots - 1);
	return s;
}

struct value *kept_find(const struct evaluator *v, struct kept_key k)
{
	if (!v->slots) return NULL;
	struct kept_value *x = &v->kept[slot_of(v->kept, v->slots, k)];
	return x->v.at ? &x->v : NULL;
}

/* Memory that lay in use before is there already: no pages are made anew. */
static void spare(struct evaluator *v, double *at, size_t bytes)
{
	if (v->n_spare == MAX_SPARE) {
		free(at);
		return;
	}
	v->spare[v->n_spare++] = (struct spare){ at, bytes };
}

static double *room(struct evaluator *v, size_t bytes)
{
	for (int i = 0; i < v->n_spare; i++) {
		if (v->spare[i].bytes != bytes) continue;
		double *at = v->spare[i].at;
		v->spare[i] = v->spare[--v->n_spare];
		return at;
	}
	return malloc(bytes + 1);
}

static size_t bytes_of(const struct evaluator *v, const struct value *x)
{
	return x->n * (size_t)v->turns.n[x->in] * sizeof(double);
}

/* Into a table of that size, but what was not used since `oldest`. */
bool kept_trim(struct evaluator *v, int slots, uint64_t oldest)
{
	struct kept_value *kept = calloc((size_t)slots, sizeof *kept);

	if (!kept) return false;
	v->n_kept = 0;
	v->bytes = 0;
	for (int i = 0; i < v->slots; i++) {
		struct kept_value *x = &v->kept[i];
		if (!x->v.at) continue;
		if (x->v.age < oldest) {
			spare(v, x->v.at, bytes_of(v, &x->v));
			continue;
		}
		kept[slot_of(kept, slots, x->key)] = *x;
		v->n_kept++;
		v->bytes += bytes_of(v, &x->v);
	}
	free(v->kept);
	v->kept = kept;
	v->slots = slots;
	return true;
}

static size_t most_of(const struct evaluator *v, struct len l) { return l.chunk < 0 ? l.n : v->turns.most[l.chunk]; }

bool kept_is_transient(const struct evaluator *v, const struct cell *c)
{
	size_t n = most_of(v, c->rows) * most_of(v, c->cols);

	return c->in && !c->stored && n >= 256 && v->f->in[c->in].of->chunk < 0 && n * (size_t)v->turns.n[c->in] > (size_t)1 << 18;
}

/* Is the value there, for all turns? */
bool kept_there(const struct evaluator *v, struct kept_key k)
{
	return kept_find(v, k) && !kept_is_transient(v, &v->cells->at[k.cell]);
}

bool kept_make(struct evaluator *v, struct kept_key k)
{
	const struct cell *c = &v->cells->at[k.cell];
	struct value x = { .n = most_of(v, c->rows) * most_of(v, c->cols), .age = v->age };
	struct value *old = kept_find(v, k);

	x.in = kept_is_transient(v, c) ? 0 : c->in;
	if (old) {
		old->age = v->age;
		return true;
	}
	if (2 * (v->n_kept + 1) >= v->slots && !kept_trim(v, v->slots ? 2 * v->slots : 1024, 0)) return false;
	if (!(x.at = room(v, bytes_of(v, &x)))) return false;
	v->kept[slot_of(v->kept, v->slots, k)] = (struct kept_value){ k, x };
	v->n_kept++;
	v->bytes += bytes_of(v, &x);
	return true;
}
