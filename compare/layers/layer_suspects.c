/* A layer's suspects: its faults, and roundings that differ from the contract; and which of them a reading would have seen. */
#include <stdlib.h>

#include "layer_private.h"

static bool is_detected(const struct layer_reading *r, const struct layer_suspect *s)
{
	for (int i = 0; i < r->n; i++)
		if (r->detected[i].fault == s->fault && r->detected[i].site == s->site) return true;
	return false;
}

struct plan layer_plan_with(const struct layer_reading *r, const struct layer_suspect *s)
{
	struct plan p = r->emulation;

	if (s->fault >= 0) plan_fault(&p, r->op, s->fault);
	else p.round[s->site] = (struct site_rounding){ s->rounded, FMT_BF16, ROUND_NEAREST_EVEN };
	return p;
}

/* The next of all suspects after s; a rounding that a fault names is tried by its name. False behind the last. */
static bool next_suspect(const struct layer_reading *r, struct layer_suspect *s)
{
	const struct op *op = r->op;

	if (s->site < 0 && op->faults[++s->fault].name) {
		s->name = op->faults[s->fault].name;
		s->what = op->faults[s->fault].what;
		return true;
	}
	s->fault = -1;
	s->site++;
	for (int m = 0; op->sites[s->site].name && op->faults[m].name; m++)
		if (op->faults[m].is_rounding && op->faults[m].site == s->site) s->site++, m = -1;
	if (!op->sites[s->site].name) return false;
	s->name = op->sites[s->site].name;
	s->what = op->sites[s->site].what;
	s->rounded = !r->emulation.round[s->site].on;
	return true;
}

int layer_suspects(const struct layer_reading *r, struct trial list[MAX_TRIALS])
{
	struct layer_suspect s = { .fault = -1, .site = -1 };
	int n = 0;

	while (next_suspect(r, &s))
		if (!is_detected(r, &s)) list[n++].suspect = s;
	return n;
}

bool layer_try(const struct reader *d, const struct layer_reading *r, struct trial *list, int n)
{
	bool ok = true;

	#pragma omp parallel if(!d->large)
	{
		double *y = malloc(d->n * sizeof *y);
		bool mine = y != NULL;
		#pragma omp for schedule(dynamic)
		for (int i = 0; i < n; i++) {
			struct plan p = layer_plan_with(r, &list[i].suspect);
			if (!mine || !(mine = layer_answer(d, &p, y))) continue;
			list[i].moved = layer_distance(d, y, d->now);
			list[i].left = layer_distance(d, d->got, y);
		}
		free(y);
		#pragma omp atomic
		ok &= mine;
	}
	return ok;
}

/* With a correct layer's scatter on as many tokens, as a limit on the whole is of the whole. */
bool layer_coverage(const struct call *call, struct layer_reading *r, struct error *e)
{
	struct trial list[MAX_TRIALS];
	struct first_tokens part;
	struct distance noise;
	double explained;
	struct reader d = { .call = call, .n = call->out_count[0], .row = out_row(call, 0), .work = r->work };
	size_t tokens = layer_tokens(&d, layer_work.coverage);
	int n = layer_suspects(r, list);

	d = layer_first(&d, tokens, &part);
	d.large = d.work / (call->out_count[0] / d.row) * tokens > layer_work.large;
	if (!(d.got = calloc(5 * d.n, sizeof *d.got))) return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%zu numbers", d.n);
	d.unit = d.got + d.n, d.now = d.unit + d.n, d.other = d.now + d.n, d.plain = d.other + d.n;
	int runs = layer_noisy_runs(d.n / d.row, d.large, NOISY_RUNS);
	bool ok = layer_noise(&d, &r->emulation, runs, &noise, &explained) && layer_try(&d, r, list, n);
	r->tried = n;
	r->not_identifiable = r->idle = 0;
	r->coverage_tokens = tokens;
	for (int i = 0; i < n; i++) {
		if (list[i].moved.score == 0) r->idle++;
		else if (!(list[i].moved.score > LAYER_BEYOND * noise.score)) r->unseen[r->not_identifiable++] = list[i].suspect.name;
	}
	free(d.got);
	return ok || error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%d suspects", n);
}
