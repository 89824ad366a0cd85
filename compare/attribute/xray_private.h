/* Shared by xray*.c. */
#ifndef ETALON_XRAY_PRIVATE_H
#define ETALON_XRAY_PRIVATE_H

#include <assert.h>
#include <string.h>

#include "xray.h"
#include "xray_terms.h"

/* Made inside: the answer of the refreshed emulation; shape2. */
enum { XRAY_CENTRE = 16, XRAY_SHAPE = 32 };
/* How an element is reached: not at all, by the roundings of its row, by float32 alone. */
enum { UNREACHED, BY_ROW, BY_FLOAT32 };

/* Plans that go through a call together, where it has many strips. */
enum { LOOKS_AT_ONCE = 64 };
static inline size_t at_once(const struct xray *x) { return x->strips > 1 ? LOOKS_AT_ONCE : 1; }

static inline bool same_plan(const struct plan *a, const struct plan *b) { return !memcmp(a, b, sizeof *a); }

/* Another plan for the stream. */
void stream_begin(struct stream *l, const struct plan *p);

/* The stream's answer in the strip held: y [n]; where there is none, x->impossible, the emulation's, or 0. */
bool xray_run(struct xray *x, struct stream *l, double *y);

/* The plan's answer, before any shift: [n], until the next one is kept, and the work that it was, or NULL; keeps it, where there is room; forgets all. */
const double *xray_kept(struct xray *x, const struct plan *p, uint64_t *work);
void xray_keep(struct xray *x, const struct plan *p, const double *y, uint64_t work);
void xray_forget(struct xray *x);
/* Makes and keeps the answers of plans that will be asked for, where the call is one strip: side by side, if they are as many as threads or
 * the call has fewer pieces. */
void xray_ahead(struct xray *x, struct stream *const *l, size_t n);

/* The same look, if it was made around the same emulation and told as much; keeps what one has told, and the work that it was; forgets all, as
 * what is added to all answers (shift) is another. */
bool xray_told(struct xray *x, struct look *l, unsigned what);
void xray_tell(struct xray *x, const struct look *l, unsigned what, uint64_t work);
/* The same of what the emulation leaves: is it even, or the shares that it explains. */
enum { LEFT_EVEN, LEFT_EXPLAINED };
bool xray_told_left(struct xray *x, unsigned what, bool *even, double *share);
void xray_tell_left(struct xray *x, unsigned what, bool even, const double *share, uint64_t work);
void xray_untell(struct xray *x);

/* In the score, of an element that is not finite in both, and of one that is finite in one only. */
extern const double xray_agree, xray_disagree;
/* The variance, in ulp², of an element that no site reaches: it should be equal to the bit. */
extern const double xray_exact;

/* Around a plan, those of a rounding at each site of its form, then of none at any: their number less one. stream [MAX_SITE + 1]. */
int xray_shape_streams(const struct xray *x, const struct plan *around, struct stream *stream);

/* Elements that are worth all threads. */
enum { WORTH = 1 << 13 };

/* n numbers. */
void xray_copy(double *to, const double *from, size_t n);

/* y [n] rounded to the outputs' dtypes; may be in place. */
void xray_store(const struct xray *x, const double *y, double *stored);

/* got - y of element j, y being stored: NAN where neither is finite, INFINITY where one is. */
double xray_residual(const struct xray *x, size_t j, double y);
bool xray_takes_part(const struct xray *x, size_t j, double r);
double xray_ulp(const struct xray *x, int out, double y);

/* The row, counted over all outputs, that element j of output i, in the strip held, is in. */
size_t xray_row(const struct xray *x, int i, size_t j);

/* The unit of an element's noise, its answer being y: an ulp of what is stored, or, where the answer nearly cancels, what
 * float32 leaves of a bf16 rounding's effect, 2^(8-24). */
double xray_unit(const struct xray *x, int i, size_t j, double y);

/* The square of run k's noise, 0 where nothing reaches. */
double xray_noise2(const struct xray *x, int k, size_t j);

/* The grids, row_floor and block_floor of the refreshed emulation, whose row_shape and reach are there. */
bool xray_find_floor(struct xray *x);
/* floor2 and the noise of the strip held, whose centre and shape2 are there. */
void xray_floor_of_strip(struct xray *x);
bool xray_noise_of_strip(struct xray *x);

/* Adds to sum [n], n <= MOST_SUMS, what `add` adds up over parts of output i in the strip held, whole rows from `from` to `to`, on all threads. */
enum { MOST_SUMS = 5 + 19 * MAX_BLOCKS };
typedef void xray_adder(const struct xray *x, int i, size_t from, size_t to, const void *with, double *sum);
void xray_add_up(const struct xray *x, int i, xray_adder *add, const void *with, double *sum, size_t n);

/* Elements from `at` on that are of its block, as far as `end`. */
static inline size_t xray_in_block(const struct xray *x, size_t at, size_t end)
{
	size_t n = 1;

	while (at + n < end && x->block[at + n] == x->block[at]) n++;
	return n;
}

/* The scales of blocks, and then the score, of residuals; see xray_rebase. Passes over the call, until there were SCORE_PASSES or what is left of
 * them would say nothing else, each of which adds the strips' residuals r [n]; on a strip with floor2. */
enum { SCORE_STEPS = 6, SCORE_PASSES = SCORE_STEPS + 2 };
struct scoring { int pass; double a[MAX_BLOCKS], start[MAX_BLOCKS], sum[MAX_BLOCKS], weight[MAX_BLOCKS], score, least; };
void scoring_add(const struct xray *x, struct scoring *s, const double *r);
void scoring_pass(const struct xray *x, struct scoring *s);
/* Of the strip, too, the score by the best scales that each element could have; no score of the call is less than what they add up to. */
void scoring_bound(const struct xray *x, struct scoring *s, const double *r);
double scoring_least(const struct xray *x, const struct scoring *s);
/* What sums of as many terms may be off by, as a share. */
extern const double xray_rounding;

#endif
