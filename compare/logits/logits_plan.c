#define _GNU_SOURCE     /* gethostname */
#include "logits_plan.h"

#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ref/ranks/ranks.h"

/* Tokens of the two runs that time is measured by, and of the rows that logits are asked for at a time (logits_model.c). */
enum { FEW = 8, MORE = 64, ROWS = 128 };

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- who is there ---- */
static uint64_t free_memory(void)
{
	FILE *f = fopen("/proc/meminfo", "re");
	char line[128];
	unsigned long long kib = 0;

	while (f && !kib && fgets(line, sizeof line, f)) sscanf(line, "MemAvailable: %llu kB", &kib);
	if (f) fclose(f);
	return kib * 1024;
}

static bool ask_ranks(struct logits_plan *p, struct error *e)
{
	uint64_t mine[RANK_WORDS] = { free_memory(), (uint64_t)omp_get_max_threads() }, all[ranks_count()][RANK_WORDS];
	char host[HOST] = "";

	p->ranks = ranks_count();
	if (!(p->rank = calloc((size_t)p->ranks, sizeof *p->rank))) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "%d ranks", p->ranks);
	gethostname(host, sizeof host - 1);
	memcpy(mine + 2, host, sizeof host);
	memcpy(all[0], mine, sizeof mine);
	if (p->ranks > 1) ranks_meet(1, mine, all);
	for (int r = 0; r < p->ranks; r++) {
		p->rank[r] = (struct rank_plan){ .free = all[r][0], .threads = (int)all[r][1] };
		memcpy(p->rank[r].host, all[r] + 2, HOST);
	}
	return true;
}

/* ---- memory ---- */
static uint64_t numbers(size_t n, bool wide) { return (uint64_t)n * sizeof(double) * (wide ? 2 : 1); }

static bool layer_bytes(struct logits_plan *p, const struct model_question *q, size_t layer, struct error *e)
{
	double *nothing = calloc(1, sizeof *nothing);
	struct tensor x = tensor_of(nothing, q->n, q->model->config.hidden);
	struct plan plan = plan_plain(q->truth, q->bits);
	struct call call = { 0 };
	struct call_bytes b = { 0 };

	bool ok = nothing && model_layer_call(q->model, layer, &x, q->truth->wide ? &x : NULL, NULL, NULL, &call, e)
		&& model_call_bytes(&call, &plan, &b, e);
	free(nothing);
	if (b.held > p->held) p->held = b.held;
	if (b.piece * (uint64_t)omp_get_max_threads() > p->pieces) p->pieces = b.piece * (uint64_t)omp_get_max_threads();
	p->round += b.held + numbers(call.out_count[0], q->truth->wide);
	return ok;
}

static bool memory(struct logits_plan *p, const struct model_question *q, struct error *e)
{
	const struct model_config *c = &q->model->config;
	bool wide = q->truth->wide;
	uint64_t weights = q->model->head->bytes;

	for (size_t l = 0; l < c->layers; l++) {
		const struct model_layer *layer = &q->model->layer[l];
		for (int in = 0; in < MAX_IN; in++)
			if (layer->weight[in]) weights += layer->weight[in]->bytes;
		for (int i = 0; i < FUSED; i++)
			for (size_t k = 0; k < layer->fused[i].n; k++) p->copied += layer->fused[i].item[k].bytes, weights -= layer->fused[i].item[k].bytes;
		if (!layer_bytes(p, q, l, e)) return false;
	}
	p->weights = weights / (uint64_t)p->ranks;
	p->round = p->round / (uint64_t)p->ranks * (uint64_t)(p->ranks - 1);
	p->kept = numbers(q->n * c->hidden, wide);
	p->hidden = (3 + 1) * p->kept + numbers(q->n * c->hidden, false) * q->runs;      /* what goes in, comes out, and is kept of each run */
	size_t logits = (q->n < ROWS ? q->n : ROWS) * c->vocabulary;
	p->rows = numbers(logits, wide) * 2 + numbers(logits, false) * q->runs;
	return true;
}

static uint64_t of_rank(const struct logits_plan *p) { return p->weights + p->copied + p->held + p->hidden + p->rows + p->pieces; }

static bool fits(const struct logits_plan *p)
{
	for (int r = 0; r < p->ranks; r++) {
		uint64_t all = 0;
		for (int i = 0; i < p->ranks; i++) all += strcmp(p->rank[i].host, p->rank[r].host) ? 0 : of_rank(p);
		if (all > p->rank[r].free) return false;
	}
	return true;
}

/* ---- time ---- */
/* One layer, or, layer = layers, the head: seconds of n tokens. */
static bool timed(const struct model_question *q, const struct model_plan *plan, size_t layer, size_t n, double *seconds, struct error *e)
{
	const struct model *m = q->model;
	struct values x, y = { 0 };
	struct answer a;
	struct call call;

	if (!values_make(&x, n, m->config.hidden, plan->part[0].arith->wide, e)) return false;
	for (size_t i = 0; i < n * m->config.hidden; i++) x.hi[i] = (double)(i * 2654435761u % 1024) / 512 - 1;
	double from = now();
	bool ok;
	if (layer == m->config.layers) ok = model_logits(m, plan, &x, 0, n, &y, e);
	else {
		struct tensor hi = tensor_of(x.hi, n, m->config.hidden), lo = tensor_of(x.lo, n, m->config.hidden);
		ok = model_layer_call(m, layer, &hi, x.lo ? &lo : NULL, NULL, NULL, &call, e) && ref_run(&call, model_plan_at(m, plan, layer), &a, e);
		if (ok) answer_free(&a);
	}
	*seconds = now() - from;
	values_free(&x);
	values_free(&y);
	return ok;
}

/* Of all tokens: what a run of a few takes, and by the difference of two what each more does. The products of attention, whose work grows
 * with the square of tokens, come on top in proportion to those of the weights. */
static bool expected(const struct model_question *q, const struct model_plan *plan, size_t layer, double *seconds, struct error *e)
{
	const struct model_config *c = &q->model->config;
	double few = 0, more = 0, work = (double)model_part_work(q->model, layer);

	/* The first brings the weights from the disk. */
	if (!timed(q, plan, layer, FEW, &few, e) || !timed(q, plan, layer, FEW, &few, e) || !timed(q, plan, layer, MORE, &more, e)) return false;
	double each = more > few ? (more - few) / (MORE - FEW) : more / MORE, n = (double)q->n;
	bool attends = layer < c->layers && c->kind[layer] == FULL_ATTENTION;
	*seconds = few + each * (n - FEW) * (attends ? 1 + 2 * n * (double)(c->heads * c->head_dim) / work : 1);
	return true;
}

static bool time_run(struct run_plan *r, const struct model_question *q, const struct arith *a, int bits, struct error *e)
{
	struct model_plan plan = model_plan_plain(a, bits);
	const struct model_config *c = &q->model->config;
	double kind[LAYER_KINDS] = { 0 };

	r->arith = a->name;
	for (size_t l = 0; l < c->layers; l++) {
		if (kind[c->kind[l]] == 0 && !expected(q, &plan, l, &kind[c->kind[l]], e)) return false;
		r->layers += kind[c->kind[l]];
	}
	return expected(q, &plan, c->layers, &r->head, e);
}

bool plan_make(struct logits_plan *p, const struct model_question *q, struct error *e)
{
	*p = (struct logits_plan){ .tokens = q->n, .run = { { .what = "exact", .times = 1 }, { .what = "emulation", .times = 1 },
		{ .what = "noisy", .times = q->runs } } };
	if (!ask_ranks(p, e) || !memory(p, q, e) || !time_run(&p->run[0], q, q->truth, q->bits, e)
		|| !time_run(&p->run[2], q, &arith_noisy, arith_noisy.precision, e)) return false;
	p->run[1].arith = p->run[0].arith, p->run[1].layers = p->run[0].layers, p->run[1].head = p->run[0].head;
	for (int i = 0; i < RUNS_PLANNED; i++) p->seconds += (p->run[i].layers + p->run[i].head) * (double)p->run[i].times;
	p->measured = ranks_figures().bytes;
	p->fits = fits(p);
	return true;
}

void plan_free(struct logits_plan *p) { free(p->rank); }

/* ---- in words ---- */
static const char *duration(double s, char text[24])
{
	if (s < 120) snprintf(text, 24, "%.3g s", s);
	else if (s < 7200) snprintf(text, 24, "%.0f min", s / 60);
	else if (s < 172800) snprintf(text, 24, "%.1f h", s / 3600);
	else snprintf(text, 24, "%.1f days", s / 86400);
	return text;
}

static double gb(uint64_t bytes) { return 1e-9 * (double)bytes; }

void plan_print(FILE *to, const struct logits_plan *p, const struct model *m)
{
	char text[2][24];

	fprintf(to, "%zu tokens through %zu layers, on %d rank%s\n", p->tokens, m->config.layers, p->ranks, p->ranks == 1 ? "" : "s");
	for (int r = 0; r < p->ranks; r++)
		fprintf(to, "  rank %d on %s: %d threads, %.3g GB free\n", r, p->rank[r].host, p->rank[r].threads, gb(p->rank[r].free));
	fprintf(to, "memory of a rank, %.3g GB:\n"
		"  %-10.3g its weights, mapped from the files\n  %-10.3g experts that the folder has one by one, copied together\n"
		"  %-10.3g what a layer's pieces hold for those behind them\n  %-10.3g hidden states\n  %-10.3g rows of logits\n  %-10.3g inside of pieces, all threads\n",
		gb(of_rank(p)), gb(p->weights), gb(p->copied), gb(p->held), gb(p->hidden), gb(p->rows), gb(p->pieces));
	if (!p->fits) fprintf(to, "  that is more than is free\n");
	if (p->ranks > 1) fprintf(to, "  %.3g GB come to a rank from the others in a run of all layers\n", gb(p->round));
	fprintf(to, "a layer's result in a checkpoint folder: %.3g GB\n", gb(p->kept));
	fprintf(to, "expected time, from a layer of each kind on %d and %d tokens:\n", FEW, MORE);
	for (int i = 0; i < RUNS_PLANNED; i++)
		fprintf(to, "  %s run in %s, %zu times: layers %s, logits %s\n", p->run[i].what, p->run[i].arith, p->run[i].times,
			duration(p->run[i].layers, text[0]), duration(p->run[i].head, text[1]));
	fprintf(to, "in all, without reading each layer (--quick): %s\n", duration(p->seconds, text[0]));
}

json_t *plan_json(const struct logits_plan *p)
{
	json_t *ranks = json_array(), *runs = json_array();

	for (int r = 0; r < p->ranks; r++)
		json_array_append_new(ranks, json_pack("{s:s, s:i, s:I}", "host", p->rank[r].host, "threads", p->rank[r].threads, "free", (json_int_t)p->rank[r].free));
	for (int i = 0; i < RUNS_PLANNED; i++)
		json_array_append_new(runs, json_pack("{s:s, s:s, s:I, s:f, s:f}", "run", p->run[i].what, "arithmetic", p->run[i].arith, "times",
			(json_int_t)p->run[i].times, "layers", p->run[i].layers, "logits", p->run[i].head));
	return json_pack("{s:I, s:o, s:{s:I, s:I, s:I, s:I, s:I, s:I, s:I}, s:b, s:I, s:I, s:o, s:f}", "tokens", (json_int_t)p->tokens, "ranks", ranks, "memory",
		"all", (json_int_t)of_rank(p), "weights", (json_int_t)p->weights, "copied", (json_int_t)p->copied, "held", (json_int_t)p->held,
		"hidden", (json_int_t)p->hidden, "logits", (json_int_t)p->rows, "pieces", (json_int_t)p->pieces, "fits", p->fits,
		"received", (json_int_t)p->round, "kept", (json_int_t)p->kept, "runs", runs, "seconds", p->seconds);
}
