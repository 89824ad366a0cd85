/* etalon logits: a whole model's logits, position by position. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "logits_planned.h"
#include "ranks_said.h"
#include "gpu/host/backend.h"
#include "compare/logits/logits_causes.h"
#include "compare/logits/logits_contracts.h"
#include "compare/logits/logits_pace.h"
#include "ref/call/checkpoint.h"
#include "ref/model/model_checkpoint.h"

struct arguments {
	const char *model, *got, *reference, *ids, *contract, *truth, *html, *checkpoint, *noise[MAX_NOISE];
	size_t n_noise, top, runs;
	size_t plan;                    /* tokens; 0: not asked */
	bool quick, json, progress, last;
};

/* A watch that knows what share of the run is done. */
struct watched { struct watch watch; struct logits_pace *pace; struct timespec *start; bool lines; };

/* Everything that is read or computed; zero-initialised, freed with inputs_free. */
struct inputs {
	struct tensors got, reference, ids_file, noise[MAX_NOISE];
	struct logit_source source[2 + MAX_NOISE];
	struct model model;
	struct model_reference runs;
	struct logit_causes causes;
	struct truth_error truth;
	size_t *ids, n_ids;
	char under[256], chosen[CONTRACT_NAME];
	struct watched watched;
};

static bool source(struct logit_source *s, struct tensors *file, const char *place, struct error *e)
{
	const struct tensor *t = tensor_at(file, place, e);

	return t && (source_of_tensor(s, t, place, e) || error_in_file(e, place));
}

/* Those of --ids, else input_ids beside the logits. With a model there may be more of them than logits, which are then the
 * last ones'. Without, input_ids of another number are none. */
static bool read_ids(struct inputs *in, const struct arguments *a, const struct logit_source *got, struct error *e)
{
	const struct tensor *t = a->ids ? tensor_at(&in->ids_file, a->ids, e) : tensors_find(&in->got, "input_ids");

	if (!t && a->ids) return false;
	if (!t) return !a->model || error_set(e, E_MISSING, "input_ids", NO_OFFSET, "a model needs token ids: --ids FILE:TENSOR");
	if (!a->model && !a->ids && t->count != got->positions) return true;
	in->n_ids = a->model ? t->count : got->positions;
	in->ids = ids_of_tensor(t, in->n_ids, got->vocabulary, e);
	return in->ids || error_in_file(e, a->ids ? a->ids : a->got);
}

/* ---- against files ---- */
static const char *noise_text(char *text, size_t size, const struct arguments *a)
{
	const char *slash = strrchr(a->noise[0], '/');

	snprintf(text, size, "the noise of %s%s", slash ? slash + 1 : a->noise[0], a->n_noise > 1 ? " and others" : "");
	return text;
}

static bool compare_files(struct inputs *in, struct logit_comparison *c, struct logit_report *r, const struct arguments *a,
	struct error *e)
{
	if (!source(c->reference = &in->source[0], &in->reference, a->reference, e)) return false;
	for (size_t k = 0; k < a->n_noise; k++)
		if (!source(c->noise[c->n_noise++] = &in->source[2 + k], &in->noise[k], a->noise[k], e)) return false;
	if (a->n_noise) c->under = noise_text(in->under, sizeof in->under, a);
	c->ids = in->ids;
	return logits_compare(r, c, e);
}

/* ---- against a model ---- */
static void tick(const struct watch *w, const char *stage, size_t done, size_t total)
{
	const struct watched *x = (const struct watched *)(const void *)w;
	char text[96];

	logits_pace_text(x->pace, stage, done, total, text, sizeof text);
	cli_pace(x->start, text, logits_pace_share(x->pace, stage, done, total), x->lines);
}

/* So that what is known of a long run is known when it ends early. */
static void part_read(const struct watch *w, const struct model_reading *r, size_t part)
{
	char text[256];

	if (((const struct watched *)(const void *)w)->lines) fprintf(stderr, "%s\n", model_part_sentence(r, part, text, sizeof text));
}

/* The layers first: they say how the engine adds, and with that the emulation does it too. */
static bool under_contract(struct inputs *in, struct logit_comparison *c, struct logit_report *r, struct model_question *q,
	bool quick, struct error *e)
{
	struct model_reference *runs = &in->runs;

	model_reference_free(runs);
	causes_free(&in->causes);
	logits_free(r);
	const struct watched *w = (const struct watched *)(const void *)q->watch;
	*w->pace = (struct logits_pace){ q->model, q->n, q->positions, q->runs, !quick && causes_readable(&in->got, c->got->tensor) };
	if (!w->pace->layers) cli_pace(w->start, "the exact model", 0, w->lines);
	if (!quick && !causes_read(&in->causes, &in->got, c->got->tensor, q, e)) return false;
	if (in->causes.has_layers && in->causes.layers.ended) return true;
	if (!model_reference_make(runs, q, e)) return false;
	c->reference = &runs->truth.source;
	c->emulation = runs->has_emulation ? &runs->emulation.source : NULL;
	c->n_noise = runs->n_noise;
	for (size_t k = 0; k < c->n_noise; k++) c->noise[k] = &runs->noise[k].source;
	snprintf(in->under, sizeof in->under, "contract %s", q->contract);
	c->under = in->under;
	if (!logits_compare(r, c, e)) return false;
	logits_truth(r, q->truth->name, in->truth.by->name, in->truth.tokens, in->truth.rms);
	return true;
}

/* Of our own engine: from other sources than those that are here it says nothing of them. */
static void judge_source(const struct tensors *got, struct logit_report *r)
{
	const char *producer = meta_get(got, "etalon.producer"), *then = meta_get(got, "etalon.source_sha256");
	const char *today = gpu_source_sha256("model");

	if (producer && !strncmp(producer, "etalon engine", 13) && then && strcmp(then, today))
		logits_reason(r, FAIL, "stale: recorded from sources %.12s..., the engine is now %.12s...; record it again", then, today);
}

static bool is_met(const struct inputs *in, const struct logit_report *r)
{
	return r->outcome == PASS && (!in->causes.has_layers || (!in->causes.layers.ended && model_reading_exit(&in->causes.layers) == EXIT_PASS));
}

/* Of logits that fail: what is plain, else, of logits alone, suspects. */
static bool try_causes(struct inputs *in, const struct logit_comparison *c, struct logit_report *r, const struct model_question *q, bool quick,
	struct error *e)
{
	struct logit_causes *x = &in->causes;

	if (quick || r->outcome != FAIL || r->bad || x->tried || *x->look || (x->has_layers && x->layers.ended)) return true;
	if (!logits_look(&in->runs, q, c->got, r, x->look, sizeof x->look)) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "looking at logits");
	return *x->look || x->has_layers || causes_try(x, c->got->tensor, q, e);
}

/* A fault that is found under a contract is not thrown away for a pass under a looser one. */
static bool is_named(const struct inputs *in)
{
	return !in->causes.layers.ended && (causes_name(&in->causes) || causes_explain(&in->causes));
}

/* --contract auto: the first that is met, or under which a fault is found; else the last, which is the loosest of its kind. */
static bool under_nearest(struct inputs *in, struct logit_comparison *c, struct logit_report *r, struct model_question *q,
	bool quick, struct error *e)
{
	struct logits_contracts list;

	logits_contracts(&list, q->model, q->n, &in->got, c->got->tensor);
	for (int i = 0; i < list.n; i++) {
		snprintf(in->chosen, sizeof in->chosen, "%s", list.name[i]);
		q->contract = in->chosen;
		q->probe = i + 1 < list.n;
		if (!under_contract(in, c, r, q, quick, e)) return false;
		if (is_met(in, r)) return true;
		if (!try_causes(in, c, r, q, quick, e)) return false;
		if (is_named(in)) return true;
	}
	return true;
}

static bool compare_model(struct inputs *in, struct logit_comparison *c, struct logit_report *r, const struct arguments *a,
	struct error *e)
{
	bool choose = a->contract && !strcmp(a->contract, "auto");
	const char *declared = meta_get(&in->got, "etalon.contract");
	struct model_question q = { .model = &in->model, .ids = in->ids, .n = in->n_ids, .positions = c->got->positions, .runs = a->runs,
		.contract = a->contract && !choose ? a->contract : !choose && declared ? declared
		: model_op(PART_HEAD)->contracts->name, .watch = c->watch };

	if (c->got->vocabulary != in->model.config.vocabulary)
		return error_set(e, E_DIM, c->got->name, NO_OFFSET, "a vocabulary of %zu, the model's is %zu", c->got->vocabulary,
			in->model.config.vocabulary);
	if (c->got->positions > in->n_ids || (c->got->positions < in->n_ids && !a->last))
		return error_set(e, E_DIM, c->got->name, NO_OFFSET, "%zu rows of logits for %zu token ids%s", c->got->positions, in->n_ids,
			c->got->positions < in->n_ids ? "; --last takes them for those of the last ids" : "");
	if (!arith_by_name(a->truth, &q.truth, &q.bits))
		return error_set(e, E_UNKNOWN_NAME, a->truth, NO_OFFSET, "see `etalon list arithmetics`");
	if (a->checkpoint && !model_checkpoint(&in->model, a->checkpoint, in->ids, in->n_ids, a->truth, choose ? a->contract : q.contract, e)) return false;
	c->ids = in->ids + (in->n_ids - c->got->positions);
	bool quick = a->quick || c->got->positions < in->n_ids;
	if (!model_truth_error(&q, &in->truth, e) || !(choose ? under_nearest : under_contract)(in, c, r, &q, quick, e)) return false;
	if (!try_causes(in, c, r, &q, quick, e)) return false;
	causes_judge(&in->causes, r);
	judge_source(&in->got, r);
	if (!a->contract && !declared && r->outcome == FAIL)
		logits_reason(r, FAIL, "--contract names none, so the first was taken, %s; --contract auto takes the tightest that is met, "
			"or the nearest", q.contract);
	return true;
}

/* ---- the command ---- */
static void inputs_free(struct inputs *in)
{
	tensors_free(&in->got);
	tensors_free(&in->reference);
	tensors_free(&in->ids_file);
	for (size_t k = 0; k < MAX_NOISE; k++) tensors_free(&in->noise[k]);
	model_reference_free(&in->runs);
	causes_free(&in->causes);
	model_unload(&in->model);
	free(in->ids);
}

static bool compare(struct inputs *in, struct logit_comparison *c, struct logit_report *r, const struct arguments *a,
	struct error *e)
{
	*c = (struct logit_comparison){ .got = &in->source[1], .top = a->top, .watch = a->model ? &in->watched.watch : &cli_watch };
	if ((a->model && !model_load(&in->model, a->model, e)) || !source(c->got, &in->got, a->got, e) || !read_ids(in, a, c->got,
		e)) return false;
	return a->model ? compare_model(in, c, r, a, e) : compare_files(in, c, r, a, e);
}

static int run(const struct arguments *a)
{
	struct logits_pace pace = { 0 };
	struct timespec start = { 0 };
	struct inputs in = { .watched = { { tick, part_read }, &pace, &start, a->progress } };
	struct logit_comparison c;
	struct logit_report r = { 0 };
	struct error e;

	bool ok = compare(&in, &c, &r, a, &e);
	const struct logit_causes *causes = a->model ? &in.causes : NULL;
	ok = ok && (!a->html || logits_html(a->html, &r, &c, causes, &e));
	int status = !ok ? print_failure(&e) : a->json ? json_print(logits_json(&r, &c, causes)) : logits_text(&r, &c, causes);
	if (status == EXIT_PASS) status = outcome_exit(r.outcome);
	if (a->checkpoint && a->progress) {
		size_t found, kept;
		checkpoint_figures(&found, &kept);
		fprintf(stderr, "checkpoint %s: %zu results found, %zu kept\n", a->checkpoint, found, kept);
	}
	if (ok && a->progress) ranks_said(stderr);
	checkpoint_close();
	logits_free(&r);
	inputs_free(&in);
	return status;
}

static void check(const struct arguments *a, struct argp_state *state)
{
	if (a->plan && !a->model) argp_error(state, "--plan needs --model DIR");
	if (a->plan) return;
	if (!a->got) argp_error(state, "expected --got FILE:TENSOR");
	if (!a->model == !a->reference) argp_error(state, "expected --model DIR or --ref FILE:TENSOR");
	if (!a->model && a->contract) argp_error(state, "--contract needs --model DIR");
	if (!a->model && a->checkpoint) argp_error(state, "--checkpoint needs --model DIR");
	if (a->model && a->n_noise) argp_error(state, "--noise goes with --ref; a model's noise is its contract's");
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'm': a->model = text; return 0;
	case 'g': a->got = text; return 0;
	case 'r': a->reference = text; return 0;
	case 'n':
		if (a->n_noise == MAX_NOISE) argp_error(state, "--noise: at most %d", MAX_NOISE);
		a->noise[a->n_noise++] = text;
		return 0;
	case 'i': a->ids = text; return 0;
	case 'c': a->contract = text; return 0;
	case 'T': a->truth = text; return 0;
	case 'R': a->runs = cli_number(state, "--runs", text, 1, MAX_NOISE); return 0;
	case 'q': a->quick = true; return 0;
	case 'l': a->last = true; return 0;
	case 't': a->top = cli_number(state, "--top", text, 1, LOGIT_TOP); return 0;
	case 'h': a->html = text; return 0;
	case 'j': a->json = true; return 0;
	case 'p': a->progress = true; return 0;
	case 'C': a->checkpoint = text; return 0;
	case 'P': a->plan = cli_number(state, "--plan", text, 1, 1 << 24); return 0;
	case ARGP_KEY_END: check(a, state); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_logits(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "got", 'g', "FILE:TENSOR", 0, "the engine's logits, [T,V], of any float type", 0 },
		{ "model", 'm', "DIR", 0, "the model: a folder with config.json and safetensors", 0 },
		{ "ids", 'i', "FILE:TENSOR", 0, "the token ids; input_ids beside the logits by default", 0 },
		{ "contract", 'c', "NAME", 0, "with --model: what the engine may round (what the file declares, or f32), and where else, "
			"as NAME,delta.q_norm=bf16; auto: by the types of the file, the first that it meets", 0 },
		{ "runs", 'R', "N", 0, "with --model: noisy runs behind sigma (8)", 0 },
		{ "quick", 'q', NULL, 0, "with --model: the verdict on the logits alone: no suspects, and hidden states tell no more than the contract that auto takes", 0 },
		{ "last", 'l', NULL, 0, "with --model: there are fewer rows of logits than ids, and they are the last ones'", 0 },
		{ "truth", 'T', "ARITH", 0, "with --model: the reference's arithmetic (f64)", 0 },
		{ "ref", 'r', "FILE:TENSOR", 0, "in place of a model: the logits that they are compared with", 1 },
		{ "noise", 'n', "FILE:TENSOR", 0, "with --ref: logits that are known to be correct, so may be as far off; may be repeated", 1 },
		{ "top", 't', "K", 0, "how many of the largest tokens are compared (10)", 2 },
		{ "html", 'h', "FILE", 0, "writes a page that stands alone (needs gnuplot)", 2 },
		{ "progress", 'p', NULL, 0, "with --model: how far it is, and of each layer how it does, line by line on stderr", 2 },
		{ "checkpoint", 'C', "DIR", 0, "with --model: keeps each layer's result there, and goes on from what is kept", 2 },
		{ "plan", 'P', "TOKENS", 0, "with --model: computes nothing, but says what so many tokens would take: memory of each rank, time", 2 },
		{ "json", 'j', NULL, 0, "all numbers, position by position", 2 }, { 0 }
	};
	static const struct argp argp = { options, parse, "",
		"Compares logits of a whole model: errors, KL divergence, first tokens, perplexity, and a verdict.", NULL, NULL, NULL };
	struct arguments a = { .top = 10, .runs = 8, .truth = "f64" };

	cli_parse(&argp, argc, argv, &a);
	return a.plan ? logits_planned(a.model, a.plan, a.truth, a.runs, a.json) : run(&a);
}
