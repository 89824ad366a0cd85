/* etalon merge: the shards of one gate, each the JSON that `gate --shard I/N --output FILE` wrote, as the whole that they are. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "gate_output.h"

struct arguments { struct gate_output to; char **path; size_t n; };

/* What all shards of a list agree on, and which of them are there. */
struct list { size_t of, captures; char digest[128]; const char *first; bool *seen; };

static size_t whole_number(const json_t *j, const char *key)
{
	const json_t *x = json_object_get(j, key);

	return json_is_integer(x) && json_integer_value(x) > 0 ? (size_t)json_integer_value(x) : 0;
}

static json_t *read_shard(const char *path, struct error *e)
{
	json_error_t why;
	json_t *j = json_load_file(path, JSON_REJECT_DUPLICATES, &why);

	if (!j && why.line < 0) error_set(e, E_OPEN, path, NO_OFFSET, "%s", strerror(errno));
	else if (!j) error_set(e, E_FORMAT, path, NO_OFFSET, "expected what `etalon gate --shard I/N --output FILE` writes: line %d: %s", why.line, why.text);
	else if (!json_is_array(json_object_get(j, "captures")) || !whole_number(json_object_get(j, "shard"), "number")) {
		error_set(e, E_FORMAT, path, NO_OFFSET, "expected what `etalon gate --shard I/N --output FILE` writes");
		json_decref(j);
		j = NULL;
	}
	return j;
}

static bool begin(struct list *l, const json_t *shard, const char *path, struct error *e)
{
	const char *digest = json_string_value(json_object_get(shard, "list"));

	l->of = whole_number(shard, "of");
	l->captures = whole_number(shard, "captures");
	l->first = path;
	snprintf(l->digest, sizeof l->digest, "%s", digest ? digest : "");
	l->seen = calloc(l->of + 1, sizeof *l->seen);
	return l->seen || error_set(e, E_MEMORY, path, NO_OFFSET, "%zu shards", l->of);
}

static bool take(struct list *l, const json_t *j, const char *path, json_t *captures, struct error *e)
{
	const json_t *shard = json_object_get(j, "shard");
	const char *digest = json_string_value(json_object_get(shard, "list"));
	size_t number = whole_number(shard, "number");

	if (!l->seen && !begin(l, shard, path, e)) return false;
	if (whole_number(shard, "of") != l->of || !digest || strcmp(digest, l->digest) || number > l->of)
		return error_set(e, E_VALUE, path, NO_OFFSET, "a shard of another list of captures than '%s'", l->first);
	if (l->seen[number]) return error_set(e, E_DUPLICATE, path, NO_OFFSET, "shard %zu/%zu is there already", number, l->of);
	l->seen[number] = true;
	return json_array_extend(captures, json_object_get(j, "captures")) == 0 || error_set(e, E_MEMORY, path, NO_OFFSET, "captures");
}

static bool is_whole(const struct list *l, const json_t *captures, struct error *e)
{
	for (size_t i = 1; i <= l->of; i++)
		if (!l->seen[i]) return error_set(e, E_MISSING, NULL, NO_OFFSET, "shard %zu/%zu is missing; run it again: etalon gate --shard %zu/%zu", i, l->of, i, l->of);
	return json_array_size(captures) == l->captures
		|| error_set(e, E_VALUE, NULL, NO_OFFSET, "%zu captures of %zu", json_array_size(captures), l->captures);
}

static int by_name(const void *a, const void *b)
{
	const json_t *const *x = a, *const *y = b;
	const char *p = json_string_value(json_object_get(*x, "capture")), *q = json_string_value(json_object_get(*y, "capture"));

	return strcmp(p ? p : "", q ? q : "");
}

/* As a gate without shards lists them. */
static json_t *sorted(const json_t *captures)
{
	size_t n = json_array_size(captures);
	json_t **item = calloc(n ? n : 1, sizeof *item), *to = json_array();

	for (size_t i = 0; item && i < n; i++) item[i] = json_array_get(captures, i);
	if (item) qsort(item, n, sizeof *item, by_name);
	for (size_t i = 0; item && i < n; i++) json_array_append(to, item[i]);
	free(item);
	return to;
}

static int worst(const json_t *captures)
{
	int status = EXIT_PASS;

	for (size_t i = 0; i < json_array_size(captures); i++) {
		const json_t *exit = json_object_get(json_array_get(captures, i), "exit");
		bool known = json_is_integer(exit) && json_integer_value(exit) >= EXIT_PASS && json_integer_value(exit) <= EXIT_MACHINE;
		status = worse_exit(status, known ? (int)json_integer_value(exit) : EXIT_MACHINE);
	}
	return status;
}

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct arguments *a = state->input;

	(void)text;
	switch (key) {
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
	static const struct argp_child children[] = { { &gate_output_argp, 0, NULL, 0 }, { 0 } };
	static const struct argp argp = { NULL, parse, "FILE...", "The shards of one gate, each written by `etalon gate --shard I/N --output FILE`: none may be"
		" missing, and none there twice.", children, NULL, NULL };
	struct arguments a = { 0 };
	struct list l = { 0 };
	struct error e = { 0 };
	json_t *captures = json_array();
	bool ok = true;

	cli_parse(&argp, argc, argv, &a);
	for (size_t i = 0; ok && i < a.n; i++) {
		json_t *j = read_shard(a.path[i], &e);
		ok = j && take(&l, j, a.path[i], captures, &e);
		json_decref(j);
	}
	ok = ok && is_whole(&l, captures, &e);
	int status = ok ? gate_output(sorted(captures), NULL, worst(captures), &a.to) : print_failure(&e);
	json_decref(captures);
	free(l.seen);
	return status;
}
