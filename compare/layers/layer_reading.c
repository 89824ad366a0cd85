#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layer_private.h"

/* f64's own error may be this share of the score's unit. */
static const double negligible = 0.01;

bool layer_is_near(const struct layer_reading *r) { return r->left.score <= r->limit && r->left.worst <= r->worst_limit; }

/* now, and the sums that come nearest, in which r->left is. */
bool layer_settle(struct reader *d, struct layer_reading *r, struct layer_rows *rows)
{
	struct distance noise;

	if (!layer_noise(d, &r->emulation, layer_noisy_runs(d->n / d->row, d->large), &noise, &r->correct, rows)) return false;
	r->limit = LAYER_BEYOND * noise.score;
	r->worst_limit = LAYER_BEYOND_WORST * noise.worst;
	r->left = d->exact = layer_distance(d, d->got, d->now);
	if (!layer_sums(d, r)) return false;
	r->explained = d->error > 0 ? 1 - r->left.square / d->error : r->left.square == 0;
	r->equal = r->left.equal;
	return true;
}

static size_t layer_top_k(const struct call *call)
{
	for (int p = 0; call->op->params && call->op->params[p].name; p++)
		if (!strcmp(call->op->params[p].name, "top_k")) return (size_t)call->param[p];
	return 0;
}

static void load_rows(struct reader *d)
{
	const struct tensor *t = d->call->out[0];

	#pragma omp parallel for
	for (size_t at = 0; at < d->n; at += d->row) {
		dtype_load(t->dtype, (const char *)t->data + at * dtype_info[t->dtype].size, d->row, d->got + at);
		for (size_t i = at; i < at + d->row; i++) d->unit[i] = 1;
	}
}

/* Of a layer that is read to the bit: the rms at which the score is at its limit, were it the same in all elements. */
static double unread(const struct reader *d, const struct layer_reading *r)
{
	double sum = 0;

	for (size_t i = 0; i < d->n; i++) sum += d->unit[i] / (double)d->n;
	return sum * sqrt(expm1(r->limit / (double)d->n));
}

/* The smallest fault that would be seen, beside what the layer adds to x. */
static void see(const struct reader *d, const struct answer *exact, struct layer_reading *r)
{
	const struct tensor *x = d->call->in[model_in(d->call->op, "x")];
	double *start = d->call->op == model_op(PART_HEAD) ? NULL : d->other, adds = 0;

	if (start) dtype_load(x->dtype, x->data, d->n, start);
	for (size_t i = 0; i < d->n; i++) adds += pow(exact->hi[0][i] - (start ? start[i] : 0), 2);
	double least = r->read ? unread(d, r) : layer_allowed(&r->size);
	r->visible = least / sqrt(adds / (double)d->n);
}

static bool judge(struct reader *d, struct layer_reading *r, const struct layer_context *x, const struct answer *truth)
{
	r->known = r->truth_error <= negligible && r->truth_upwards <= negligible;
	r->within = layer_size_holds(&r->size);
	r->read = layer_is_near(r);
	if (r->known && !r->read && !d->size_alone && !(r->within ? layer_read_roundings(d, r, x) : layer_find_fault(d, r, x, truth))) return false;
	r->kept = r->known && (r->within || (r->read && !r->n)) && !layer_has_fault(r);
	r->understood = r->known && (r->kept || r->understood || r->read);
	see(d, truth, r);
	return true;
}

static bool read_all(struct reader *d, const struct contract *k, const struct layer_context *x, struct layer_reading *r)
{
	struct plan exact = plan_plain(&arith_f64, arith_f64.precision);
	struct layer_rows rows;
	struct answer truth;

	*r = (struct layer_reading){ .op = d->call->op, .contract = *k, .emulation = exact };
	exact.keep = true;
	load_rows(d);
	if (!ref_run(d->call, &exact, &truth, NULL)) return false;
	r->work = d->work = truth.work;
	d->large = d->work > layer_work.large;
	layer_stored(d, &truth, d->plain);
	d->error = layer_distance(d, d->got, d->plain).square;
	r->rms = sqrt(d->error / (double)d->n);
	plan_contract(&r->emulation, k);
	bool ok = layer_rows_make(&rows, d, &truth) && layer_settle(d, r, &rows) && layer_size_of(d, &rows, &r->size)
		&& layer_truth(d, &truth, r);
	layer_rows_free(&rows);
	r->alone = r->explained;
	r->alone_equal = r->equal;
	ok = ok && judge(d, r, x, &truth);
	answer_free(&truth);
	return ok;
}

static bool read(const struct call *call, const struct contract *k, const struct layer_context *x, bool size_alone,
	struct layer_reading *r, struct error *e)
{
	size_t n = call->out_count[0];
	struct call own = *call;
	struct reader d = { .call = &own, .n = n, .row = out_row(call, 0), .part = 1, .router = model_ask_router(&own),
		.size_alone = size_alone, .got = calloc(5 * n, sizeof *d.got) };

	if (!d.got) return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%zu numbers", 5 * n);
	if (d.router >= 0) d.experts = out_row(&own, d.router), d.top_k = layer_top_k(&own);
	d.unit = d.got + n;
	d.now = d.unit + n;
	d.other = d.now + n;
	d.plain = d.other + n;
	bool ok = read_all(&d, k, x, r) || error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "reading a layer");
	free(d.got);
	return ok;
}

bool layer_read(const struct call *call, const struct contract *k, const struct layer_context *x, struct layer_reading *r,
	struct error *e)
{
	return read(call, k, x, false, r, e);
}

bool layer_read_size(const struct call *call, const struct contract *k, struct layer_reading *r, struct error *e)
{
	return read(call, k, NULL, true, r, e);
}

const char *layer_sentence(size_t layer, const struct layer_reading *r, int detected, char *text, size_t size)
{
	const struct layer_suspect *s = &r->detected[detected];
	const char *how = s->kind != SUSPECT_SITE ? "" : s->rounded ? " (rounded to bf16)" : " (not rounded to bf16)";

	if (r->op == model_op(PART_HEAD)) snprintf(text, size, "logits, %s%s", s->what, how);
	else snprintf(text, size, "layer %zu, %s, %s%s", layer, r->op->name, s->what, how);
	return text;
}
