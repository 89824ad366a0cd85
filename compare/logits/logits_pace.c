#include <stdio.h>
#include <string.h>

#include "compare/layers/layer_reading.h"
#include "logits_pace.h"

/* Beside a token of a run in f64. START: what converting the weights costs a run, in tokens. SLOW: sums of other kinds and dd
 * on first tokens, in tokens; SLOW_TIMES: of a layer that is not large, on all. */
static const double noisy = 1.4, start = 14, slow = 640, slow_times = 60;

static double run(const struct logits_pace *p, size_t part)
{
	return (double)model_part_work(p->model, part) * ((double)p->tokens + start);
}

static double all_layers(const struct logits_pace *p)
{
	double work = 0;

	for (size_t l = 0; l < p->model->config.layers; l++) work += run(p, l);
	return work;
}

static const struct op *op_of(const struct model *m, size_t part)
{
	return model_op(part < m->config.layers ? (int)m->config.kind[part] : PART_HEAD);
}

static bool is_first_of_kind(const struct model *m, size_t part)
{
	for (size_t l = 0; l < part; l++)
		if (op_of(m, l) == op_of(m, part)) return false;
	return true;
}

/* A run for each suspect, on few tokens where the layer is large. */
static double coverage(const struct logits_pace *p, size_t part)
{
	const struct op *op = op_of(p->model, part);
	double weights = (double)model_part_work(p->model, part), tokens = (double)layer_work.coverage / weights;
	int suspects = 0;

	for (int i = 0; op->sites[i].name; i++) suspects++;
	for (int i = 0; op->faults[i].name; i++) suspects++;
	return suspects * weights * ((tokens < (double)p->tokens ? tokens : (double)p->tokens) + start);
}

static double anchored(const struct logits_pace *p, size_t part)
{
	double weights = (double)model_part_work(p->model, part);
	bool large = weights * (double)p->tokens > (double)layer_work.large;

	return run(p, part) * (2 + large + noisy * layer_noisy_runs(p->tokens, large))
		+ weights * (large ? slow : slow_times * (double)p->tokens) + (is_first_of_kind(p->model, part) ? coverage(p, part) : 0);
}

/* total: the parts, and from the ids on. */
static double layers(const struct logits_pace *p, size_t done, size_t total)
{
	double work = 0;

	if (!p->layers) return 0;
	for (size_t l = 0; l < done && l + 1 < total; l++) work += anchored(p, l);
	return done < total ? work : work + 2 * (all_layers(p) + run(p, p->model->config.layers));
}

/* Without layers, the exact run and the emulation's come first. */
static double noisy_runs(const struct logits_pace *p, size_t done, size_t total)
{
	(void)total;
	return all_layers(p) * ((p->layers ? 0 : 2) + noisy * (double)done);
}

static double positions(const struct logits_pace *p, size_t done, size_t total)
{
	return run(p, p->model->config.layers) * (2 + noisy * (double)p->runs) * (double)done / (double)total;
}

enum { LAYERS, STAGES = 3 };
static const struct { const char *name; double (*cost)(const struct logits_pace *, size_t, size_t); } stages[STAGES] = {
	[LAYERS] = { "layers", layers }, { "noisy runs", noisy_runs }, { "positions", positions }
};

static int stage_of(const char *name)
{
	int i = 0;

	while (i < STAGES - 1 && strcmp(stages[i].name, name)) i++;
	return i;
}

double logits_pace_share(const struct logits_pace *p, const char *stage, size_t done, size_t total)
{
	const size_t ends[STAGES] = { p->model->config.layers + 2, p->runs, p->positions };
	double before = 0, all = 0;
	int now = stage_of(stage);

	for (int i = 0; i < STAGES; i++) {
		double cost = stages[i].cost(p, ends[i], ends[i]);
		if (i < now) before += cost;
		all += cost;
	}
	return (before + stages[now].cost(p, done, total)) / all;
}

const char *logits_pace_text(const struct logits_pace *p, const char *stage, size_t done, size_t total, char *text, size_t size)
{
	size_t count = p->model->config.layers;

	if (stage_of(stage) != LAYERS) snprintf(text, size, "%s %zu/%zu", stage, done, total);
	else if (done < count) snprintf(text, size, "layer %zu of 0 to %zu, %s", done, count - 1, op_of(p->model, done)->name);
	else if (done + 1 < total) snprintf(text, size, "head");
	else snprintf(text, size, done < total ? "all layers from the ids on" : "layers are read");
	return text;
}
