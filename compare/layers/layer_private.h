/* Shared by layer_*.c. */
#ifndef ETALON_LAYER_PRIVATE_H
#define ETALON_LAYER_PRIVATE_H

#include "compare/truth/expected.h"
#include "layer_reading.h"
#include "ref/model/model.h"

struct reader {
	const struct call *call;
	size_t n, row;
	double *got, *unit;             /* [n] the engine's; u of the score */
	double *plain, *now, *other;    /* [n] stored answers: of the exact layer; of the emulation in f64; of a trial */
	struct distance exact;          /* of the engine from now */
	double error;                   /* Σ of the engine's squared error */
	uint64_t work;                  /* element operations of one run */
	bool large;                     /* runs go one after the other, each in parallel */
	int router;                     /* the output that has the router's logits, or NOWHERE */
	size_t experts, top_k;
	bool size_alone;                /* no suspects are tried */
	double part;                    /* share of all tokens, of a reader of the first ones */
};

/* Errors of correct layers token by token, against the exact layer (layer_size.c). */
struct layer_rows {
	const struct answer *exact;
	double *square, *router;        /* [NOISY_RUNS][tokens]: a row's mean square; that of its router's logits */
	int runs;
};
bool layer_rows_make(struct layer_rows *rows, const struct reader *d, const struct answer *exact);
void layer_rows_free(struct layer_rows *rows);
void layer_rows_add(struct layer_rows *rows, const struct reader *d, int run, const double *y, const struct answer *a);
/* The engine's error in these units. */
bool layer_size_of(const struct reader *d, const struct layer_rows *rows, struct layer_size *s);
/* The same around a fault, or around calls with other weights: from its own exact layer, and a correct one of its emulation. */
bool layer_size_around(const struct reader *d, const struct call *exact_call, const struct plan *exact, const struct call *noisy_call,
	const struct plan *noisy, struct layer_size *s);

/* A score this many times that of the farthest correct layer is beyond the limit. */
#define LAYER_BEYOND 2.0
/* So is a single element, this many times as far off: where few elements flip, but far, the largest of six scatters by
 * more than the score does. */
#define LAYER_BEYOND_WORST 4.0

/* How many first tokens a run of that work has, from 2 to all. */
size_t layer_tokens(const struct reader *d, uint64_t work);
/* The reader of the first n tokens, in the same memory; *part must outlive it. */
struct reader layer_first(const struct reader *d, size_t n, struct first_tokens *part);

/* y [n] <- an answer, stored as the engine stores. */
void layer_stored(const struct reader *d, const struct answer *a, double *y);
/* A noisy run of the plan: float32's roundings at random. */
struct plan layer_noisy(const struct plan *p, int run);
/* The plan's answer, stored; false when memory is short. */
bool layer_answer(const struct reader *d, const struct plan *p, double *y);
struct distance layer_distance(const struct reader *d, const double *x, const double *y);

/* Tries kinds of sums on the emulation and takes the nearest: r->left, r->sums, r->few. */
bool layer_sums(struct reader *d, struct layer_reading *r);
/* r->truth_error and r->truth_upwards, of the exact layer's answer in f64, in units of the score. */
bool layer_truth(const struct reader *d, const struct answer *exact, struct layer_reading *r);

/* now and unit of the emulation, and the farthest of correct layers that follow it but for float32's noise; other is lost.
 * explained: the least share of such a layer's error that the emulation explains. rows may be NULL. */
bool layer_noise(struct reader *d, const struct plan *emulation, int runs, struct distance *most, double *explained,
	struct layer_rows *rows);

/* For qsort, of doubles. */
int layer_rising(const void *a, const void *b);

/* The median over tokens of the rms of a row of x - y. */
double layer_median_row(const struct reader *d, const double *x, const double *y);
/* What may still be added to a row that is within its size: the rms of the smallest fault that would be seen. */
double layer_allowed(const struct layer_size *s);

/* All that is said of a suspect: how far it moves the emulation, and what it leaves of the engine's error; and the same as the
 * median over tokens of a row's rms. */
struct trial { struct layer_suspect suspect; struct distance moved, left; double moved_row, row; };
/* The faults and roundings beside what r detects; returns how many. */
int layer_suspects(const struct layer_reading *r, struct trial list[MAX_SUSPECTS]);
/* Other weights, faults of all norms alike and other numbers, too. far [tokens]: which are off. */
int layer_all_suspects(const struct reader *d, const struct layer_reading *r, const struct layer_context *x,
	const struct answer *exact, const bool *far, struct trial list[MAX_SUSPECTS]);
bool layer_is_detected(const struct layer_reading *r, const struct layer_suspect *s);
/* The emulation with the suspect; the exact layer with what is detected and the suspect. */
struct plan layer_plan_with(const struct layer_reading *r, const struct layer_suspect *s);
struct plan layer_plan_exact(const struct layer_reading *r, const struct layer_suspect *s);
bool layer_try(const struct reader *d, const struct layer_reading *r, const struct layer_context *x, struct trial *list, int n);

/* A call with the suspect's weights (layer_weights.c), or as it is; freed with layer_changed_free, also where making failed. before: by
 * which a layer that is run twice runs first. */
enum { CHANGED = 4 };
struct layer_changed { struct call call; struct tensors own[CHANGED]; int n; };
bool layer_changed_make(struct layer_changed *c, const struct call *call, const struct layer_context *x, const struct layer_suspect *s,
	const struct plan *before);
void layer_changed_free(struct layer_changed *c);
int layer_weights_suspects(const struct call *call, const struct layer_context *x, struct layer_suspect *list);
int layer_experts_suspects(const struct reader *d, const struct answer *exact, const bool *far, struct layer_suspect *list, int most);

/* What explains a layer's error (layer_names.c): roundings, and faults that are too small to be seen by size; of one that is beyond
 * its size the fault around which it is within. Fills r->detected, r->emulation, and so on. */
bool layer_read_roundings(struct reader *d, struct layer_reading *r, const struct layer_context *x);
bool layer_find_fault(struct reader *d, struct layer_reading *r, const struct layer_context *x, const struct answer *exact);
bool layer_settle(struct reader *d, struct layer_reading *r, struct layer_rows *rows);
/* s->constant, of a fault that is a rounding: does it do the same to other numbers (layer_constants.c)? */
bool layer_find_constant(const struct reader *d, struct layer_suspect *s);
bool layer_is_near(const struct layer_reading *r);

#endif
