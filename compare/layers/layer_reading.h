/* What one layer of an engine does, from its own hidden states on both sides: whether its contract explains it, and which
 * known fault or rounding does where the contract does not. See docs/models.md. */
#ifndef ETALON_LAYER_READING_H
#define ETALON_LAYER_READING_H

#include "ref/call/op.h"
#include "ref/model/model.h"

/* How far the engine is from an answer, stored as the engine stores. score: Σ log(1 + (r/u)²) with u the rounding of the
 * output's type and what float32 leaves of the element's row: 0 where all is equal to the bit, and hardly more for a
 * few elements that are far off (a rounding that flipped) than for as many that are near. */
struct distance {
	double score;
	double square;                  /* Σ r² */
	double equal;                   /* share of elements equal to the bit */
	double worst;                   /* the largest |r|/u; infinite where only one of the two is a number */
};

/* A fault of the layer's op, a site that is rounded to bf16 or not, against the contract, or weights other than the layer's. */
enum layer_suspect_kind { SUSPECT_FAULT, SUSPECT_SITE, SUSPECT_WEIGHTS };
struct layer_suspect {
	enum layer_suspect_kind kind;
	int index;                      /* of the op's fault, its site, or among layer_weights.c's */
	bool rounded;                   /* a site: it is, though the contract does not; or it is not, though the contract does */
	bool alike;                     /* a fault: of all norms at once */
	bool constant;                  /* a fault that rounds what no x reaches, so that it is another constant (layer_constants.c) */
	double value;                   /* a fault: of its parameter; NAN: its usual one */
	size_t first, second;           /* weights: of which layer, or of which two experts */
	const char *name;
	char what[160];
	double explained, equal;        /* of the engine's error, with this and all before it taken in */
};

/* The layer's error from the engine's own hidden state, in units of what correct layers of the contract err by. */
struct layer_size {
	double value;                   /* the median over tokens of a row's rms, over that of correct layers */
	double worst;                   /* the farthest token, whose routes are certain, */
	size_t at;                      /* and which it is */
	size_t flipped;                 /* tokens that are as far, but whose routes lie within the router's error */
	double error, implied;          /* both medians */
};
/* Within that a layer passes, whether it is explained or not. */
bool layer_size_holds(const struct layer_size *s);

/* Correct layers that a reading makes: of a large layer as many as have NOISY_ROWS rows between them, from 2 on, as six runs
 * of 64 rows scatter by 2 to 4 % of their score (docs/models.md). */
enum { MAX_DETECTED = 12, MAX_SUSPECTS = 512, NOISY_RUNS = 6, NOISY_ROWS = 480 };
int layer_noisy_runs(size_t rows, bool large);

struct layer_reading {
	const struct op *op;
	struct contract contract;
	double rms;                     /* of the engine's error, against the exact layer */
	struct layer_size size;
	double alone, alone_equal;      /* share of its square that the contract explains; elements equal to its emulation's */
	double correct;                 /* the least share that the emulation explains of the error of correct layers: where
	                                   sums are long, float32 flips values at one site, these more at the next, and so on */
	double explained, equal;        /* the same with what is detected */
	struct distance left;
	double limit, worst_limit;      /* of left.score and left.worst: from the farthest of the correct layers */
	bool known;                     /* f64 is good enough to say anything */
	bool within;                    /* its size is what its contract allows */
	bool read;                      /* it is explained to the bit, by the contract and what is detected */
	bool kept;                      /* it passes: within its size, or read, and no fault is detected */
	bool understood;                /* it passes, or a fault is detected that explains it */
	const struct arith *sums;       /* the arithmetic that comes nearest; left is in it, but where few is not 0: */
	size_t few;                     /* sums were tried on as many first tokens only, and left is in f64 */
	double few_explained;           /* on these, with those sums */
	double truth_error;             /* of f64, seen from dd on the first tokens, in the score's units: the largest */
	size_t truth_tokens;
	double truth_upwards;           /* where these are not all, and tokens hang together: on all, seen from f64 rounding upwards */
	struct plan emulation;          /* in f64 */
	int n;
	struct layer_suspect detected[MAX_DETECTED];
	double visible;                 /* rms of the smallest fault that would be seen, as a share of what the layer adds to x */
	uint64_t work;                  /* element operations of one run */
	int tried, not_identifiable;    /* suspects; those whose effect is no larger than what float32 flips */
	int idle;                       /* of a layer that keeps its contract: those that change nothing in it */
	size_t coverage_tokens;         /* where layer_coverage was asked: the first tokens that it took; else 0 */
	const char *unseen[MAX_SUSPECTS];
};

/* What a layer's reading may ask beside its call; NULL, or each NULL: nothing. */
struct layer_context {
	const struct model *model;              /* for weights of another layer, */
	size_t layer;                           /* and which this is */
	const struct layer_reading *like;       /* one of the same op that was read: what it found is tried first */
};

/* In element operations of a run: beyond `large`, runs go one after the other, each in parallel; kinds of sums are tried, and
 * f64 is checked, on those first tokens that take no more than `slow`, suspects on those that take no more than `suspects`, or,
 * where the layer is within its size, `reading`, and coverage on those that take no more than `coverage`. For tests to change. */
extern struct layer_work { uint64_t large, slow, suspects, reading, coverage; } layer_work;

/* Reads a layer's (or the head's) call, whose out y is the engine's. Suspects are tried only where the contract does not
 * explain it. False: out of memory. */
bool layer_read(const struct call *call, const struct contract *k, const struct layer_context *x, struct layer_reading *r,
	struct error *e);

/* Its size alone: no suspects. */
bool layer_read_size(const struct call *call, const struct contract *k, struct layer_reading *r, struct error *e);

/* What a layer that keeps its contract has ruled out: fills tried, idle, coverage_tokens, and not_identifiable with
 * their names, unseen, without the idle. */
bool layer_coverage(const struct call *call, struct layer_reading *r, struct error *e);

/* Is something detected that is no rounding? */
bool layer_has_fault(const struct layer_reading *r);

/* "layer 5, linear_attention, gated norm: 1 + w for w". */
const char *layer_sentence(size_t layer, const struct layer_reading *r, int detected, char *text, size_t size);

#endif
