/* A layer's suspects: its faults, roundings that differ from the contract, and other weights; and which of them a reading would
 * have seen. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layer_private.h"

static bool same(const struct layer_suspect *a, const struct layer_suspect *b)
{
	return a->kind == b->kind && a->index == b->index && a->alike == b->alike;
}

bool layer_is_detected(const struct layer_reading *r, const struct layer_suspect *s)
{
	for (int i = 0; i < r->n; i++)
		if (same(&r->detected[i], s)) return true;
	return false;
}

/* "eps_wrong" of "post_norm.eps_wrong"; NULL: it is no norm's. */
static const char *fault_of_norm(const char *name)
{
	const char *dot = strchr(name, '.'), norm[] = "norm";

	return dot && dot - name >= (long)sizeof norm - 1 && !strncmp(dot - (sizeof norm - 1), norm, sizeof norm - 1) ? dot + 1 : NULL;
}

static void plan_suspect(struct plan *p, const struct op *op, const struct layer_suspect *s)
{
	const char *own = s->kind == SUSPECT_FAULT && s->alike ? fault_of_norm(op->faults[s->index].name) : NULL;

	if (s->kind == SUSPECT_SITE) p->round[s->index] = (struct site_rounding){ s->rounded, FMT_BF16, ROUND_NEAREST_EVEN };
	if (s->kind != SUSPECT_FAULT) return;
	if (!own) plan_fault_at(p, op, s->index, s->value);
	for (int m = s->index; own && op->faults[m].name; m++) {
		const char *other = fault_of_norm(op->faults[m].name);
		if (other && !strcmp(own, other)) plan_fault_at(p, op, m, s->value);
	}
}

struct plan layer_plan_with(const struct layer_reading *r, const struct layer_suspect *s)
{
	struct plan p = r->emulation;

	plan_suspect(&p, r->op, s);
	return p;
}

struct plan layer_plan_exact(const struct layer_reading *r, const struct layer_suspect *s)
{
	struct plan p = plan_plain(&arith_f64, arith_f64.precision);

	for (int i = 0; i < r->n; i++) plan_suspect(&p, r->op, &r->detected[i]);
	plan_suspect(&p, r->op, s);
	return p;
}

/* ---- lists ---- */
static struct layer_suspect fault(const struct op *op, int m)
{
	struct layer_suspect s = { .kind = SUSPECT_FAULT, .index = m, .value = fault_usual(op, m), .name = op->faults[m].name };

	snprintf(s.what, sizeof s.what, "%s", op->faults[m].what);
	return s;
}

static bool is_named_by_fault(const struct op *op, int site)
{
	for (int m = 0; op->faults[m].name; m++)
		if (op->faults[m].is_rounding && op->faults[m].site == site) return true;
	return false;
}

int layer_suspects(const struct layer_reading *r, struct trial list[MAX_SUSPECTS])
{
	const struct op *op = r->op;
	int n = 0;

	for (int m = 0; op->faults[m].name; m++) list[n++] = (struct trial){ .suspect = fault(op, m) };
	for (int i = 0; op->sites[i].name; i++) {
		struct layer_suspect s = { .kind = SUSPECT_SITE, .index = i, .rounded = !r->emulation.round[i].on, .name = op->sites[i].name };
		snprintf(s.what, sizeof s.what, "%s", op->sites[i].what);
		if (!is_named_by_fault(op, i)) list[n++] = (struct trial){ .suspect = s };
	}
	int kept = 0;
	for (int i = 0; i < n; i++)
		if (!layer_is_detected(r, &list[i].suspect)) list[kept++] = list[i];
	return kept;
}

/* Of a fault whose number may be any: the numbers that people type, 1, 2 or 5 times a power of ten. */
static int typed(const struct call *call, int m, struct trial *list)
{
	static const double digits[] = { 1, 2, 5 };
	double right = fault_right(call, m), by = call->op->faults[m].by;
	int n = 0;

	if (!(by > 1) || !(right > 0)) return 0;
	for (int k = (int)floor(log10(right / by)); k <= (int)ceil(log10(right * by)); k++)
		for (int i = 0; i < 3; i++) {
			double value = digits[i] * pow(10, k);
			if (value < right / by || value > right * by || fabs(value / right - 1) < 1e-6) continue;
			struct layer_suspect s = fault(call->op, m);
			s.value = value;
			snprintf(s.what, sizeof s.what, "%s, %g for %g", call->op->faults[m].what, value, right);
			list[n++] = (struct trial){ .suspect = s };
		}
	return n;
}

/* One fault in all norms is one fault. */
static int norms_alike(const struct op *op, struct trial *list)
{
	int n = 0;

	for (int m = 0; op->faults[m].name; m++) {
		const char *own = fault_of_norm(op->faults[m].name), *what = strstr(op->faults[m].what, ": ");
		bool first = own != NULL, more = false;
		for (int k = 0; own && op->faults[k].name; k++) {
			const char *other = k == m ? NULL : fault_of_norm(op->faults[k].name);
			if (!other || strcmp(own, other)) continue;
			first = first && k > m, more = true;
		}
		if (!first || !more || op->faults[m].is_rounding) continue;
		struct layer_suspect s = fault(op, m);
		s.alike = true;
		s.name = own;
		snprintf(s.what, sizeof s.what, "all norms%s", what ? what : "");
		list[n++] = (struct trial){ .suspect = s };
	}
	return n;
}

int layer_all_suspects(const struct reader *d, const struct layer_reading *r, const struct layer_context *x, const struct answer *exact,
	const bool *far, struct trial list[MAX_SUSPECTS])
{
	enum { PAIRS = 8 };
	struct layer_suspect weights[MAX_SUSPECTS / 4];
	int n = layer_suspects(r, list), m = layer_weights_suspects(d->call, x, weights);

	m += layer_experts_suspects(d, exact, far, weights + m, PAIRS);
	for (int i = 0; i < m; i++) list[n++] = (struct trial){ .suspect = weights[i] };
	n += norms_alike(r->op, list + n);
	for (int i = 0; r->op->faults[i].name; i++) n += typed(d->call, i, list + n);
	return n;
}

/* ---- trials ---- */
static bool answer_with(const struct reader *d, const struct layer_reading *r, const struct layer_context *x,
	const struct layer_suspect *s, double *y)
{
	struct plan p = layer_plan_with(r, s);
	struct layer_changed c;
	struct reader other = *d;

	if (s->kind != SUSPECT_WEIGHTS) return layer_answer(d, &p, y);
	bool ok = layer_changed_make(&c, d->call, x, s, &p);
	other.call = &c.call;
	ok = ok && layer_answer(&other, &p, y);
	layer_changed_free(&c);
	return ok;
}

bool layer_try(const struct reader *d, const struct layer_reading *r, const struct layer_context *x, struct trial *list, int n)
{
	bool ok = true;

	#pragma omp parallel if(!d->large)
	{
		double *y = malloc(d->n * sizeof *y);
		bool mine = y != NULL;
		#pragma omp for schedule(dynamic)
		for (int i = 0; i < n; i++) {
			if (!mine || !(mine = answer_with(d, r, x, &list[i].suspect, y))) continue;
			list[i].moved = layer_distance(d, y, d->now);
			list[i].left = layer_distance(d, d->got, y);
			list[i].row = layer_median_row(d, d->got, y);
			list[i].moved_row = layer_median_row(d, y, d->now);
		}
		free(y);
		#pragma omp atomic
		ok &= mine;
	}
	return ok;
}

/* With a correct layer's scatter on as many tokens, as a limit on the whole is of the whole. Of a layer that is within its size,
 * but not explained, what moves it by less than is allowed beside its own error is not seen. */
bool layer_coverage(const struct call *call, struct layer_reading *r, struct error *e)
{
	struct trial list[MAX_SUSPECTS];
	struct first_tokens part;
	struct distance noise;
	double explained, allowed = r->read ? 0 : layer_allowed(&r->size);
	struct reader d = { .call = call, .n = call->out_count[0], .row = out_row(call, 0), .work = r->work, .router = NOWHERE };
	size_t tokens = layer_tokens(&d, layer_work.coverage);
	int n = layer_suspects(r, list);

	d = layer_first(&d, tokens, &part);
	d.large = d.work / (call->out_count[0] / d.row) * tokens > layer_work.large;
	if (!(d.got = calloc(5 * d.n, sizeof *d.got))) return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%zu numbers", d.n);
	d.unit = d.got + d.n, d.now = d.unit + d.n, d.other = d.now + d.n, d.plain = d.other + d.n;
	int runs = layer_noisy_runs(d.n / d.row, d.large);
	bool ok = layer_noise(&d, &r->emulation, runs, &noise, &explained, NULL) && layer_try(&d, r, NULL, list, n);
	r->tried = n;
	r->not_identifiable = r->idle = 0;
	r->coverage_tokens = tokens;
	for (int i = 0; i < n; i++) {
		bool seen = r->read ? list[i].moved.score > LAYER_BEYOND * noise.score : list[i].moved_row > allowed;
		if (list[i].moved.score == 0) r->idle++;
		else if (!seen) r->unseen[r->not_identifiable++] = list[i].suspect.name;
	}
	free(d.got);
	return ok || error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%d suspects", n);
}
