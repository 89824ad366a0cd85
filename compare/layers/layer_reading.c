#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "layer_private.h"

/* A suspect is seen where it moves the answer further than that, and made where it leaves less than this share of what was left. */
static const double half = 0.5;
/* f64's own error may be this share of the score's unit. */
static const double negligible = 0.01;

static bool near(const struct layer_reading *r) { return r->left.score <= r->limit && r->left.worst <= r->worst_limit; }

/* now, and the sums that come nearest, in which r->left is. */
static bool settle(struct reader *d, struct layer_reading *r)
{
	const size_t rows = d->n / d->row;
	const int most = layer_noisy_runs(rows, d->large, MOST_NOISY_RUNS);
	struct distance noise;

	for (int runs = layer_noisy_runs(rows, d->large, NOISY_RUNS);; runs = most) {
		if (!layer_noise(d, &r->emulation, runs, &noise, &r->correct)) return false;
		r->limit = LAYER_BEYOND * noise.score;
		r->worst_limit = LAYER_BEYOND_WORST * noise.worst;
		r->left = d->exact = layer_distance(d, d->got, d->now);
		if (runs == most || near(r)) break;
	}
	if (!layer_sums(d, r)) return false;
	r->explained = d->error > 0 ? 1 - r->left.square / d->error : r->left.square == 0;
	r->equal = r->left.equal;
	return true;
}

static bool within(const struct layer_reading *r)
{
	bool known = r->truth_error <= negligible && r->truth_upwards <= negligible;

	return known && near(r);
}

/* The suspect that leaves least, if that is less than half of what was left; NULL: none. */
static const struct trial *best_suspect(const struct reader *d, struct layer_reading *r, const struct trial *list, int n)
{
	const struct trial *best = NULL;

	r->tried = n;
	r->not_identifiable = 0;
	for (int i = 0; i < n; i++) {
		const struct distance *left = &list[i].left;
		bool seen = list[i].moved.score > r->limit;
		bool made = left->score < half * d->exact.score || (left->square < half * d->exact.square && left->score < d->exact.score);
		r->not_identifiable += !seen;
		if (seen && made && (!best || left->score < best->left.score)) best = &list[i];
	}
	return best;
}

static bool detect(struct reader *d, struct layer_reading *r)
{
	struct trial list[MAX_TRIALS];

	while (!r->understood && r->n < MAX_DETECTED) {
		int n = layer_suspects(r, list);
		if (!layer_try(d, r, list, n)) return false;
		const struct trial *best = best_suspect(d, r, list, n);
		if (!best) return true;
		r->emulation = layer_plan_with(r, &best->suspect);
		r->detected[r->n++] = best->suspect;
		if (!settle(d, r)) return false;
		r->detected[r->n - 1].explained = r->explained;
		r->detected[r->n - 1].equal = r->equal;
		r->understood = within(r);
	}
	return true;
}

/* In a large call suspects are tried on the first tokens, and what they detect is then put to the whole. */
static bool detect_on_few(struct reader *d, struct layer_reading *r)
{
	size_t n = layer_tokens(d, layer_work.suspects);
	struct first_tokens part;
	struct layer_reading few;

	if (r->understood || n * d->row >= d->n) return true;
	model_first_tokens(d->call, n, &part);
	if (!layer_read(&part.call, r->contract, &few, NULL)) return false;
	if (!few.understood || !few.n) return true;
	r->emulation = few.emulation;
	r->tried = few.tried, r->not_identifiable = few.not_identifiable;
	memcpy(r->detected, few.detected, sizeof r->detected);
	r->n = few.n;
	if (!settle(d, r)) return false;
	r->understood = within(r);
	return true;
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

static bool read_all(struct reader *d, const struct contract *k, struct layer_reading *r)
{
	struct plan exact = plan_plain(&arith_f64, arith_f64.precision);
	struct answer truth;

	*r = (struct layer_reading){ .op = d->call->op, .contract = k, .emulation = exact };
	exact.keep = true;
	load_rows(d);
	if (!ref_run(d->call, &exact, &truth, NULL)) return false;
	r->work = d->work = truth.work;
	d->large = d->work > layer_work.large;
	layer_stored(d, &truth, d->plain);
	d->error = layer_distance(d, d->got, d->plain).square;
	r->rms = sqrt(d->error / (double)d->n);
	plan_contract(&r->emulation, k);
	bool ok = settle(d, r) && layer_truth(d, &truth, r);
	answer_free(&truth);
	if (!ok) return false;
	r->alone = r->explained;
	r->alone_equal = r->equal;
	r->kept = r->understood = within(r);
	return detect_on_few(d, r) && detect(d, r);
}

bool layer_read(const struct call *call, const struct contract *k, struct layer_reading *r, struct error *e)
{
	size_t n = call->out_count[0];
	struct reader d = { .call = call, .n = n, .row = out_row(call, 0), .got = calloc(5 * n, sizeof *d.got) };

	if (!d.got) return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%zu numbers", 5 * n);
	d.unit = d.got + n;
	d.now = d.unit + n;
	d.other = d.now + n;
	d.plain = d.other + n;
	bool ok = read_all(&d, k, r) || error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "reading a layer");
	free(d.got);
	return ok;
}

const char *layer_sentence(size_t layer, const struct layer_reading *r, int detected, char *text, size_t size)
{
	const struct layer_suspect *s = &r->detected[detected];

	snprintf(text, size, "layer %zu, %s, %s%s", layer, r->op->name, s->what,
		s->fault >= 0 ? "" : s->rounded ? " (rounded to bf16)" : " (not rounded to bf16)");
	return text;
}
