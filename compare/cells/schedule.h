/* The order in which a candidate's cells are computed: for each loop what is done in each of its turns. */
#ifndef ETALON_CELLS_SCHEDULE_H
#define ETALON_CELLS_SCHEDULE_H

#include "evaluate.h"

/* carry: before each turn; final: after the last, where `ends` */
struct carry_values { struct value first, next, carry, final; };
struct loop_run { int in, n_carry; bool ends; struct carry_values carry[MAX_CARRY]; };

/* A cell, or a loop. */
struct job { int cell; struct loop_run *loop; struct value y, a[3]; int n_arg; };
/* job[i]: in each turn of loop i; work: of all of them, by these weights */
struct schedule { struct job *job[MAX_LOOP]; int n[MAX_LOOP], room[MAX_LOOP]; struct loop_run *run[MAX_LOOP]; double work; };

/* A search's budget is of work, not of time, so that it ends alike on every machine: in operations, each an element that is computed and
 * rounded: about half a nanosecond of two cores, one of one core alone. Fitted to the times of searches of eight ops, to 40 % each. Of a function's
 * element; of a product in an exact sum, in one that is added as GPUs add, and in an inverse; of an element beside the recorded one; of a job
 * in a turn; of a cell on the way back to what is there; of lowering. */
#define WORK_FUNCTION 4.0
#define WORK_PRODUCT 0.0625
#define WORK_PRODUCT_IN_ORDER 0.3125
#define WORK_PRODUCT_BY_ELEMENT 4.0
#define WORK_COMPARED 8.0
#define WORK_JOB 128.0
#define WORK_READ 750.0
#define WORK_LOWERED 50000.0
/* worth all cores: threads that sleep take some 50 us to wake */
#define WORK_HEAVY 2e5
/* of what one core does while another waits */
#define WORK_ALONE 2.0

/* evaluate() in two steps: the first may change the table of cells, the second the evaluator's values alone. */
bool schedule_begin(struct schedule *s, struct evaluator *v, const struct lowered *to, const bool *wanted);
void schedule_run(const struct schedule *s, struct evaluator *v);
/* What is wanted (NULL: all) and not there, with memory for it; false: no memory. Freed with schedule_free in any case. */
bool schedule_make(struct schedule *s, struct evaluator *v, const struct lowered *to, const bool *wanted);
void schedule_free(struct schedule *s);
double work_of(const struct cell *c, const struct job *j);      /* in one turn */
struct kept_key key_of(const struct evaluator *v, const struct lowered *to, int cell);

#endif
