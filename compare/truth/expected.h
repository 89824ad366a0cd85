/* The expected error of a correct kernel under a contract, element by element. */
#ifndef ETALON_EXPECTED_H
#define ETALON_EXPECTED_H

#include "alike.h"
#include "gain.h"
#include "members.h"
#include "ref/call/op.h"

/* upstream_i² = max(s_i², mean of s² over i's row), where s_i² is the mean square of the error of
 * `runs` noisy runs at element i, and a row is what shares all indices but the last.
 * sigma_i² = upstream_i² + ulp²/12, the last for the rounding to the output's own dtype. Elements with
 * s_i = 0, which float32 holds exactly on their way, take no part in their row's mean and have no
 * sigma: they must be the truth rounded once, unless a kernel in other algebra need not have them exact. That is asked only where an
 * output is something else there, or further off than noise elsewhere (expected_widen): then those whose s_i is less than half a float32
 * ulp lose their sigma, and their upstream error becomes what noise has made in as many runs that are noisy where float32 is exact, too,
 * and round to nearest at sites. Of others s_i² becomes that of these runs, in rows where it is more than `loose` times as large.
 * Nor is noise without bias, in the contract's usual structure, all that correct kernels do (others.h): in order, in float32, many numbers
 * alike are all rounded one way, and what is far below the sum is lost; sums over longer chunks are longer, and over shorter ones more goes through a state;
 * under a contract that rounds, equal numbers are rounded alike (and where the op names indices, runs of that rank them the first first, the last first and as each draws), and on tensor cores, which multiply, all is cut. Of a row whose mean square in such runs is so much larger than that of the noisy runs, s_i²
 * is at least that. So it is beside what a structure answers that was read from the outputs and is within the contract, if there is one. */
enum other { IN_ORDER, BY_FMA, LONG_CHUNKS, SHORT_CHUNKS, TO_NEAREST, ON_CORES, AS_READ };
enum { TIED_RUNS = 8, OTHER_RUNS = 8 + TIED_RUNS };
enum { FRESH_RUNS = 8 };        /* noisy runs judged like kernels, to learn how their figures scatter */
/* Output elements that a check has at hand at a time: all of a call that has no more than 2^18, else some 2^15 (ref/call/op.h). Smaller
 * calls are looked at in one piece, as that takes half the time. Where the call says another number, that is both. So many strips: */
size_t check_strips(const struct call *call);

struct expected {
	double *sigma[MAX_OUT], *upstream[MAX_OUT];     /* of the strip that was added last; NULL for an output the call has not */
	unsigned char *nearly[MAX_OUT]; /* of the same strip: is s_i less than half a float32 ulp? */
	size_t count[MAX_OUT], scattered[MAX_OUT];      /* elements of all strips whose sigma is not 0; was not, before any was widened */
	size_t boundless[MAX_OUT];      /* of all strips: elements whose sigma is infinite, as a noisy run was not finite in their row */
	int runs;
	double bias[MAX_OUT];           /* rms, over fresh noisy runs, of the mean error in sigma, and what equal numbers add to it that are rounded alike */
	struct alike *alike[MAX_OUT];   /* numbers of all strips whose sigma is not 0 */
	enum other other[OTHER_RUNS + 1];
	int others, kinds;              /* runs of them; and with what was read */
	double *const *read;            /* [MAX_OUT] the answer of the structure that was read, of the whole call; or NULL */
	double shift[MAX_OUT];          /* the largest mean error in sigma of such a run */
	double shifted[OTHER_RUNS + 1][MAX_OUT];
	double freedom[MAX_OUT];        /* degrees of freedom of the mean square error, likewise */
	double sum[FRESH_RUNS][MAX_OUT], sum2[FRESH_RUNS][MAX_OUT];     /* of each fresh run's errors in sigma, and of their squares */
	struct gain_axes axes[MAX_OUT];
	struct gain_sum *gains[MAX_OUT];        /* [FRESH_RUNS + OTHER_RUNS + 1, groups] of fresh runs, then of others */
	double equal[MAX_OUT];          /* what equal numbers that are rounded alike add to the variance of a mean */
	struct stream *stream;          /* [runs + FRESH_RUNS + others] */
	struct stream *everywhere;      /* [runs], noisy where float32 is exact, too; NULL until a strip is widened */
	unsigned widened;               /* outputs of the strip that was added last: bit i, output i */
	struct members names[MAX_OUT];  /* of the strip that was added last, of outputs that are indices */
	struct answer run;              /* room for one of them */
};

/* Dtype of output i as stored, or F64 where the capture has none. */
enum dtype out_dtype(const struct call *call, int i);

/* Elements in a row of output i: the size of its last axis. */
size_t out_row(const struct call *call, int i);

/* The answer rounded once to d, as a kernel without any other error would store it. */
double stored_as(enum dtype d, double hi, double lo);

/* got - (hi + lo), in sigma > 0. NaN stays NaN. */
double in_sigma(double got, double hi, double lo, double sigma);

/* Strips of one call, in order from 0 to n - 1: their elements, room[i] of output i at most, get their sigma as they are added; count,
 * bias and freedom hold after expected_end. The model is a plan whose roundings, form and faults are those of the kernel expected, or
 * whose region they are in; its arithmetic becomes noisy and its seeds 1, 2, ... Errors are counted from `centre`: the truth for a
 * contract, whose sites round at random, or an emulation's own answer. read: x->read, which stays the caller's. runs >= 4. *x is freed
 * with expected_free. The only error is E_MEMORY. */
bool expected_begin(struct expected *x, const struct call *call, const struct plan *model, const size_t room[MAX_OUT],
	int runs, double *const *read, struct error *e);
bool expected_add(struct expected *x, const struct call *call, size_t strip, size_t n, const struct answer *centre, struct error *e);
void expected_end(struct expected *x);
/* Of the strip that was added last, outputs of which the bit is set, by noise where float32 is exact. Once is enough. */
bool expected_widen(struct expected *x, const struct call *call, size_t strip, size_t n, unsigned outputs, const struct answer *centre,
	struct error *e);
/* All in one strip: sigma, upstream and count alone, without the fresh runs and what they show. */
bool expected_sigma(struct expected *x, const struct call *call, const struct plan *model, const struct answer *centre,
	int runs, struct error *e);
/* All in one strip. */
bool expected_make(struct expected *x, const struct call *call, const struct plan *model, const struct answer *centre,
	int runs, struct error *e);
void expected_free(struct expected *x);

#endif
