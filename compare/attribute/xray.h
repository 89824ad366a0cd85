/* A kernel's outputs against an emulation: the reference with the roundings and faults that the kernel is
 * thought to make. What the profile and the suspects have in common. See docs/x-ray.md.
 *
 * A call with many outputs is looked at strip by strip (ref/call/op.h). What is kept of the whole call is a few numbers for a block
 * and for a row and one byte for an element; vectors run over the strip that is held, output i being elements
 * first[i] .. first[i+1], and are made anew for each. Where all is one strip nothing is made twice. Functions return false
 * when memory is short, with *e filled. */
#ifndef ETALON_XRAY_H
#define ETALON_XRAY_H

#include "fit.h"
#include "compare/structure/structure.h"
#include "compare/truth/expected.h"

/* Runs that show float32's noise: noisy ones, and the last to nearest with sums in order, whose errors are systematic. */
enum { FLOOR_RUNS = 5 };
/* Bytes of answers that are kept; where they hold few runs of all strips, more. */
enum { XRAY_KEPT = 192 << 20, XRAY_KEPT_OF_FEW = 1 << 30 };

/* What the strip held has, beside the kernel's outputs: base, raw and r; shape2 and floor2; the weights; the noise. */
enum { XRAY_BASE = 1, XRAY_FLOOR = 2, XRAY_WEIGHTS = 4, XRAY_NOISE = 8 };

/* What was read of a kernel whose structure is none of a contract's known ones: its formula, line by line, cut where it is longer. */
struct structure_said {
	bool asked, identified, taken, stopped, given_up;        /* identified: explains the call; taken: the emulation is its; stopped: the budget was used up before the search was over; given_up: it was hopeless */
	bool as_named;                  /* see structure.h */
	double work;                    /* elementary operations */
	size_t tries;
	const char *form;
	size_t chunk;
	char formula[4096];
	struct structure_rounding rounding[MAX_STRUCTURE_ROUNDING];
	int n_rounding;                 /* beside its stores */
};

struct xray {
	const struct call *call;
	size_t all, strips, at, most;   /* elements of the call, its strips, the one that is held, and the elements of the largest */
	size_t n, first[MAX_OUT + 1], offset[MAX_OUT];  /* of the strip: elements, and where in output i it begins */
	unsigned have;
	double *got;                    /* [n] the kernel's outputs */
	uint8_t *block;                 /* [n] */
	int blocks, first_block[MAX_OUT];
	bool segments[MAX_OUT];
	enum format grid[MAX_OUT];      /* that the outputs are on, and, */
	double typical[MAX_OUT];        /* where it is coarser than their dtype's, their rms; see xray_refresh */
	struct plan emulation;
	double *base;                   /* [n] the emulation's answer, not stored */
	double *centre;                 /* [n] the answer of what was the emulation when it was refreshed */
	double *raw, *r;                /* [n] the kernel's distance from base; r: from what it stores */
	double *shape2, *floor2;        /* [n] see xray_refresh */
	double *weight, *raw_weight;    /* [n] of r and of raw: inverse variances, 0 for what takes no part */
	double *stored;                 /* [n] base, stored */
	double *d;                      /* [n] xray_direction */
	double *trial;                  /* [n] */
	struct held_sums { double reached[MAX_BLOCKS], yy[MAX_BLOCKS], raw_yy[MAX_BLOCKS]; } held;      /* by block: elements with floor2; Σ weight r², Σ raw_weight raw² */
	float *noise, *raw_noise;       /* [FLOOR_RUNS,n] what float32 made of r and of raw, run after run */
	double score, left;             /* see xray_rebase, xray_left */
	size_t runs;
	struct kept_runs *kept;         /* xray_kept.c */
	struct told_all *told;          /* xray_told.c */
	uint64_t work, patience;        /* element operations of the reference: spent, and when to give up */
	uint64_t run_work;              /* of them, what the emulation took, run once on all strips */
	double *shift;                  /* [all] added to every run's answer, see emulation_by_structure; NULL: nothing is */
	double *kept_shift;             /* of a structure that explains the call and that the contract does not allow, with its plan; or NULL */
	struct plan kept_plan;
	double *without[MAX_SITE];      /* [all] what the structure would answer more without a needed rounding at the site; or NULL */
	struct structure_said *structure;       /* where it says what it found; NULL: it is not asked */
	bool lawless;                   /* the rules of every contract are broken: nothing that is legal explains the call */
	const struct contract *only;    /* what this does not allow the emulation is not given; NULL: any rounding */
	bool no_faults;               /* nor faults */
	void (*tick)(const char *, size_t, size_t);
	struct error *e;
	/* Of the whole call: by element (how it is reached: see xray_floor.c), by row of all outputs, by block. */
	uint8_t *reach;
	double *row_shape, *row_floor;
	size_t first_element[MAX_OUT], first_row[MAX_OUT], row[MAX_OUT];        /* row: elements in one */
	double block_floor[MAX_BLOCKS], scale[MAX_BLOCKS];
	struct stream of_base, of_centre, of_noise[FLOOR_RUNS];
	bool moved;                     /* the emulation is another than when it was refreshed */
	bool impossible, base_impossible;       /* with the plan run last, with the emulation, an index leaves its axis: there is no answer */
	bool refreshed;                 /* shape and floor are those of: */
	struct plan refreshed_on;
};

/* Reads the outputs of a bound call; the emulation is still to be chosen. Freed with xray_free. */
bool xray_make(struct xray *x, const struct call *call, void (*tick)(const char *, size_t, size_t), struct error *e);
void xray_free(struct xray *x);

/* Holds strip s, with what is wanted (XRAY_BASE | ...) made. Each pass over the call takes all strips in order. */
bool xray_refresh_strip(struct xray *x, size_t s, unsigned want);

/* x->emulation is taken: base, raw, r, the weights and the score. A residual's variance is modelled as
 * v = floor2 + a shape2, with a <= 1 such that a block's residual has that size. The score is
 * Σ log v + r²/v, twice the negative log likelihood: it falls as an emulation explains more. Where the
 * emulation and the kernel are both not finite they agree; where one is, they do not. */
bool xray_rebase(struct xray *x);

/* Runs the emulation and models what is left around it, then rebases.
 * shape2: the squared effect of a rounding at each site of its form but the stores, one at a time (to
 * bf16, or taken out where the emulation has one), summed over sites and pooled over rows.
 * grid: of each output's dtype, or a coarser one that all its values and all the emulation's are on.
 * floor2: the squared effect of float32 arithmetic, from a few such runs of the emulation, stored; next to
 * nothing for an element that no site reaches. */
bool xray_refresh(struct xray *x);

/* d = the answer of the stream's plan less base, neither stored, in the strip held, which has its base. */
bool xray_direction(struct xray *x, struct stream *l);

/* As many as least_votes asks for. */
enum { MOST_DIFFERENT = 6 };

/* A plan looked at beside the emulation; d is its direction. Begins as { .stream.plan = plan }. */
struct look {
	struct stream stream;
	/* The direction's size: the rms over the elements of a block, in units of float32's noise, of d or of what it
	 * makes of what is stored, whichever is larger, in the block where it is largest. */
	double size;
	/* Of the elements that the direction would make infinite or NaN: -1 if the kernel has a number at any, 1 if
	 * it has none at all of them, 0 if there are none. */
	int overflows;
	/* How well d explains what is left: the better of r and of raw. What is stored is a step function of
	 * what is not. Small effects show best in r, where most elements are 0; but a rounding that leaves the
	 * answer on the store's own grid moves nothing there, and shows in raw. The error is no smaller than what
	 * float32's noise alone, run after run, makes of the coefficient. */
	struct coefficient fit;
	/* Elements where what base and base + d store is further apart than eight times float32's noise: all, those of the kernel's that are
	 * base's to a quarter of the distance, and to a twentieth. Where they are less than a quarter of a row all of
	 * them may hang on one number that flipped, and the row is counted once. Numbers that are the same, as those of a matrix of ones, hang
	 * on one, too: the first pairs that differ in size, without d and with; and how many of these are further apart than a flip reaches. */
	struct votes { size_t all, of_base, close, different, far; double number[MOST_DIFFERENT][2]; } votes;
	double score;                   /* of base + d: xray_try's */
	bool impossible;                /* with the plan an index leaves its axis, and no kernel can have followed it: all of this says nothing */
	struct look_sums *sums;
};
static inline struct look look_of(const struct plan *p) { return (struct look){ .stream.plan = *p }; }

/* What is asked of looks: size and overflows; fit; votes. x->d is lost. */
enum { LOOK_SIZE = 1, LOOK_FIT = 2, LOOK_VOTES = 4 };
bool xray_look(struct xray *x, struct look *list, size_t n, unsigned what);

/* The same votes, with d not a plan's: of all the call's elements, x->first_element[i] on of output i. */
bool xray_votes(struct xray *x, const double *d, struct votes *v);

/* Do enough votes, of different numbers or of such as no flip makes, and nearly all, go to the emulation, and not to what was looked at? And closely? */
bool votes_tell(const struct votes *v);
bool look_told(const struct look *l);
bool look_told_closely(const struct look *l);

/* The score of each, where it is below this; else it may be INFINITY. tells: looks that ask for the same plans' sizes are told them. */
bool xray_try(struct xray *x, struct look *list, size_t n, double below, bool tells);

/* One fit of r by the directions of n streams, at most MAX_REGRESSORS: c [n]. The streams are ended; x->d is lost. */
bool xray_fit_together(struct xray *x, struct stream *stream, int n, struct coefficient *c);

/* How well a direction that is no plan's explains r, alone: begun, filled strip by strip from x->d, ended. */
bool xray_fit_begin(struct xray *x, struct look *l);
void xray_fit_add(struct xray *x, struct look *l);      /* of a strip with weights and noise */
bool xray_fit_end(struct xray *x, struct look *l, struct coefficient *c);   /* c NULL: of no use */

/* The score would be no less than this, were the plan the emulation, refreshed: by what the answer leaves alone, whatever its noise is.
 * -INFINITY of a call of many strips. x->d is lost. */
bool xray_score_at_least(struct xray *x, const struct plan *p, double *least);

/* Mean of r²/floor2 over the elements that take part: 1 when nothing but float32 is left. Found by xray_rebase. */
double xray_left(const struct xray *x);

/* Is the score of the emulation, as it was rebased, below `most`? Where all numbers of an output, the kernel's and the refreshed emulation's, are
 * on a coarser grid than its type's, the emulation must be there too: else it is not what put them there, however near it is. */
bool xray_scores(struct xray *x, double most, bool *yes);

/* *share: of the emulation's own error (the mean square of its distance from the exact answer, stored) that float32's
 * noise makes of it, run after run: no emulation can explain more than the rest. 0 for one that rounds nothing
 * inside, and of an op that does not iterate: there noise is not amplified, a rounding may only be small. Around a
 * emulation that is refreshed; x->d is lost. */
bool xray_amplified(struct xray *x, double *share);

/* share[o]: of the square of output o's error that the emulation, stored, explains; 1 where there is none. x->d is lost. */
bool xray_explained(struct xray *x, double share[MAX_OUT]);

/* *even: in no block is the upper quartile of |r| more than four times that of every noisy run and half a unit; quartiles
 * to a sixteenth of an octave. A block that is off as a whole may be lost in the mean over all, whose floor a few large flips
 * may have raised. */
bool xray_is_even(struct xray *x, bool *even);

/* The output that element j is of, and its place in it. */
int xray_out(const struct xray *x, size_t j);
static inline size_t xray_place(const struct xray *x, int i, size_t j) { return x->offset[i] + j - x->first[i]; }

/* Does the emulation round anywhere but at stores? */
bool xray_rounds_inside(const struct xray *x);

/* 1 + the output of this call that the site is the store of, or 0. */
int site_store(const struct call *call, int site);

/* Rounding an output to the type that it is stored in is no choice of the kernel's; cutting it off is. */
bool is_store(const struct call *call, int site, const struct site_rounding *r);
/* Is that rounding the store, or one that the contract allows? */
bool is_legal(const struct call *call, const struct contract *k, int site, const struct site_rounding *r);

struct sample xray_sample(const struct xray *x);

#endif
