/* etalon invent: a model of random weights, to try an engine or etalon itself at a real model's widths. */
#include <stdlib.h>

#include "cli.h"
#include "ref/model/invent.h"

struct arguments { struct invention v; bool json; };

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'o': a->v.folder = text; return 0;
	case 's': a->v.seed = cli_number(state, "--seed", text, 0, UINT64_MAX); return 0;
	case 'l': a->v.layers = cli_number(state, "--layers", text, 1, 1 << 16); return 0;
	case 'n': a->v.tokens = cli_number(state, "--tokens", text, 1, 1 << 24); return 0;
	case 'S': a->v.shard = cli_number(state, "--shard", text, 1, 1 << 20) << 20; return 0;
	case 'j': a->json = true; return 0;
	case ARGP_KEY_ARG:
		if (a->v.config) return ARGP_ERR_UNKNOWN;
		a->v.config = text;
		return 0;
	case ARGP_KEY_END:
		if (!a->v.config || !a->v.folder) argp_error(state, "expected CONFIG and -o DIR");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_invent(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "output", 'o', "DIR", 0, "where config.json, the weights and input_ids.safetensors go; made if absent", 0 },
		{ "layers", 'l', "N", 0, "the first N layers only", 0 },
		{ "tokens", 'n', "N", 0, "how many token ids to draw (512)", 0 },
		{ "seed", 's', "N", 0, "of the random streams (1)", 0 },
		{ "shard", 'S', "MIB", 0, "size of a shard (4096)", 0 },
		{ "json", 'j', NULL, 0, "say in JSON what was written", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "CONFIG -o DIR",
		"A model of random weights in bf16 by a config.json, the same on every machine.", NULL, NULL, NULL };
	struct arguments a = { .v = { .seed = 1, .tokens = 512, .shard = UINT64_C(1) << 32, .tick = cli_stage } };
	struct invented made;
	struct error e = { 0 };

	cli_parse(&argp, argc, argv, &a);
	if (!invent_model(&a.v, &made, &e)) return print_failure(&e);
	if (a.json)
		return json_print(json_pack("{s:s,s:I,s:I,s:I,s:I}", "folder", a.v.folder, "tensors", (json_int_t)made.tensors, "weights",
			(json_int_t)made.weights, "shards", (json_int_t)made.shards, "tokens", (json_int_t)a.v.tokens));
	printf("%s: %zu tensors, %ju weights in %zu shards, %zu token ids\n", a.v.folder, made.tensors, (uintmax_t)made.weights,
		made.shards, a.v.tokens);
	return EXIT_PASS;
}
