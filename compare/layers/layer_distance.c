/* How far answers of a layer are from each other, and how far correct layers are. */
#include <math.h>
#include <stdlib.h>

#include "layer_private.h"

/* In the score, of an element that is a number in only one of the two. */
static const double disagree = 200;

void layer_stored(const struct reader *d, const struct answer *a, double *y)
{
	enum dtype type = out_dtype(d->call, 0);

	#pragma omp parallel for if(d->large)
	for (size_t i = 0; i < d->n; i++) y[i] = stored_as(type, a->hi[0][i], 0);
}

bool layer_answer(const struct reader *d, const struct plan *p, double *y)
{
	struct plan plan = *p;
	struct answer a;

	plan.keep = d->large;
	if (!ref_run(d->call, &plan, &a, NULL)) return false;
	layer_stored(d, &a, y);
	answer_free(&a);
	return true;
}

static void add(struct distance *s, struct distance more)
{
	s->equal += more.equal;
	s->square += more.square;
	s->score += more.score;
	s->worst = fmax(s->worst, more.worst);
}

/* Of elements first .. end - 1; equal counts. */
static struct distance part_distance(const double *x, const double *y, const double *unit, size_t first, size_t end)
{
	struct distance s = { 0 };

	for (size_t i = first; i < end; i++) {
		double r = x[i] - y[i];
		bool same = x[i] == y[i] || (isnan(x[i]) && isnan(y[i]));
		s.equal += same;
		if (same) continue;
		s.square += r * r;
		s.score += isfinite(r) ? log1p(r * r / (unit[i] * unit[i])) : disagree;
		s.worst = fmax(s.worst, isfinite(r) ? fabs(r) / unit[i] : INFINITY);
	}
	return s;
}

/* Parts are added in their order, so that threads do not matter. */
struct distance layer_distance(const struct reader *d, const double *x, const double *y)
{
	enum { PARTS = 256 };
	struct distance part[PARTS], s = { 0 };
	size_t rows = d->n / d->row;

	#pragma omp parallel for schedule(dynamic) if(d->large)
	for (size_t i = 0; i < PARTS; i++)
		part[i] = part_distance(x, y, d->unit, i * rows / PARTS * d->row, (i + 1) * rows / PARTS * d->row);
	for (size_t i = 0; i < PARTS; i++) add(&s, part[i]);
	s.equal /= (double)d->n;
	return s;
}

struct plan layer_noisy(const struct plan *p, int run)
{
	struct plan q = *p;

	q.arith = &arith_noisy;
	q.bits = arith_noisy.precision;
	q.seed = (uint64_t)run + 1;
	return q;
}

int layer_rising(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of the output's type, or a coarser one that the emulation rounds it to. */
static enum format stored_format(const struct call *call, const struct plan *emulation)
{
	enum format f = dtype_info[out_dtype(call, 0)].format;

	for (int s = 0; call->op->sites[s].name; s++)
		if (call->op->sites[s].store && emulation->round[s].on
			&& format_info[emulation->round[s].format].precision < format_info[f].precision)
			f = emulation->round[s].format;
	return f;
}

/* u² = ulp²/12 at the row's rms + (the median over the row of what a noisy run changes)²; of a type as wide as float32 that
 * is its noise, of a narrow one, where nearly all stays, next to nothing. now and other: the emulation and a noisy run. */
static void set_unit(struct reader *d, enum format f, size_t at, double *size)
{
	double square = 0;

	for (size_t i = 0; i < d->row; i++) {
		size[i] = fabs(d->now[at + i] - d->other[at + i]);
		square += d->now[at + i] * d->now[at + i] / (double)d->row;
	}
	qsort(size, d->row, sizeof *size, layer_rising);
	double unit = hypot(format_ulp(f, isfinite(square) ? sqrt(square) : 1) / sqrt(12), size[d->row / 2]);
	for (size_t i = 0; i < d->row; i++) d->unit[at + i] = unit;
}

static bool set_units(struct reader *d, const struct plan *emulation)
{
	enum format f = stored_format(d->call, emulation);
	bool ok = true;

	#pragma omp parallel if(d->large)
	{
		double *size = calloc(d->row, sizeof *size);
		#pragma omp for
		for (size_t at = 0; at < d->n; at += d->row)
			if (size) set_unit(d, f, at, size);
		#pragma omp critical
		ok = ok && size;
		free(size);
	}
	return ok;
}

static void farther(struct distance *most, struct distance s)
{
	most->score = fmax(most->score, s.score);
	most->square = fmax(most->square, s.square);
	most->worst = fmax(most->worst, s.worst);
}

/* Share of a correct layer's own error that the emulation explains. */
static double share(const struct reader *d, const double *y)
{
	double error = layer_distance(d, y, d->plain).square;

	return error > 0 ? 1 - layer_distance(d, y, d->now).square / error : 1;
}

int layer_noisy_runs(size_t rows, bool large)
{
	size_t runs = (NOISY_ROWS + rows - 1) / rows;

	return !large || runs > NOISY_RUNS ? NOISY_RUNS : runs < 2 ? 2 : (int)runs;
}

/* A noisy run, stored into y, whose rows are added. */
static bool noisy_run(const struct reader *d, const struct plan *emulation, int run, struct layer_rows *rows, double *y)
{
	struct plan p = layer_noisy(emulation, run);
	struct answer a;

	p.keep = d->large;
	if (!ref_run(d->call, &p, &a, NULL)) return false;
	layer_stored(d, &a, y);
	if (rows) layer_rows_add(rows, d, run, y, &a);
	answer_free(&a);
	return true;
}

bool layer_noise(struct reader *d, const struct plan *emulation, int runs, struct distance *most, double *explained,
	struct layer_rows *rows)
{
	struct plan exact = *emulation;

	exact.arith = &arith_f64;
	exact.bits = arith_f64.precision;
	if (!layer_answer(d, &exact, d->now)) return false;
	if (!noisy_run(d, emulation, 0, rows, d->other) || !set_units(d, emulation)) return false;
	*most = layer_distance(d, d->other, d->now);
	double least = share(d, d->other);
	bool ok = true;
	#pragma omp parallel for schedule(dynamic) if(!d->large)
	for (int run = 1; run < runs; run++) {
		double *y = malloc(d->n * sizeof *y);
		bool mine = y && noisy_run(d, emulation, run, rows, y);
		struct distance s = mine ? layer_distance(d, y, d->now) : (struct distance){ 0 };
		double by = mine ? share(d, y) : 0;
		free(y);
		#pragma omp critical
		{
			ok = ok && mine;
			least = fmin(least, by);
			farther(most, s);
		}
	}
	*explained = least;
	return ok;
}
