#include "fault_value.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "emulation.h"

/* Values of which all are tried; onsets and points of the first grid that are. */
enum { FEW = 16, ONSETS = 4, GRID = 8, NEIGHBOURS = 8 };
/* Values that go through a call of many strips together. */
enum { MOST_PROBES = FEW };
/* TUNING: of numbers: steps, and halves of one. */
enum { NEWTON = 8, HALVES = 5 };
/* TUNING: a share by which a number is changed to see where it points to, at first, at least and at
 * most; the longest step, of its logarithm; the least by which the score falls at a step that is
 * followed by another; how many of its errors a slope is that is followed. */
static const double first_share = 0x1p-10, least_share = 0x1p-24, largest_share = 0x1p-2, longest = 1, least_fall = 0.1, worth_following = 2;
/* Element operations for which all are tried too. */
static const uint64_t little = UINT64_C(1) << 28;

struct probe { double value, worth; };

double fault_value_price(const struct call *call, int m)
{
	size_t n = fault_values(call, m);

	return n > 1 ? 2 * log((double)n) : 0;
}

/* The share of what is left that the fault explains, made once at each of n values: of gain g at the coefficient c, g (1 - (1 - 1/c)²) at 1,
 * which is negative where the effect is more than twice what is left of it. */
static bool weigh_values(struct xray *x, int m, const double *value, size_t n, struct probe *best)
{
	struct look look[MOST_PROBES];

	for (size_t k = 0; k < n; k++) {
		struct plan p = x->emulation;
		plan_fault_at(&p, x->call->op, m, value[k]);
		look[k] = look_of(&p);
	}
	if (!xray_look(x, look, n, LOOK_SIZE | LOOK_FIT)) return false;
	for (size_t k = 0; k < n; k++) {
		const struct coefficient *c = &look[k].fit;
		if (look[k].overflows < 0 || !c->determined || !(c->value > 0) || (!look[k].overflows && look[k].size < above_noise)) continue;
		double worth = c->gain * (1 - (1 - 1 / c->value) * (1 - 1 / c->value));
		if (worth > best->worth) *best = (struct probe){ value[k], worth };
	}
	return true;
}

/* Of values number at[]. */
static bool weigh(struct xray *x, int m, const size_t *at, size_t n, struct probe *best)
{
	double value[MOST_PROBES];

	for (size_t k = 0; k < n; k++) value[k] = fault_value(x->call, m, at[k]);
	return weigh_values(x, m, value, n, best);
}

/* All n values, after `first`. */
static bool weigh_all(struct xray *x, int m, size_t n, size_t first, struct probe *best)
{
	size_t at[MOST_PROBES], some = 0;

	at[some++] = first;
	for (size_t i = 0; i < n; i++) {
		if (i != first) at[some++] = i;
		if (some < MOST_PROBES && i + 1 < n) continue;
		if (!weigh(x, m, at, some, best)) return false;
		some = 0;
	}
	return true;
}

/* left [n]: log of what is left at each index of the first axes that have this size, of all outputs; *any: there are such. */
static bool left_along(struct xray *x, const char *size, size_t n, double *left, bool *any)
{
	size_t shape[MAX_RANK], width = strlen(size);

	*any = false;
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		for (int o = 0; o < MAX_OUT; o++) {
			const char *names = x->call->op->out[o].name ? x->call->op->out[o].shape : "";
			if (!x->call->out_count[o] || strncmp(names, size, width) || (names[width] && names[width] != ',')) continue;
			call_out_shape(x->call, o, shape);
			size_t inner = x->call->out_count[o] / shape[0];
			for (size_t j = x->first[o]; j < x->first[o + 1] && shape[0] == n; j++) {
				double r = x->r[j], f = x->floor2[j];
				if (f > 0) left[xray_place(x, o, j) / inner] += isfinite(r) ? r * r / f : isnan(r) ? 0 : 1e30;
				*any = true;
			}
		}
	}
	for (size_t i = 0; i < n; i++) left[i] = log1p(left[i]);
	return true;
}

/* onset [n]: the indices at which most more is left than at the one before, best first; how many. */
static int onsets(const double *left, size_t n, size_t *onset)
{
	double rise[ONSETS];
	int found = 0;

	for (size_t i = 1; i < n; i++) {
		double up = left[i] - left[i - 1];
		int at = found;
		if (found < ONSETS) found++;
		else if (rise[--at] >= up) at = ONSETS;
		for (; at < ONSETS && at > 0 && rise[at - 1] < up; at--) rise[at] = rise[at - 1], onset[at] = onset[at - 1];
		if (at < ONSETS) rise[at] = up, onset[at] = i;
	}
	return found;
}

static bool try_onsets(struct xray *x, int m, size_t n, struct probe *best, bool *tried)
{
	double *left = calloc(n, sizeof *left);
	size_t onset[1 + ONSETS] = { 0 };
	bool ok = left || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "what is left at %zu indices", n);

	ok = ok && left_along(x, x->call->op->faults[m].size, n, left, tried);
	int found = ok && *tried ? onsets(left, n, onset + 1) : 0;
	if (found) ok = weigh(x, m, onset, 1 + (size_t)found, best);
	free(left);
	return ok;
}

/* A grid, then the middles beside the best of it, and so on. */
static bool try_grid(struct xray *x, int m, size_t n, struct probe *best)
{
	size_t step = (n + GRID - 1) / GRID, at[GRID], some = 0;

	for (size_t i = step / 2; i < n; i += step) at[some++] = i;
	if (!weigh(x, m, at, some, best)) return false;
	while (step > 1 && isfinite(best->worth)) {
		size_t centre = (size_t)(best->value - fault_value(x->call, m, 0));
		step = (step + 1) / 2;
		some = 0;
		if (centre >= step) at[some++] = centre - step;
		if (centre + step < n) at[some++] = centre + step;
		if (!weigh(x, m, at, some, best)) return false;
	}
	return true;
}

/* ---- numbers near the right one ---- */

static bool is_number(const struct xray *x, int m) { return x->call->op->faults[m].by > 1; }

/* *score: of the emulation, which makes fault m, with this value. */
static bool score_with(struct xray *x, int m, double value, double *score)
{
	struct plan p = x->emulation;

	p.value[m] = value;
	struct look look = look_of(&p);
	if (!xray_try(x, &look, 1, INFINITY, false)) return false;
	*score = look.score;
	return true;
}

/* The coefficient of a change of the number by this share. */
static bool slope(struct xray *x, int m, double value, double share, struct coefficient *c)
{
	struct plan p = x->emulation;

	plan_fault_at(&p, x->call->op, m, value * (1 + share));
	struct look look = look_of(&p);
	if (!xray_look(x, &look, 1, LOOK_FIT)) return false;
	*c = look.overflows ? (struct coefficient){ 0 } : look.fit;
	return true;
}

/* A step of Gauss and Newton from the value of fault m, which the emulation makes, in the
 * logarithm, or half of it and so on, if the score falls with it. share: of the number, by which
 * its slope is found. */
static bool newton_step(struct xray *x, int m, double share, double *step)
{
	const double value = fault_value_in(x->call, m, x->emulation.value[m]);
	double score = INFINITY;
	struct coefficient c;

	if (!slope(x, m, value, share, &c)) return false;
	const double off = log(value / fault_right(x->call, m)), range = log(x->call->op->faults[m].by);
	*step = fmax(-longest, fmin(longest, c.determined ? share * c.value : 0));
	*step = fmax(-range - off, fmin(range - off, *step));
	for (int half = 0; half < HALVES && *step != 0; half++, *step /= 2) {
		if (!score_with(x, m, value * exp(*step), &score)) return false;
		if (score < x->score - least_fall) break;
	}
	if (!(score < x->score - least_fall)) *step = 0;
	x->emulation.value[m] = value * exp(*step);
	return *step == 0 || xray_rebase(x);
}

/* Such steps as long as the score falls; where a small change of the number is lost in
 * roundings, by larger ones. */
static bool fit_number(struct xray *x, int m)
{
	double share = first_share, step;

	for (int steps = 0; steps < NEWTON && share <= largest_share; steps++) {
		if (!newton_step(x, m, share, &step)) return false;
		share = step == 0 ? share * 16 : fmax(least_share, fmin(first_share, fabs(step) / 2));
	}
	return true;
}

/* The best of the grid and of where a small change of the right number points to; then what lies
 * between it and its neighbours, halfway each time. */
static bool try_numbers(struct xray *x, int m, struct probe *best)
{
	const double right = fault_right(x->call, m), by = x->call->op->faults[m].by;
	const size_t n = fault_values(x->call, m);
	struct coefficient c;
	double apart = log(by) / (double)n;

	if (!slope(x, m, right, first_share, &c)) return false;
	double near = right * (1 + first_share * c.value);
	bool pointed = c.determined && fabs(c.value) > worth_following * c.error && near / right > 1 / by && near / right < by;
	if (pointed && !weigh_values(x, m, &near, 1, best)) return false;
	if (!weigh_all(x, m, n, n / 2, best)) return false;
	for (int halves = 0; halves < HALVES && best->worth > 0 && best->value != near; halves++, apart /= 2) {
		const double beside[] = { best->value * exp(-apart), best->value * exp(apart) };
		if (!weigh_values(x, m, beside, 2, best)) return false;
	}
	return true;
}

static bool search_number(struct xray *x, int m, double *value, bool *found)
{
	const struct plan emulation = x->emulation;
	struct probe best = { 0, -INFINITY };

	if (!try_numbers(x, m, &best)) return false;
	*found = best.worth > 0;
	if (!*found) return true;
	plan_fault_at(&x->emulation, x->call->op, m, best.value);
	if (!xray_rebase(x) || !fit_number(x, m)) return false;
	*value = x->emulation.value[m];
	*found = !fault_value_is_right(x, m);
	x->emulation = emulation;
	return xray_rebase(x);
}

bool fault_value_is_right(const struct xray *x, int m)
{
	return is_number(x, m) && !(fabs(log(x->emulation.value[m] / fault_right(x->call, m))) > another_number);
}

/* *far: the last number, from the emulation's on towards `by` times it, that explains as well:
 * by steps that grow, then halve. */
static bool number_reach(struct xray *x, int m, double by, double *far)
{
	const double value = fault_value_in(x->call, m, x->emulation.value[m]), limit = x->score + worth_keeping, side = by < 1 ? -1 : 1;
	double good = 0, bad = fabs(log(by)), score;

	for (double step = least_share; step < bad; step *= 8) {
		if (!score_with(x, m, value * exp(side * step), &score)) return false;
		if (score < limit) good = step;
		else bad = step;
	}
	for (int halves = 0; halves < HALVES && good > 0; halves++) {
		double middle = sqrt(good * bad);
		if (!score_with(x, m, value * exp(side * middle), &score)) return false;
		if (score < limit) good = middle;
		else bad = middle;
	}
	*far = value * exp(side * good);
	return true;
}

static bool numbers_about(struct xray *x, int m, double *least, double *most)
{
	const double by = x->call->op->faults[m].by, value = fault_value_in(x->call, m, x->emulation.value[m]);
	struct coefficient c;
	double nearer, further;

	if (!number_reach(x, m, 1 / by, &nearer) || !number_reach(x, m, by, &further)) return false;
	double share = fmax(least_share, fabs(log(further / nearer)));
	if (!slope(x, m, value, share, &c)) return false;
	double error = c.determined ? exp(likely * share * c.error) : 1;
	if (error < by && further / value < error) further = value * error;
	if (error < by && value / nearer < error) nearer = value / error;
	*least = fmin(nearer, further);
	*most = fmax(nearer, further);
	return true;
}

bool fault_value_search(struct xray *x, int m, double *value, bool *found)
{
	size_t n = fault_values(x->call, m), first = n / 2;
	struct probe best = { 0, -INFINITY };
	uint64_t before = x->work;
	bool tried = false;

	*found = false;
	if (!n) return true;
	if (is_number(x, m)) return search_number(x, m, value, found);
	if (n > FEW && !weigh(x, m, &first, 1, &best)) return false;
	if (n <= FEW || n * (x->work - before) <= little) {
		if (!weigh_all(x, m, n, first, &best)) return false;
	} else {
		if (x->call->op->faults[m].size && !try_onsets(x, m, n, &best, &tried)) return false;
		if (!tried && !try_grid(x, m, n, &best)) return false;
	}
	*value = best.value;
	*found = best.worth > 0;
	return true;
}

/* The place of the emulation's value among all. */
static size_t place_of(const struct xray *x, int m)
{
	double value = fault_value_in(x->call, m, x->emulation.value[m]);
	size_t i = 0, n = fault_values(x->call, m);

	while (i + 1 < n && fault_value(x->call, m, i) != value) i++;
	return i;
}

static bool score_at(struct xray *x, int m, size_t i, double *score) { return score_with(x, m, fault_value(x->call, m, i), score); }

bool fault_value_refine(struct xray *x, int m)
{
	if (is_number(x, m)) return fit_number(x, m);
	size_t n = fault_values(x->call, m);
	bool moved = n > 1;

	for (int steps = 0; moved && steps < NEIGHBOURS; steps++) {
		size_t i = place_of(x, m), to = i;
		double least = x->score, score;
		for (int side = -1; side <= 1; side += 2) {
			if (side < 0 ? i == 0 : i + 1 >= n) continue;
			if (!score_at(x, m, i + (size_t)side, &score)) return false;
			if (score < least) least = score, to = i + (size_t)side;
		}
		moved = to != i;
		x->emulation.value[m] = fault_value(x->call, m, to);
		if (moved && !xray_rebase(x)) return false;
	}
	return true;
}

/* How far from the emulation's value, `from`, on this side, at most `most`, values explain as well: by steps that double, then halve. */
static bool reach(struct xray *x, int m, size_t from, int side, size_t most, size_t *far)
{
	double limit = x->score + worth_keeping, score;
	size_t good = 0, bad = most + 1;

	for (size_t step = 1; good + 1 < bad; step = bad > most ? 2 * step : (bad - good) / 2) {
		size_t to = good + (step ? step : 1);
		if (to >= bad) to = bad - 1;
		if (!score_at(x, m, side < 0 ? from - to : from + to, &score)) return false;
		if (score < limit) good = to;
		else bad = to;
	}
	*far = good;
	return true;
}

bool fault_value_class(struct xray *x, int m, double *least, double *most)
{
	if (is_number(x, m)) return numbers_about(x, m, least, most);
	size_t n = fault_values(x->call, m), at = place_of(x, m), below, above;
	bool listed = x->call->op->faults[m].list;

	if (!reach(x, m, at, -1, listed ? 0 : at, &below) || !reach(x, m, at, 1, listed ? 0 : n - 1 - at, &above)) return false;
	*least = fault_value(x->call, m, at - below);
	*most = fault_value(x->call, m, at + above);
	return true;
}
