#include "gate_output.h"

#include <stdlib.h>
#include <string.h>

#include "compare/print/print.h"

static bool write_report(const char *path, void (*report)(FILE *, const json_t *),
	const json_t *captures, struct error *e)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to;

	if (!path) return true;
	to = open_memstream(&text, &size);
	if (to) report(to, captures);
	bool ok = to && fclose(to) == 0;
	ok = ok ? text_write(path, text, size, e)
		: error_set(e, E_MEMORY, path, NO_OFFSET, "a report");
	free(text);
	return ok;
}

static bool write_json(const char *path, const json_t *whole, struct error *e)
{
	char *text = path ? json_dumps(whole, JSON_INDENT(1)) : NULL;
	bool ok = !path
		|| (text ? text_write(path, text, strlen(text), e)
			 : error_set(e, E_MEMORY, path, NO_OFFSET, "a report"));

	free(text);
	return ok;
}

/* A shard's records were written elsewhere: their texts are strangers'. */
static void clean_texts(json_t *j)
{
	const char *key;
	json_t *x;
	size_t i;

	if (json_is_string(j)) {
		char *text = strdup(json_string_value(j));
		if (text) make_clean(text);
		json_string_set(j, text ? text : "");
		free(text);
	}
	json_object_foreach(j, key, x) clean_texts(x);
	json_array_foreach(j, i, x) clean_texts(x);
}

/* A record that is undecided says whether that is a warning here, whatever a shard of it said. */
static void mark_warnings(json_t *captures, bool warn)
{
	json_t *record;
	size_t i;

	json_array_foreach(captures, i, record) {
		json_object_del(record, "warning");
		if (warn && json_integer_value(json_object_get(record, "exit")) == EXIT_UNDECIDED)
			json_object_set_new(record, "warning", json_true());
	}
}

int gate_output(json_t *captures, json_t *shard, int status, const struct gate_output *to)
{
	clean_texts(captures);
	mark_warnings(captures, to->warn);
	if (to->warn && status == EXIT_UNDECIDED) status = EXIT_PASS;
	json_t *whole = json_pack(
		"{s:i, s:i, s:O}", "version", JSON_VERSION, "exit", status, "captures", captures);
	struct error e;

	if (whole && shard) json_object_set(whole, "shard", shard);
	json_decref(shard);
	bool ok = whole || error_set(&e, E_MEMORY, NULL, NO_OFFSET, "a report");
	ok = ok && write_json(to->file, whole, &e)
		&& write_report(to->junit, report_junit, captures, &e)
		&& write_report(to->markdown, report_markdown, captures, &e);
	if (!to->json) report_table(stdout, captures);
	else if (json_print(json_incref(whole)) != EXIT_PASS) status = EXIT_MACHINE;
	json_decref(whole);
	json_decref(captures);
	return ok ? status : worse_exit(status, print_failure(&e));
}

enum { UNDECIDED_IS = 256 };    /* the option has no letter */

static error_t parse(int key, char *text, struct argp_state *state)
{
	struct gate_output *to = state->input;

	switch (key) {
	case 'j': to->json = true; return 0;
	case 'o': to->file = text; return 0;
	case 'u': to->junit = text; return 0;
	case 'm': to->markdown = text; return 0;
	case UNDECIDED_IS:
		if (strcmp(text, "fail") && strcmp(text, "warn"))
			argp_error(state, "--undecided: expected fail or warn, got '%s'", text);
		to->warn = !strcmp(text, "warn");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = { { "json", 'j', NULL, 0,
						      "JSON on stdout instead of the table", 0 },
	{ "output", 'o', "FILE", 0, "also the JSON into a file, whole or not at all", 0 },
	{ "junit", 'u', "FILE", 0, "also JUnit XML", 0 },
	{ "undecided", UNDECIDED_IS, "fail|warn", 0,
		"warn: a capture that is undecided fails nothing (fail)", 0 },
	{ "markdown", 'm', "FILE", 0, "also Markdown, for a CI job's summary", 0 }, { 0 } };
const struct argp gate_output_argp = { options, parse, NULL, NULL, NULL, NULL, NULL };
