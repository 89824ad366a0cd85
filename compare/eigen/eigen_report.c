/* What was found about a trace, for people, programs and plots. */
#include <stdlib.h>

#include "eigen_report.h"
#include "compare/print/print.h"

/* ---- tables, for people's programs and for plots ---- */
static bool write_text(const char *path, char *text, size_t size, bool ok, struct error *e)
{
	ok = ok ? text_write(path, text, size, e) : error_set(e, E_MEMORY, path, NO_OFFSET, "a table");
	free(text);
	return ok;
}

bool eigen_write_rows(const char *path, const struct eigen *g, struct error *e)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	if (to) fputs("iteration,matrix,index,sigma,exact,observed,error,along\n", to);
	for (size_t i = 0; to && i < g->rows; i++) {
		const struct eigen_row *r = &g->row[i];
		fprintf(to, "%zu,%s,%zu,%.17g,%.17g,%.17g,%.6g,%.17g\n", r->t, matrix_name[r->matrix], r->index, r->sigma, r->exact,
			r->observed, r->error, r->along);
	}
	return write_text(path, text, size, to && fclose(to) == 0, e);
}

bool eigen_write_summary(const char *path, const struct eigen *g, struct error *e)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);

	if (to) fputs("iteration,min_eig_R,exact_min_eig_R,cond_Q,exact_cond_Q,max_error_X,orthogonality,"
		"drift_R,drift_Q,drift_X,skew_R\n", to);
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

void eigen_cause_print(FILE *to, const char *indent, const struct eigen *g)
{
	if (g->exact_diverges) fprintf(to, "%sthe exact curve itself runs away: sigma_max of X_0 is %.9g, above 1\n", indent, g->sigma_max);
	if (g->cause == FOLLOWS) {
		fprintf(to, "%sfollows the exact curve: no singular value is off by more than %g\n", indent, g->leave);
		return;
	}
	fprintf(to, "%sleaves the exact curve by more than %g at iteration %zu%s: %s\n", indent, g->leave, g->left,
		g->overflows ? ", where it overflows" : "", cause_name[g->cause]);
	if (g->cause == NEGATIVE || g->cause == ABOVE_ONE)
		fprintf(to, "%s  R_%zu has the eigenvalue %.4g; %.0f %% of the direction that blows up lies in R's eigenvectors %s\n", indent,
			g->cause_at, g->cause_value, 100 * g->cause_share, g->cause == NEGATIVE ? "below 0" : "above what [0,1] leads to");
	else
		fprintf(to, "%s  no direction of a negative or too large eigenvalue: R, Q and X no longer share their eigenvectors\n", indent);
}

json_t *eigen_cause_json(const struct eigen *g)
{
	bool left = g->cause != FOLLOWS, extreme = g->cause == NEGATIVE || g->cause == ABOVE_ONE;

	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:b, s:o, s:o, s:b}", "cause",
		cause_name[g->cause], "leaves_at",
		left ? json_integer((json_int_t)g->left) : json_null(), "cause_iteration",
		extreme ? json_integer((json_int_t)g->cause_at) : json_null(), "cause_eigenvalue",
		extreme ? json_figure(g->cause_value) : json_null(), "cause_share",
		extreme ? json_figure(g->cause_share) : json_null(), "exact_diverges",
		g->exact_diverges, "max_error_Y", json_figure(g->y_error), "orthogonality_Y",
		json_figure(g->y_orthogonality), "answer_wrong", g->answer_wrong);
}

/* The first line. */
static void say_answer(const char *name, const struct eigen *g)
{
	if (!g->answer_wrong) printf("%s\n", name);
	else if (!g->y_is_finite)
		printf("FAIL  %s: the answer is not finite, as that of the iteration is\n", name);
	else if (g->answer_left)
		printf("FAIL  %s: the answer is not what the iteration gives: its singular values "
		       "are off by up to %.4g\n",
			name, g->y_error);
	else
		printf("FAIL  %s: the answer is not what the iteration gives: along the singular "
		       "vectors of X_0 it is off by up to %.4g\n",
			name, g->y_along);
}

int eigen_print(const char *name, const struct trace *t, const struct eigen *g)
{
	static const char *const gram[] = { ">iteration", ">min eig R", ">exact", ">cond Q", ">exact", ">max error X", ">|XX'-I|",
		">drift R", ">drift Q", ">drift X" };
	static const char *const standard[] = { ">iteration", ">max error X", ">|XX'-I|", ">drift X" };
	struct table table = { .columns = t->R ? 10 : 4, .heading = t->R ? gram : standard };
	char steps[256];

	restarts_text(steps, sizeof steps, t->how.restarts);
	say_answer(name, g);
	printf("  %s, %zu iterations in %s%s; %s\n  [%zu,%zu], singular values of X_0 from %.4g to "
	       "%.4g\n\n",
		ns_algorithm_name[t->how.algorithm], g->K, format_info[t->how.iterate].name,
		t->R ? steps : "",
		t->recorded             ? "as recorded"
			: g->y_recorded ? "emulated, but for the answer"
					: "emulated",
		t->s, t->l, g->sigma_max, g->sigma_min);
	for (size_t i = 0; i <= g->K; i++) {
		const struct eigen_step *s = &g->step[i];
		double gram_cells[] = { s->least_r, s->exact_least_r, s->condition, s->exact_condition, s->error, s->orthogonality,
			s->drift[M_R], s->drift[M_Q], s->drift[M_X] };
		double standard_cells[] = { s->error, s->orthogonality, s->drift[M_X] };
		table_add(&table, "%zu", i);
		for (size_t j = 0; j + 1 < table.columns; j++) table_add(&table, "%.4g", t->R ? gram_cells[j] : standard_cells[j]);
	}
	int status = table_print(&table);
	if (g->y_is_finite)
		printf("\nanswer: singular values off by at most %.4g, |YY'-I| = %.4g\n", g->y_error, g->y_orthogonality);
	else
		puts(g->has_y ? "\nanswer: not finite" : "");
	if (g->answer_wrong && g->cause == FOLLOWS)
		printf("the iteration follows the exact curve, where no singular value is off by "
		       "more than %g; the answer is another\n",
			g->leave);
	else eigen_cause_print(stdout, "", g);
	return status == EXIT_PASS && g->answer_wrong ? EXIT_FAIL : status;
}

static json_t *json_step(const struct eigen *g, size_t t)
{
	const struct eigen_step *s = &g->step[t];

	return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "iteration", (json_int_t)t,
		"min_eig_R", json_figure(s->least_r), "exact_min_eig_R", json_figure(s->exact_least_r),
		"cond_Q", json_figure(s->condition), "exact_cond_Q", json_figure(s->exact_condition),
		"max_error_X", json_figure(s->error), "orthogonality", json_figure(s->orthogonality),
		"drift_R", json_figure(s->drift[M_R]), "drift_Q", json_figure(s->drift[M_Q]),
		"drift_X", json_figure(s->drift[M_X]), "skew_R", json_figure(s->skew));
}

json_t *eigen_json(const char *name, const struct trace *t, const struct eigen *g)
{
	json_t *steps = json_array(), *rows = json_array();

	for (size_t i = 0; i <= g->K; i++) json_array_append_new(steps, json_step(g, i));
	for (size_t i = 0; i < g->rows; i++) {
		const struct eigen_row *r = &g->row[i];
		json_array_append_new(rows, json_pack("{s:I, s:s, s:I, s:o, s:o, s:o, s:o, s:o}", "iteration", (json_int_t)r->t, "matrix",
			matrix_name[r->matrix], "index", (json_int_t)r->index, "sigma", json_figure(r->sigma), "exact", json_figure(r->exact),
			"observed", json_figure(r->observed), "error", json_figure(r->error), "along", json_figure(r->along)));
	}
	json_t *j = json_pack("{s:s, s:s, s:b, s:s, s:I, s:o, s:o, s:o, s:o}", "source", name,
		"algorithm", ns_algorithm_name[t->how.algorithm], "recorded", t->recorded, "iterate", format_info[t->how.iterate].name,
		"iterations", (json_int_t)g->K, "sigma_max", json_figure(g->sigma_max), "sigma_min", json_figure(g->sigma_min),
		"steps", steps, "rows", rows), *cause = eigen_cause_json(g);
	if (!j || json_object_update(j, cause)) {
		json_decref(j);
		j = NULL;
	}
	json_decref(cause);
	return j;
}
