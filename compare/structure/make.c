/* What a search begins with: every form in every chunk size as symbols, the exact answer, weights. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "ref/arith/arith_blas.h"
#include "ref/formula/formula_private.h"
#include "search.h"

static double now(void)
{
	struct timespec t;

	/* Beside other calls, each on threads of its own (gate), the time is this one's, and not theirs. */
	clock_gettime(omp_get_level() ? CLOCK_THREAD_CPUTIME_ID : CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double used(const struct search *s) { return s->how->seconds > 0 ? now() - s->begin : s->work; }

/* w = 1 / max(|t|, root mean square of t over the last axis) */
static bool weigh(struct search *s, int o)
{
	const struct call *c = s->call;
	size_t shape[MAX_RANK], n = c->out_count[o], rank = (size_t)call_out_shape(c, o, shape), row = rank ? shape[rank - 1] : 1;
	const double *t = s->truth.hi[o];
	double *y = malloc((n + 1) * sizeof *y);

	s->weight[o] = malloc((n + 1) * sizeof **s->weight);
	s->recorded[o] = malloc((n + 1) * sizeof **s->recorded);
	if (!y || !s->weight[o] || !s->recorded[o]) {
		free(y);
		return error_set(s->e, E_MEMORY, c->op->name, NO_OFFSET, "weights");
	}
	dtype_load(c->out[o]->dtype, c->out[o]->data, n, y);
	for (size_t i = 0; i < n; i += row) {
		double sum = 0;
		for (size_t j = 0; j < row && i + j < n; j++) sum += t[i + j] * t[i + j];
		for (size_t j = 0; j < row && i + j < n; j++) {
			s->weight[o][i + j] = (float)(1 / fmax(fmax(fabs(t[i + j]), sqrt(sum / (double)row)), 1e-30));
			s->recorded[o][i + j] = (float)y[i + j];
		}
	}
	free(y);
	return true;
}

static bool begins_with(const char *shape, const char *dim)
{
	size_t n = strlen(dim);

	return !strncmp(shape, dim, n) && (shape[n] == ',' || !shape[n]);
}

static bool along_tokens(const struct op *op, int o) { return begins_with(op->out[o].shape, op->dims[0]); }

/* The first loop, or the first in it. */
static const struct loop *chunked_loop(const struct statement *b)
{
	while (b && !b->loop) b = b->next;
	return !b ? NULL : b->loop->chunks ? b->loop : chunked_loop(b->body);
}

/* Has the form a loop along dims[0]? */
static bool goes_along(const struct search *s, const struct statement *b)
{
	for (; b; b = b->next)
		if (b->loop && loop_along(b->loop, s->call->op)) return true;
	return false;
}

/* What the form's chunks are of: tokens, or at most the longest axis of all. */
static size_t chunked_length(const struct search *s, const struct form_decl *d)
{
	size_t most = s->call->dim[0];

	if (goes_along(s, d->body)) return most;
	for (int i = 1; s->call->op->dims[i]; i++) most = s->call->dim[i] > most ? s->call->dim[i] : most;
	return most;
}

/* Kernels take chunks of 16 to 256, whatever the file lists. */
static void chunks_of(struct search *s, int form, const struct form_decl *d)
{
	static const size_t usual[] = { 64, 32, 128, 16, 256 };
	const struct loop *l = chunked_loop(d->body);
	const size_t length = chunked_length(s, d);

	s->n_chunk[form] = 1;
	s->chunk_key[form] = -1;
	s->chunk[form][0] = DEFAULT_CHUNK;
	if (!l) return;
	for (int i = 1; i < 5; i++)
		if (usual[i] < 2 * length) s->chunk[form][s->n_chunk[form]++] = usual[i];
	s->chunk_key[form] = key_find(&s->keys, key_id(form, 0, W_CHUNK, 0), CHOOSE_FORM, W_CHUNK, s->n_chunk[form], -1);
}

struct plan search_plan(const struct search *s, const struct arith *as, int form, size_t chunk)
{
	struct plan p = plan_plain(as, as->precision);

	p.form = form;
	p.chunk = s->call->op->forms[form].chunked ? chunk : 0;
	p.faults = s->faults;
	memcpy(p.value, s->value, sizeof p.value);
	return p;
}

bool graph_make(struct search *s, struct graph *g, int form, size_t chunk, uint64_t faults, const char **why)
{
	struct plan plan = search_plan(s, &arith_f64, form, chunk);

	plan.chunk = chunk;
	plan.faults |= faults;
	g->made = true;
	if (!(g->program = program_make_kept(&s->formula->tree, s->call->op, s->call, &plan, s->e))) return false;
	if (g->program->grad) *why = "a derivative";
	for (struct program *p = g->program; !*why; g = g->next) {
		symbols_make(&g->f, &s->formula->tree, p);
		*why = g->f.missing;
		do p = p->next; while (p && !p->step);
		if (g->f.failed || (p && !(g->next = calloc(1, sizeof *g)))) return error_set(s->e, E_MEMORY, s->call->op->name, NO_OFFSET, "symbols");
		if (!p) break;
		g->next->program = p;
	}
	return true;
}

/* One piece takes one core as long as two take both. */
static const size_t worth_a_glance = 4;

/* As many pieces are looked at as have enough elements of outputs. */
static size_t step_at(const struct search *s, int k)
{
	const struct call *c = s->call;
	size_t T = c->dim[0], all = 0;
	const int last = s->n_stage - 1;
	const size_t enough = k < last ? structure_sees : k == last ? structure_sees_last : structure_glances;

	for (int o = 0; o < MAX_OUT && c->op->out[o].name; o++)
		if (along_tokens(c->op, o)) all += T ? c->out_count[o] / T * s->stage[k] : 0;
		else all += k < last ? 0 : c->out_count[o];
	return all < enough || c->op->pieces(c) < worth_a_glance ? 1 : all / enough;
}

static bool free_running(const struct search *s) { return s->call->op->iterates && !s->call->anchored; }

/* Of a recurrence the first tokens pass few roundings, of an iteration the first turns; rows that know nothing of each other are better seen
 * together. */
static void stages(struct search *s)
{
	static const size_t tokens[] = { 8, 16, 32, 64, 96, 0 }, rows[] = { 64, 0 };
	const size_t *usual = rows, T = s->call->dim[0];

	for (const struct form_decl *d = s->formula->tree.forms; d; d = (const struct form_decl *)d->d.next)
		if (goes_along(s, d->body)) usual = tokens;
	if (free_running(s))
		for (int turns = 1; turns <= 3; turns++) s->rounded[s->n_stage] = turns, s->stage[s->n_stage++] = T;
	else
		for (; *usual; usual++)
			if (*usual < T) s->stage[s->n_stage++] = *usual;
	s->stage[s->n_stage++] = T;
	s->stage[s->n_stage] = T;
	for (int k = 0; k <= s->n_stage; k++) s->step[k] = step_at(s, k);
}

/* Would what is carried, kept for each chunk, or the outputs, need more than some 256 MiB? */
static bool too_large(const struct search *s, int form)
{
	double all = 0;
	size_t out = 0;

	for (const struct graph *g = &s->graph[form][0]; g; g = g->next) {
		const struct program_loop *l = g->f.loop;
		size_t carried = 0, kept = l && l->chunk >= 0 ? s->call->dim[0] / l->by + 1 : 1;
		for (int i = 0; i < g->f.n_carry; i++) carried += g->program->reg[g->f.carry[i].reg].rows.n * g->program->reg[g->f.carry[i].reg].cols.n;
		all += (double)carried * (double)g->program->pieces * (double)kept;
	}
	for (int o = 0; o < MAX_OUT; o++) out += s->call->out_count[o];
	return all > 0x1p24 || out > (size_t)1 << 24;
}

/* Can the form make all of the faults? */
static bool has_faults(const struct search *s, int form)
{
	for (int i = 0; i < MAX_FAULT && s->call->op->faults[i].name; i++)
		if (s->faults >> i & 1 && !form_has(s->call->op, i, form)) return false;
	return true;
}

/* The first form that can. */
static int form_with_faults(const struct search *s)
{
	int form = 0;

	while (form + 1 < MAX_FORM && s->call->op->forms[form + 1].name && !has_faults(s, form)) form++;
	return form;
}

/* The exact answer; of a fault that one form alone makes, in that form. */
static bool truth_made(struct search *s)
{
	struct plan plan = search_plan(s, &arith_f64, form_with_faults(s), DEFAULT_CHUNK);

	return ref_run(s->call, &plan, &s->truth, s->e);
}

static bool outputs_weighed(struct search *s, const char **why)
{
	const struct op *op = s->call->op;

	for (int o = 0; o < MAX_OUT && op->out[o].name; o++) {
		if (!s->call->out_count[o]) continue;
		s->along[o] = along_tokens(op, o);
		if (!weigh(s, o)) return false;
		for (size_t i = 0; i < s->call->out_count[o]; i++)
			if (!isfinite(s->truth.hi[o][i]) || !isfinite(s->recorded[o][i])) *why = "an output that is not finite";
	}
	return true;
}

/* By a run whose operations are rounded to float32 up or down at random, and whose functions err as a GPU's may. */
static bool noise_made(struct search *s)
{
	struct plan plan = search_plan(s, &arith_noisy, form_with_faults(s), DEFAULT_CHUNK);
	struct answer a;

	/* an iteration that runs free makes of float32's noise whatever it makes of roundings: nothing is told by it */
	if (free_running(s)) return true;
	plan.seed = 1;
	if (!ref_run(s->call, &plan, &a, s->e)) return false;
	for (int o = 0; o < MAX_OUT; o++) {
		size_t n = s->call->out_count[o];
		double sum = 0, stored = 0;
		for (size_t i = 0; i < n; i++) {
			double y[2] = { a.hi[o][i], s->truth.hi[o][i] }, w = (double)s->weight[o][i], e = (y[0] - y[1]) * w;
			store_type(s->call->out[o]->dtype, y, 2);
			sum += isfinite(e) ? e * e : 0;
			stored += isfinite(e) ? (y[0] - y[1]) * (y[0] - y[1]) * w * w : 0;
		}
		s->noise[o] = n ? sum / (double)n : 0;
		s->flips[o] = n ? stored / (double)n : 0;
	}
	answer_free(&a);
	return true;
}

static bool all_made(struct search *s, const char **why)
{
	if (!truth_made(s)) return false;
	stages(s);
	if (!outputs_weighed(s, why)) return false;
	if (*why) return true;
	if (!noise_made(s)) return false;
	int n = 0;
	for (const struct form_decl *d = s->formula->tree.forms; d && n < MAX_FORM; d = (const struct form_decl *)d->d.next, n++) {
		if (!has_faults(s, n) || !formula_has_form(s->formula, s->call, d)) continue;
		chunks_of(s, n, d);
		for (int k = 0; k < s->n_chunk[n] && !*why; k++)
			if (!graph_make(s, &s->graph[n][k], n, s->chunk[n][k], 0, why)) return false;
		if (!*why && too_large(s, n)) *why = "a call of this size";
		if (*why) return true;
		if (!exact_agrees(s, n)) *why = "a form whose exact value comes out otherwise here";
		for (int k = 0; k < s->n_chunk[n]; k++)
			for (struct graph *g = &s->graph[n][k]; g; g = g->next) view_of(s, g, s->n_stage - 1);
	}
	s->n_form = n;
	return true;
}

bool search_make(struct search *s, const struct call *call, const struct structure_search *how, const char **why, struct error *e)
{
	*why = NULL;
	*s = (struct search){ .call = call, .mix = 1, .push = true, .rival = -1, .begin = how->seconds > 0 ? now() : 0, .e = e, .log = how->log, .faults = how->faults,
		.budget = how->seconds > 0 ? how->seconds : how->work,
		.order = how->order, .how = how, .ban = -2 };
	for (int o = 0; o < MAX_OUT; o++) s->least[o] = INFINITY;
	for (int i = 0; i < MAX_FAULT && call->op->faults[i].name; i++) s->value[i] = how->value && how->faults >> i & 1 ? how->value[i] : fault_usual(call->op, i);
	if (!formula_source(call->op) || call->op->holds) {
		*why = call->op->holds ? "an op whose pieces hold values for others" : "an op that is no formula";
		return true;
	}
	s->formula = formula_of(call->op);
	if (!(s->seen = calloc(SEEN, sizeof *s->seen))) return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "structure");
	blas_enter(NULL);
	return all_made(s, why);
}

void graph_free(struct graph *g)
{
	if (g->next) graph_free(g->next), free(g->next);
	for (int k = 0; k < LANES * MAX_STAGE; k++) view_free(&g->view[k / MAX_STAGE][k % MAX_STAGE]);
	cells_free(&g->cells);
	symbols_free(&g->f);
	if (g->made) program_free(g->program);
}

void search_free(struct search *s)
{
	for (int f = 0; f < MAX_FORM; f++)
		for (int k = 0; k < MAX_BY; k++)
			if (s->graph[f][k].made) graph_free(&s->graph[f][k]);
	for (int o = 0; o < MAX_OUT; o++) free(s->weight[o]), free(s->recorded[o]);
	answer_free(&s->truth);
	free(s->seen);
}
