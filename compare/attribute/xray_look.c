/* What plans would make of what is left around an emulation. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "xray_private.h"
#include "xray_terms.h"

/* Plans that go through a call together, where it has many strips. */
enum { AT_ONCE = 64 };
static size_t at_once(const struct xray *x) { return x->strips > 1 ? AT_ONCE : 1; }

/* dd = Σ w d², dy of each noisy run: Σ w d noise. */
struct noisy { double dd, dy[FLOOR_RUNS]; };
struct look_sums {
	struct fitting *of_stored, *of_raw;
	struct noisy stored, raw;
	double d2[MAX_BLOCKS], stored2[MAX_BLOCKS], n[MAX_BLOCKS];      /* of a block: squares of d, and of what it stores; elements */
};

static void sums_free(struct look *l)
{
	if (l->sums) fit_free(l->sums->of_stored), fit_free(l->sums->of_raw);
	free(l->sums);
	l->sums = NULL;
	stream_end(&l->stream);
}

static bool begin(struct xray *x, struct look *l, unsigned what)
{
	struct look_sums *s = l->sums = calloc(1, sizeof *s);

	l->size = 0;
	l->overflows = 0;
	l->impossible = false;
	l->votes = (struct votes){ 0 };
	if (s && what & LOOK_FIT) s->of_stored = fit_begin(x->blocks, 1), s->of_raw = fit_begin(x->blocks, 1);
	if (s && (!(what & LOOK_FIT) || (s->of_stored && s->of_raw))) return true;
	return error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "the sums of a direction");
}

static void add_noise(const struct xray *x, struct noisy *to, const float *noise, const double *weight)
{
	struct noisy sum = *to;

	for (size_t j = 0; j < x->n; j++) {
		if (!(weight[j] > 0)) continue;
		double weighed = weight[j] * x->d[j];
		sum.dd += weighed * x->d[j];
		for (size_t k = 0; k < FLOOR_RUNS; k++) sum.dy[k] += weighed * (double)noise[k * x->n + j];
	}
	*to = sum;
}

/* What float32's noise, run after run, makes of the coefficient of d: its rms. */
static double noise_error(const struct noisy *s)
{
	double square = 0;

	for (int k = 0; k < FLOOR_RUNS; k++) square += s->dy[k] * s->dy[k] / FLOOR_RUNS;
	return s->dd > 0 ? sqrt(square) / s->dd : 0;
}

static struct coefficient end_fit(struct fitting **f, const struct noisy *s)
{
	struct coefficient c;

	fit_end(*f, &c);
	*f = NULL;
	if (c.determined) c.error = fmax(c.error, noise_error(s));
	return c;
}

static void add_stored(const struct xray *x, struct look_sums *s)
{
	struct sample sample = xray_sample(x);
	const double *d = x->d;

	fit_add(s->of_stored, &sample, x->r, &d);
	add_noise(x, &s->stored, x->noise, x->weight);
}

static void add_raw(const struct xray *x, struct look_sums *s)
{
	struct sample sample = { x->n, x->blocks, x->block, x->raw_weight };
	const double *d = x->d;

	fit_add(s->of_raw, &sample, x->raw, &d);
	add_noise(x, &s->raw, x->raw_noise, x->raw_weight);
}

/* Of n elements from the one at `first` on, of type t: with d and without, as stored. */
enum { STORED = TERMS };
static void stored_both(const struct xray *x, enum dtype t, size_t first, size_t n, double with[STORED], double without[STORED])
{
	for (size_t j = 0; j < n; j++) with[j] = x->base[first + j] + x->d[first + j], without[j] = x->base[first + j];
	if (t == DT_F64) return;
	format_round_all(dtype_info[t].format, ROUND_NEAREST_EVEN, with, n);
	format_round_all(dtype_info[t].format, ROUND_NEAREST_EVEN, without, n);
}

static void add_size(const struct xray *x, struct look_sums *s)
{
	double with[STORED], without[STORED], d2[STORED], stored2[STORED];

	for (int i = 0; i < MAX_OUT; i++)
		for (size_t first = x->first[i]; first < x->first[i + 1]; first += STORED) {
			size_t n = x->first[i + 1] - first < STORED ? x->first[i + 1] - first : STORED;
			stored_both(x, out_dtype(x->call, i), first, n, with, without);
			terms_of_size(x->d + first, with, without, x->floor2 + first, n, d2, stored2);
			for (size_t k = 0; k < n; k++) {
				int b = x->block[first + k];
				s->n[b] += x->floor2[first + k] > 0;
				s->d2[b] += d2[k];
				s->stored2[b] += stored2[k];
			}
		}
}

static bool most_of(size_t some, size_t n) { return (double)some >= most_votes * (double)n; }

/* The largest of float32's noise, run after run, in element j as stored. An emulation that adds as the kernel does leaves none. */
static double noise_at(const struct xray *x, size_t j)
{
	bool in_order = x->emulation.arith == &arith_f32 || x->emulation.arith == &arith_f32_fma;
	double most = 0;

	for (size_t k = 0; k < FLOOR_RUNS && !in_order; k++) most = fmax(most, fabs((double)x->noise[k * x->n + j]));
	return most;
}

/* One more of different sizes, base and base + d. */
static void note_different(struct votes *v, double base, double with)
{
	for (size_t i = 0; i < v->different; i++)
		if (v->number[i][0] == base && v->number[i][1] == with) return;
	if (v->different == MOST_DIFFERENT) return;
	v->number[v->different][0] = base, v->number[v->different++][1] = with;
}

/* *to gets the numbers. */
static struct votes row_votes(const struct xray *x, enum dtype t, size_t at, size_t row, struct votes *to)
{
	struct votes v = { 0 };

	for (size_t j = at; j < at + row; j++) {
		if (!(x->floor2[j] > 0) || !isfinite(x->d[j])) continue;
		double of_base = stored_as(t, x->base[j], 0), apart = stored_as(t, x->base[j] + x->d[j], 0) - of_base;
		if (apart == 0 || !(fabs(apart) >= 8 * noise_at(x, j))) continue;
		v.all++;
		note_different(to, fabs(of_base), fabs(of_base + apart));
		v.of_base += fabs(x->got[j] - of_base) < 0.25 * fabs(apart);
		v.close += fabs(x->got[j] - of_base) <= 0.05 * fabs(apart);
	}
	return 4 * v.all >= row ? v : (struct votes){ .all = v.all > 0, .of_base = v.all > 0 && most_of(v.of_base, v.all), .close = v.all > 0 && most_of(v.close, v.all) };
}

static void add_votes(const struct xray *x, struct votes *to)
{
	for (int i = 0; i < MAX_OUT; i++) {
		size_t row = x->row[i];
		for (size_t at = x->first[i]; at < x->first[i + 1]; at += row) {
			struct votes v = row_votes(x, out_dtype(x->call, i), at, row, to);
			to->all += v.all, to->of_base += v.of_base, to->close += v.close;
		}
	}
}

static int overflows(const struct xray *x, int before)
{
	for (size_t j = 0; j < x->n && before >= 0; j++) {
		if (isfinite(x->d[j]) || !isfinite(x->base[j])) continue;
		before = isfinite(x->got[j]) ? -1 : 1;
	}
	return before;
}

static double size_of(const struct xray *x, const struct look_sums *s)
{
	double largest = 0;

	for (int b = 0; b < x->blocks; b++)
		if (s->n[b] > 0) largest = fmax(largest, fmax(s->d2[b], s->stored2[b]) / s->n[b]);
	return sqrt(largest);
}

static void add(const struct xray *x, struct look *l, unsigned what)
{
	l->impossible = l->impossible || x->impossible;
	if (what & LOOK_SIZE) add_size(x, l->sums), l->overflows = x->impossible ? -1 : overflows(x, l->overflows);
	if (what & LOOK_VOTES) add_votes(x, &l->votes);
	if (what & LOOK_FIT) add_stored(x, l->sums), add_raw(x, l->sums);
}

static void end(const struct xray *x, struct look *l, unsigned what)
{
	if (what & LOOK_SIZE) l->size = size_of(x, l->sums);
	if (what & LOOK_FIT) {
		struct coefficient a = end_fit(&l->sums->of_stored, &l->sums->stored), b = end_fit(&l->sums->of_raw, &l->sums->raw);
		l->fit = fabs(a.value - 1) / a.error < fabs(b.value - 1) / b.error || a.gain > b.gain ? a : b;
	}
}

static bool look_together(struct xray *x, struct look *list, size_t n, unsigned what)
{
	unsigned want = what & LOOK_FIT ? XRAY_WEIGHTS | XRAY_NOISE : what & LOOK_VOTES ? XRAY_BASE | XRAY_FLOOR | XRAY_NOISE : XRAY_BASE | XRAY_FLOOR;
	bool ok = true;

	for (size_t i = 0; ok && i < n; i++) ok = begin(x, &list[i], what);
	for (size_t s = 0; ok && s < x->strips; s++) {
		ok = xray_refresh_strip(x, s, want);
		for (size_t i = 0; ok && i < n; i++)
			if ((ok = xray_direction(x, &list[i].stream))) add(x, &list[i], what);
	}
	for (size_t i = 0; i < n; i++) {
		if (ok) end(x, &list[i], what);
		sums_free(&list[i]);
	}
	return ok;
}

bool votes_tell(const struct votes *v)
{
	return (double)v->all >= least_votes && (double)v->different >= fmin(least_votes, MOST_DIFFERENT) && most_of(v->of_base, v->all);
}

bool look_told(const struct look *l) { return votes_tell(&l->votes); }
bool look_told_closely(const struct look *l) { return look_told(l) && most_of(l->votes.close, l->votes.all); }

bool xray_votes(struct xray *x, const double *d, struct votes *v)
{
	*v = (struct votes){ 0 };
	for (size_t s = 0; s < x->strips; s++) {
		if (!xray_refresh_strip(x, s, XRAY_BASE | XRAY_FLOOR | XRAY_NOISE)) return false;
		for (int i = 0; i < MAX_OUT; i++)
			for (size_t j = x->first[i]; j < x->first[i + 1]; j++) x->d[j] = d[x->first_element[i] + xray_place(x, i, j)];
		add_votes(x, v);
	}
	return true;
}

bool xray_look(struct xray *x, struct look *list, size_t n, unsigned what)
{
	for (size_t i = 0, m; i < n; i += m) {
		m = n - i < at_once(x) ? n - i : at_once(x);
		if (!look_together(x, list + i, m, what)) return false;
	}
	return true;
}

bool xray_fit_begin(struct xray *x, struct look *l) { return begin(x, l, LOOK_FIT) || (sums_free(l), false); }
void xray_fit_add(struct xray *x, struct look *l) { add_stored(x, l->sums); }
struct coefficient xray_fit_end(struct look *l)
{
	struct coefficient c = end_fit(&l->sums->of_stored, &l->sums->stored);

	sums_free(l);
	return c;
}

/* d [n], [most] of the strip held each. */
static bool directions(struct xray *x, struct stream *stream, int n, double *const *d)
{
	for (int i = 0; i < n; i++) {
		if (!xray_direction(x, &stream[i])) return false;
		memcpy(d[i], x->d, x->n * sizeof *x->d);
	}
	return true;
}

bool xray_fit_together(struct xray *x, struct stream *stream, int n, struct coefficient *c)
{
	double *all = malloc((size_t)(n + 1) * x->most * sizeof *all), *d[MAX_REGRESSORS];
	struct fitting *f = fit_begin(x->blocks, n);
	bool ok = (all && f) || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu outputs in %d directions", x->most, n);

	for (int i = 0; i < n; i++) d[i] = all + (size_t)i * x->most;
	for (size_t s = 0; ok && s < x->strips; s++) {
		ok = xray_refresh_strip(x, s, XRAY_WEIGHTS) && directions(x, stream, n, d);
		struct sample sample = xray_sample(x);
		if (ok) fit_add(f, &sample, x->r, (const double *const *)d);
	}
	if (ok) fit_end(f, c);
	else fit_free(f);
	free(all);
	for (int i = 0; i < n; i++) stream_end(&stream[i]);
	return ok;
}

/* trial: what is left, stored, with the look's direction. */
static bool try_of_strip(struct xray *x, struct look *l)
{
	if (!xray_direction(x, &l->stream)) return false;
	l->impossible = l->impossible || x->impossible;
	for (size_t j = 0; j < x->n; j++) x->trial[j] = x->base[j] + x->d[j];
	xray_store(x, x->trial, x->trial);
	#pragma omp parallel for
	for (size_t j = 0; j < x->n; j++) x->trial[j] = xray_residual(x, j, x->trial[j]);
	return true;
}

/* One pass of the scores of n looks; a trial that is there is not made again. */
static bool try_pass(struct xray *x, struct look *list, struct scoring *s, size_t n)
{
	bool made = x->strips == 1 && s->pass > 0;

	for (size_t at = 0; at < x->strips; at++) {
		if (!xray_refresh_strip(x, at, XRAY_BASE | XRAY_FLOOR)) return false;
		for (size_t i = 0; i < n; i++) {
			if (!made && !try_of_strip(x, &list[i])) return false;
			scoring_add(x, &s[i], x->trial);
		}
	}
	for (size_t i = 0; i < n; i++) scoring_pass(x, &s[i]);
	return true;
}

bool xray_try(struct xray *x, struct look *list, size_t n)
{
	struct scoring *s = malloc(at_once(x) * sizeof *s);
	bool ok = s || error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "%zu scores", n);

	for (size_t from = 0, m; ok && from < n; from += m) {
		m = n - from < at_once(x) ? n - from : at_once(x);
		memset(s, 0, m * sizeof *s);
		while (ok && s->pass < SCORE_PASSES) ok = try_pass(x, list + from, s, m);
		for (size_t i = 0; i < m; i++) list[from + i].score = list[from + i].impossible ? INFINITY : s[i].score, stream_end(&list[from + i].stream);
	}
	free(s);
	return ok;
}
