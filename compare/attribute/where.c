/* Where an unexplained error sits, as a person would say it: first what the wrong elements are
 * (0, not a number, what belongs elsewhere), then where they are denser than elsewhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "compare/place/moved.h"
#include "compare/place/tally.h"
#include "suspects.h"

/* Beyond this many times float32's noise, squared, an element is wrong, and how wrong says
 * nothing of how much of the error an output has. */
static const double wrong = 100;
enum { DEEP = 3 }; /* places within each other */

/* What is said of an output: the better kind first. */
enum { SPREAD, DENSE, MOVED, PATTERN };
struct said {
	int kind;
	double evidence;
	char text[192];
};

/* Output o, and what was counted of it. */
struct located {
	struct xray *x;
	int o;
	struct tally t;
};

/* What element j adds to Σ r²/floor2. */
static double size_of(const struct xray *x, size_t j)
{
	if (!isfinite(x->r[j])) return isnan(x->r[j]) ? 0 : INFINITY;
	return x->floor2[j] > 0 ? x->r[j] * x->r[j] / x->floor2[j] : 0;
}

/* The error of element j as a share of the larger of what it is and what it should be. */
static double share_of(const struct xray *x, size_t j)
{
	double larger = fmax(fabs(x->got[j]), fabs(x->stored[j]));

	return isfinite(larger) && larger > 0 ? fabs(x->r[j]) / larger : 1;
}

/* Output o's Σ r²/floor2, where no element counts more than one that is wrong. */
static bool sum_up(struct xray *x, int o, double *total)
{
	*total = 0;
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		for (size_t j = x->first[o]; j < x->first[o + 1]; j++)
			*total += fmin(wrong, size_of(x, j));
	}
	return true;
}

static bool count(struct located *l)
{
	struct xray *x = l->x;

	tally_begin(&l->t);
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		for (size_t j = x->first[l->o]; j < x->first[l->o + 1]; j++)
			tally_add(&l->t, xray_place(x, l->o, j), x->got[j], size_of(x, j),
				share_of(x, j));
	}
	return true;
}

/* "H = 1 to 3", after what was said before it. */
static void say_place(
	const struct located *l, int axis, const struct place *p, char *text, size_t size)
{
	size_t used = strlen(text);
	char letter[64], one[128];

	call_out_axis(l->x->call, l->o, axis, letter, sizeof letter);
	snprintf(text + used, size - used, "%s%s", used ? ", " : "",
		place_say(p, letter, one, sizeof one));
}

/* Fixes the place, and then others within it. text: "H = 2, T from 131 on". */
static bool narrow(struct located *l, int kind, int axis, struct place p, char *text, size_t size)
{
	*text = 0;
	for (int n = 0; n < DEEP; n++) {
		say_place(l, axis, &p, text, size);
		l->t.in[axis] = p;
		l->t.fixed[axis] = true;
		if (!count(l)) return false;
		if (!tally_best(&l->t, kind, &axis, &p)) break;
	}
	return true;
}

static bool widen(struct located *l)
{
	memset(l->t.fixed, 0, sizeof l->t.fixed);
	return count(l);
}

/* ---- what they are ---- */

static const char *pattern_name(const struct tally *t, int kind)
{
	if (kind == HIT_ZERO) return "0";
	if (!t->nan) return "infinite";
	return (double)t->nan < t->total[HIT_NOT_FINITE] ? "NaN or infinite" : "NaN";
}

/* Have nearly all elements the pattern? */
static bool all_have(const struct tally *t, int kind)
{
	double zeros = kind == HIT_ZERO ? t->total[HIT_RIGHT_ZERO] : 0;

	return t->total[kind] + zeros >= place_nearly * tally_elements(t);
}

/* All elements of a place, or of the output, are 0, or none is finite. */
static bool find_pattern(struct located *l, int kind, struct said *s)
{
	struct tally *t = &l->t;
	struct place p;
	char text[128];
	int axis;

	if (!(t->total[kind] > 0) || t->total[kind] < place_worth * t->total[HIT_GRADE])
		return true;
	if (all_have(t, kind)) {
		*s = (struct said){ PATTERN, INFINITY, "" };
		snprintf(s->text, sizeof s->text, "which is %s throughout", pattern_name(t, kind));
		return true;
	}
	if (!tally_best(t, kind, &axis, &p)) return true;
	if (!narrow(l, kind, axis, p, text, sizeof text)) return false;
	if (all_have(t, kind)) {
		*s = (struct said){ PATTERN, p.evidence, "" };
		snprintf(s->text, sizeof s->text, "which is %s at %s", pattern_name(t, kind), text);
	}
	return widen(l);
}

/* The lines along the axis through the elements that were drawn. */
static bool read_lines(struct lines *a, const struct located *l, int axis)
{
	struct xray *x = l->x;
	size_t inner = l->t.inner[axis], n = a->n;

	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		size_t first = x->first[l->o], low = xray_place(x, l->o, first);
		size_t high = low + x->first[l->o + 1] - first;
		for (size_t k = 0; k < a->lines * n; k++) {
			size_t line = k / n, i = k % n, drawn = l->t.sample[line];
			size_t at = drawn - tally_index(&l->t, axis, drawn) * inner + i * inner;
			if (at < low || at >= high) continue;
			size_t j = first + at - low, to = i * a->lines + line;
			a->got[to] = x->got[j];
			a->expected[to] = x->stored[j];
			a->wrong[to] = size_of(x, j) > place_wrong;
		}
	}
	return true;
}

static bool moved_along(struct located *l, int axis, struct said *s)
{
	const double hits = l->t.total[HIT_GRADE];
	struct lines a = { .n = l->t.shape[axis],
		.lines = hits < TALLY_SAMPLE ? (size_t)hits : TALLY_SAMPLE };
	char letter[64], text[160];

	if (a.n < 2 || a.lines < FEWEST_LINES || !l->t.hit[axis][0]) return true;
	a.got = calloc(a.n * a.lines, 2 * sizeof *a.got);
	a.wrong = calloc(a.n * a.lines, sizeof *a.wrong);
	a.expected = a.got + a.n * a.lines;
	bool ok = (a.got && a.wrong)
		|| error_set(l->x->e, E_MEMORY, l->x->call->op->name, NO_OFFSET,
			"lines of %zu elements", a.n);
	ok = ok && read_lines(&a, l, axis);
	call_out_axis(l->x->call, l->o, axis, letter, sizeof letter);
	if (ok && moved_find(text, sizeof text, letter, &a)) {
		*s = (struct said){ MOVED, 0, "" };
		snprintf(s->text, sizeof s->text, "where %s", text);
	}
	free(a.got);
	free(a.wrong);
	return ok;
}

/* ---- where they are ---- */

/* Each of the few wrong elements. */
static void say_few(const struct located *l, struct said *s)
{
	size_t n = (size_t)l->t.total[HIT_GRADE], used = 0;
	char one[96];

	*s = (struct said){ DENSE, 0, "" };
	for (size_t i = 0; i < n && used < sizeof s->text; i++) {
		*one = 0;
		for (int a = 0; a < l->t.rank; a++) {
			struct place p = { .kind = SOME_INDICES, .indices = 1 };
			p.index[0] = tally_index(&l->t, a, l->t.few[i]);
			say_place(l, a, &p, one, sizeof one);
		}
		used += (size_t)snprintf(
			s->text + used, sizeof s->text - used, "%sat %s", i ? " and " : "", one);
	}
}

/* Fixes the indices of each axis at which elements are wrong. Have nearly all rows there some? */
static bool fill_box(struct located *l, char *text, size_t size)
{
	struct tally *t = &l->t;
	double all = tally_elements(t);

	*text = 0;
	for (int a = 0; a < t->rank; a++) {
		bool *in = t->hit[a][0] ? calloc(t->shape[a], sizeof *in) : NULL;
		for (size_t i = 0; in && i < t->shape[a]; i++) in[i] = t->hit[a][HIT_GRADE][i] > 0;
		t->fixed[a] = in && place_of(&t->in[a], in, t->shape[a])
			&& place_size(&t->in[a]) < t->shape[a];
		if (t->fixed[a]) say_place(l, a, &t->in[a], text, size);
		free(in);
	}
	int last = t->rank - 1;
	double row = (double)(t->fixed[last] ? place_size(&t->in[last]) : t->shape[last]);
	double cluster = last ? tally_cluster(t, HIT_GRADE) : row;
	return 2 * tally_elements(t) <= all
		&& t->total[HIT_GRADE] / tally_elements(t) * row >= place_full * cluster;
}

/* The best place of any grade; of further ones where most elements are wrong. */
static bool best_of_grades(const struct tally *t, int *kind, int *axis, struct place *best)
{
	const int grades = 2 * t->total[HIT_GRADE] > tally_elements(t) ? HIT_GRADES : 1;

	best->kind = NOWHERE;
	for (int k = HIT_GRADE; k < HIT_GRADE + grades; k++) {
		struct place p;
		int at;
		if (!tally_best(t, k, &at, &p)) continue;
		if (best->kind == NOWHERE || p.evidence > best->evidence)
			*best = p, *axis = at, *kind = k;
	}
	return best->kind != NOWHERE;
}

/* Where wrong elements, or those that are much further off, are denser. */
static bool find_dense(struct located *l, struct said *s)
{
	struct tally *t = &l->t;
	struct place best = { .kind = NOWHERE };
	int axis = 0, kind = HIT_GRADE;
	char text[128], shares[96] = "", what[32] = "wrong";

	if (t->total[HIT_GRADE] <= TALLY_FEW) {
		if (t->total[HIT_GRADE] > 0) say_few(l, s);
		return true;
	}
	double all = tally_elements(t);
	if (best_of_grades(t, &kind, &axis, &best)) {
		double hits = t->total[kind];
		if (!narrow(l, kind, axis, best, text, sizeof text)) return false;
		double in = tally_elements(t), inside = t->total[kind] / in;
		double outside = (hits - t->total[kind]) / (all - in);
		if (kind > HIT_GRADE)
			snprintf(what, sizeof what, "off by over %.2g %%", 100 * tally_share(kind));
		if (inside < 0.995 || outside > 0.005)
			snprintf(shares, sizeof shares,
				", where %.3g %% of the elements are %s, %.2g %% elsewhere",
				100 * inside, what, 100 * outside);
	} else if (fill_box(l, text, sizeof text)) {
		double inside = t->total[HIT_GRADE] / tally_elements(t);
		if (inside < 0.995)
			snprintf(shares, sizeof shares, ", where %.3g %% of the elements are wrong",
				100 * inside);
	} else return true;
	*s = (struct said){ DENSE, best.evidence, "" };
	snprintf(s->text, sizeof s->text, "at %s%s", text, shares);
	return true;
}

static bool search_output(struct xray *x, int o, struct said *s)
{
	struct located l = { .x = x, .o = o };
	size_t shape[MAX_RANK];
	int rank = call_out_shape(x->call, o, shape);

	*s = (struct said){ SPREAD, 0, "spread over it" };
	bool ok = tally_make(&l.t, rank, shape, x->e) && count(&l);
	for (int kind = HIT_ZERO; ok && kind <= HIT_NOT_FINITE && s->kind < PATTERN; kind++)
		ok = find_pattern(&l, kind, s);
	for (int a = 0; ok && a < rank && s->kind < MOVED; a++) ok = moved_along(&l, a, s);
	if (ok && s->kind < MOVED) ok = find_dense(&l, s);
	tally_free(&l.t);
	return ok;
}

bool where_left(struct xray *x, char *text, size_t size)
{
	double part[MAX_OUT] = { 0 }, all = 0;
	struct said best = { SPREAD, 0, "spread over it" };
	bool ok = true;
	int at = 0;

	for (int o = 0; ok && o < MAX_OUT; o++) {
		if (!x->call->out_count[o]) continue;
		ok = sum_up(x, o, &part[o]);
		all += part[o];
		if (part[o] > part[at]) at = o;
	}
	for (int o = 0; ok && o < MAX_OUT; o++) {
		struct said s;
		if (!x->call->out_count[o] || !(part[o] >= place_worth * all)) continue;
		if (!(ok = search_output(x, o, &s))) break;
		if (s.kind > best.kind || (s.kind == best.kind && s.evidence > best.evidence))
			best = s, at = o;
	}
	if (ok)
		snprintf(text, size, "%.0f %% of it in %s, %s", 100 * part[at] / all,
			x->call->op->out[at].name, best.text);
	return ok;
}
