/* Kernels with structures drawn by lot, in all seven freedoms of docs/structure.md, and what the search reads of their outputs.
 *
 * What counts. A draw is read back where the search claims a structure (identified) and the emulation it prints explains at least 99.99 %
 * of each output's error, or every element to float32's noise where float32's noise is all that the planted kernel's error is. Structures
 * that answer alike are one class; which of them is printed is the search's choice. Nothing claimed is a miss; a claim that explains less
 * is counted apart. Choices are drawn here, from what a lowering meets, by weights that no part of the search knows. */
#ifndef ETALON_TEST_READBACK_H
#define ETALON_TEST_READBACK_H

#include <math.h>
#include <stdlib.h>

#include "compare/structure/search.h"
#include "fixtures/io/random.h"
#include "tests/kernel_model.h"

enum { READBACK_LEAST = 1 << 8, READBACK_MOST = 1 << 15 };      /* output elements of a case that is drawn from */
static const double read_back = 0.9999;

struct readback {
	const struct test_case *k;
	struct structure_reading found;
	char *planted;                  /* the formula, freed with readback_free */
	int drawn;                      /* choices that are not the first of theirs */
	double planted_noise;           /* share of outputs of which all that is planted is float32's noise */
	const char *why;                /* the op is not read, and why; else NULL */
	bool back;
};

static inline size_t readback_below(uint64_t *random, size_t n) { return (size_t)(random_next(random) % n); }
static inline bool readback_chance(uint64_t *random, double p) { return (double)(random_next(random) >> 11) * 0x1p-53 < p; }

static inline bool readback_finite(const struct call *call)
{
	for (int i = 0; i < MAX_OUT; i++)
		for (size_t j = 0; j < call->out_count[i]; j++) {
			double x;
			dtype_load(call->out[i]->dtype, (char *)call->out[i]->data + j * dtype_info[call->out[i]->dtype].size, 1, &x);
			if (!isfinite(x)) return false;
		}
	return true;
}

/* A kernel's habits: the type of products' operands, how often one is in another, how often names and what lies between are rounded. */
struct habits { int operand, narrow; double other, name, inner, form; };

static inline struct habits readback_habits(uint64_t *random)
{
	static const int operands[] = { IN_BF16, IN_BF16, IN_BF16, IN_F16, IN_TF32, IN_F32 };
	struct habits h = { operands[readback_below(random, 6)], IN_BF16, 0.2, 0.15, 0.05, 0.5 };

	if (h.operand == IN_F16) h.narrow = IN_F16;
	if (readback_chance(random, 0.1)) h.name = h.inner = 1;        /* every value rounded, as eager code does */
	return h;
}

static inline int readback_value(const struct key *k, const struct habits *h, uint64_t *random)
{
	static const int types[] = { IN_F32, IN_BF16, IN_F16, IN_TF32, IN_TF32_RN };

	switch (k->kind) {
	case CHOOSE_DEFAULT: return 0;
	case CHOOSE_OPERAND: return readback_chance(random, h->other) ? types[readback_below(random, 5)] : h->operand;
	case CHOOSE_NAME: return readback_chance(random, h->name) ? h->narrow : IN_F32;
	case CHOOSE_INNER: return readback_chance(random, h->inner) ? h->narrow : IN_F32;
	default:
		if (k->what == W_NARROW || k->what == W_WIDE) return readback_chance(random, 0.05);
		return readback_chance(random, h->form) ? (int)readback_below(random, (size_t)k->n) : 0;
	}
}

/* The choices that the candidate meets in pieces of any kind. */
static inline struct met readback_met(struct search *s, const struct candidate *c)
{
	struct met all = { 0 };
	struct lowered l;

	for (struct graph *g = graph_of(s, c); g; g = g->next) {
		assert_true(lower_in(s, g, c, NULL, &l));
		add_met(&all, &l.met);
	}
	return all;
}

/* Every choice that the candidate meets, until it meets no other; how many are not the first. */
static inline int readback_draw(struct search *s, struct candidate *c, uint64_t *random)
{
	const struct habits h = readback_habits(random);
	bool drawn[MAX_KEY] = { false };
	int n = 0;

	if (s->chunk_key[c->form] >= 0)
		n += (c->config.value[s->chunk_key[c->form]] = (unsigned char)readback_below(random, (size_t)s->n_chunk[c->form])) > 0;
	for (bool more = true; more;) {
		struct met met = readback_met(s, c);
		more = false;
		for (int i = 0; i < met.n && !more; i++) {
			int k = met.key[i];
			if (drawn[k]) continue;
			drawn[k] = more = true;
			int v = readback_value(&s->keys.at[k], &h, random);
			c->config.value[k] = (unsigned char)v;
			n += v > (s->keys.at[k].kind == CHOOSE_FORM ? 0 : (int)IN_F32);
		}
	}
	return n;
}

struct readback_storing { const struct tensor *t; const double *from; };

static inline void readback_line(size_t at, size_t step, size_t n, void *with)
{
	struct readback_storing *s = with;
	size_t size = dtype_info[s->t->dtype].size;

	for (size_t i = 0; i < n; i++, at += step) {
		double x = (double)(float)*s->from++;   /* what a kernel stores is a float first */
		dtype_store(s->t->dtype, &x, 1, (char *)s->t->data + at * size);
	}
}

/* What the candidate answers in pieces of that kind, into the call's outputs. Of recorded iterations each begins with what is recorded of the one before, so that
 * each time one more is as the candidate makes it. */
static inline void readback_store_in(struct search *s, struct graph *g, const struct lowered *l)
{
	struct view *v = view_of(s, g, s->n_stage - 1);
	const struct stage_turns *t = &v->v.turns;
	int times = 1;

	for (int in = 1; in < g->f.n_in && s->call->anchored; in++) times = t->n[in] + 1 > times ? t->n[in] + 1 : times;
	for (int k = 0; k < times; k++) {
		evaluator_clear(&v->v);
		assert_true(evaluate(&v->v, l, NULL));
		for (int i = 0; i < g->f.n_put; i++) {
			const struct sym_put *p = &g->f.put[i];
			const struct value *x = put_value(&v->v, l, l->put[i]);
			for (int j = 0; j < t->n[p->in]; j++) {
				struct readback_storing w = { s->call->out[p->slice->tensor], value_in(&v->v, x, p->in, j) };
				assert_true(slice_lines(p->slice, &t->of[p->in][j], readback_line, &w));
			}
		}
	}
}

/* What the candidate answers in all pieces. */
static inline void readback_store(struct search *s, const struct candidate *c)
{
	struct lowered l;

	look_at(s, 1);
	for (struct graph *g = graph_of(s, c); g; g = g->next) {
		assert_true(lower_in(s, g, c, NULL, &l));
		readback_store_in(s, g, &l);
	}
}

/* What is drawn, by lot or (as) as it was for another call of the same kernel; form < 0: any. */
struct readback_drawn { int form, choices; const struct structure_choices *as; bool iterates; };

/* All that the candidate meets as it was drawn before. */
static inline void readback_as(struct search *s, struct candidate *c, const struct structure_choices *as)
{
	for (int round = 0; round < 32; round++) {
		readback_met(s, c);
		for (int i = 0; i < as->n; i++) {
			int key = key_there(&s->keys, as->at[i].id);
			if (key >= 0) c->config.value[key] = as->at[i].value;
		}
	}
}

static inline void readback_keep(const struct search *s, const struct candidate *c, struct structure_choices *to)
{
	*to = (struct structure_choices){ .form = c->form, .at = malloc(MAX_KEY * sizeof *to->at) };
	assert_non_null(to->at);
	for (int i = 0; i < s->keys.n; i++) to->at[to->n++] = (struct structure_choice){ s->keys.at[i].id, c->config.value[i] };
}

/* Makes the outputs of c those of a structure; kept, where not NULL: its choices, `at` freed by the caller. *why: the op is not read. */
static inline char *readback_plant_drawn(struct capture *c, struct readback_drawn *d, uint64_t faults, uint64_t *random, struct structure_choices *kept, const char **why)
{
	struct search *s = calloc(1, sizeof *s);
	struct candidate x = { .form = d->form };
	struct plan plain = plan_plain(&arith_f32, 24);
	struct lowered l;
	struct call call;
	struct error e;
	char *text = NULL;
	size_t size = 0;

	assert_non_null(s);
	answer_by(c, &plain);
	no_error(call_bind(&call, c, true, &e) && search_make(s, &call, &(struct structure_search){ .work = 1e18, .faults = faults }, why, &e), &e);
	if (!*why) {
		if (d->as) x.form = d->as->form;
		else if (d->form < 0) x.form = (int)readback_below(random, (size_t)s->n_form);
		if (!s->graph[x.form][0].made) x.form = 0;
		if (d->as) readback_as(s, &x, d->as);
		else d->choices = readback_draw(s, &x, random);
		d->iterates = s->rounded[0] > 0;
		struct graph *g = graph_of(s, &x);
		FILE *to = open_memstream(&text, &size);
		assert_true(to && lower(&(struct lowering){ &g->f, &g->cells, &s->keys, &x.config, x.form, false, to }, &l));
		fprintf(to, "form %s, chunks of %zu\n", call.op->forms[x.form].name, s->chunk_key[x.form] >= 0 ? g->f.loop->by : (size_t)0);
		fclose(to);
		readback_store(s, &x);
		if (kept) readback_keep(s, &x, kept);
	}
	search_free(s);
	free(s);
	return text;
}

/* Makes the outputs of c those of a structure drawn by lot; form < 0: of any form. *why: the op is not read. */
static inline char *readback_plant(struct capture *c, int form, uint64_t faults, uint64_t *random, int *drawn, const char **why)
{
	struct readback_drawn d = { .form = form };
	char *text = readback_plant_drawn(c, &d, faults, random, NULL, why);

	*drawn = d.choices;
	return text;
}

/* The case with its first n iterations alone; false where it has no more than that. */
static inline bool readback_shortened(struct capture *c, size_t n)
{
	json_t *params = json_loads(meta_get(&c->tensors, "etalon.params"), 0, NULL), *each = json_object_get(params, "coefficients"),
		*restarts = json_object_get(params, "restarts");
	bool more = json_array_size(each) > n;
	struct error e;

	while (json_array_size(each) > n) json_array_remove(each, n);
	for (size_t i = json_array_size(restarts); i > 0; i--)
		if (json_number_value(json_array_get(restarts, i - 1)) >= (double)n) json_array_remove(restarts, i - 1);
	if (restarts && !json_array_size(restarts)) json_object_del(params, "restarts");
	char *text = json_dumps(params, JSON_COMPACT);
	assert_true(!more || (text && meta_set(&c->tensors, "etalon.params", text)));
	if (more) no_error(capture_bind(c, &e), &e);
	free(text);
	json_decref(params);
	return more;
}

/* A small case of the op of this name; of any op where none is named, each as often as another.
 * What is drawn of a named op does not depend on the others. */
static inline const struct test_case *readback_case(const char *only, uint64_t *random)
{
	const struct test_case *one[256];

	for (int go = 0; go < (only ? 1 : 4096); go++) {
		size_t all = 0, n = 0;
		while (test_cases[all].op) all++;
		const char *op = only ? only : test_cases[readback_below(random, all)].op;
		for (size_t i = 0; i < all; i++) {
			struct capture c;
			struct call call;
			struct error e;
			if (strcmp(test_cases[i].op, op) || test_cases[i].large || n == 256)
				continue;
			if (!case_make(&c, &test_cases[i], 1, true, &e)) continue;
			size_t elements = 0;
			if (call_bind(&call, &c, true, &e))
				for (int o = 0; o < MAX_OUT; o++) elements += call.out_count[o];
			if (elements >= READBACK_LEAST && elements <= READBACK_MOST) one[n++] = &test_cases[i];
			capture_free(&c);
		}
		if (n) return one[readback_below(random, n)];
	}
	return NULL;
}

static inline bool readback_counts(const struct structure_reading *r)
{
	bool back = r->identified;

	for (int o = 0; o < MAX_OUT; o++)
		if (r->out[o].elements) back = back && (r->out[o].explained >= read_back || r->out[o].equal == 1 || r->out[o].noise);
	return back;
}

/* What the kernel's calls with 1, 2 and 3 iterations tell, each read from what the one before told; `at` freed by the caller. */
static inline struct structure_choices readback_fewer(const struct test_case *k, uint64_t seed, const struct structure_choices *planted, double work, FILE *log, double *used)
{
	struct structure_choices known = { 0 };

	for (size_t n = 1; n <= 3; n++) {
		struct readback_drawn d = { .as = planted };
		struct structure_reading r;
		const char *why;
		struct capture c;
		struct call call;
		struct error e;
		no_error(case_make(&c, k, seed, true, &e), &e);
		if (readback_shortened(&c, n)) {
			free(readback_plant_drawn(&c, &d, 0, NULL, NULL, &why));
			no_error(call_bind(&call, &c, true, &e) && structure_read(&r, &call, &(struct structure_search){ .work = work, .log = log, .known = known.n ? &known : NULL }, &why, &e), &e);
			*used += r.work;
			if (log) fprintf(log, "of %zu iterations: %s, %.2f G operations\n%s", n, r.identified ? "read" : "missed", r.work * 1e-9, r.text ? r.text : "");
			structure_hand_on(&r, &known);
			structure_free(&r);
		}
		capture_free(&c);
	}
	return known;
}

/* The draw that begins at this state of the stream of random numbers. False: of an op that is not read. fewer: of an iteration, are calls of the
 * same kernel with fewer iterations read first? */
static inline bool readback_from(struct readback *r, uint64_t random, const char *only, double work, bool fewer, FILE *log)
{
	struct structure_choices planted = { 0 }, known = { 0 };
	struct readback_drawn d;
	struct capture c;
	struct call call;
	struct error e;
	uint64_t seed;
	double used = 0;

	*r = (struct readback){ .k = readback_case(only, &random) };
	if (!r->k) return false;
	for (bool ok = false; !ok;) {
		seed = random_next(&random);
		no_error(case_make(&c, r->k, seed, true, &e), &e);
		d = (struct readback_drawn){ .form = -1 };
		r->planted = readback_plant_drawn(&c, &d, 0, &random, &planted, &r->why);
		r->drawn = d.choices;
		if (r->why) break;
		no_error(call_bind(&call, &c, true, &e), &e);
		if ((ok = readback_finite(&call))) break;
		capture_free(&c);
		free(r->planted);
		free(planted.at);
	}
	if (!r->why) {
		const char *why;
		if (fewer && d.iterates) known = readback_fewer(r->k, seed, &planted, work, log, &used);
		no_error(structure_read(&r->found, &call, &(struct structure_search){ .work = work, .log = log, .known = known.n ? &known : NULL }, &why, &e), &e);
		r->found.work += used;
		r->back = !why && readback_counts(&r->found);
	}
	free(planted.at);
	free(known.at);
	capture_free(&c);
	return !r->why;
}

/* The draw of this number: a stream of its own for each, not one that is a step ahead of the last one's. */
static inline bool readback(struct readback *r, uint64_t number, const char *only, double work, bool fewer, FILE *log)
{
	return readback_from(r, random_mix(number), only, work, fewer, log);
}

static inline void readback_free(struct readback *r)
{
	free(r->planted);
	structure_free(&r->found);
}

static inline void readback_print(FILE *to, const struct readback *r, uint64_t number)
{
	fprintf(to, "%llu %s %s: %s, %d drawn, %zu candidates, %.2f G operations%s;", (unsigned long long)number, r->k->op, r->k->name,
		r->back ? "read back" : r->found.identified ? "CLAIMED" : "missed", r->drawn, r->found.tries, r->found.work * 1e-9, r->found.stopped ? ", stopped" : "");
	for (int o = 0; o < MAX_OUT; o++)
		if (r->found.out[o].elements)
			fprintf(to, " %s %.6f%s", op_find(r->k->op)->out[o].name, r->found.out[o].explained, r->found.out[o].noise ? " (noise)" : "");
	fputc('\n', to);
}

#endif
