#include "isolate_laws.h"

#include <string.h>

#define BY_REFERENCE NULL, NULL, NULL
#define WORKSPACE "workspace_overflow", "scratch is sized from the wrong width", ""
const struct law laws[LAWS] = {
	[LAW_TABLES] = { "tables", "rows read and write the slots that their requests hold", "rows", BY_REFERENCE },
	[LAW_UNTOUCHED] = { "untouched", "slots that no row writes keep every bit", "slots", BY_REFERENCE },
	[LAW_PADDING] = { "padding", "padding rows touch nothing", "rows", BY_REFERENCE },
	[LAW_POISON] = { "poison", "what free slots hold, two NaN or large numbers, reaches nothing", "tokens", BY_REFERENCE },
	[LAW_VALUES] = { "values", "each request is as if it were alone: the reference", "tokens", BY_REFERENCE },
	[LAW_REPEAT] = { "repeat", "five launches, five equal hashes", "tokens", "missing_barrier",
		"a kernel reads what another thread has not written yet", "flashinfer#3439" },
	[LAW_GRAPH] = { "graph", "eager and replayed from a graph are equal", "tokens", BY_REFERENCE },
	[LAW_CONTENT] = { "content", "what other requests read changes nothing", "tokens", BY_REFERENCE },
	[LAW_PRESENCE] = { "presence", "nor does it whether they are there", "tokens", BY_REFERENCE },
	[LAW_ORDER] = { "order", "nor the order of rows", "tokens", BY_REFERENCE },
	[LAW_BATCH] = { "batch", "nor more padding", "tokens", BY_REFERENCE },
	[LAW_SPLIT] = { "split", "nor where a prefill is cut", "tokens", BY_REFERENCE },
	[LAW_TRANSFER] = { "transfer", "a memory that moves between ranks is what it is on one rank",
		"tokens", "heads_rank_for_rank",
		"a rank takes the heads of the rank of its number, as they lie there", "" },
	[LAW_GUARDS] = { "guards", "guard bands around all buffers stay intact", "plays", WORKSPACE },
	[LAW_SCRATCH] = { "scratch", "and at lengths where a wrong width overflows", "lengths", WORKSPACE },
	[LAW_LARGE] = { "large", "slots past 2^31 elements are found", "rows", "int32_slot_offset",
		"slot times stride in 32 bits", "flashinfer#3230" },
};

int law_find(const char *name)
{
	for (int i = 0; i < LAWS; i++)
		if (!strcmp(laws[i].name, name)) return i;
	return -1;
}

void law_broken(struct isolation *x, int law, const struct breach *b)
{
	if (x->broken >= 0) return;
	x->broken = law;
	x->breach = *b;
	x->breach.law = laws[law].name;
}

/* Where y of two plays differs first, among the requests that both have. */
struct difference { size_t compared, different, a, b, byte; };

static size_t y_bytes(const struct play *p) { return setup_y_elements(p->setup) * dtype_info[p->setup->shape.data].size; }

/* The next token of p's order from i on that counts. */
static size_t next(const struct play *p, size_t i, bool chosen)
{
	while (i < p->fed && chosen && !p->token[p->order[i]].chosen) i++;
	return i;
}

static bool same_token(const struct play *a, const struct play *b, size_t s, size_t t)
{
	return a->row[a->token[s].row].request == b->row[b->token[t].row].request && a->token[s].fed == b->token[t].fed;
}

/* chosen: only tokens of chosen families. Tokens that one play lacks are different. */
static struct difference compare(const struct play *a, const struct play *b, bool chosen)
{
	struct difference d = { 0 };
	size_t i = next(a, 0, chosen), j = next(b, 0, chosen), size = y_bytes(a);

	for (; i < a->fed && j < b->fed; i = next(a, i + 1, chosen), j = next(b, j + 1, chosen)) {
		size_t s = a->order[i], t = b->order[j];
		d.compared++;
		if (same_token(a, b, s, t) && !memcmp(a->y + s * size, b->y + t * size, size)) continue;
		if (d.different++ && a->row[a->token[s].row].batch >= a->row[a->token[d.a].row].batch) continue;
		d.a = s;
		d.b = t;
		for (d.byte = 0; d.byte + 1 < size && a->y[s * size + d.byte] == b->y[t * size + d.byte];) d.byte++;
	}
	d.different += i < a->fed || j < b->fed;
	return d;
}

static struct breach differs(int law, const struct play *a, const struct difference *d)
{
	const struct play_row *row = &a->row[a->token[d->a].row];
	int layer = (int)(d->byte / (y_bytes(a) / (size_t)a->setup->shape.layers));
	struct breach b = { laws[law].name, row->step, row->request, row->read_slot, layer, "", false };

	snprintf(b.what, sizeof b.what, "y of request %d (its token %zu) changes; %zu of %zu tokens do (%s)", row->request,
		a->token[d->a].fed, d->different, d->compared, laws[law].what);
	return b;
}

/* How the plays of a law differ from the first one. */
static const struct variant { int law; bool chosen; unsigned promise; struct play_how how; } variants[] = {
	{ LAW_REPEAT, false, 0, { .marked = -1 } }, { LAW_REPEAT, false, 0, { .marked = -1, .before = 2 } },
	{ LAW_REPEAT, false, 0, { .marked = -1, .before = 23 } }, { LAW_REPEAT, false, 0, { .marked = -1, .before = 64 } },
	{ LAW_TRANSFER, false, PROMISE_BATCH, { .marked = -1 } },
	{ LAW_GRAPH, false, 0, { .marked = -1, .graph = EAGER } }, { LAW_GRAPH, false, 0, { .marked = -1, .graph = REPLAYED } },
	{ LAW_POISON, false, 0, { .marked = -1, .poison = POISON_NAN } },
	{ LAW_POISON, false, 0, { .marked = -1, .poison = POISON_OTHER_NAN } },
	{ LAW_CONTENT, true, 0, { .marked = -1, .content = 1 } },
	{ LAW_PRESENCE, true, PROMISE_BATCH, { .marked = -1, .alone = true } },
	{ LAW_ORDER, false, PROMISE_BATCH, { .marked = -1, .reverse = true } },
	{ LAW_BATCH, false, PROMISE_BATCH, { .marked = -1, .pad = MOST_PADDED } },
	{ LAW_SPLIT, false, PROMISE_SPLIT, { .marked = -1, .split = true } },
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* Must this variant's numbers be the same to the bit? Launch, graph, poison and content change nothing that any kernel
 * may depend on; the others are the backend's promise, a split only where the pool does not round. */
static bool to_the_bit(const struct setup *s, const struct variant *v)
{
	if (v->promise == PROMISE_SPLIT && s->shape.state != DT_F32) return false;
	return !v->promise || s->backend->promises(&s->shape) & v->promise;
}

static struct setup on_one_rank(const struct setup *s)
{
	struct setup one = *s;

	one.backend = s->one;
	one.one = NULL;
	return one;
}

/* A law of the steps that is not broken on one rank is broken by what moves between ranks. */
static bool blame_transfer(struct play *base, const struct setup *s,
	const struct scenario *scenario, struct error *e)
{
	const struct play_how as_given = { .marked = -1 };
	struct setup one = on_one_rank(s);
	struct play p;

	if (!base->breach.law || !s->one) return true;
	if (!play_make(&p, &one, scenario, &as_given, e)) return false;
	if (!p.breach.law) base->breach.law = laws[LAW_TRANSFER].name;
	play_free(&p);
	return true;
}

static bool hold_variant(struct isolation *x, const struct setup *s, const struct scenario *scenario, const struct play *base,
	const struct variant *v, struct error *e)
{
	struct outcome_of_law *o = &x->law[v->law];
	struct setup one = on_one_rank(s);
	struct play p;
	struct values values;

	if (v->law == LAW_TRANSFER && !one.backend) return true;
	if (!play_make(&p, v->law == LAW_TRANSFER ? &one : s, scenario, &v->how, e)) return false;
	struct difference d = compare(base, &p, v->chosen);
	struct breach b = p.breach.law ? p.breach : differs(v->law, base, &d);
	bool ok = true, equal = !p.breach.law && !d.different;
	if (!equal && !p.breach.law && !to_the_bit(s, v)) {
		ok = values_judge(&values, &p, e);
		equal = ok && !values.breach.law;
		if (ok) {
			b = values.breach;
			o->within++;
			if (values.worst > o->worst) o->worst = values.worst;
		}
	}
	o->plays++;
	o->counted += d.compared;
	if (ok && !equal) law_broken(x, p.breach.law ? law_find(p.breach.law) : v->law, &b);
	play_free(&p);
	return ok;
}

/* What every step of the first play was held against. */
static void hold_steps(struct isolation *x, const struct play *p)
{
	for (int i = 0; i < LAWS; i++)
		if (p->breach.law && !strcmp(laws[i].name, p->breach.law)) law_broken(x, i, &p->breach);
	x->law[LAW_TABLES].plays++;
	x->law[LAW_TABLES].counted += p->rows;
	x->law[LAW_UNTOUCHED].plays++;
	x->law[LAW_UNTOUCHED].counted += p->slots_kept;
	x->law[LAW_TRANSFER].plays += p->setup->one != NULL;
	x->law[LAW_PADDING].plays++;
	for (size_t r = 0; r < p->rows; r++) x->law[LAW_PADDING].counted += p->row[r].request < 0;
	x->law[LAW_GUARDS].plays++;
	x->law[LAW_GUARDS].counted++;
}

static bool hold_values(struct isolation *x, const struct play *p, struct error *e)
{
	struct outcome_of_law *o = &x->law[LAW_VALUES];
	struct values v;

	if (!values_judge(&v, p, e)) return false;
	o->plays++;
	o->counted += v.tokens;
	if (v.worst > o->worst) o->worst = v.worst;
	if (v.breach.law) law_broken(x, LAW_VALUES, &v.breach);
	return true;
}

bool isolate_scenario(struct isolation *x, const struct setup *s, const struct scenario *scenario, int only, struct error *e)
{
	const struct play_how as_given = { .marked = -1 };
	struct play base;

	if (!play_make(&base, s, scenario, &as_given, e)) return false;
	bool values = false, ok = blame_transfer(&base, s, scenario, e);
	if (ok) hold_steps(x, &base);
	ok = ok && (base.fed || error_set(e, E_EMPTY, "scenario", NO_OFFSET, "no request runs a token"));
	for (int i = 0; ok && i < VARIANTS && x->broken < 0; i++) {
		bool before = variants[i].law == LAW_TRANSFER || variants[i].law == LAW_REPEAT;
		if (!before && !values && x->broken < 0 && (only < 0 || only == LAW_VALUES))
			ok = values = hold_values(x, &base, e);
		if (ok && x->broken < 0 && (only < 0 || only == variants[i].law)) ok = hold_variant(x, s, scenario, &base, &variants[i], e);
	}
	play_free(&base);
	return ok;
}
