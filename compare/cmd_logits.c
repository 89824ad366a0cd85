/* etalon logits: a whole model's logits, position by position. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "logits.h"

struct arguments {
	const char *got, *reference, *ids, *html, *noise[MAX_NOISE];
	size_t n_noise, top;
	bool json;
};

/* Everything that is read from files; zero-initialised, freed with inputs_free. */
struct inputs {
	struct tensors got, reference, ids_file, noise[MAX_NOISE];
	struct logit_source source[2 + MAX_NOISE];
	size_t *ids;
	char under[256];
};

static bool source(struct logit_source *s, struct tensors *file, const char *place, struct error *e)
{
	const struct tensor *t = tensor_at(file, place, e);

	return t && (source_of_tensor(s, t, place, e) || error_in_file(e, place));
}

/* Those of --ids, else input_ids beside the logits where they are as many; else none. */
static bool read_ids(struct inputs *in, const struct arguments *a, struct error *e)
{
	size_t T = in->source[0].positions, V = in->source[0].vocabulary;
	const struct tensor *t = a->ids ? tensor_at(&in->ids_file, a->ids, e) : tensors_find(&in->got, "input_ids");

	if (!t) return !a->ids;
	if (!a->ids && t->count != T) return true;
	in->ids = ids_of_tensor(t, T, V, e);
	return in->ids || error_in_file(e, a->ids ? a->ids : a->got);
}

static const char *noise_text(char *text, size_t size, const struct arguments *a)
{
	const char *slash = strrchr(a->noise[0], '/');

	snprintf(text, size, "the noise of %s%s", slash ? slash + 1 : a->noise[0], a->n_noise > 1 ? " and others" : "");
	return text;
}

static bool read_all(struct inputs *in, struct logit_comparison *c, const struct arguments *a, struct error *e)
{
	*c = (struct logit_comparison){ .reference = &in->source[0], .got = &in->source[1], .n_noise = a->n_noise, .top = a->top, .tick = cli_stage };
	if (!source(c->reference, &in->reference, a->reference, e) || !source(c->got, &in->got, a->got, e)) return false;
	for (size_t k = 0; k < a->n_noise; k++)
		if (!source(c->noise[k] = &in->source[2 + k], &in->noise[k], a->noise[k], e)) return false;
	if (!read_ids(in, a, e)) return false;
	c->ids = in->ids;
	if (a->n_noise) c->under = noise_text(in->under, sizeof in->under, a);
	return true;
}

static void inputs_free(struct inputs *in)
{
	tensors_free(&in->got);
	tensors_free(&in->reference);
	tensors_free(&in->ids_file);
	for (size_t k = 0; k < MAX_NOISE; k++) tensors_free(&in->noise[k]);
	free(in->ids);
}

static int run(const struct arguments *a)
{
	struct inputs in = { 0 };
	struct logit_comparison c;
	struct logit_report r = { 0 };
	struct error e;

	bool ok = read_all(&in, &c, a, &e) && logits_compare(&r, &c, &e) && (!a->html || logits_html(a->html, &r, &c, &e));
	int status = !ok ? cli_fail(&e) : a->json ? cli_json(logits_json(&r, &c)) : logits_text(&r, &c);
	if (status == EXIT_PASS) status = outcome_exit(r.outcome);
	logits_free(&r);
	inputs_free(&in);
	return status;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'g': a->got = text; return 0;
	case 'r': a->reference = text; return 0;
	case 'n':
		if (a->n_noise == MAX_NOISE) argp_error(state, "--noise: at most %d", MAX_NOISE);
		a->noise[a->n_noise++] = text;
		return 0;
	case 'i': a->ids = text; return 0;
	case 't': a->top = cli_number(state, "--top", text, 1, KL_TOP); return 0;
	case 'h': a->html = text; return 0;
	case 'j': a->json = true; return 0;
	case ARGP_KEY_END:
		if (!a->got) argp_error(state, "expected --got FILE:TENSOR");
		if (!a->reference) argp_error(state, "expected --ref FILE:TENSOR");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_logits(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "got", 'g', "FILE:TENSOR", 0, "the engine's logits, [T,V], of any float type", 0 },
		{ "ref", 'r', "FILE:TENSOR", 0, "the logits that they are compared with", 0 },
		{ "noise", 'n', "FILE:TENSOR", 0, "logits that are known to be correct: they may be as far from the reference; may be repeated", 0 },
		{ "ids", 'i', "FILE:TENSOR", 0, "the token ids, for perplexity; input_ids beside the logits by default", 0 },
		{ "top", 't', "K", 0, "how many of the largest tokens are compared (10)", 0 },
		{ "html", 'h', "FILE", 0, "writes a page that stands alone (needs gnuplot)", 0 },
		{ "json", 'j', NULL, 0, "all numbers, position by position", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "",
		"Compares logits of a whole model: errors, KL divergence, first tokens, perplexity, and a verdict.", NULL, NULL, NULL };
	struct arguments a = { .top = 10 };

	cli_parse(&argp, argc, argv, &a);
	return run(&a);
}
