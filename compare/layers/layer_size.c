/* How large a layer's error is, in units of what its contract's roundings imply from the same hidden state.
 *
 * A row is a token. The figure is the median over tokens of a row's rms, over the same of correct layers (noisy runs of
 * the contract). A mean would not do: one expert that is chosen otherwise is worth some twenty of these units in its
 * token. Tokens whose routes lie within the router's error are left out as long as half of all are left. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "layer_private.h"

static size_t tokens_of(const struct reader *d) { return d->n / d->row; }

bool layer_rows_make(struct layer_rows *rows, const struct reader *d, const struct answer *exact)
{
	*rows = (struct layer_rows){ .exact = exact, .square = calloc(2 * NOISY_RUNS * tokens_of(d), sizeof(double)) };
	if (rows->square) rows->router = rows->square + NOISY_RUNS * tokens_of(d);
	return rows->square != NULL;
}

void layer_rows_free(struct layer_rows *rows)
{
	free(rows->square);
	*rows = (struct layer_rows){ 0 };
}

/* The mean square of row t of y, [tokens, n], against x. NaN in both is no difference; in one, an infinite one. */
static double mean_square(const double *x, const double *y, size_t t, size_t n)
{
	double sum = 0;

	for (size_t i = t * n; i < (t + 1) * n; i++) {
		double r = y[i] - x[i];
		if (y[i] == x[i] || (isnan(x[i]) && isnan(y[i]))) continue;
		sum += isnan(r) ? INFINITY : r * r / (double)n;
	}
	return sum;
}

void layer_rows_add(struct layer_rows *rows, const struct reader *d, int run, const double *y, const struct answer *a)
{
	size_t T = tokens_of(d), at = (size_t)run * T;
	const double *logits = d->router < 0 ? NULL : rows->exact->hi[d->router];

	for (size_t t = 0; t < T; t++) {
		rows->square[at + t] = mean_square(rows->exact->hi[0], y, t, d->row);
		if (logits) rows->router[at + t] = mean_square(logits, a->hi[d->router], t, d->experts);
	}
	#pragma omp atomic
	rows->runs++;
}

/* The rms over runs of a token's figure. */
static double over_runs(const double *square, int runs, size_t T, size_t t)
{
	double sum = 0;

	for (int run = 0; run < runs; run++) sum += square[(size_t)run * T + t];
	return sqrt(sum / runs);
}

/* The median of those x [n] that are not left out. room: [n]. */
static double median(const double *x, const bool *out, size_t n, double *room)
{
	size_t m = 0;

	for (size_t i = 0; i < n; i++)
		if (!out || !out[i]) room[m++] = isnan(x[i]) ? INFINITY : x[i];
	qsort(room, m, sizeof *room, layer_rising);
	return m ? (room[(m - 1) / 2] + room[m / 2]) / 2 : 0;
}

/* How far the last expert that is chosen is above the first that is not. room: [experts]. */
static double margin(const struct reader *d, const double *logits, double *room)
{
	memcpy(room, logits, d->experts * sizeof *room);
	qsort(room, d->experts, sizeof *room, layer_rising);
	return d->top_k && d->top_k < d->experts ? room[d->experts - d->top_k] - room[d->experts - d->top_k - 1] : INFINITY;
}

/* uncertain[t]: an error as correct routers have may choose another expert there. Returns how many. */
static size_t routes(const struct reader *d, const struct layer_rows *rows, bool *uncertain, double *room)
{
	size_t n = 0;

	for (size_t t = 0; d->router >= 0 && t < tokens_of(d); t++) {
		double error = over_runs(rows->router, rows->runs, tokens_of(d), t);
		uncertain[t] = !(margin(d, rows->exact->hi[d->router] + t * d->experts, room) > certain * error);
		n += uncertain[t];
	}
	return n;
}

static void measure(const struct reader *d, const struct layer_rows *rows, struct layer_size *s, double *error,
	bool *uncertain, double *room)
{
	size_t T = tokens_of(d), left_out = routes(d, rows, uncertain, room);
	double *implied = error + T;
	bool *out = left_out <= T / 2 ? uncertain : NULL;

	for (size_t t = 0; t < T; t++) {
		error[t] = sqrt(mean_square(rows->exact->hi[0], d->got, t, d->row));
		implied[t] = over_runs(rows->square, rows->runs, T, t);
	}
	s->implied = median(implied, out, T, room);
	s->error = median(error, out, T, room);
	s->value = s->error > 0 ? s->error / s->implied : 0;
	for (size_t t = 0; t < T; t++) {
		double far = error[t] > 0 ? error[t] / fmax(implied[t], s->implied) : 0;
		if (uncertain[t] && isfinite(far)) s->flipped += far > layer_row_limit;
		else if (far > s->worst) s->worst = far, s->at = t;
	}
}

bool layer_size_of(const struct reader *d, const struct layer_rows *rows, struct layer_size *s)
{
	size_t T = tokens_of(d), most = T > d->experts ? T : d->experts;
	double *room = malloc((2 * T + most) * sizeof *room);
	bool *uncertain = calloc(T, sizeof *uncertain);

	*s = (struct layer_size){ 0 };
	if (room && uncertain) measure(d, rows, s, room, uncertain, room + 2 * T);
	bool ok = room && uncertain;
	free(room);
	free(uncertain);
	return ok;
}

double layer_median_row(const struct reader *d, const double *x, const double *y)
{
	size_t T = tokens_of(d);
	double *size = malloc(2 * T * sizeof *size), m = INFINITY;

	for (size_t t = 0; size && t < T; t++) size[t] = sqrt(mean_square(x, y, t, d->row));
	if (size) m = median(size, NULL, T, size + T);
	free(size);
	return m;
}

double layer_allowed(const struct layer_size *s)
{
	double most = layer_limit * s->implied;

	return sqrt(fmax(0, most * most - s->error * s->error));
}

bool layer_size_holds(const struct layer_size *s) { return s->value <= layer_limit && s->worst <= layer_row_limit; }

static bool around(const struct reader *d, const struct answer *exact, const struct plan *noisy, struct layer_size *s)
{
	struct layer_rows rows;
	struct answer run;
	double *y = malloc(d->n * sizeof *y);
	bool ok = layer_rows_make(&rows, d, exact) && y && ref_run(d->call, noisy, &run, NULL);

	if (ok) {
		layer_stored(d, &run, y);
		layer_rows_add(&rows, d, 0, y, &run);
		answer_free(&run);
		ok = layer_size_of(d, &rows, s);
	}
	layer_rows_free(&rows);
	free(y);
	return ok;
}

bool layer_size_around(const struct reader *d, const struct call *exact_call, const struct plan *exact, const struct call *noisy_call,
	const struct plan *noisy, struct layer_size *s)
{
	struct reader other = *d;
	struct answer truth;

	other.call = noisy_call;
	if (!ref_run(exact_call, exact, &truth, NULL)) return false;
	bool ok = around(&other, &truth, noisy, s);
	answer_free(&truth);
	return ok;
}
