/* Processes that compute one reference together: the ranks of MPI where etalon was built with it (make MPI=1), else this one alone. All
 * run the same program on the same inputs and have the same answers; what one of them computed goes round (ref/call/share.c). */
#ifndef ETALON_RANKS_H
#define ETALON_RANKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fixtures/io/error.h"

/* Joins the others, before anything is computed. The ranks' exit codes become one, files are written and results printed by rank 0, and
 * what another rank says on stderr is said by rank 0, after its number, if that rank alone failed. May not return: where a process of its
 * own watches over this one. `who` is said of the command: what several ranks may not do, they refuse. */
bool ranks_begin(const char *who, bool may, struct error *e);
/* Ranks with one thread and ranks with more must not be mixed: how many this one is to have. */
int ranks_threads(int mine);

int ranks_count(void);                  /* 1 where this process is alone */
int ranks_me(void);                     /* from 0 on */

/* Where a rank has waited a minute for another, rank 0 says for which, and again after twice the time; after ETALON_WAIT seconds, where
 * the environment has them, all end with that line. Each rank that waits says so to the others, so the one named is one that computes or hangs:
 * a busy rank is waited for like a silent one.
 *
 * Where ranks meet, all call the same in the same order, from the main thread, outside parallel regions. Where one of them is elsewhere
 * (it failed, or has another program), all end with one line. all [count][RANK_WORDS]: what each gives. */
enum { RANK_WORDS = 64 };
void ranks_meet(uint64_t where, const uint64_t mine[RANK_WORDS], uint64_t (*all)[RANK_WORDS]);
/* n[i] doubles of rank i, one rank behind the other in all: some 2^30 at most. */
void ranks_gather(const double *mine, const size_t *n, double *all);
/* n doubles of which each is other than 0, to the bit, on at most one rank, or the same on all: everywhere what is not 0. */
void ranks_union(double *data, size_t n);
/* To all others. */
void ranks_send(int from, void *data, size_t bytes);

/* What this rank waited for others, and what it sent and got, since it began. */
struct rank_figures { double waited, sent; uint64_t bytes; };
struct rank_figures ranks_figures(void);

#endif
