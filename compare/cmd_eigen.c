/* etalon eigen: Newton-Schulz eigenvalue by eigenvalue against the exact recurrence. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "eigen.h"
#include "eigen_source.h"

struct arguments {
	const char *path, *coefficients, *spectrum, *algorithm, *restarts, *iterate, *round_r0, *table, *summary;
	size_t n, m, iterations, batch;
	double decades, largest, safety, leave;
	uint64_t seed;
	bool json;
};

/* ---- the trace ---- */
static bool name_in(const char *const *names, const char *name, int *which)
{
	for (*which = 0; names[*which]; ++*which)
		if (!strcmp(names[*which], name)) return true;
	return false;
}

static bool iteration_from(struct iteration *how, const struct arguments *a, struct error *e)
{
	enum rounding r;
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
	if (!format_by_name(a->iterate, &how->iterate, &r) || r != ROUND_NEAREST_EVEN || (how->iterate != FMT_F64 && how->iterate != FMT_F32
		&& how->iterate != FMT_F16 && how->iterate != FMT_BF16))
		return error_set(e, E_USAGE, "--iterate", NO_OFFSET, "'%s' is none of f64, f32, f16, bf16", a->iterate);
	if (!a->round_r0) return true;
	how->rounds_r0 = true;
	if (!format_by_name(a->round_r0, &how->r0, &r) || r != ROUND_NEAREST_EVEN || (how->r0 != FMT_F32 && how->r0 != FMT_F16 && how->r0 != FMT_BF16))
		return error_set(e, E_USAGE, "--round-r0", NO_OFFSET, "'%s' is none of f32, f16, bf16", a->round_r0);
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
	struct capture c;

	*y = NULL;
	if (!a->path) return synthetic(t, a, e);
	if (!capture_read(&c, a->path, e)) return false;
	bool ok = trace_of(t, y, &c, a->batch, e) || error_in_file(e, a->path);
	capture_free(&c);
	return ok;
}

/* ---- tables, for people's programs and for plots ---- */
static bool write_text(const char *path, char *text, size_t size, bool ok, struct error *e)
{
	ok = ok ? text_write(path, text, size, e) : error_set(e, E_MEMORY, path, NO_OFFSET, "a table");
	free(text);
	return ok;
}

static bool write_rows(const char *path, const struct eigen *g, struct error *e)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	if (to) fputs("iteration,matrix,index,sigma,exact,observed,error,along\n", to);
	for (size_t i = 0; to && i < g->rows; i++) {
		const struct eigen_row *r = &g->row[i];
		fprintf(to, "%zu,%s,%zu,%.17g,%.17g,%.17g,%.6g,%.17g\n", r->t, matrix_name[r->matrix], r->index, r->sigma, r->exact, r->observed,
			r->error, r->along);
	}
	return write_text(path, text, size, to && fclose(to) == 0, e);
}

static bool write_summary(const char *path, const struct eigen *g, struct error *e)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	if (to) fputs("iteration,min_eig_R,exact_min_eig_R,cond_Q,exact_cond_Q,max_error_X,orthogonality,drift_R,drift_Q,drift_X,skew_R\n", to);
	for (size_t t = 0; to && t <= g->K; t++) {
		const struct eigen_step *s = &g->step[t];
		fprintf(to, "%zu,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g,%.9g\n", t, s->least_r, s->exact_least_r, s->condition,
			s->exact_condition, s->error, s->orthogonality, s->drift[M_R], s->drift[M_Q], s->drift[M_X], s->skew);
	}
	return write_text(path, text, size, to && fclose(to) == 0, e);
}

/* ---- for people ---- */
static void restarts_text(char *text, size_t size, uint64_t restarts)
{
	size_t n = (size_t)snprintf(text, size, restarts ? ", restart before" : ", no restart");

	for (unsigned t = 0; t < 64; t++)
		if (restarts >> t & 1) n += (size_t)snprintf(text + n, size - n, " %u", t);
}

static void print_cause(const struct eigen *g)
{
	if (g->exact_diverges) printf("the exact curve itself runs away: sigma_max of X_0 is %.9g, above 1\n", g->sigma_max);
	if (g->cause == FOLLOWS) {
		printf("follows the exact curve: no singular value is off by more than %g\n", g->leave);
		return;
	}
	printf("leaves the exact curve by more than %g at iteration %zu%s: %s\n", g->leave, g->left,
		g->step[g->left].finite ? "" : ", where it overflows", cause_name[g->cause]);
	if (g->cause == NEGATIVE || g->cause == ABOVE_ONE)
		printf("  R_%zu has the eigenvalue %.4g; %.0f %% of the direction that blows up lies in R's eigenvectors %s\n", g->cause_at,
			g->cause_value, 100 * g->cause_share, g->cause == NEGATIVE ? "below 0" : "above what [0,1] leads to");
	else
		printf("  no direction of a negative or too large eigenvalue: R, Q and X no longer share their eigenvectors\n");
}

static int text(const struct arguments *a, const struct trace *t, const struct eigen *g)
{
	static const char *const gram[] = { ">iteration", ">min eig R", ">exact", ">cond Q", ">exact", ">max error X", ">|XX'-I|", ">drift R",
		">drift Q", ">drift X" };
	static const char *const standard[] = { ">iteration", ">max error X", ">|XX'-I|", ">drift X" };
	struct table table = { .columns = t->R ? 10 : 4, .heading = t->R ? gram : standard };
	char steps[256];

	restarts_text(steps, sizeof steps, t->how.restarts);
	printf("%s\n  %s, %zu iterations in %s%s; %s\n  [%zu,%zu], singular values of X_0 from %.4g to %.4g\n\n", a->path ? a->path : a->spectrum,
		ns_algorithm_name[t->how.algorithm], g->K, format_info[t->how.iterate].name, t->R ? steps : "",
		t->recorded ? "as recorded" : a->path ? "emulated, but for the answer" : "emulated", t->s, t->l, g->sigma_max, g->sigma_min);
	for (size_t i = 0; i <= g->K; i++) {
		const struct eigen_step *s = &g->step[i];
		double gram_cells[] = { s->least_r, s->exact_least_r, s->condition, s->exact_condition, s->error, s->orthogonality, s->drift[M_R],
			s->drift[M_Q], s->drift[M_X] };
		double standard_cells[] = { s->error, s->orthogonality, s->drift[M_X] };
		table_add(&table, "%zu", i);
		for (size_t j = 0; j + 1 < table.columns; j++) table_add(&table, "%.4g", t->R ? gram_cells[j] : standard_cells[j]);
	}
	int status = table_print(&table);
	if (!isnan(g->y_error)) printf("\nanswer: singular values off by at most %.4g, |YY'-I| = %.4g\n", g->y_error, g->y_orthogonality);
	else puts(g->y_is_finite ? "" : "\nanswer: not finite");
	print_cause(g);
	return status;
}

static json_t *json_step(const struct eigen *g, size_t t)
{
	const struct eigen_step *s = &g->step[t];

	return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "iteration", (json_int_t)t,
		"min_eig_R", cli_json_number(s->least_r), "exact_min_eig_R", cli_json_number(s->exact_least_r),
		"cond_Q", cli_json_number(s->condition), "exact_cond_Q", cli_json_number(s->exact_condition),
		"max_error_X", cli_json_number(s->error), "orthogonality", cli_json_number(s->orthogonality),
		"drift_R", cli_json_number(s->drift[M_R]), "drift_Q", cli_json_number(s->drift[M_Q]),
		"drift_X", cli_json_number(s->drift[M_X]), "skew_R", cli_json_number(s->skew));
}

static json_t *json(const struct arguments *a, const struct trace *t, const struct eigen *g)
{
	json_t *steps = json_array(), *rows = json_array();
	bool left = g->cause != FOLLOWS, extreme = g->cause == NEGATIVE || g->cause == ABOVE_ONE;

	for (size_t i = 0; i <= g->K; i++) json_array_append_new(steps, json_step(g, i));
	for (size_t i = 0; i < g->rows; i++) {
		const struct eigen_row *r = &g->row[i];
		json_array_append_new(rows, json_pack("{s:I, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "iteration", (json_int_t)r->t, "matrix",
			matrix_name[r->matrix], "index", (json_int_t)r->index, "sigma", cli_json_number(r->sigma), "exact", cli_json_number(r->exact),
			"observed", cli_json_number(r->observed), "error", cli_json_number(r->error), "along", cli_json_number(r->along)));
	}
	return json_pack("{s:s, s:s, s:b, s:s, s:I, s:o, s:o, s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:o}", "source", a->path ? a->path : a->spectrum,
		"algorithm", ns_algorithm_name[t->how.algorithm], "recorded", t->recorded, "iterate", format_info[t->how.iterate].name,
		"iterations", (json_int_t)g->K, "sigma_max", cli_json_number(g->sigma_max), "sigma_min", cli_json_number(g->sigma_min),
		"cause", cause_name[g->cause], "leaves_at", left ? json_integer((json_int_t)g->left) : json_null(),
		"cause_iteration", extreme ? json_integer((json_int_t)g->cause_at) : json_null(),
		"cause_eigenvalue", extreme ? cli_json_number(g->cause_value) : json_null(),
		"cause_share", extreme ? cli_json_number(g->cause_share) : json_null(), "exact_diverges", g->exact_diverges,
		"steps", steps, "rows", rows);
}

/* ---- options ---- */
static double real(struct argp_state *state, const char *option, const char *given, double least)
{
	char *end;
	double x = strtod(given, &end);

	if (end == given || *end || !(x >= least) || !isfinite(x)) argp_error(state, "%s: expected a number, %g or more, got '%s'", option, least, given);
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
	case 's': a->seed = cli_number(state, "--seed", given, 0, UINT64_MAX); return 0;
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
	case 'j': a->json = true; return 0;
	case ARGP_KEY_ARG:
		if (a->path) return ARGP_ERR_UNKNOWN;
		a->path = given;
		return 0;
	case ARGP_KEY_END:
		if (!a->path == !a->spectrum) argp_error(state, "expected CAPTURE or --spectrum NAME");
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
		{ "batch", 'b', "I", 0, "CAPTURE: matrix I of a batch; 0 by default", 0 },
		{ "spectrum", 'S', "NAME", 0, "emulates on a drawn matrix; singular values exp, linear, power or flat", 1 },
		{ "n", 'n', "N", 0, "its rows; 128 by default", 1 }, { "m", 'm', "M", 0, "its columns; 512 by default", 1 },
		{ "decades", 'd', "D", 0, "exp: from 1 down to 10^-D; 10 by default", 1 },
		{ "largest", 'l', "SIGMA", 0, "the largest singular value of X_0, in place of Frobenius's norm 1", 1 },
		{ "seed", 's', "N", 0, "of its singular vectors; 0 by default", 1 },
		{ "coefficients", 'c', "NAME", 0, "polar_express, you, jordan, quintic or a JSON file; polar_express by default", 1 },
		{ "safety", 'f', "S", 0, "polar_express: a/S, b/S^3, c/S^5; 1.05 by default", 1 },
		{ "iterations", 'k', "K", 0, "how many; the list's own number by default (quintic: 10, others: 5)", 1 },
		{ "algorithm", 'a', "NAME", 0, "standard, gram_naive or gram; gram by default", 1 },
		{ "restarts", 'r', "STEPS", 0, "Gram forms: before these iterations, counted from 0, like 2,5; none by default", 1 },
		{ "iterate", 'i', "TYPE", 0, "what products are rounded to: f64, f32, f16 or bf16; bf16 by default", 1 },
		{ "round-r0", 'R', "TYPE", 0, "Gram forms: rounds R_0 alone to this as well", 1 }, { 0 }
	};
	static const struct argp argp = { options, parse, "[CAPTURE]",
		"The spectra of R, Q and X after each iteration of Newton-Schulz, against the exact recurrence.", NULL, NULL, NULL };
	struct arguments a = { .coefficients = "polar_express", .algorithm = "gram", .iterate = "bf16", .n = 128, .m = 512, .decades = 10,
		.safety = SAFETY, .leave = 0.1 };
	struct eigen g = { 0 };
	struct error e = { 0 };
	struct trace t = { 0 };
	double *y = NULL;
	int status;

	cli_parse(&argp, argc, argv, &a);
	if (source(&t, &y, &a, &e) && eigen_make(&g, &t, y, a.leave, cli_stage, &e) && (!a.table || write_rows(a.table, &g, &e))
		&& (!a.summary || write_summary(a.summary, &g, &e)))
		status = a.json ? cli_json(json(&a, &t, &g)) : text(&a, &t, &g);
	else
		status = cli_fail(&e);
	eigen_free(&g);
	trace_free(&t);
	free(y);
	return status;
}
