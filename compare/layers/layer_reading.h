/* What one layer of an engine does, from its own hidden states on both sides: whether its contract explains it, and which
 * known fault or rounding does where the contract does not. See docs/models.md. */
#ifndef ETALON_LAYER_READING_H
#define ETALON_LAYER_READING_H

#include "ref/call/op.h"

/* How far the engine is from an answer, stored as the engine stores. score: Σ log(1 + (r/u)²) with u the rounding of the
 * output's type and what float32 leaves of the element's row: 0 where all is equal to the bit, and hardly more for a
 * few elements that are far off (a rounding that flipped) than for as many that are near. */
struct distance {
	double score;
	double square;                  /* Σ r² */
	double equal;                   /* share of elements equal to the bit */
	double worst;                   /* the largest |r|/u; infinite where only one of the two is a number */
};

/* A fault of the layer's op, or a site that is rounded to bf16 or not, against the contract. */
struct layer_suspect {
	int fault, site;              /* the other is -1 */
	bool rounded;                   /* a site: it is, though the contract does not; or it is not, though the contract does */
	const char *name, *what;
	double explained, equal;        /* of the engine's error, with this and all before it taken in */
};

/* Correct layers that a reading makes: `most`; of a large layer as many as have NOISY_ROWS rows between them, from 2 on, as six runs
 * of 64 rows scatter by 2 to 4 % of their score (docs/models.md). NOISY_RUNS at most, and MOST_NOISY_RUNS where a layer is farther
 * off than those: a rounding flip that carries far and that one run in five has, six need not have. */
enum { MAX_DETECTED = 4, NOISY_RUNS = 6, MOST_NOISY_RUNS = 64, NOISY_ROWS = 480 };
int layer_noisy_runs(size_t rows, bool large, int most);

struct layer_reading {
	const struct op *op;
	const struct contract *contract;
	double rms;                     /* of the engine's error, against the exact layer */
	double alone, alone_equal;      /* share of its square that the contract explains; elements equal to its emulation's */
	double correct;                 /* the least share that the emulation explains of the error of correct layers: where
	                                   sums are long, float32 flips values at one site, these more at the next, and so on */
	double explained, equal;        /* the same with what is detected */
	struct distance left;
	double limit, worst_limit;      /* of left.score and left.worst: from the farthest of the correct layers */
	bool kept;                      /* the contract alone explains the layer, and f64 is good enough to say so */
	bool understood;                /* it does with what is detected */
	const struct arith *sums;       /* the arithmetic that comes nearest; left is in it, but where few is not 0: */
	size_t few;                     /* sums were tried on as many first tokens only, and left is in f64 */
	double few_explained;           /* on these, with those sums */
	double truth_error;             /* of f64, seen from dd on the first tokens, in the score's units: the largest */
	size_t truth_tokens;
	double truth_upwards;           /* where these are not all, and tokens hang together: on all, seen from f64 rounding upwards */
	struct plan emulation;            /* in f64 */
	int n;
	struct layer_suspect detected[MAX_DETECTED];
	uint64_t work;                  /* element operations of one run */
	int tried, not_identifiable;           /* suspects; those whose effect is no larger than what float32 flips */
	int idle;                       /* of a layer that keeps its contract: those that change nothing in it */
	size_t coverage_tokens;            /* where layer_coverage was asked: the first tokens that it took; else 0 */
	const char *unseen[3 * MAX_SITE + 2 * MAX_FAULT];
};

/* In element operations of a run: beyond `large`, runs go one after the other, each in parallel; kinds of sums are tried, and
 * f64 is checked, on those first tokens that take no more than `slow`, suspects on those that take no more than `suspects`,
 * and coverage on those that take no more than `coverage`. For tests to change. */
extern struct layer_work { uint64_t large, slow, suspects, coverage; } layer_work;

/* Reads a layer's (or the head's) call, whose out y is the engine's. Suspects are tried only where the contract does not
 * explain it. False: out of memory. */
bool layer_read(const struct call *call, const struct contract *k, struct layer_reading *r, struct error *e);

/* What a layer that keeps its contract has ruled out: fills tried, idle, coverage_tokens, and not_identifiable with
 * their names, unseen, without the idle. */
bool layer_coverage(const struct call *call, struct layer_reading *r, struct error *e);

/* "layer 5, linear_attention, gated norm: 1 + w for w". */
const char *layer_sentence(size_t layer, const struct layer_reading *r, int detected, char *text, size_t size);

#endif
