/* The best few candidates, by energy (mix 0), which tells more where much is missing, and with the bits that are lost (1), which do where
 * little is. */
#ifndef ETALON_STRUCTURE_BEAM_H
#define ETALON_STRUCTURE_BEAM_H

#include "search.h"

/* CLOSEST: so many of the best by each measure are looked at in other ways */
enum { WIDTH = 6, CLOSEST = 3 };
struct beam { int n; double mix; struct candidate *at; };
/* iterated: by energy alone a stage is explained, since a bit that is lost is amplified */
struct beams { struct beam by[2]; bool iterated; };

/* What all operands, names and parts in between are unless it is said: of each start; the first two are the usual ones. */
enum { STARTS = 6, USUAL = 2 };
extern const int every[STARTS][3];

bool beam_make(struct beam *b, double mix);
void add(struct candidate *t, void *beam);              /* in order; of one form one of those that compute the same */
void add_to_both(struct candidate *t, struct beams *b);
bool beams_make(struct search *s, struct beams *b);     /* empty; freed with beams_free, of false too */
void beams_free(struct beams *b);
void add_beams(const struct beams *from, struct beams *to);

double found(int k);                                    /* the cost below which stage k is explained */
bool explained(const struct beams *b, int k);
void move_on(struct search *s, struct beams *b, int k); /* what the beams hold, at another stage */
void forget_others(struct search *s, int stage);        /* what other stages keep is not asked for again */

/* Down by that measure, and if that was energy, by both then; into the beams, unless they are NULL. */
void down(struct search *s, struct candidate *t, int k, double mix, bool wide, struct beams *b);
void widen(struct search *s, struct beams *b, int k, int rounds, double mix);
void through(struct search *s, struct beams *b, int k);
/* The candidate's choices in that form, as far as it has the same. */
struct candidate in_form(struct search *s, const struct candidate *c, int form, int k);
/* Of an iteration: the best in each form, with sums added in each way. */
void forms_and_sums(struct search *s, struct beams *b, int k);

/* From now on the search is late after that share of the budget that is left; returns what it had, for all_budget. */
double share_budget(struct search *s, double share);
void all_budget(struct search *s, double all);

void log_cost(const struct search *s, const char *what, const struct candidate *c, int k);

#endif
