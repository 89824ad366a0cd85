#include <float.h>
#include <math.h>
#include <string.h>

#include "compare/limits/limits.h"
#include "xray_sums.h"

enum { BESIDE = offsetof(struct look_sums, of) / sizeof(double), IN_BLOCK = sizeof(struct block_sums) / sizeof(double) };
static_assert(BESIDE + MAX_BLOCKS * IN_BLOCK <= MOST_SUMS && sizeof(struct look_sums) == (BESIDE + MAX_BLOCKS * IN_BLOCK) * sizeof(double),
	"all that is added up is doubles, for which there is room");
static_assert((int)NOISE_RUNS == (int)FLOOR_RUNS, "each run's noise has a sum");

/* Parts are whole rows. What each adds up goes to the sums in order, so that none depends on the number of threads. */
void xray_add_up(const struct xray *x, int i, xray_adder *add, const void *with, double *sum, size_t n)
{
	const size_t row = x->row[i], step = row < WORTH ? WORTH / row * row : row, end = x->first[i + 1];

	#pragma omp parallel for ordered schedule(static, 1) if (end - x->first[i] > step)
	for (size_t at = x->first[i]; at < end; at += step) {
		double part[MOST_SUMS];
		memset(part, 0, n * sizeof *part);
		add(x, i, at, end - at < step ? end : at + step, with, part);
		#pragma omp ordered
		for (size_t k = 0; k < n; k++) sum[k] += part[k];
	}
}

/* ---- elements that agree ---- */
/* Of the row that is gone through: how many of it were seen. */
struct in_row { size_t seen, all, of_base, close; };

static bool most_of(double some, double n) { return some >= most_votes * n; }

static void end_row(struct look_sums *s, struct in_row *r, size_t row)
{
	double all = (double)r->all, of_base = (double)r->of_base, close = (double)r->close;

	if (4 * r->all >= row) s->all += all, s->of_base += of_base, s->close += close;
	else if (r->all) s->all++, s->of_base += most_of(of_base, all), s->close += most_of(close, all);
	*r = (struct in_row){ 0 };
}

static void add_votes(struct look_sums *s, struct in_row *r, size_t row, const int64_t *vote, size_t n)
{
	for (size_t j = 0, m; j < n; j += m) {
		int64_t sum = 0;
		m = row - r->seen < n - j ? row - r->seen : n - j;
		for (size_t k = 0; k < m; k++) sum += vote[j + k];
		r->seen += m, r->all += (size_t)sum & VOTES_OF, r->of_base += (size_t)(sum / FOR_BASE) & VOTES_OF, r->close += (size_t)(sum / FOR_CLOSE);
		if (r->seen == row) end_row(s, r, row);
	}
}

/* What of n elements from `at` on is stored with d, and how they vote. */
static void votes_of(const struct xray *x, size_t at, size_t n, const double *with, int64_t *vote)
{
	terms_of_votes(x->got + at, x->d + at, with, x->stored + at, x->floor2 + at, x->noise + at, x->n, n, vote);
}

static void stored_with(const struct xray *x, int i, size_t at, size_t n, double *with)
{
	for (size_t j = 0; j < n; j++) with[j] = x->base[at + j] + x->d[at + j];
	format_round_all(dtype_info[out_dtype(x->call, i)].format, ROUND_NEAREST_EVEN, with, n);
}

/* How far what is stored of element j goes by one flip: of its grid, by float32's noise, or by a rounding's: near a tie half an ulp is what a
 * rounding does, and an ulp what its flip does, root 12 of a rounding's rms. No less than the kernel's own distance from base. */
static double by_a_flip(const struct xray *x, int i, size_t j)
{
	double most = fmax(fabs(x->got[j] - x->stored[j]), fmax(xray_unit(x, i, j, x->stored[j]), sqrt(12 * x->shape2[j])));

	for (size_t k = 0; k < NOISE_RUNS; k++) most = fmax(most, fabs((double)x->noise[k * x->n + j]));
	return most;
}

/* One more of different sizes, base and base + d. */
static void note_different(const struct xray *x, int i, size_t j, double with, struct votes *v)
{
	double a = fabs(x->stored[j]), b = fabs(with);

	for (size_t k = 0; k < v->different; k++)
		if (v->number[k][0] == a && v->number[k][1] == b) return;
	if (v->different == MOST_DIFFERENT) return;
	v->number[v->different][0] = a, v->number[v->different++][1] = b;
	v->far += fabs(with - x->stored[j]) >= exp2(least_votes) * by_a_flip(x, i, j);
}

void look_sums_different(const struct xray *x, struct votes *v)
{
	for (int i = 0; i < MAX_OUT; i++)
		for (size_t at = x->first[i], n; at < x->first[i + 1] && v->different < MOST_DIFFERENT; at += n) {
			double with[TERMS];
			int64_t vote[TERMS];
			n = x->first[i + 1] - at < TERMS ? x->first[i + 1] - at : TERMS;
			stored_with(x, i, at, n, with);
			votes_of(x, at, n, with, vote);
			for (size_t k = 0; k < n; k++)
				if (vote[k]) note_different(x, i, at + k, with[k], v);
		}
}

void look_sums_votes(const struct look_sums *s, struct votes *v) { v->all = (size_t)s->all, v->of_base = (size_t)s->of_base, v->close = (size_t)s->close; }

/* ---- parts ---- */
/* Is d anything but 0, of n elements? *finite: all of it is. */
static bool moves(const double *d, size_t n, bool *finite)
{
	int any = 0, all = 1;

	for (size_t j = 0; j < n; j++) any |= d[j] != 0, all &= fabs(d[j]) <= DBL_MAX;
	*finite = all;
	return any;
}

static void add_overflows(const struct xray *x, struct look_sums *s, size_t at, size_t n)
{
	for (size_t j = at; j < at + n; j++) {
		if (isfinite(x->d[j]) || !isfinite(x->base[j])) continue;
		if (isfinite(x->got[j])) s->numbers++;
		else s->none++;
	}
}

/* Of up to TERMS elements of one block. */
static void add_block(const struct xray *x, struct block_sums *b, size_t at, size_t n, const double *with, unsigned what)
{
	if (what & LOOK_SIZE) sums_of_size(x->d + at, with, x->stored + at, x->floor2 + at, n, &b->size);
	if (what & (LOOK_FIT | LOOK_FIT_STORED)) sums_of_fit(x->weight + at, x->r + at, x->d + at, x->noise + at, x->n, n, &b->stored);
	if (what & LOOK_FIT) sums_of_fit(x->raw_weight + at, x->raw + at, x->d + at, x->raw_noise + at, x->n, n, &b->raw);
}

/* sum: struct look_sums, its blocks from the output's first on. */
static void add_part(const struct xray *x, int i, size_t from, size_t to, const void *asked, double *sum)
{
	const unsigned what = *(const unsigned *)asked;
	struct look_sums *s = (struct look_sums *)sum;
	struct in_row row = { 0 };

	for (size_t at = from, n; at < to; at += n) {
		double room[TERMS];
		int64_t vote[TERMS] = { 0 };
		bool finite, moved;
		n = to - at < TERMS ? to - at : TERMS;
		moved = moves(x->d + at, n, &finite);
		if (moved && what & (LOOK_SIZE | LOOK_VOTES)) stored_with(x, i, at, n, room);
		if (what & LOOK_SIZE && !finite) add_overflows(x, s, at, n);
		if (what & LOOK_VOTES) {
			if (moved) votes_of(x, at, n, room, vote);
			add_votes(s, &row, x->row[i], vote, n);
		}
		for (size_t j = 0, m; moved && j < n; j += m) {
			m = xray_in_block(x, at + j, at + n);
			add_block(x, &s->of[x->block[at + j] - x->first_block[i]], at + j, m, room + j, what);
		}
	}
}

static int blocks_of(const struct xray *x, int i)
{
	int end = x->blocks;

	for (int o = i + 1; o < MAX_OUT; o++)
		if (x->call->out_count[o]) end = x->first_block[o] < end ? x->first_block[o] : end;
	return end - x->first_block[i];
}

void look_sums_add(const struct xray *x, struct look_sums *s, unsigned what)
{
	for (int i = 0; i < MAX_OUT; i++) {
		struct look_sums of = { 0 };
		if (x->first[i + 1] == x->first[i]) continue;
		size_t blocks = (size_t)blocks_of(x, i);
		xray_add_up(x, i, add_part, &what, (double *)&of, BESIDE + blocks * IN_BLOCK);
		for (size_t k = 0; k < BESIDE; k++) ((double *)s)[k] += ((double *)&of)[k];
		for (size_t k = 0; k < blocks * IN_BLOCK; k++) ((double *)&s->of[x->first_block[i]])[k] += ((double *)of.of)[k];
	}
	for (int b = 0; b < x->blocks; b++) {
		s->of[b].reached += x->held.reached[b];
		if (what & (LOOK_FIT | LOOK_FIT_STORED)) s->of[b].yy += x->held.yy[b], s->of[b].raw_yy += x->held.raw_yy[b];
	}
}

/* ---- what they say ---- */
double look_sums_size(const struct xray *x, const struct look_sums *s)
{
	double largest = 0;

	for (int b = 0; b < x->blocks; b++) {
		const struct sums_of_size *of = &s->of[b].size;
		if (s->of[b].reached > 0) largest = fmax(largest, fmax(of->d2, of->stored2) / s->of[b].reached);
	}
	return sqrt(largest);
}

/* What float32's noise, run after run, makes of the coefficient of d: its rms. */
static double noise_error(const double noise[NOISE_RUNS], double dd)
{
	double square = 0;

	for (int k = 0; k < NOISE_RUNS; k++) square += noise[k] * noise[k] / NOISE_RUNS;
	return dd > 0 ? sqrt(square) / dd : 0;
}

bool look_sums_fit(const struct xray *x, const struct look_sums *s, bool raw, struct coefficient *c)
{
	struct fitting *f = fit_begin(x->blocks, 1);
	double noise[NOISE_RUNS] = { 0 }, dd = 0;

	if (!f) return error_set(x->e, E_MEMORY, x->call->op->name, NO_OFFSET, "the sums of a direction");
	for (int b = 0; b < x->blocks; b++) {
		const struct sums_of_fit *of = raw ? &s->of[b].raw : &s->of[b].stored;
		fit_add_sums(f, b, raw ? s->of[b].raw_yy : s->of[b].yy, of->dy, of->dd);
		for (int k = 0; k < NOISE_RUNS; k++) noise[k] += of->noise[k];
		dd += of->dd;
	}
	fit_end(f, c);
	if (c->determined) c->error = fmax(c->error, noise_error(noise, dd));
	return true;
}
