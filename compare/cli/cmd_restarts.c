/* etalon restarts: the best restart steps of Gram Newton-Schulz, with the table of all choices. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "ref/eigen/restarts.h"

struct arguments { const char *coefficients; size_t iterations, count; double spurious, safety; bool json; };

/* "2,5" */
static const char *steps(uint64_t restarts, char *text, size_t size)
{
	size_t n = 0;

	text[0] = 0;
	for (unsigned t = 0; t < 64; t++)
		if (restarts >> t & 1) n += (size_t)snprintf(text + n, size - n, "%s%u", n ? "," : "", t);
	return text;
}

static json_t *json_steps(uint64_t restarts)
{
	json_t *j = json_array();

	for (unsigned t = 0; t < 64; t++)
		if (restarts >> t & 1) json_array_append_new(j, json_integer(t));
	return j;
}

static int json(const struct arguments *a, const struct schedule *s, const struct restart_choice *c, size_t n)
{
	json_t *all = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(all, json_pack("{s:o, s:o, s:I}", "restarts", json_steps(c[i].restarts), "worst_condition",
			json_figure(c[i].worst), "after_iteration", (json_int_t)c[i].at));
	return json_print(json_pack("{s:s, s:I, s:o, s:o, s:o}", "coefficients", a->coefficients, "iterations", (json_int_t)s->n,
		"spurious", json_figure(a->spurious), "best", json_steps(c->restarts), "choices", all));
}

static int text(const struct arguments *a, const struct schedule *s, const struct restart_choice *c, size_t n)
{
	static const char *const heading[] = { "restart before", ">largest cond Q", ">after iteration" };
	struct table t = { .columns = 3, .heading = heading };
	char list[256];

	printf("%s, %zu iterations, worst spurious eigenvalue %g\n\n", a->coefficients, s->n, a->spurious);
	for (size_t i = 0; i < n; i++) {
		table_add(&t, "%s", steps(c[i].restarts, list, sizeof list));
		table_add(&t, "%.6g", c[i].worst);
		table_add(&t, "%zu", c[i].at);
	}
	int status = table_print(&t);
	printf("\nbest: [%s]\n", steps(c->restarts, list, sizeof list));
	return status;
}

static double real(struct argp_state *state, const char *option, const char *given)
{
	char *end;
	double x = strtod(given, &end);

	if (end == given || *end || !isfinite(x)) argp_error(state, "%s: expected a number, got '%s'", option, given);
	return x;
}

static error_t parse(int key, char *given, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'k': a->iterations = cli_number(state, "--iterations", given, 2, MAX_ITERATIONS); return 0;
	case 'r': a->count = cli_number(state, "--restarts", given, 1, MAX_ITERATIONS - 1); return 0;
	case 'p': a->spurious = real(state, "--spurious", given); return 0;
	case 's': a->safety = real(state, "--safety", given); return 0;
	case 'j': a->json = true; return 0;
	case ARGP_KEY_ARG:
		if (a->coefficients) return ARGP_ERR_UNKNOWN;
		a->coefficients = given;
		return 0;
	case ARGP_KEY_END:
		if (!a->coefficients) argp_error(state, "expected COEFFICIENTS: polar_express, you, jordan, quintic or a JSON file");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_restarts(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "iterations", 'k', "K", 0, "how many; the list's own number by default (quintic: 10, others: 5)", 0 },
		{ "restarts", 'r', "N", 0, "how many restarts; 1 by default", 0 },
		{ "spurious", 'p', "P", 0, "what rounding adds to the Gram matrix's eigenvalues at worst; -4e-4 by default", 0 },
		{ "safety", 's', "S", 0, "polar_express: a/S, b/S^3, c/S^5; 1.05 by default", 0 },
		{ "json", 'j', NULL, 0, "JSON on stdout", 0 }, { 0 }
	};
	static const struct argp argp = { options, parse, "COEFFICIENTS",
		"The restart steps of Gram Newton-Schulz that keep Q's largest condition number least.", NULL, NULL, NULL };
	struct arguments a = { .count = 1, .spurious = -4e-4, .safety = SAFETY };
	struct restart_choice *c;
	struct schedule s;
	struct error e;
	size_t n;

	cli_parse(&argp, argc, argv, &a);
	if (!schedule_find(&s, a.coefficients, a.iterations, a.safety, &e) || !restarts_search(&c, &n, &s, a.count, a.spurious, &e))
		return print_failure(&e);
	int status = a.json ? json(&a, &s, c, n) : text(&a, &s, c, n);
	free(c);
	return status;
}
