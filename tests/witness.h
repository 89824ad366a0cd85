/* An independent witness of the references: captures made in memory, runs, Arb balls, and the
 * laws that hold for every op. */
#ifndef ETALON_TEST_WITNESS_H
#define ETALON_TEST_WITNESS_H

#include <arb.h>

#include "ref/arith/calc_private.h"
#include "ref/call/op.h"
#include "tests/helpers.h"

enum { BALL = 320 };            /* bits of the balls' midpoints */

/* ---- captures ---- */

/* Tensors are written "NAME DTYPE SHAPE FILL; ...", FILL being ~MEAN,DEVIATION (normal), =V,V,...
 * (repeated) or nothing (zeros). A tensor's stream depends on the seed and its name alone. Free
 * with capture_free. */
struct sample { const char *op, *params, *tensors; };
void made(struct capture *c, const struct sample *s, uint64_t seed);

/* Element i of tensor "in.NAME" or "out.NAME"; the tensor must be there. */
double at(const struct capture *c, const char *name, size_t i);
void put(struct capture *c, const char *name, size_t i, double x);
size_t count(const struct capture *c, const char *name);
size_t extent(const struct capture *c, const char *name, int axis);
void put_all(struct capture *c, const char *name, double x);

/* Tokens of sequence n: in.cu_seqlens, or all T. */
span tokens(const struct capture *c, size_t n, size_t T);

/* ---- runs ---- */
struct outcome { struct call call; struct answer a; };

struct plan plan_in(const char *arith);         /* the plain plan; "mpfr:128" */
void run_plan(struct outcome *r, const struct capture *c, const struct plan *p);
void run_in(struct outcome *r, const struct capture *c, const char *arith);
void outcome_free(struct outcome *r);

/* Bit for bit, low parts included. */
bool same_outcome(const struct outcome *a, const struct outcome *b);

/* The largest difference of output i, over the largest value of a's; infinite where one has a
 * NaN and the other a number. Outputs of different sizes fail the test. */
double distance_of(const struct outcome *a, const struct outcome *b, int i);
double distance(const struct outcome *a, const struct outcome *b);      /* of all outputs */

/* ball [n] against output i of r in mpfr:128, in rows of `width`: within 2^-105 of the row's
 * largest value. Reading hi + lo alone errs by 2^-106; the ball's radius counts as error. */
void assert_balls(const struct outcome *r, int i, arb_srcptr ball, size_t n, size_t width);

/* ---- laws of every op ---- */

/* Each fault changes the answer on one of the samples by more than 2^-40, and no two faults
 * give the same answers on all of them; a plain run with the fault's form makes none. */
void faults_show(const struct sample *s, size_t n);

/* The fault on the sample is the plain reference on an edited sample, to 2^-100. */
struct same_as {
	const char *fault;
	const struct sample *sample;
	const char *params;                     /* NULL: the sample's */
	void (*edit)(struct capture *c);        /* NULL: nothing is edited */
	const char *tensors;                    /* NULL: the sample's */
};
void faults_are(const struct same_as *m, size_t n);

/* Each site, rounded to e4m3, changes the answer on one of the samples by more than 2^-40 in
 * each form that has it; rounded to f64, by nothing in f32 and f64. */
void sites_show(const struct sample *s, size_t n, size_t chunk);

/* Rounding at a site is the plain reference on an input or of an output rounded by hand. */
struct rounded_as { const char *site; const struct sample *sample; const char *tensor; };
void sites_are(const struct rounded_as *r, size_t n);

/* ---- one calc by hand ---- */
void in_calc(const struct plan *p, const struct call *call, struct answer *a, void (*body)(calc *c));

#endif
