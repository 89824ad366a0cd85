/* etalon eigen: Newton-Schulz eigenvalue by eigenvalue against the exact recurrence. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "compare/eigen/eigen_report.h"
#include "compare/eigen/eigen_source.h"
#include "fixtures/cases/cases.h"
#include "ref/call/op.h"

struct arguments {
	const char *path, *case_name, *coefficients, *spectrum, *algorithm, *restarts, *iterate, *round_r0, *table, *summary;
	size_t n, m, iterations, batch;
	double decades, largest, safety, leave;
	uint64_t seed;
	bool seeded, json;
};

/* ---- the trace ---- */
static bool name_in(const char *const *names, const char *name, int *which)
{
	for (*which = 0; names[*which]; ++*which)
		if (!strcmp(names[*which], name)) return true;
	return false;
}

static bool type_by_name(const char *name, enum format *f)
{
	enum rounding r;

	return format_by_name(name, f, &r) && r == ROUND_NEAREST_EVEN
		&& (*f == FMT_F64 || *f == FMT_F32 || *f == FMT_F16 || *f == FMT_BF16);
}

static bool iteration_from(struct iteration *how, const struct arguments *a, struct error *e)
{
	int which;

	*how = (struct iteration){ .eps = 1e-7, .largest = a->largest };
	if (!schedule_find(&how->polynomials, a->coefficients, a->iterations, a->safety, e)) return false;
	if (!name_in(ns_algorithm_name, a->algorithm, &which))
		return error_set(e, E_USAGE, "--algorithm", NO_OFFSET, "'%s' is none of standard, gram_naive, gram", a->algorithm);
	how->algorithm = (enum ns_algorithm)which;
	if (!restarts_parse(&how->restarts, a->restarts ? a->restarts : "", how->polynomials.n))
		return error_set(e, E_USAGE, "--restarts", NO_OFFSET, "expected steps from 1 to %zu, like 2,5", how->polynomials.n - 1);
	if (how->restarts && how->algorithm == NS_STANDARD)
		return error_set(e, E_USAGE, "--restarts", NO_OFFSET, "the standard form has none");
	if (!type_by_name(a->iterate, &how->iterate))
		return error_set(e, E_USAGE, "--iterate", NO_OFFSET, "'%s' is none of f64, f32, f16, bf16", a->iterate);
	if (!a->round_r0) return true;
	how->rounds_r0 = true;
	if (!type_by_name(a->round_r0, &how->r0))
		return error_set(e, E_USAGE, "--round-r0", NO_OFFSET, "'%s' is none of f64, f32, f16, bf16", a->round_r0);
	return how->algorithm != NS_STANDARD || error_set(e, E_USAGE, "--round-r0", NO_OFFSET, "the standard form has no R");
}

static bool synthetic(struct trace *t, const struct arguments *a, struct error *e)
{
	size_t s = a->n < a->m ? a->n : a->m, l = a->n < a->m ? a->m : a->n;
	struct iteration how;
	double *x = malloc(s * l * sizeof *x);
	bool ok = (x || error_set(e, E_MEMORY, "x", NO_OFFSET, "a matrix")) && iteration_from(&how, a, e)
		&& spectrum_draw(x, s, l, a->spectrum, a->decades, a->seed, e) && trace_emulate(t, &how, x, s, l, e);

	free(x);
	return ok;
}

static bool source(struct trace *t, double **y, const struct arguments *a, struct error *e)
{
	const struct test_case *k = a->case_name ? case_find(op_of_iteration()->name, a->case_name) : NULL;
	struct capture c;

	*y = NULL;
	if (a->spectrum) return synthetic(t, a, e);
	if (a->case_name && !k)
		return op_lacks(e, op_of_iteration(), "cases", a->case_name);
	if (!(k ? case_make(&c, k, a->seeded ? a->seed : 1, false, e) : capture_read(&c, a->path, e))) return false;
	bool ok = trace_of(t, y, &c, a->batch, e) || (a->path && error_in_file(e, a->path));
	capture_free(&c);
	return ok;
}

static bool judge(struct eigen *g, const struct trace *t, const double *y, const struct arguments *a, struct error *e)
{
	return eigen_make(g, t, y, a->leave, cli_stage, e) || (a->path && error_in_file(e, a->path));
}

static int said(
	const struct arguments *a, const char *name, const struct trace *t, const struct eigen *g)
{
	int status = EXIT_PASS;

	if (!a->json) return eigen_print(name, t, g);
	status = json_print(eigen_json(name, t, g));
	return status == EXIT_PASS && g->answer_wrong ? EXIT_FAIL : status;
}

/* ---- options ---- */
static double real(struct argp_state *state, const char *option, const char *given, double least)
{
	char *end;
	double x = strtod(given, &end);

	if (end == given || *end || !(x >= least) || !isfinite(x))
		argp_error(state, "%s: expected a number, %g or more, got '%s'", option, least, given);
	return x;
}

static error_t parse(int key, char *given, struct argp_state *state)
{
	struct arguments *a = state->input;

	switch (key) {
	case 'S': a->spectrum = given; return 0;
	case 'n': a->n = cli_number(state, "--n", given, 1, 4096); return 0;
	case 'm': a->m = cli_number(state, "--m", given, 1, 65536); return 0;
	case 'd': a->decades = real(state, "--decades", given, 0); return 0;
	case 'l': a->largest = real(state, "--largest", given, 0); return 0;
	case 's':
		a->seed = cli_number(state, "--seed", given, 0, UINT64_MAX);
		a->seeded = true;
		return 0;
	case 'c': a->coefficients = given; return 0;
	case 'f': a->safety = real(state, "--safety", given, 1); return 0;
	case 'k': a->iterations = cli_number(state, "--iterations", given, 1, MAX_ITERATIONS); return 0;
	case 'a': a->algorithm = given; return 0;
	case 'r': a->restarts = given; return 0;
	case 'i': a->iterate = given; return 0;
	case 'R': a->round_r0 = given; return 0;
	case 'b': a->batch = cli_number(state, "--batch", given, 0, SIZE_MAX / 2); return 0;
	case 'L': a->leave = real(state, "--leave", given, 0); return 0;
	case 't': a->table = given; return 0;
	case 'u': a->summary = given; return 0;
	case 'C': a->case_name = given; return 0;
	case 'j': a->json = true; return 0;
	case ARGP_KEY_ARG:
		if (a->path) return ARGP_ERR_UNKNOWN;
		a->path = given;
		return 0;
	case ARGP_KEY_END:
		if (!!a->path + !!a->spectrum + !!a->case_name != 1) argp_error(state, "expected CAPTURE, --case NAME or --spectrum NAME");
		return 0;
	default: return ARGP_ERR_UNKNOWN;
	}
}

int cmd_eigen(int argc, char **argv)
{
	static const struct argp_option options[] = {
		{ "table", 't', "FILE", 0, "one row per iteration, matrix and eigenvalue, as CSV", 0 },
		{ "summary", 'u', "FILE", 0, "one row per iteration, as CSV", 0 },
		{ "json", 'j', NULL, 0, "both, as JSON on stdout", 0 },
		{ "leave", 'L', "E", 0, "a singular value of X further off than this has left the exact curve; 0.1 by default", 0 },
		{ "batch", 'b', "I", 0, "CAPTURE, --case: matrix I of a batch; 0 by default", 0 },
		{ "case", 'C', "NAME", 0, "emulates on the input of a case of newton_schulz, whose parameters it takes", 0 },
		{ "seed", 's', "N", 0, "of the case's random streams (1), or of the drawn matrix's singular vectors (0)", 0 },
		{ "spectrum", 'S', "NAME", 0, "emulates on a drawn matrix; singular values exp, linear, power or flat", 1 },
		{ "n", 'n', "N", 0, "its rows; 128 by default", 1 }, { "m", 'm', "M", 0, "its columns; 512 by default", 1 },
		{ "decades", 'd', "D", 0, "exp: from 1 down to 10^-D; 10 by default", 1 },
		{ "largest", 'l', "SIGMA", 0, "the largest singular value of X_0, in place of Frobenius's norm 1", 1 },
		{ "coefficients", 'c', "NAME", 0, "polar_express, you, jordan, quintic or a JSON file; polar_express by default", 1 },
		{ "safety", 'f', "S", 0, "polar_express: a/S, b/S^3, c/S^5; 1.05 by default", 1 },
		{ "iterations", 'k', "K", 0, "how many; the list's own number by default (quintic: 10, others: 5)", 1 },
		{ "algorithm", 'a', "NAME", 0, "standard, gram_naive or gram; gram by default", 1 },
		{ "restarts", 'r', "STEPS", 0, "Gram forms: before these iterations, counted from 0, like 2,5; none by default", 1 },
		{ "iterate", 'i', "TYPE", 0, "what products are rounded to: f64, f32, f16 or bf16; bf16 by default", 1 },
		{ "round-r0", 'R', "TYPE", 0, "Gram forms: rounds R = XX' alone to this as well", 1 }, { 0 }
	};
	static const struct argp argp = { options, parse, "[CAPTURE]",
		"The spectra of R, Q and X after each iteration of Newton-Schulz, against the "
		"exact recurrence. Exits 1 where the answer is not what the iteration gives.",
		NULL, NULL, NULL };
	struct arguments a = { .coefficients = "polar_express", .algorithm = "gram", .iterate = "bf16", .n = 128, .m = 512,
		.decades = 10, .safety = SAFETY, .leave = 0.1 };
	struct eigen g = { 0 };
	struct error e = { 0 };
	struct trace t = { 0 };
	double *y = NULL;
	int status;

	cli_parse(&argp, argc, argv, &a);
	const char *name = a.path ? a.path : a.case_name ? a.case_name : a.spectrum;
	if (source(&t, &y, &a, &e) && judge(&g, &t, y, &a, &e) && (!a.table || eigen_write_rows(a.table, &g, &e))
		&& (!a.summary || eigen_write_summary(a.summary, &g, &e)))
		status = said(&a, name, &t, &g);
	else
		status = print_failure(&e);
	eigen_free(&g);
	trace_free(&t);
	free(y);
	return status;
}
