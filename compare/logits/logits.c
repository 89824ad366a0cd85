/* Streams two sources of logits, and those that say how far apart they may be. */
#include "logits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 1 << 25 };         /* of one source's rows at a time */
#define NONE ((double)NAN)

const char *const flip_name[FLIPS] = { "", "tie", "emulation", "noise", "beyond", "unknown" };

/* One source's rows of the present block. */
struct view { const struct logit_source *s; const char *rows; };

static const void *row_of(const struct view *v, size_t i)
{
	return v->rows + i * v->s->vocabulary * dtype_info[v->s->type].size;
}

static double logit(const struct view *v, size_t i, size_t token) { return logit_value(v->s->type, row_of(v, i), token); }

/* Half a unit in the last place of what a source stores. */
static double half_ulp(const struct logit_source *s, double x)
{
	return isfinite(x) ? format_ulp(dtype_info[s->type].format, x) / 2 : 0;
}

static size_t in_common(const struct logit_side *a, const struct logit_side *b)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n_top; i++)
		for (size_t k = 0; k < b->n_top; k++) n += a->top[i].token == b->top[k].token;
	return n;
}

/* The first tokens differ: by how much, and whether the reference itself can tell them apart. */
static void look_at_flip(struct logit_position *p, const struct logit_row *r, const struct view *ref, const struct view *got,
	size_t i)
{
	size_t mine = r->a.top[0].token, theirs = r->b.top[0].token;
	double a = r->a.top[0].value, b = logit(ref, i, theirs);

	p->margin_reference = a - b;
	p->margin_got = r->b.top[0].value - logit(got, i, mine);
	p->noise = half_ulp(ref->s, a) + half_ulp(ref->s, b);
	p->rank_reference = logit_rank(ref->s->type, row_of(ref, i), ref->s->vocabulary, theirs);
	p->rank_got = logit_rank(got->s->type, row_of(got, i), got->s->vocabulary, mine);
	p->flip = p->margin_reference <= p->noise ? FLIP_TIE : FLIP_UNKNOWN;
}

static void fill(struct logit_position *p, const struct logit_row *r)
{
	double n = (double)r->count;

	p->kl = r->kl, p->kl_back = r->kl_back;
	p->rms = sqrt(r->squares / n), p->mean = r->sum / n;
	p->max = r->max, p->worst = r->worst;
	p->masked = r->masked, p->mask = r->a.masked + r->b.masked;
	p->nan = r->b.nan, p->inf = r->b.inf;
	p->common = in_common(&r->a, &r->b);
	p->n_top = r->a.n_top < r->b.n_top ? r->a.n_top : r->b.n_top;
	memcpy(p->top_reference, r->a.top, p->n_top * sizeof *p->top_reference);
	memcpy(p->top_got, r->b.top, p->n_top * sizeof *p->top_got);
}

/* got against the emulation: what the contract's roundings leave. */
static void look_at_emulation(struct logit_position *p, const struct view *emulation, const struct view *got, size_t i)
{
	struct logit_row r;

	logit_row(emulation->s->type, row_of(emulation, i), got->s->type, row_of(got, i), got->s->vocabulary, 1, NULL, &r);
	p->rms_left = sqrt(r.squares / (double)r.count);
	p->kl_left = r.kl;
	if (p->flip == FLIP_UNKNOWN && r.a.n_top && r.a.top[0].token == p->top_got[0].token) p->flip = FLIP_EMULATION;
}

struct state {
	const struct logit_comparison *c;
	struct view ref, got, emulation, noise[MAX_NOISE];
	struct noise_figures figures;
	size_t first;                   /* position of the block's first row */
	size_t bad;                     /* the first position whose reference is no row of numbers, or all */
};

static void look(struct logit_report *r, struct state *s, size_t i, size_t *histogram)
{
	size_t t = s->first + i, T = r->positions;
	struct logit_position *p = &r->position[t];
	struct logit_row row;

	logit_row(s->ref.s->type, row_of(&s->ref, i), s->got.s->type, row_of(&s->got, i), r->vocabulary, r->top, histogram, &row);
	fill(p, &row);
	if (row.a.nan || row.a.inf || row.a.n_top == 0) {
		#pragma omp critical
		s->bad = t < s->bad ? t : s->bad;
		return;
	}
	if (p->n_top && p->top_reference[0].token != p->top_got[0].token) look_at_flip(p, &row, &s->ref, &s->got, i);
	if (s->c->ids && t + 1 < T) {
		p->nll_reference = row.a.log_sum - logit(&s->ref, i, s->c->ids[t + 1]);
		p->nll_got = row.b.log_sum - logit(&s->got, i, s->c->ids[t + 1]);
	}
	if (s->c->emulation) look_at_emulation(p, &s->emulation, &s->got, i);
	for (size_t k = 0; k < s->c->n_noise; k++) {
		logit_row(s->ref.s->type, row_of(&s->ref, i), s->noise[k].s->type, row_of(&s->noise[k], i), r->vocabulary, 0, NULL, &row);
		s->figures.squares[k * T + t] = row.squares / (double)row.count;
		s->figures.kl[k * T + t] = row.kl;
		s->figures.max[k * T + t] = row.max;
	}
}

static bool fetch(struct view *v, struct logit_source *s, size_t first, size_t n, struct error *e)
{
	*v = (struct view){ s, s ? s->rows(s, first, n, e) : NULL };
	return !s || v->rows;
}

static bool fetch_all(struct state *s, size_t first, size_t n, struct error *e)
{
	const struct logit_comparison *c = s->c;

	s->first = first;
	for (size_t k = 0; k < c->n_noise; k++)
		if (!fetch(&s->noise[k], c->noise[k], first, n, e)) return false;
	return fetch(&s->ref, c->reference, first, n, e) && fetch(&s->got, c->got, first, n, e)
		&& fetch(&s->emulation, c->emulation, first, n, e);
}

static bool stream(struct logit_report *r, struct state *s, struct error *e)
{
	size_t T = r->positions, rows = BLOCK_BYTES / (r->vocabulary * sizeof(double)) + 1;

	if (rows < s->c->reference->at_once) rows = s->c->reference->at_once;
	for (size_t first = 0; first < T; first += rows) {
		size_t n = T - first < rows ? T - first : rows;
		if (!fetch_all(s, first, n, e)) return false;
		#pragma omp parallel
		{
			size_t histogram[LOGIT_BINS] = { 0 };
			#pragma omp for schedule(dynamic)
			for (size_t i = 0; i < n; i++) look(r, s, i, histogram);
			#pragma omp critical
			for (size_t i = 0; i < LOGIT_BINS; i++) r->histogram[i] += histogram[i];
		}
		if (s->bad < T)
			return error_set(e, E_VALUE, s->ref.s->name, NO_OFFSET, "the reference's position %zu has a NaN, +inf or no number at all",
				s->bad);
		watch_tick(s->c->watch, "positions", first + n, T);
	}
	return true;
}

static bool same_shape(const struct logit_source *a, const struct logit_source *b, struct error *e)
{
	return !b || (a->positions == b->positions && a->vocabulary == b->vocabulary)
		|| error_set(e, E_DIM, b->name, NO_OFFSET, "[%zu,%zu], but %s is [%zu,%zu]", b->positions, b->vocabulary, a->name, a->positions,
			a->vocabulary);
}

static bool make(struct logit_report *r, const struct logit_comparison *c, struct error *e)
{
	size_t T = c->reference->positions, top = c->top < c->reference->vocabulary ? c->top : c->reference->vocabulary;

	*r = (struct logit_report){ .positions = T, .vocabulary = c->reference->vocabulary, .top = top, .has_ids = c->ids,
		.has_emulation = c->emulation, .has_sigma = c->n_noise > 0, .noise_runs = c->n_noise };
	r->position = calloc(T, sizeof *r->position);
	r->ranked = calloc(T, 2 * top * sizeof *r->ranked);
	if (!r->position || !r->ranked) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu positions", T);
	for (size_t t = 0; t < T; t++)
		r->position[t] = (struct logit_position){ .sigma = NONE, .nll_reference = NONE, .nll_got = NONE, .rms_left = NONE,
			.kl_left = NONE,
			.noise = NONE, .margin_reference = NONE, .margin_got = NONE,
			.top_reference = r->ranked + 2 * t * top, .top_got = r->ranked + (2 * t + 1) * top };
	return true;
}

bool logits_compare(struct logit_report *r, const struct logit_comparison *c, struct error *e)
{
	struct state s = { .c = c, .bad = SIZE_MAX };
	size_t T = c->reference->positions, n = c->n_noise * T + 1;

	*r = (struct logit_report){ 0 };
	bool ok = same_shape(c->reference, c->got, e) && same_shape(c->reference, c->emulation, e);
	for (size_t k = 0; ok && k < c->n_noise; k++) ok = same_shape(c->reference, c->noise[k], e);
	if (!ok) return false;
	s.figures = (struct noise_figures){ calloc(n, sizeof(double)), calloc(n, sizeof(double)), calloc(n, sizeof(double)) };
	if (!s.figures.squares || !s.figures.kl || !s.figures.max) ok = error_set(e, E_MEMORY, NULL, NO_OFFSET, "%zu positions", T);
	ok = ok && make(r, c, e) && stream(r, &s, e) && logits_summarise(r, c, &s.figures, e);
	free(s.figures.squares);
	free(s.figures.kl);
	free(s.figures.max);
	if (!ok) logits_free(r);
	return ok;
}

void logits_free(struct logit_report *r)
{
	free(r->position);
	free(r->ranked);
	*r = (struct logit_report){ 0 };
}
