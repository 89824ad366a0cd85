/* Answers of many calls as a digest each, on stdout: the same text from however many ranks and threads compute them (tests/ranks.sh).
 * usage: rank_answers CAPTURE|MODEL-FOLDER... */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fixtures/cases/cases.h"
#include "fixtures/io/sha256.h"
#include "ref/model/model.h"
#include "ref/ranks/ranks.h"

static const char *const arithmetics[] = { "dd", "f64", "noisy" };
enum { ARITHMETICS = 3, STRIPS = 3, TOKENS = 40 };

static void stop(const char *what, const struct error *e)
{
	fprintf(stderr, "rank_answers: %s: ", what);
	error_print(stderr, e);
	putc('\n', stderr);
	exit(error_exit(e));
}

static void add(struct sha256 *h, const double *x, size_t n) { if (x) sha256_add(h, x, n * sizeof *x); }

static void said(struct sha256 *h, const char *what, const char *how, const char *arith, uint64_t work)
{
	char text[SHA256_TEXT];

	sha256_text(h, text);
	printf("%s %s %s %llu %s\n", what, how, arith, (unsigned long long)work, text);
}

static struct plan plan_of(const char *arith, uint64_t seed)
{
	const struct arith *a;
	int bits;

	arith_by_name(arith, &a, &bits);
	struct plan p = plan_plain(a, bits);
	p.seed = seed;
	return p;
}

/* At once, and in strips. */
static void call_answers(const char *what, const struct call *call, const char *arith)
{
	struct plan p = plan_of(arith, 7);
	struct stream l = { .plan = p };
	struct answer a;
	struct error e;
	struct sha256 h;

	sha256_start(&h);
	if (!ref_run(call, &p, &a, &e)) stop(what, &e);
	for (int i = 0; i < MAX_OUT; i++) add(&h, a.hi[i], call->out_count[i]), add(&h, a.lo[i], call->out_count[i]);
	said(&h, what, "whole", arith, a.work);
	answer_free(&a);
	if (!call->op->cut || call->dim[0] < STRIPS) return;
	if (!answer_make(&a, call->out_count, p.arith->wide)) exit(EXIT_MACHINE);
	sha256_start(&h);
	for (size_t i = 0; i < STRIPS; i++) {
		struct strip s = call_strip(call, i, STRIPS);
		if (!ref_strip(call, &l, i, STRIPS, &a, &e)) stop(what, &e);
		for (int o = 0; o < MAX_OUT; o++) add(&h, a.hi[o], s.count[o]), add(&h, a.lo[o], s.count[o]);
	}
	said(&h, what, "strips", arith, a.work);
	stream_end(&l);
	answer_free(&a);
}

static void capture_answers(const char *path)
{
	struct capture c;
	struct call call;
	struct error e;

	if (!capture_read(&c, path, &e) || !call_bind(&call, &c, false, &e)) stop(path, &e);
	for (int k = 0; k < ARITHMETICS; k++) call_answers(path, &call, arithmetics[k]);
	capture_free(&c);
}

/* Of real widths. */
static void wide_answers(void)
{
	static const struct { const char *op, *name; struct case_dim dims[8]; } calls[] = {
		{ "gated_delta_rule", "prefill", { { "T", 12 }, { "N", 1 }, { "Hk", 16 }, { "Hv", 48 }, { "Dk", 128 }, { "Dv", 128 }, { 0 } } },
		{ "rmsnorm", "zero_centred_5120", { { "R", 37 }, { "D", 5120 }, { 0 } } },
		{ "rope", "partial", { { "T", 33 }, { "H", 24 }, { "D", 256 }, { 0 } } },
		{ "causal_conv1d", "prefill_silu", { { "T", 50 }, { "N", 1 }, { "C", 10240 }, { "W", 4 }, { 0 } } },
		{ "attention", "causal", { { "T", 40 }, { "S", 160 }, { "Hq", 24 }, { "Hk", 4 }, { "D", 256 }, { "Dv", 256 }, { 0 } } },
		{ "newton_schulz", "tall_standard_f32", { { "N", 192 }, { "M", 520 }, { 0 } } },
		{ "rmsnorm.backward", "zero_centred_5120", { { "R", 150 }, { "D", 5120 }, { 0 } } },
		{ "gated_delta_rule.backward", "prefill", { { "T", 12 }, { "N", 1 }, { "Hk", 4 }, { "Hv", 12 }, { "Dk", 64 }, { "Dv", 64 }, { 0 } } },
		{ "causal_conv1d.backward", "prefill_silu", { { "T", 50 }, { "N", 1 }, { "C", 1024 }, { "W", 4 }, { 0 } } },
	};
	struct capture c;
	struct call call;
	struct error e;

	for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
		const struct test_case *known = op_case(op_find(calls[i].op), calls[i].name);
		if (!known) exit(EXIT_INPUT);
		struct test_case sized = *known;
		sized.dims = calls[i].dims;
		if (!case_make(&c, &sized, 1, false, &e) || !call_bind(&call, &c, false, &e)) stop(calls[i].op, &e);
		for (int k = 0; k < ARITHMETICS; k++) call_answers(calls[i].op, &call, arithmetics[k]);
		capture_free(&c);
	}
}

/* Every hidden state, and the logits. */
static void model_answers(const char *folder)
{
	struct model m;
	struct error e;
	struct sha256 h;
	size_t ids[TOKENS];

	if (!model_load(&m, folder, &e)) stop(folder, &e);
	for (size_t i = 0; i < TOKENS; i++) ids[i] = (i * 131 + 7) % m.config.vocabulary;
	for (int k = 0; k < ARITHMETICS; k++) {
		struct plan one = plan_of(arithmetics[k], 0);
		struct model_plan p = model_plan_plain(one.arith, one.bits);
		struct values *hidden, logits;
		sha256_start(&h);
		if (!model_run(&m, &p, ids, TOKENS, NULL, &hidden, &e)) stop(folder, &e);
		for (size_t l = 0; l <= m.config.layers; l++)
			add(&h, hidden[l].hi, hidden[l].rows * hidden[l].cols), add(&h, hidden[l].lo, hidden[l].rows * hidden[l].cols);
		if (!model_logits(&m, &p, &hidden[m.config.layers], 3, TOKENS - 3, &logits, &e)) stop(folder, &e);
		add(&h, logits.hi, logits.rows * logits.cols), add(&h, logits.lo, logits.rows * logits.cols);
		said(&h, folder, "model", arithmetics[k], 0);
		values_free(&logits);
		model_hidden_free(&m, hidden);
	}
	model_unload(&m);
}

int main(int argc, char **argv)
{
	struct error e;

	if (!ranks_begin("rank_answers", true, &e)) stop("MPI", &e);
	omp_set_num_threads(ranks_threads(omp_get_max_threads()));
	for (int i = 1; i < argc; i++) {
		size_t n = strlen(argv[i]);
		if (n > 12 && !strcmp(argv[i] + n - 12, ".safetensors")) capture_answers(argv[i]);
		else model_answers(argv[i]);
	}
	wide_answers();
	fflush(stdout);
	exit(EXIT_PASS);
}
