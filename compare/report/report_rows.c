#include "report_rows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/print/print.h"

/* The largest over the outputs; what is not finite is null in a record. */
static double largest(const json_t *j, const char *rule)
{
	double x, most = 0;
	const json_t *o;
	size_t i;

	json_array_foreach(json_object_get(j, "outputs"), i, o) {
		const json_t *value = json_object_get(
			json_object_get(json_object_get(o, "rules"), rule), "value");
		x = json_is_number(value) ? json_number_value(value) : INFINITY;
		if (x > most) most = x;
	}
	return most;
}

struct row row_of(const json_t *captures, size_t i)
{
	const json_t *j = json_array_get(captures, i), *exit = json_object_get(j, "exit");

	return (struct row){
		.path = json_text(j, "capture"),
		.name = json_text(j, "name"),
		.op = json_text(j, "op"),
		.producer = json_text(j, "producer"),
		.contract = json_text(j, "contract"),
		.verdict = json_text(j, "verdict"),
		.replay = json_text(j, "replay"),
		.worst = largest(j, rule_name[RULE_WORST]),
		.rms = largest(j, rule_name[RULE_RMS]),
		.exit = json_is_integer(exit) && json_integer_value(exit) >= EXIT_PASS
				&& json_integer_value(exit) <= EXIT_MACHINE
			? (int)json_integer_value(exit)
			: EXIT_MACHINE,
		.judged = !json_object_get(j, "error"),
		.warning = json_is_true(json_object_get(j, "warning")),
		.figures = json_array_size(json_object_get(j, "outputs")) > 0,
		.reasons = json_object_get(j, "reasons"),
	};
}

bool names_differ(const json_t *captures)
{
	json_t *seen = json_object();
	bool differ = true;

	for (size_t i = 0; differ && i < json_array_size(captures); i++) {
		const char *name = row_of(captures, i).name;
		differ = *name && !json_object_get(seen, name)
			&& !json_object_set_new(seen, name, json_true());
	}
	json_decref(seen);
	return differ;
}

char *row_title(const struct row *r, bool by_name)
{
	static const char end[] = ".safetensors";
	char *text = strdup(by_name ? r->name : r->path);
	size_t n = text ? strlen(text) : 0, m = sizeof end - 1;

	if (n > m && !strcmp(text + n - m, end)) text[n - m] = 0;
	return text;
}

const char *row_cause(const struct row *r)
{
	const char *text = json_string_value(json_array_get(r->reasons, 0));

	return text ? text : "";
}

void rows_count(const json_t *captures, size_t by_exit[EXIT_MACHINE + 1])
{
	memset(by_exit, 0, (EXIT_MACHINE + 1) * sizeof *by_exit);
	for (size_t i = 0; i < json_array_size(captures); i++) by_exit[row_of(captures, i).exit]++;
}

void rows_totals(FILE *to, const json_t *captures)
{
	size_t k[EXIT_MACHINE + 1];

	rows_count(captures, k);
	fprintf(to, "%zu captures: %zu passed, %zu failed, %zu undecided, %zu unreadable",
		json_array_size(captures), k[EXIT_PASS], k[EXIT_FAIL], k[EXIT_UNDECIDED],
		k[EXIT_INPUT] + k[EXIT_MACHINE]);
}

void row_reasons(FILE *to, const struct row *r, const char *indent)
{
	for (size_t i = 0; i < json_array_size(r->reasons); i++) {
		const char *text = json_string_value(json_array_get(r->reasons, i));
		fprintf(to, "%s%s\n", indent, text ? text : "");
	}
	fprintf(to, "%sreplay: %s\n", indent, r->replay);
}

void escaped(FILE *to, const char *text, const char *special, const char *const *by)
{
	for (; *text; text++) {
		const char *at = strchr(special, *text);
		if (at) fputs(by[at - special], to);
		else putc(*text, to);
	}
}
