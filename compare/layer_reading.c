#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "expected.h"
#include "layer_reading.h"

/* A score beyond the limit is one that no correct layer of NOISY_RUNS comes near. */
static const double beyond = 2;
/* A suspect is seen where it moves the answer further than that, and made where it leaves less than this share of what was left. */
static const double half = 0.5;
/* In the score, of an element that is a number in only one of the two. */
static const double disagree = 200;

/* Sums that are tried, exact ones first; the nearest explains an engine's tips. */
static const struct arith *const sums[] = { &arith_f64, &arith_f32_tree, &arith_mma[MMA_HOPPER], &arith_mma[MMA_AMPERE] };
enum { SUMS = sizeof sums / sizeof *sums };

struct reader {
	const struct call *call;
	size_t n, row;
	double *got, *unit;             /* [n] the engine's; u of the score */
	double *now, *other;            /* [n] stored answers: of the replica; of a trial */
	double error;                   /* Σ of the engine's squared error */
	struct error *e;
};

static bool answer(struct reader *d, const struct plan *p, double *y)
{
	struct answer a;
	enum dtype type = out_dtype(d->call, 0);

	if (!ref_run(d->call, p, &a, d->e)) return false;
	for (size_t i = 0; i < d->n; i++) y[i] = stored_as(type, a.hi[0][i], 0);
	answer_free(&a);
	return true;
}

static struct distance between(const struct reader *d, const double *x, const double *y)
{
	struct distance s = { 0 };

	for (size_t i = 0; i < d->n; i++) {
		double r = x[i] - y[i];
		bool same = x[i] == y[i] || (isnan(x[i]) && isnan(y[i]));
		s.equal += same;
		if (same) continue;
		s.square += r * r;
		s.score += isfinite(r) ? log1p(r * r / (d->unit[i] * d->unit[i])) : disagree;
	}
	s.equal /= (double)d->n;
	return s;
}

static struct plan noisy(const struct plan *p, int run)
{
	struct plan q = *p;

	q.arith = &arith_noisy;
	q.bits = arith_noisy.precision;
	q.seed = (uint64_t)run + 1;
	return q;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* u² = ulp²/12 + (the median over a row of what a noisy run changes)²; of a type as wide as float32 that is its noise, of a
 * narrow one, where nearly all stays, next to nothing. now and other: the replica and a noisy run. */
static bool set_units(struct reader *d)
{
	enum format f = dtype_info[out_dtype(d->call, 0)].format;
	double *size = calloc(d->row, sizeof *size);

	if (!size) return error_set(d->e, E_MEMORY, d->call->op->name, NO_OFFSET, "%zu numbers", d->row);
	for (size_t at = 0; at < d->n; at += d->row) {
		for (size_t i = 0; i < d->row; i++) size[i] = fabs(d->now[at + i] - d->other[at + i]);
		qsort(size, d->row, sizeof *size, by_size);
		for (size_t i = 0; i < d->row; i++) {
			double y = isfinite(d->now[at + i]) ? d->now[at + i] : 1;
			d->unit[at + i] = hypot(format_ulp(f, y) / sqrt(12), size[d->row / 2]);
		}
	}
	free(size);
	return true;
}

/* The score of the farthest of correct layers that follow the replica but for float32's noise. */
static bool noise_of(struct reader *d, const struct plan *replica, double *most)
{
	struct plan exact = *replica;

	exact.arith = &arith_f64;
	exact.bits = arith_f64.precision;
	if (!answer(d, &exact, d->now)) return false;
	*most = 0;
	for (int run = 0; run < NOISY_RUNS; run++) {
		struct plan p = noisy(replica, run);
		if (!answer(d, &p, d->other)) return false;
		if (run == 0 && !set_units(d)) return false;
		*most = fmax(*most, between(d, d->other, d->now).score);
	}
	return true;
}

/* The sums that come nearest: replica->arith and now. */
static bool settle(struct reader *d, struct layer_reading *r)
{
	double noise;
	struct plan best = r->replica;

	if (!noise_of(d, &r->replica, &noise)) return false;
	r->limit = beyond * noise;
	r->left.score = INFINITY;
	for (int i = 0; i < SUMS; i++) {
		struct plan p = r->replica;
		p.arith = sums[i];
		p.bits = sums[i]->precision;
		if (!answer(d, &p, d->other)) return false;
		struct distance s = between(d, d->got, d->other);
		if (!(s.score < r->left.score)) continue;
		r->left = s;
		best = p;
		memcpy(d->now, d->other, d->n * sizeof *d->now);
		if (s.equal == 1) break;
	}
	r->replica = best;
	r->sums = best.arith;
	r->explained = d->error > 0 ? 1 - r->left.square / d->error : r->left.square == 0;
	r->equal = r->left.equal;
	return true;
}

static bool is_convicted(const struct layer_reading *r, const struct layer_suspect *s)
{
	for (int i = 0; i < r->n; i++)
		if (r->convicted[i].mistake == s->mistake && r->convicted[i].site == s->site) return true;
	return false;
}

static struct plan plan_with(const struct layer_reading *r, const struct layer_suspect *s)
{
	struct plan p = r->replica;

	if (s->mistake >= 0) plan_mistake(&p, r->op, s->mistake);
	else p.round[s->site] = (struct site_rounding){ s->rounded, FMT_BF16, ROUND_NEAREST_EVEN };
	return p;
}

/* The next of all suspects after s; a rounding that a mistake names is tried by its name. False behind the last. */
static bool next_suspect(const struct layer_reading *r, struct layer_suspect *s)
{
	const struct op *op = r->op;

	if (s->site < 0 && op->mistakes[++s->mistake].name) {
		s->name = op->mistakes[s->mistake].name;
		s->what = op->mistakes[s->mistake].what;
		return true;
	}
	s->mistake = -1;
	s->site++;
	for (int m = 0; op->sites[s->site].name && op->mistakes[m].name; m++)
		if (op->mistakes[m].is_rounding && op->mistakes[m].site == s->site) s->site++, m = -1;
	if (!op->sites[s->site].name) return false;
	s->name = op->sites[s->site].name;
	s->what = op->sites[s->site].what;
	s->rounded = !r->replica.round[s->site].on;
	return true;
}

/* The suspect that leaves least, if that is less than half of what was left. */
static bool best_suspect(struct reader *d, struct layer_reading *r, struct layer_suspect *best, bool *found)
{
	struct layer_suspect s = { .mistake = -1, .site = -1 };
	double least = INFINITY;

	*found = false;
	r->tried = r->invisible = 0;
	while (next_suspect(r, &s)) {
		struct plan p = plan_with(r, &s);
		if (is_convicted(r, &s)) continue;
		if (!answer(d, &p, d->other)) return false;
		struct distance moved = between(d, d->other, d->now), left = between(d, d->got, d->other);
		r->tried++;
		if (!(moved.score > r->limit)) {
			r->invisible++;
			continue;
		}
		bool made = left.score < half * r->left.score || (left.square < half * r->left.square && left.score < r->left.score);
		if (!made || !(left.score < least)) continue;
		least = left.score;
		*best = s;
		*found = true;
	}
	return true;
}

static bool convict(struct reader *d, struct layer_reading *r)
{
	struct layer_suspect s;
	bool found = true;

	while (!r->understood && r->n < MAX_CONVICTED) {
		if (!best_suspect(d, r, &s, &found)) return false;
		if (!found) return true;
		r->replica = plan_with(r, &s);
		r->convicted[r->n++] = s;
		if (!settle(d, r)) return false;
		r->convicted[r->n - 1].explained = r->explained;
		r->convicted[r->n - 1].equal = r->equal;
		r->understood = r->left.score <= r->limit;
	}
	return true;
}

static bool read_all(struct reader *d, const struct contract *k, struct layer_reading *r)
{
	struct plan exact = plan_plain(&arith_f64, arith_f64.precision);

	*r = (struct layer_reading){ .op = d->call->op, .contract = k, .replica = exact };
	dtype_load(out_dtype(d->call, 0), d->call->out[0]->data, d->n, d->got);
	if (!answer(d, &exact, d->now)) return false;
	for (size_t i = 0; i < d->n; i++) d->unit[i] = 1;
	d->error = between(d, d->got, d->now).square;
	r->rms = sqrt(d->error / (double)d->n);
	plan_contract(&r->replica, k);
	if (!settle(d, r)) return false;
	r->alone = r->explained;
	r->alone_equal = r->equal;
	r->kept = r->understood = r->left.score <= r->limit;
	return convict(d, r);
}

bool layer_read(const struct call *call, const struct contract *k, struct layer_reading *r, struct error *e)
{
	size_t n = call->out_count[0];
	struct reader d = { .call = call, .n = n, .row = out_row(call, 0), .e = e, .got = calloc(4 * n, sizeof *d.got) };

	if (!d.got) return error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%zu numbers", 4 * n);
	d.unit = d.got + n;
	d.now = d.unit + n;
	d.other = d.now + n;
	bool ok = read_all(&d, k, r);
	free(d.got);
	return ok;
}

const char *layer_sentence(size_t layer, const struct layer_reading *r, int convicted, char *text, size_t size)
{
	const struct layer_suspect *s = &r->convicted[convicted];

	snprintf(text, size, "layer %zu, %s, %s%s", layer, r->op->name, s->what,
		s->mistake >= 0 ? "" : s->rounded ? " (rounded to bf16)" : " (not rounded to bf16)");
	return text;
}
