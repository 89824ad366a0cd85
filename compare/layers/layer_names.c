/* What explains a layer's error. What explains a part is never the cause: a fault is named where the layer is within its size around
 * it, or where all is read to the bit with it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "layer_private.h"

/* TUNING: a rounding is taken in where it leaves less than this share of a row's rms; a fault in place of a rounding where it leaves
 * less than that share of what the rounding does; so many of the first round's best are tried again; so many are verified. */
static const double less = 0.97, far_less = 0.7;
enum { BEST = 40, VERIFIED = 6 };

static int by_row(const void *a, const void *b)
{
	const struct trial *x = a, *y = b;

	if (x->row != y->row) return (x->row > y->row) - (x->row < y->row);
	return (x->left.score > y->left.score) - (x->left.score < y->left.score);
}

static bool is_rounding(const struct op *op, const struct layer_suspect *s)
{
	return s->kind == SUSPECT_SITE || (s->kind == SUSPECT_FAULT && op->faults[s->index].is_rounding && !s->constant);
}

bool layer_has_fault(const struct layer_reading *r)
{
	for (int i = 0; i < r->n; i++)
		if (!is_rounding(r->op, &r->detected[i])) return true;
	return false;
}

static void take(struct layer_reading *r, const struct layer_suspect *s)
{
	r->emulation = layer_plan_with(r, s);
	r->detected[r->n++] = *s;
}

/* ---- roundings, and faults too small for the size ---- */

/* The best rounding of the list, or a fault that is far better; NULL: none leaves less than there is. */
static const struct trial *next(const struct layer_reading *r, const struct trial *list, int n, double row, bool faults)
{
	const struct trial *rounding = NULL, *fault = NULL;

	for (int i = 0; i < n; i++) {
		const struct trial **best = is_rounding(r->op, &list[i].suspect) ? &rounding : &fault;
		if (list[i].moved.score > r->limit && (!*best || by_row(&list[i], *best) < 0)) *best = &list[i];
	}
	if (faults && fault && fault->row < less * row && (!rounding || fault->row < far_less * rounding->row || fault->row == 0)) return fault;
	return rounding && rounding->row < less * row ? rounding : NULL;
}

static bool emulate(struct reader *d, const struct layer_reading *r) { return layer_answer(d, &r->emulation, d->now); }

/* Those of a sorted list that may be seen, and are not detected. */
static int keep_best(const struct layer_reading *r, struct trial *list, int n)
{
	int kept = 0;

	for (int i = 0; i < n && kept < BEST; i++)
		if (list[i].moved.score > r->limit && !layer_is_detected(r, &list[i].suspect)) list[kept++] = list[i];
	return kept;
}

/* Takes in one suspect after the other until the emulation is near, or none helps. list: of the first round. */
static bool take_in(struct reader *few, struct layer_reading *r, struct trial *list, bool *near)
{
	int n = layer_suspects(r, list);

	for (*near = false; r->n < MAX_DETECTED;) {
		struct distance left = layer_distance(few, few->got, few->now);
		double row = layer_median_row(few, few->got, few->now);
		*near = left.score <= r->limit * few->part && left.worst <= r->worst_limit;
		if (*near) return true;
		if (!layer_try(few, r, NULL, list, n)) return false;
		qsort(list, (size_t)n, sizeof *list, by_row);
		const struct trial *best = next(r, list, n, row, true);
		if (!best) return true;
		take(r, &best->suspect);
		n = keep_best(r, list, n);
		if (!emulate(few, r)) return false;
	}
	return true;
}

/* What was read of another layer of the same op goes first. */
static void begin_like(struct layer_reading *r, const struct layer_context *x)
{
	const struct layer_reading *like = x ? x->like : NULL;

	for (int i = 0; like && like->read && i < like->n; i++)
		if (is_rounding(r->op, &like->detected[i])) take(r, &like->detected[i]);
}

/* A fault that is not needed is none. */
static bool drop_needless(struct reader *d, struct layer_reading *r)
{
	for (int i = 0; i < r->n; i++) {
		struct layer_reading without = *r;
		if (is_rounding(r->op, &r->detected[i])) continue;
		memmove(&without.detected[i], &without.detected[i + 1], (size_t)(r->n - i - 1) * sizeof *r->detected);
		without.n--;
		plan_contract(&without.emulation, &r->contract);
		without.emulation.faults = 0;
		struct layer_reading again = without;
		again.n = 0;
		for (int k = 0; k < without.n; k++) take(&again, &without.detected[k]);
		if (!layer_settle(d, &again, NULL)) return false;
		if (!layer_is_near(&again)) continue;
		*r = again;
		i--;
	}
	return true;
}

bool layer_read_roundings(struct reader *d, struct layer_reading *r, const struct layer_context *x)
{
	struct trial *list = malloc(MAX_SUSPECTS * sizeof *list);
	const struct layer_reading alone = *r;
	struct first_tokens part;
	struct reader few = layer_first(d, layer_tokens(d, layer_work.reading), &part);

	few.part = (double)few.n / (double)d->n;
	few.large = few.part * (double)d->work > (double)layer_work.large;
	begin_like(r, x);
	bool near, ok = list && (!r->n || emulate(&few, r)) && take_in(&few, r, list, &near);
	free(list);
	if (ok && near) ok = layer_settle(d, r, NULL) && drop_needless(d, r);
	r->read = ok && near && layer_is_near(r);
	for (int i = 0; r->read && ok && i < r->n; i++) ok = layer_find_constant(&few, &r->detected[i]);
	if (!ok || r->read) return ok;
	*r = alone;
	return emulate(d, r);
}

/* ---- a fault ---- */
static bool verify(const struct reader *d, const struct layer_reading *r, const struct layer_context *x, const struct layer_suspect *s,
	struct layer_size *size)
{
	struct plan exact = layer_plan_exact(r, s), emulation = layer_plan_with(r, s);
	struct plan noisy = layer_noisy(&emulation, 0), before = layer_noisy(&emulation, 1);
	struct layer_changed right, c;
	bool ok = layer_changed_make(&right, d->call, x, s, &exact);

	ok &= layer_changed_make(&c, d->call, x, s, &before);
	ok = ok && layer_size_around(d, &right.call, &exact, &c.call, &noisy, size);
	layer_changed_free(&right);
	layer_changed_free(&c);
	return ok;
}

/* How much the emulation with s explains. */
static bool explain(struct reader *d, struct layer_reading *r, const struct layer_context *x, const struct layer_suspect *s)
{
	struct layer_changed c;
	const struct call *own = d->call;

	take(r, s);
	bool ok = layer_changed_make(&c, own, x, s, &r->emulation);
	d->call = &c.call;
	ok = ok && layer_settle(d, r, NULL);
	d->call = own;
	layer_changed_free(&c);
	r->read = layer_is_near(r);
	r->detected[r->n - 1].explained = r->explained;
	r->detected[r->n - 1].equal = r->equal;
	return ok;
}

/* The first of the list, which is sorted, around which the layer is within its size; of those that are as near the one with the least
 * score. NULL: none. */
static const struct trial *holds(const struct reader *d, const struct layer_reading *r, const struct layer_context *x,
	const struct trial *list, int n, bool *ok)
{
	const struct trial *best = NULL;

	for (int i = 0; i < n && i < VERIFIED; i++) {
		struct layer_size size;
		if (!(list[i].moved.score > r->limit) || (best && list[i].row > rows_alike * best->row)) continue;
		if (best && list[i].left.score >= best->left.score) continue;
		if (!verify(d, r, x, &list[i].suspect, &size)) return *ok = false, NULL;
		if (layer_size_holds(&size)) best = &list[i];
	}
	return best;
}

static bool is_off(const struct reader *d, const struct layer_reading *r, const struct answer *exact, size_t t)
{
	double square = 0;

	for (size_t i = t * d->row; i < (t + 1) * d->row; i++) square += (d->got[i] - exact->hi[0][i]) * (d->got[i] - exact->hi[0][i]);
	return !(sqrt(square / (double)d->row) <= 2 * layer_limit * r->size.implied);
}

static bool find_one(struct reader *d, struct layer_reading *r, const struct layer_context *x, const struct answer *exact,
	struct trial *list, bool *far)
{
	struct first_tokens part;
	struct reader few = layer_first(d, layer_tokens(d, layer_work.suspects), &part);
	bool ok = true;

	few.large = d->work / (d->n / d->row) * (few.n / d->row) > layer_work.large;
	for (size_t t = 0; t < few.n / few.row; t++) far[t] = is_off(&few, r, exact, t);
	int n = layer_all_suspects(&few, r, x, exact, far, list);
	if (!layer_try(&few, r, x, list, n)) return false;
	qsort(list, (size_t)n, sizeof *list, by_row);
	r->tried = n;
	const struct trial *best = holds(d, r, x, list, n, &ok);
	if (best) ok = ok && explain(d, r, x, &best->suspect), r->understood = true;
	return ok;
}

/* What another layer of the op was found to do, before all else. */
static bool find_like(struct reader *d, struct layer_reading *r, const struct layer_context *x)
{
	const struct layer_reading *like = x ? x->like : NULL;
	struct layer_size size;

	if (!like || !like->understood || like->kept || like->n != 1 || like->detected[0].kind != SUSPECT_FAULT) return true;
	if (!verify(d, r, x, &like->detected[0], &size)) return false;
	if (!layer_size_holds(&size)) return true;
	r->understood = true;
	return explain(d, r, x, &like->detected[0]);
}

bool layer_find_fault(struct reader *d, struct layer_reading *r, const struct layer_context *x, const struct answer *exact)
{
	struct trial *list = malloc(MAX_SUSPECTS * sizeof *list);
	bool *far = malloc(d->n / d->row * sizeof *far);
	bool ok = list && far && find_like(d, r, x);

	if (ok && !r->understood) ok = find_one(d, r, x, exact, list, far);
	free(list);
	free(far);
	if (!ok || r->understood) return ok;
	ok = layer_read_roundings(d, r, x);
	r->understood = r->read && r->n;
	return ok;
}
