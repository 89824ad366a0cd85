/* The order in which a candidate's cells are computed: for each loop what is done in each of its turns. */
#ifndef ETALON_STRUCTURE_SCHEDULE_H
#define ETALON_STRUCTURE_SCHEDULE_H

#include "evaluate.h"

/* carry: before each turn; final: after the last, where `ends` */
struct carry_values { struct value first, next, carry, final; };
struct loop_run { int in, n_carry; bool ends; struct carry_values carry[MAX_CARRY]; };

/* A cell, or a loop. */
struct job { int cell; struct loop_run *loop; struct value y, a[3]; int n_arg; };
/* job[i]: in each turn of loop i; heavy: worth all cores */
struct schedule { struct job *job[MAX_LOOP]; int n[MAX_LOOP], room[MAX_LOOP]; struct loop_run *run[MAX_LOOP]; bool heavy; };

/* What is wanted (NULL: all) and not there, with memory for it; false: no memory. Freed with schedule_free in any case. */
bool schedule_make(struct schedule *s, struct evaluator *v, const struct lowered *to, const bool *wanted);
void schedule_free(struct schedule *s);
struct kept_key key_of(const struct evaluator *v, const struct lowered *to, int cell);

#endif
