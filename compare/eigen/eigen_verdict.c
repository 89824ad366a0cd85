/* The cause of an error of Newton-Schulz, for verdicts: see eigen_cause.h. */
#include <stdlib.h>
#include <string.h>

#include "eigen_cause.h"
#include "eigen_report.h"
#include "eigen_source.h"

static const double leave = 0.1;
enum { MOST = 512 };

static bool one_matrix(struct eigen_cause *r, const struct capture *c, size_t batch, void (*tick)(const char *, size_t, size_t),
	struct error *e)
{
	struct eigen g = { 0 };
	struct trace t;
	double *y;

	if (!trace_of(&t, &y, c, batch, e)) return false;
	bool ok = eigen_make(&g, &t, y, leave, tick, e);
	r->recorded = t.recorded;
	r->iterate = t.how.iterate;
	r->batch = batch;
	r->answer_left = ok && g.answer_left;
	free(g.row);
	free(g.step);
	g.row = NULL;
	g.step = NULL;
	r->found = g;
	trace_free(&t);
	free(y);
	return ok;
}

static bool leaves(const struct eigen_cause *r) { return r->found.cause != FOLLOWS || r->answer_left || r->found.exact_diverges; }

void eigen_cause_of(struct eigen_cause *r, const struct capture *c, void (*tick)(const char *stage, size_t done, size_t total))
{
	const struct tensor *x = capture_in(c, "x");
	struct error e = { 0 };

	*r = (struct eigen_cause){ .sought = true };
	if (!x || x->rank < 2) return;                  /* never judged */
	size_t n = x->shape[x->rank - 2], m = x->shape[x->rank - 1], s = n < m ? n : m;
	r->matrices = x->rank > 2 ? x->shape[0] : 1;
	if ((double)r->matrices * (double)(s * s * s) > (double)MOST * MOST * MOST) {
		snprintf(r->left_out, sizeof r->left_out, "%zu x [%zu,%zu] is much work; `etalon eigen` does it", r->matrices, n, m);
		return;
	}
	for (size_t i = 0; i < r->matrices; i++) {
		struct eigen_cause one = *r;
		if (!one_matrix(&one, c, i, tick, &e)) {
			snprintf(r->left_out, sizeof r->left_out, "%s: %s", e.item, e.detail);
			return;
		}
		if (i == 0 || leaves(&one)) *r = one;
		if (leaves(r)) return;
	}
}

void eigen_cause_report(FILE *to, const struct eigen_cause *r)
{
	static const char indent[] = "            ";
	char matrix[64] = "";

	if (!r->sought) return;
	if (r->left_out[0]) {
		fprintf(to, "  spectrum  left out: %s\n", r->left_out);
		return;
	}
	if (!leaves(r)) return;
	if (r->matrices > 1) snprintf(matrix, sizeof matrix, "matrix %zu, ", r->batch);
	fprintf(to, "  spectrum  %s", matrix);
	if (r->recorded) fputs("as recorded", to);
	else fprintf(to, "its input iterated in %s here", format_info[r->iterate].name);
	if (!r->found.y_is_finite) fputs("; the answer is not finite\n", to);
	else fprintf(to, "; the answer's singular values are off by up to %.4g\n", r->found.y_error);
	eigen_cause_print(to, indent, &r->found);
	if (r->answer_left && r->found.cause == FOLLOWS)
		fprintf(to, "%swhat the answer is off by, the iteration does not explain\n", indent);
}

json_t *eigen_cause_report_json(const struct eigen_cause *r)
{
	if (r->left_out[0]) return json_pack("{s:s}", "left_out", r->left_out);
	json_t *j = eigen_cause_json(&r->found), *where = json_pack("{s:b, s:s, s:I, s:b}", "recorded", r->recorded, "iterate",
		format_info[r->iterate].name, "matrix", (json_int_t)r->batch, "answer_leaves", r->answer_left);

	if (!j || json_object_update(j, where)) {
		json_decref(j);
		j = NULL;
	}
	json_decref(where);
	return j;
}
