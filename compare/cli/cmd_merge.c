/* etalon merge: the shards of one gate, each the JSON that `gate --shard I/N --output FILE` wrote, as the whole that they are. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "compare/gate/gate_output.h"
#include "compare/gate/shard.h"

struct arguments { struct gate_output to; char **path; size_t n; bool elsewhere; };

/* The first shard, with which all must agree, its file, and the records of those that are there. */
struct parts { size_t of, captures; json_t *shard; const char *first; json_t **part; };

static size_t whole_number(const json_t *j, const char *key)
{
	return (size_t)json_integer_value(json_object_get(j, key));
}

static bool begin(struct parts *p, json_t *shard, const char *path, struct error *e)
{
	p->of = whole_number(shard, "of");
	p->captures = whole_number(shard, "captures");
	p->first = path;
	p->shard = json_incref(shard);
	p->part = calloc(p->of + 1, sizeof *p->part);
	return p->part || error_set(e, E_MEMORY, path, NO_OFFSET, "%zu shards", p->of);
}

static bool same(const json_t *a, const json_t *b, const char *key)
{
	return !strcmp(json_text(a, key), json_text(b, key));
}

/* Formulas and a baseline, whatever their paths are. */
static bool same_files(const json_t *a, const json_t *b)
{
	const json_t *x = json_object_get(a, "files"), *y = json_object_get(b, "files");
	bool all = json_array_size(x) == json_array_size(y);

	for (size_t i = 0; all && i < json_array_size(x); i++)
		all = same(json_array_get(x, i), json_array_get(y, i), "sha256");
	return all;
}

/* On another machine the same folders have other paths. */
static bool same_folders(const json_t *a, const json_t *b)
{
	return json_equal(json_object_get(a, "folders"), json_object_get(b, "folders"))
		&& json_equal(json_object_get(a, "flat"), json_object_get(b, "flat"));
}

static bool take(
	struct parts *p, const json_t *j, const char *path, bool elsewhere, struct error *e)
{
	json_t *shard = json_object_get(j, "shard");
	size_t number = whole_number(shard, "number");

	if (!p->part && !begin(p, shard, path, e)) return false;
	if (whole_number(shard, "of") != p->of || whole_number(shard, "captures") != p->captures
		|| !same(shard, p->shard, "list"))
		return error_set(e, E_VALUE, path, NO_OFFSET,
			"a shard of another list of captures than '%s'", p->first);
	if (!elsewhere && !same_folders(shard, p->shard))
		return error_set(
			e, E_VALUE, path, NO_OFFSET, "a shard of other folders than '%s'", p->first);
	if (!same(shard, p->shard, "options"))
		return error_set(e, E_VALUE, path, NO_OFFSET,
			"made with options '%.60s', '%.60s' with '%.60s'",
			json_text(shard, "options"), p->first, json_text(p->shard, "options"));
	if (!same_files(shard, p->shard))
		return error_set(e, E_VALUE, path, NO_OFFSET,
			"made with another baseline or other formulas than '%s'", p->first);
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
	json_decref(p->shard);
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
		ok = j && take(&p, j, a.path[i], a.elsewhere, &e);
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
