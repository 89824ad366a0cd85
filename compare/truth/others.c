#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "beside.h"
#include "expected_private.h"
#include "others.h"

int others_of(struct expected *x, const struct plan *model, bool names)
{
	bool rounds = false, chunks = model->region && model->chunk, longer = chunks && model->chunk < LONGEST_CHUNK, shorter = chunks && model->chunk > SHORTEST_CHUNK;
	int n = 0;

	for (int i = 0; model->region && i < MAX_SITE; i++) rounds = rounds || model->region->site[i].on;
	x->other[n++] = IN_ORDER, x->other[n++] = BY_FMA;
	for (int r = 0; r < 2 && longer; r++) x->other[n++] = LONG_CHUNKS;
	for (int r = 0; r < 2 && shorter; r++) x->other[n++] = SHORT_CHUNKS;
	for (int r = 0; r < (names ? TIED_RUNS : rounds); r++) x->other[n++] = TO_NEAREST;
	for (int r = 0; r < 2 && rounds; r++) x->other[n++] = ON_CORES;
	x->other[n] = AS_READ;
	x->kinds = n + (x->read != NULL);
	return n;
}

/* One kernel's way, no matter of chance. */
static bool is_certain(enum other kind) { return kind == ON_CORES || kind == AS_READ; }

/* Without bias, and so without a shift. */
static bool is_noisy(enum other kind) { return kind == LONG_CHUNKS || kind == SHORT_CHUNKS || kind == TO_NEAREST; }

void others_plan(struct plan *p, const struct plan *model, enum other kind, int r)
{
	*p = *model;
	p->arith = kind == IN_ORDER ? &arith_f32 : kind == BY_FMA ? &arith_f32_fma : is_noisy(kind) ? &arith_noisy
		: &arith_mma[MMA_ARCHES + (r % 2 ? MMA_AMPERE : MMA_HOPPER)];
	p->bits = p->arith->precision;
	p->seed = (uint64_t)r + 1;
	if (model->region && (kind == IN_ORDER || kind == BY_FMA)) memset(p->round, 0, sizeof p->round);
	if (kind == TO_NEAREST) p->random = false;      /* a state of equal numbers errs as one */
	p->ties = p->seed;
	if (kind == TO_NEAREST && r % TIED_RUNS < 2) p->ties = r % TIED_RUNS ? LAST_OF_TIES : 0;
	if (kind == LONG_CHUNKS) p->chunk = LONGEST_CHUNK;       /* sums over a chunk grow with it, and so do their errors */
	if (kind == SHORT_CHUNKS) p->chunk = SHORTEST_CHUNK;     /* a sum in a state of what has one sign loses more than one of terms that cancel */
}

/* Of its multiples the parts behind the point lie evenly, however many there are. */
static const double golden_ratio = 0.6180339887;

void others_widest(struct plan *p, int r)
{
	if (!p->region || !p->chunk) return;
	p->chunk = p->chunk < widest_chunk ? widest_chunk : p->chunk;
	p->first_chunk = (size_t)r * (size_t)(golden_ratio * (double)p->chunk) % p->chunk;
}

struct taking { struct off_by *o; struct expected *x; const struct call *call; const struct strip *s; const struct answer *centre; bool ok; };
static void take(int r, const struct answer *run, void *with)
{
	struct taking *t = with;

	expected_named(t->x, t->call, run);
	for (int i = 0; i < MAX_OUT; i++) {
		const size_t n = t->s->count[i];
		double *d = n ? t->o->d[r][i] = malloc(n * sizeof *d) : NULL;
		t->ok = t->ok && (d || !n);
		#pragma omp parallel for if (n > WORTH)
		for (size_t j = 0; j < (d ? n : 0); j++) {
			d[j] = run->hi[i][j] - t->centre->hi[i][j] - (t->centre->lo[i] ? t->centre->lo[i][j] : 0);
			if (!isfinite(d[j])) d[j] = 0;
		}
	}
}

bool off_by_make(struct off_by *o, struct expected *x, const struct call *call, const struct strip *s, size_t strip, size_t n,
	const struct answer *centre, struct error *e)
{
	struct taking with = { o, x, call, s, centre, true };
	*o = (struct off_by){ 0 };
	if (!run_beside(call, x->stream + x->runs + FRESH_RUNS, x->others, strip, n, &x->run, take, &with, e)) return false;
	if (x->read) {
		struct answer read = { .work = 0 };
		for (int i = 0; i < MAX_OUT; i++) read.hi[i] = s->count[i] ? x->read[i] + s->first[i] : NULL;
		take(x->others, &read, &with);
	}
	return with.ok || error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "errors of %d runs", x->others);
}

void off_by_free(struct off_by *o)
{
	for (int r = 0; r <= OTHER_RUNS; r++)
		for (int i = 0; i < MAX_OUT; i++) free(o->d[r][i]);
}

/* Runs from `first` to `end` of one kind. */
struct kind { const struct off_by *o; int first, end; };

/* Of an element of output i, the mean over them of its square, where there is noise. */
static double square(const struct kind *k, int i, size_t j, const double *s2)
{
	double sum = 0;

	for (int r = k->first; r < k->end && s2[j] > 0; r++) sum += k->o->d[r][i][j] * k->o->d[r][i][j] / (k->end - k->first);
	return sum;
}

/* Of a row, their sum; *noise: of the noisy runs. */
static double row_squares(const struct kind *k, int i, size_t r, size_t row, const double *s2, double *noise)
{
	double sum = 0;

	*noise = 0;
	for (size_t j = r; j < r + row; j++) *noise += s2[j], sum += square(k, i, j, s2);
	return sum;
}

/* Rows whose squares are more than beyond² times the noise's. */
static void raise_rows(const struct kind *k, int i, double *s2, size_t n, size_t row, double beyond)
{
	for (size_t r = 0; r < n; r += row) {
		double noise, squares = row_squares(k, i, r, row, s2, &noise);
		if (squares <= beyond * beyond * noise) continue;
		for (size_t j = r; j < r + row; j++) s2[j] = s2[j] > 0 ? fmax(s2[j], fmax(square(k, i, j, s2), squares / (double)row)) : 0;
	}
}

static int by_size(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of an output's rows the median of noise over numbers, squares of both; 0 without memory. */
static double usual_noise(const double *s2, const double *hi, size_t n, size_t row)
{
	double *part = malloc((n / row + 1) * sizeof *part), usual = 0;
	size_t known = 0;

	for (size_t r = 0; part && r < n; r += row) {
		double noise = 0, size = 0;
		for (size_t j = r; j < r + row; j++) noise += s2[j], size += hi[j] * hi[j];
		if (noise > 0 && size > 0 && isfinite(noise) && isfinite(size)) part[known++] = noise / size;
	}
	if (known) qsort(part, known, sizeof *part, by_size), usual = part[known / 2];
	free(part);
	return usual;
}

/* What was read may be further off in a few rows, where numbers cancel, but in no more than one of ten. What the contract's structures compute exactly, and another
 * arrangement to the precision that is usual in other rows, does not count: where one P is all there is, bf16(P) v / sum(P) is v but for bf16, and v with a P that all read. */
static bool is_poor(const struct kind *k, int i, size_t n, size_t row, const double *s2, const double *hi)
{
	const double usual = usual_noise(s2, hi, n, row);
	size_t far = 0;

	for (size_t r = 0; r < n; r += row) {
		double noise, size = 0, squares = row_squares(k, i, r, row, s2, &noise);
		for (size_t j = r; j < r + row; j++) size += s2[j] > 0 ? hi[j] * hi[j] : 0;
		far += !(squares <= likely * likely * fmax(noise, usual * size));
	}
	return 10 * far > n / row;
}

/* A run or two may be far off in a row by chance, by which noisy runs differ, too; tensor cores cut, which is none anywhere. Row by row, as a
 * strip knows no more. */
void off_by_rows(struct expected *x, struct off_by *o, int i, size_t n, size_t row, const double *hi)
{
	for (int first = 0, end; first < x->kinds; first = end) {
		for (end = first + 1; end < x->kinds && x->other[end] == x->other[first]; end++) {}
		const struct kind k = { o, first, end };
		if (x->other[first] == AS_READ && is_poor(&k, i, n, row, x->upstream[i], hi)) memset(o->d[first][i], 0, n * sizeof **o->d[first]);
		raise_rows(&k, i, x->upstream[i], n, row, is_certain(x->other[first]) ? slack : likely);
	}
}

void off_by_shift(struct expected *x, const struct off_by *o, int i, size_t first, size_t n, const double *hi)
{
	for (int k = 0; k < x->kinds; k++) {
		struct gain_pass pass = gain_begin(&x->axes[i], &x->gains[i][(FRESH_RUNS + k) * x->axes[i].groups], first);
		for (size_t j = 0; j < n; j++) {
			const double s = x->sigma[i][j], z = s > 0 ? o->d[k][i][j] / s : 0;
			if (!is_noisy(x->other[k])) x->shifted[k][i] += z;
			gain_add(&pass, s > 0 && !isinf(s), z, hi[j] / s);
		}
		gain_end(&pass);
	}
}

/* Of sums in order a mean that is allowed anyway is none. */
double others_shift(const struct expected *x, int i)
{
	double most = 0, n = (double)x->scattered[i];

	for (int k = 0; k < x->kinds && n > 0; k++) {
		double shift = fabs(x->shifted[k][i] / n);
		if (is_certain(x->other[k]) || shift > harmless_bias) most = fmax(most, shift);
	}
	return most;
}
