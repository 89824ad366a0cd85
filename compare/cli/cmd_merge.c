/* etalon merge: the shards of one gate, each the JSON that `gate --shard I/N --output FILE` wrote, as the whole that they are. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "compare/gate/gate_output.h"
#include "compare/gate/shard.h"

struct arguments { struct gate_output to; char **path; size_t n; bool elsewhere; };

/* What all shards of a list agree on, and those that are there. */
struct parts {
	size_t of, captures;
	char digest[SHA256_TEXT], *options;
	const char *first;
	json_t **part;
};

static size_t whole_number(const json_t *j, const char *key)
{
	return (size_t)json_integer_value(json_object_get(j, key));
}

static bool begin(struct parts *p, const json_t *shard, const char *path, struct error *e)
{
	p->of = whole_number(shard, "of");
	p->captures = whole_number(shard, "captures");
	p->first = path;
	snprintf(p->digest, sizeof p->digest, "%s", json_text(shard, "list"));
	p->options = strdup(json_text(shard, "options"));
	p->part = calloc(p->of + 1, sizeof *p->part);
	return (p->part && p->options)
		|| error_set(e, E_MEMORY, path, NO_OFFSET, "%zu shards", p->of);
}

static bool take(struct parts *p, const json_t *j, const char *path, struct error *e)
{
	const json_t *shard = json_object_get(j, "shard");
	size_t number = whole_number(shard, "number");

	if (!p->part && !begin(p, shard, path, e)) return false;
	if (whole_number(shard, "of") != p->of || whole_number(shard, "captures") != p->captures
		|| strcmp(json_text(shard, "list"), p->digest))
		return error_set(e, E_VALUE, path, NO_OFFSET,
			"a shard of another list of captures than '%s'", p->first);
	if (strcmp(json_text(shard, "options"), p->options))
		return error_set(e, E_VALUE, path, NO_OFFSET,
			"made with options '%.60s', '%.60s' with '%.60s'",
			json_text(shard, "options"), p->first, p->options);
	if (p->part[number])
		return error_set(e, E_DUPLICATE, path, NO_OFFSET, "shard %zu/%zu is there already",
			number, p->of);
	p->part[number] = json_incref(json_object_get(j, "captures"));
	return true;
}

static bool none_is_missing(const struct parts *p, struct error *e)
{
	for (size_t i = 1; i <= p->of; i++)
		if (!p->part[i])
			return error_set(e, E_MISSING, NULL, NO_OFFSET,
				"shard %zu/%zu is missing; run it again: etalon gate --shard "
				"%zu/%zu",
				i, p->of, i, p->of);
	return true;
}

/* In the order of the gate's list, of which each part has every of-th. */
static json_t *in_order(const struct parts *p)
{
	json_t *captures = json_array();

	for (size_t i = 0; i < p->captures; i++)
		json_array_append(captures, json_array_get(p->part[1 + i % p->of], i / p->of));
	return captures;
}

static void parts_free(struct parts *p)
{
	for (size_t i = 0; p->part && i <= p->of; i++) json_decref(p->part[i]);
	free(p->part);
	free(p->options);
}

static int worst(const json_t *captures)
{
	int status = EXIT_PASS;

	for (size_t i = 0; i < json_array_size(captures); i++)
		status = worse_exit(status, (int)whole_number(json_array_get(captures, i), "exit"));
	return status;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	(void)text;
	switch (key) {
	case 'e': a->elsewhere = true; return 0;
	case ARGP_KEY_INIT: state->child_inputs[0] = &a->to; return 0;
	case ARGP_KEY_ARGS:
		a->path = state->argv + state->next;
		a->n = (size_t)(state->argc - state->next);
		return 0;
	case ARGP_KEY_NO_ARGS: argp_error(state, "expected FILE..."); return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_merge(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "elsewhere", 'e', NULL, 0,
			"the captures are on another machine: a shard that is older than they are "
			"is not noticed",
			0 },
		{ 0 }
	};
	static const struct argp_child children[] = { { &gate_output_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { options, parse, "FILE...",
		"The shards of one gate, each written by `etalon gate --shard I/N --output FILE`: "
		"none may be"
		" missing, none there twice, and none older than its captures.",
		children, NULL, NULL };
	struct arguments a = { 0 };
	struct parts p = { 0 };
	struct error e = { 0 };
	bool ok = true;

	cli_parse(&argp, argc, argv, &a);
	for (size_t i = 0; ok && i < a.n; i++) {
		json_t *j = shard_read(a.path[i], &e);
		ok = j && take(&p, j, a.path[i], &e);
		ok = ok
			&& (a.elsewhere
				|| shard_is_fresh(json_object_get(j, "shard"),
					json_object_get(j, "captures"), a.path[i], &e));
		json_decref(j);
	}
	ok = ok && none_is_missing(&p, &e);
	json_t *captures = ok ? in_order(&p) : NULL;
	int status = ok ? gate_output(captures, NULL, worst(captures), &a.to) : print_failure(&e);
	parts_free(&p);
	return status;
}
