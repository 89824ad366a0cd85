/* Inside the derivative of a formula. */
#ifndef ETALON_GRAD_PRIVATE_H
#define ETALON_GRAD_PRIVATE_H

#include "grad.h"
#include "ref/formula/formula_private.h"
#include "ref/formula/run.h"

/* NAME.backward. Its inputs are NAME's, then a gradient of each output. Numbers of NAME's own tables, and where they are here, or -1. */
struct backward {
	struct op op;
	const struct formula *of;
	int n_in, n_out;                /* of NAME */
	int gradient_of[MAX_OUT];       /* output i is the gradient of this input, stored at site `store` */
	int store[MAX_OUT];
	int output_of[MAX_IN];          /* the other way round: the output that is the gradient of input i, or -1 */
	int site[MAX_SITE];             /* NAME's site i: the same value, computed again; */
	int adjoint[MAX_SITE];          /* the gradient of what is rounded there */
	int fault[MAX_FAULT];           /* fault i here is this one of NAME's */
	struct pool pool;
};

static inline const struct backward *backward_of(const struct op *op)
{
	return (const struct backward *)(const void *)((const char *)op - offsetof(struct backward, op));
}

const char *grad_name(struct backward *b, const char *name);     /* "d" NAME; of a value that a contract rounds where that is an output's: "d" NAME "_inside" */
const char *grad_name_inside(struct backward *b, const char *name);
bool grad_sites(struct backward *b);            /* these: false where there is no memory */
bool grad_contracts(struct backward *b);
bool grad_faults(struct backward *b);
bool grad_cases(struct backward *b);

/* What a program of NAME needs to be run backwards. */
struct grad {
	const struct backward *of;
	bool active[MAX_REG];           /* depends on an input that has a gradient */
	int adjoint[MAX_REG];           /* the site of the register's gradient, or -1 */
	bool shared[MAX_OUT];           /* more than one piece adds to an element of this output */
};

struct program *grad_prepare(const struct call *call, const struct plan *plan, struct error *e);
bool grad_active(const struct grad *g, const struct ex *x);
bool grad_finish(struct program *p, const struct strip *s, const struct plan *plan, bool ok, struct error *e);
void grad_pieces(calc *c, size_t piece);        /* all of the call */

/* ---- one piece of NAME ---- */
struct sweep {
	struct frame *f;
	const struct grad *g;
	vec *adjoint;                   /* of each register that is active; 0 unless a later step reads it */
	const field *into;              /* where the gradients of the inputs are added up, for each output */
};

void grad_steps(struct sweep *w, const struct step *s);         /* from s on: forward, then backward */
void grad_value(struct sweep *w, const struct ex *x, vec bar);  /* adds to what x is made of, bar being the gradient of x */
void grad_products(struct sweep *w, const struct ex *x, vec bar);        /* the same, of a product */
/* Those of parts; of a sum with a multiple; of a mirrored triangle. */
void grad_element(struct sweep *w, const struct ex *x, vec bar);
void grad_partial(struct sweep *w, const struct ex *x, vec bar);
void grad_axpy(struct sweep *w, const struct ex *x, vec bar);
void grad_mirrored(struct sweep *w, const struct ex *x, vec bar);
/* 0 where the column of y [rows,n] is greater than the row plus `diagonal`. */
void grad_lower_part(struct sweep *w, vec y, size_t rows, size_t n, double diagonal);
vec grad_times(struct sweep *w, vec a, vec b);                  /* a b, element by element, in a new vector */
vec grad_map(struct frame *f, enum fn fn, vec x);               /* the derivative of fn at each x */
/* v, of shape `from`, in shape `to`: repeated, or summed up. */
vec grad_spread(struct frame *f, vec v, struct shape from, struct shape to);
vec grad_summed(struct frame *f, vec v, struct shape from, struct shape to);

#endif
