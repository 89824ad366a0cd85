/* The best few candidates, by energy (mix 0), which tells more where much is missing, and with the bits that are lost (1), which do where
 * little is. */
#ifndef ETALON_STRUCTURE_BEAM_H
#define ETALON_STRUCTURE_BEAM_H

#include "search.h"

/* CLOSEST: so many of the best by each measure are looked at in other ways */
enum { WIDTH = 6, WIDEST = WIDTH > MAX_FORM ? WIDTH : MAX_FORM, CLOSEST = 3 };
/* What is left of the first tokens' error and bits, by cost, where a form will do; of an iteration's error, where it is not begun anew. */
extern const double on_its_way;
/* width: at least one place for each form, so that none is pushed out unseen. */
struct beam { int n, width; double mix; struct candidate *at; };
/* iterated: by energy alone a stage is explained, since a bit that is lost is amplified */
struct beams { struct beam by[2]; bool iterated; };

/* What all operands, names and parts in between are unless it is said: of each start; the first two are the usual ones. */
enum { STARTS = 6, USUAL = 2 };
extern const int every[STARTS][3];

bool beam_make(const struct search *s, struct beam *b, double mix);
void add(struct candidate *t, void *beam);              /* in order; of one form one of those that compute the same */
void add_to_both(struct candidate *t, void *beams);
bool beams_make(struct search *s, struct beams *b);     /* empty; freed with beams_free, of false too */
void beams_free(struct beams *b);
void add_beams(const struct beams *from, struct beams *to);

double found(int k);                                    /* the cost below which stage k is explained */
bool explains(const struct candidate *c, int k);
bool explained(const struct beams *b, int k);
void move_on(struct search *s, struct beams *b, int k); /* what the beams hold, at another stage */
/* The choices, but for last bits and sums, that show nothing in the tokens of the stage before. */
void new_at(struct search *s, const struct candidate *c, int k, struct list *l);
bool shows(struct search *s, const struct candidate *c, int key, int k);        /* does what is chosen there show in the tokens of stage k? */
void forget_others(struct search *s, int stage);        /* what other stages keep is not asked for again */

/* Down by that measure, and if that was energy, by both then; into the beams, unless they are NULL. */
void down(struct search *s, struct candidate *t, int k, double mix, bool wide, struct beams *b);
void widen(struct search *s, struct beams *b, int k, int rounds, double mix);
void through(struct search *s, struct beams *b, int k);
void set_defaults(struct search *s, struct candidate *c, const int types[3]);      /* one of every */
bool by_token(const struct search *s, int form);
/* Starts from..to at stage k in each form; where the stage is explained, those of the formula alone are there bare. */
void starts(struct search *s, struct beams *b, int k, int from, int to);
void starts_of(struct search *s, struct beams *b, int k, int from, int to, bool slow);  /* of forms by token, or of others */
void first_tokens(struct search *s, struct beams *b, int k);    /* the usual ones, and through the stage */
void known_starts(struct search *s, struct beams *b, int k);    /* what the op's file knows: each structure of its contracts */
void from_known(struct search *s, struct beams *b, int k);      /* what another call of the same kernel told, and down from there */
/* Of a form whose chunks are no tokens the first pieces may all lie in one: the size that does best on all of them. */
void in_chunks(struct search *s, struct candidate *c, int k);

/* Nothing leads on. Of the states at the end alone, in which fewer choices show than in the outputs along the tokens; then at stage k by the choices that show
 * nothing in them. */
void from_states(struct search *s, struct beams *b, int k);
/* Changes by lot of the best, half of them of what is new at the stage, and down from there, until that much of the cost is left or the
 * budget is used up. */
void from_lots(struct search *s, struct beams *b, int k, double enough);

/* A call so large that to try every choice once takes seconds. */
bool large(const struct search *s);
/* On all tokens, of the best: what they show for the first time and changes by lot, where too little is explained; */
void further(struct search *s, struct beams *b, struct candidate *best, int last);
/* every other structure once more, for a part of what the search took; */
void last_effort(struct search *s, struct candidate *best, int last);
/* of a call that is not large, where a part in some thousand is left, two last bits or ways of sums at once, and changes by lot. */
void closer(struct search *s, struct candidate *best, int last);

/* What decides near ties, at once: how sums are added, which operations in float32 alone have, and then functions' last bits. Of operands in float16
 * eight times as many hang on it as of those in bf16, and each alone may bring nothing. */
void near_ties(struct search *s, struct candidate *c, int k);

/* The candidate's choices in that form, as far as it has the same. */
struct candidate in_form(struct search *s, const struct candidate *c, int form, int k);
/* Of an iteration: the best in each form, with sums added in each way. */
void forms_and_sums(struct search *s, struct beams *b, int k);

/* From now on the search is late after that share of the budget that is left; returns what it had, for all_budget. */
double share_budget(struct search *s, double share);
void all_budget(struct search *s, double all);

void log_cost(const struct search *s, const char *what, const struct candidate *c, int k);

#endif
