/* Where an unexplained error sits, as a person would say it: first what the wrong elements are (0, not a number, what
 * belongs elsewhere), then where they are denser than elsewhere. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "compare/place/moved.h"
#include "compare/place/place.h"
#include "suspects.h"

/* Beyond this many times float32's noise, squared, an element is wrong, and how wrong says nothing of how much of the
 * error an output has. */
static const double wrong = 100;
enum { LONGEST = 1 << 16 };     /* longer axes are not searched index by index */

/* What is counted: wrong elements that are 0, those that are not finite, all of each grade; and zeros that are right. */
enum { ZERO, NOT_FINITE, GRADE, GRADES = 8, KINDS = GRADE + GRADES, RIGHT_ZERO = KINDS, COUNTS };
enum { SAMPLE = 64, FEW = 3, DEEP = 3 };

/* Of one output, or of the part of it that is within places on some axes. */
struct tally {
	int o, rank;
	size_t shape[MAX_RANK], inner[MAX_RANK];
	double *hit[MAX_RANK][COUNTS];  /* [shape]; NULL where the axis is too long */
	double total[COUNTS], row[KINDS], squares[KINDS];       /* squares: of the hits in each row */
	size_t sample[SAMPLE], few[FEW];        /* wrong elements: drawn, and the first */
	uint64_t random;
	size_t nan;                     /* of those that are not finite */
	struct place in[MAX_RANK];      /* NOWHERE: all of the axis */
	bool fixed[MAX_RANK];
};

/* What is said of an output: the better kind first. */
enum { SPREAD, DENSE, MOVED, PATTERN };
struct said { int kind; double evidence; char text[192]; };

/* What element j adds to Σ r²/floor2. */
static double size_of(const struct xray *x, size_t j)
{
	if (!isfinite(x->r[j])) return isnan(x->r[j]) ? 0 : INFINITY;
	return x->floor2[j] > 0 ? x->r[j] * x->r[j] / x->floor2[j] : 0;
}

/* Output o's Σ r²/floor2, where no element counts more than one that is wrong. */
static bool sum_up(struct xray *x, int o, double *total)
{
	*total = 0;
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		for (size_t j = x->first[o]; j < x->first[o + 1]; j++) *total += fmin(wrong, size_of(x, j));
	}
	return true;
}

/* ---- counting ---- */

static bool tally_make(struct tally *t, struct xray *x, int o)
{
	size_t inner = x->call->out_count[o];

	*t = (struct tally){ .o = o, .random = 1 };
	t->rank = call_out_shape(x->call, o, t->shape);
	for (int a = 0; a < t->rank; a++) {
		t->inner[a] = inner /= t->shape[a];
		if (t->shape[a] > LONGEST) continue;
		double *all = calloc(COUNTS * t->shape[a], sizeof *all);
		if (!all) return error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "counts of %zu indices", t->shape[a]);
		for (int k = 0; k < COUNTS; k++) t->hit[a][k] = all + (size_t)k * t->shape[a];
	}
	return true;
}

static void tally_free(struct tally *t)
{
	for (int a = 0; a < t->rank; a++) free(t->hit[a][0]);
}

static bool is_in(const struct tally *t, size_t at)
{
	bool in = true;

	for (int a = 0; a < t->rank && in; a++) in = !t->fixed[a] || place_has(&t->in[a], at / t->inner[a] % t->shape[a]);
	return in;
}

static void count(struct tally *t, int kind, size_t at)
{
	for (int a = 0; a < t->rank; a++)
		if (t->hit[a][kind]) t->hit[a][kind][at / t->inner[a] % t->shape[a]]++;
	t->total[kind]++;
	if (kind < KINDS) t->row[kind]++;
}

/* Draws the element, number n of those that are wrong, with the same chance as each before it. */
static void draw(struct tally *t, size_t at, size_t n)
{
	size_t to = n;

	if (n < FEW) t->few[n] = at;
	if (n >= SAMPLE) {
		t->random = t->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		to = (size_t)(t->random >> 33) % (n + 1);
	}
	if (to < SAMPLE) t->sample[to] = at;
}

static void count_element(struct tally *t, const struct xray *x, size_t j)
{
	double size = size_of(x, j), grade = place_wrong;
	size_t at = xray_place(x, t->o, j);

	if (!(size > place_wrong)) {
		if (x->got[j] == 0 && is_in(t, at)) count(t, RIGHT_ZERO, at);
		return;
	}
	if (!is_in(t, at)) return;
	draw(t, at, (size_t)t->total[GRADE]);
	if (x->got[j] == 0) count(t, ZERO, at);
	if (!isfinite(x->got[j])) count(t, NOT_FINITE, at), t->nan += isnan(x->got[j]) != 0;
	for (int k = GRADE; k < KINDS && size > grade; k++, grade *= place_grade) count(t, k, at);
}

static void end_row(struct tally *t)
{
	for (int k = 0; k < KINDS; k++) t->squares[k] += t->row[k] * t->row[k], t->row[k] = 0;
}

static bool tally_count(struct tally *t, struct xray *x)
{
	for (int a = 0; a < t->rank; a++)
		if (t->hit[a][0]) memset(t->hit[a][0], 0, COUNTS * t->shape[a] * sizeof(double));
	memset(t->total, 0, sizeof t->total);
	memset(t->squares, 0, sizeof t->squares);
	t->nan = 0;
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		for (size_t j = x->first[t->o]; j < x->first[t->o + 1]; j++) {
			count_element(t, x, j);
			if ((xray_place(x, t->o, j) + 1) % x->row[t->o] == 0) end_row(t);
		}
	}
	return true;
}

/* Elements with one index on the axis. */
static double elements_at(const struct tally *t, int axis)
{
	double n = 1;

	for (int a = 0; a < t->rank; a++)
		if (a != axis) n *= (double)(t->fixed[a] ? place_size(&t->in[a]) : t->shape[a]);
	return n;
}

/* ---- searching ---- */

/* The best place for the kind on an axis that is not fixed; false: none. Hits in a row have one cause, but on the row's own axis. */
static bool best_axis(const struct tally *t, const struct xray *x, int kind, int *axis, struct place *best)
{
	double cluster = t->total[kind] > 0 ? t->squares[kind] / t->total[kind] : 1;

	best->kind = NOWHERE;
	for (int a = 0; a < t->rank; a++) {
		struct counted c = { t->shape[a], t->hit[a][kind], elements_at(t, a), 1, 1, kind > GRADE };
		if (a + 1 < t->rank) c.cluster = cluster, c.row = (double)x->row[t->o];
		struct place p;
		if (t->fixed[a] || !t->hit[a][kind] || !place_find(&p, &c)) continue;
		if (best->kind == NOWHERE || p.evidence > best->evidence) *best = p, *axis = a;
	}
	return best->kind != NOWHERE;
}

/* Fixes the place, and then others within it. text: "H = 2, T from 131 on". */
static bool narrow(struct tally *t, struct xray *x, int kind, int axis, struct place p, char *text, size_t size)
{
	size_t used = 0;
	char symbol[64], one[128];

	for (int n = 0; n < DEEP; n++) {
		call_out_axis(x->call, t->o, axis, symbol, sizeof symbol);
		used += (size_t)snprintf(text + used, size - used, "%s%s", n ? ", " : "", place_say(&p, symbol, one, sizeof one));
		t->in[axis] = p;
		t->fixed[axis] = true;
		if (!tally_count(t, x)) return false;
		if (used >= size || !best_axis(t, x, kind, &axis, &p)) break;
	}
	return true;
}

static double all_in(const struct tally *t) { return elements_at(t, -1); }

static const char *pattern_name(const struct tally *t, int kind)
{
	return kind == ZERO ? "0" : !t->nan ? "infinite" : (double)t->nan < t->total[NOT_FINITE] ? "NaN or infinite" : "NaN";
}

/* All elements of a place, or of the output, are 0, or none is finite. */
static bool find_pattern(struct tally *t, struct xray *x, int kind, struct said *s)
{
	double zeros = kind == ZERO ? t->total[RIGHT_ZERO] : 0, evidence;
	struct place p;
	char text[128];
	int axis;

	if (!(t->total[kind] >= place_worth * t->total[GRADE]) || !(t->total[kind] > 0)) return true;
	if (t->total[kind] + zeros >= place_nearly * all_in(t)) {
		*s = (struct said){ PATTERN, INFINITY, "" };
		snprintf(s->text, sizeof s->text, "which is %s throughout", pattern_name(t, kind));
		return true;
	}
	if (!best_axis(t, x, kind, &axis, &p)) return true;
	evidence = p.evidence;
	if (!narrow(t, x, kind, axis, p, text, sizeof text)) return false;
	zeros = kind == ZERO ? t->total[RIGHT_ZERO] : 0;
	if (t->total[kind] + zeros >= place_nearly * all_in(t)) {
		*s = (struct said){ PATTERN, evidence, "" };
		snprintf(s->text, sizeof s->text, "which is %s at %s", pattern_name(t, kind), text);
	}
	memset(t->fixed, 0, sizeof t->fixed);
	return tally_count(t, x);
}

/* The lines along the axis through the elements that were drawn. */
static bool read_lines(struct lines *a, const struct tally *t, struct xray *x, int axis)
{
	size_t most = a->lines, inner = t->inner[axis], n = t->shape[axis];

	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR)) return false;
		size_t low = xray_place(x, t->o, x->first[t->o]);
		size_t high = low + x->first[t->o + 1] - x->first[t->o];
		for (size_t l = 0; l < most; l++)
			for (size_t i = 0; i < n; i++) {
				size_t at = t->sample[l] - t->sample[l] / inner % n * inner + i * inner;
				if (at < low || at >= high) continue;
				size_t j = x->first[t->o] + at - low, to = i * most + l;
				a->got[to] = x->got[j];
				a->expected[to] = x->stored[j];
				a->wrong[to] = size_of(x, j) > place_wrong;
			}
	}
	return true;
}

/* What is wrong stands elsewhere on an axis. */
static bool find_moved(struct tally *t, struct xray *x, struct said *s)
{
	struct lines a = { .lines = t->total[GRADE] < SAMPLE ? (size_t)t->total[GRADE] : SAMPLE };
	char symbol[64], text[160];
	bool ok = true;

	for (int axis = 0; ok && axis < t->rank && a.lines >= FEWEST_LINES && s->kind < MOVED; axis++) {
		a.n = t->shape[axis];
		if (a.n < 2 || !t->hit[axis][0]) continue;
		a.got = calloc(a.n * a.lines, 2 * sizeof *a.got);
		a.wrong = calloc(a.n * a.lines, sizeof *a.wrong);
		a.expected = a.got + a.n * a.lines;
		ok = (a.got && a.wrong) || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "lines of %zu elements", a.n);
		ok = ok && read_lines(&a, t, x, axis);
		if (ok && moved_find(text, sizeof text, call_out_axis(x->call, t->o, axis, symbol, sizeof symbol), &a)) {
			*s = (struct said){ MOVED, 0, "" };
			snprintf(s->text, sizeof s->text, "where %s", text);
		}
		free(a.got);
		free(a.wrong);
	}
	return ok;
}

/* Each of the few wrong elements. */
static void say_few(const struct tally *t, const struct xray *x, struct said *s)
{
	size_t used = 0, n = (size_t)t->total[GRADE];
	char symbol[64];

	if (!n || n > FEW) return;
	*s = (struct said){ DENSE, 0, "" };
	for (size_t i = 0; i < n; i++)
		for (int a = 0; a < t->rank && used < sizeof s->text; a++)
			used += (size_t)snprintf(s->text + used, sizeof s->text - used, "%s%s = %zu", a ? ", " : i ? " and at " : "at ",
				call_out_axis(x->call, t->o, a, symbol, sizeof symbol), t->few[i] / t->inner[a] % t->shape[a]);
}

/* The indices of each axis at which there are wrong elements, where nearly all rows there have some. */
static void find_box(struct tally *t, const struct xray *x, struct said *s)
{
	double all = all_in(t), row = 1;
	struct said box = { DENSE, t->total[GRADE], "at " };
	size_t used = strlen(box.text);
	char symbol[64], one[128];

	for (int a = 0; a < t->rank; a++) {
		bool *in = t->hit[a][0] ? calloc(t->shape[a], sizeof *in) : NULL;
		for (size_t i = 0; in && i < t->shape[a]; i++) in[i] = t->hit[a][GRADE][i] > 0;
		t->fixed[a] = in && place_of(&t->in[a], in, t->shape[a]) && place_size(&t->in[a]) < t->shape[a];
		free(in);
		if (a + 1 == t->rank && a) row = (double)(t->fixed[a] ? place_size(&t->in[a]) : t->shape[a]);
		if (t->fixed[a] && used < sizeof box.text)
			used += (size_t)snprintf(box.text + used, sizeof box.text - used, "%s%s", used > 3 ? ", " : "",
				place_say(&t->in[a], call_out_axis(x->call, t->o, a, symbol, sizeof symbol), one, sizeof one));
	}
	double inside = t->total[GRADE] / all_in(t), cluster = row > 1 ? t->squares[GRADE] / t->total[GRADE] : 1;
	bool found = 2 * all_in(t) <= all && inside * row >= place_full * cluster;
	if (inside < 0.995 && used < sizeof box.text)
		snprintf(box.text + used, sizeof box.text - used, ", where %.3g %% of the elements are wrong", 100 * inside);
	if (found) *s = box;
	memset(t->fixed, 0, sizeof t->fixed);
}

/* Where wrong elements, or those that are much further off, are denser. */
static bool find_dense(struct tally *t, struct xray *x, struct said *s)
{
	struct place p, best = { .kind = NOWHERE };
	int axis = 0, kind = GRADE, at;
	char text[128], shares[80] = "";

	if (!(t->total[GRADE] > FEW)) return say_few(t, x, s), true;
	const bool most = 2 * t->total[GRADE] > all_in(t);      /* then those that are further off tell */
	for (int k = GRADE; k < (most ? KINDS : GRADE + 1); k++)
		if (best_axis(t, x, k, &at, &p) && (best.kind == NOWHERE || p.evidence > best.evidence)) best = p, axis = at, kind = k;
	if (best.kind == NOWHERE) return find_box(t, x, s), true;
	double hits = t->total[kind], all = all_in(t);
	if (!narrow(t, x, kind, axis, best, text, sizeof text)) return false;
	double inside = t->total[kind] / all_in(t), outside = (hits - t->total[kind]) / (all - all_in(t));
	if (inside < 0.995 || outside > 0.005)
		snprintf(shares, sizeof shares, ", where %.3g %% of the elements are %s, %.2g %% elsewhere", 100 * inside, kind > GRADE ? "far off" : "wrong",
			100 * outside);
	*s = (struct said){ DENSE, best.evidence, "" };
	snprintf(s->text, sizeof s->text, "at %s%s", text, shares);
	return true;
}

static bool search_output(struct xray *x, int o, struct said *s)
{
	struct tally t;

	*s = (struct said){ SPREAD, 0, "spread over it" };
	bool ok = tally_make(&t, x, o) && tally_count(&t, x);
	for (int kind = ZERO; ok && kind <= NOT_FINITE && s->kind < PATTERN; kind++) ok = find_pattern(&t, x, kind, s);
	if (ok && s->kind < PATTERN) ok = find_moved(&t, x, s);
	if (ok && s->kind < MOVED) ok = find_dense(&t, x, s);
	tally_free(&t);
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
		if (s.kind > best.kind || (s.kind == best.kind && s.evidence > best.evidence)) best = s, at = o;
	}
	if (ok) snprintf(text, size, "%.0f %% of it in %s, %s", 100 * part[at] / all, x->call->op->out[at].name, best.text);
	return ok;
}
