/* Inside the search for a kernel's structure. */
#ifndef ETALON_STRUCTURE_SEARCH_H
#define ETALON_STRUCTURE_SEARCH_H

#include <time.h>

#include "compare/cells/evaluate.h"
#include "structure.h"

/* Of one output: errors of the candidate and of the exact answer, and bits lost, of the tokens below each stage's end. */
/* raw: not relative to each element's size; moved: of an iteration, how far the candidate is from the exact answer */
struct score { double left[MAX_STAGE], moved[MAX_STAGE], base[MAX_STAGE], bits[MAX_STAGE], count[MAX_STAGE], equal[MAX_STAGE], raw, raw_base; };

/* What a put stores in one stage, element by element as its values lie: recorded, exact, weight, the first stage that has the token.
 * base: what is the same of every candidate. */
struct put_view { size_t n, *start; float *y, *truth, *weight; unsigned char *stage; int out; bool counts; struct score base; };
struct view { bool made; size_t step; struct evaluator v; struct put_view put[MAX_PUT]; bool wanted[MAX_PUT]; };

enum { LANES = 2 };
/* A form in one chunk size: pieces of one kind, and those behind them. All kinds share choices. program: the first one's own. */
struct graph { bool made; struct program *program; struct form_symbols f; struct cells cells; struct view view[LANES][MAX_STAGE]; struct graph *next; };

/* energy, bits: what is left of the error, by squares and by bits that are lost; cost: energy + mix * bits, as the search weighs it; noise: of energy + bits
 * what outputs have that were float32's noise from the first and are still, beside one that was not. */
struct candidate { struct config config; int form; double energy, bits, noise, cost; struct met met; };

struct seen_cost { uint64_t id; double energy, bits, noise; };
enum { SEEN = 1 << 16 };

struct search {
	const struct call *call;
	const struct formula *formula;
	struct answer truth;            /* in f64 */
	float *weight[MAX_OUT], *recorded[MAX_OUT];
	bool along[MAX_OUT];            /* the output goes along the tokens */
	/* What operations in float32 do to an element of an output, relative to its size, as a mean square; and to what is stored of it. */
	double noise[MAX_OUT], flips[MAX_OUT];
	int n_form, n_stage;            /* stage n_stage: all tokens in fewer pieces, for a glance */
	int rounded[MAX_STAGE];         /* of an iteration's turns so many are rounded, 0: all */
	size_t stage[MAX_STAGE], step[MAX_STAGE], chunk[MAX_FORM][MAX_BY];      /* step: every so many pieces are looked at */
	int n_chunk[MAX_FORM], chunk_key[MAX_FORM];
	struct graph graph[MAX_FORM][MAX_BY];
	struct keys keys;
	struct seen_cost *seen;
	double mix;                     /* how much lost bits count beside energy */
	unsigned only;                  /* 0, or bit o: of outputs the cost is of these alone */
	bool push;
	size_t tries;
	double work, begin;             /* done so far; what the processor's clock said then, where a budget of seconds is asked for */
	double budget;                  /* of the two the one that counts */
	double least[MAX_OUT];          /* the least part of the output's error that any candidate left, at any stage; infinite where none was tried */
	bool given_up;                  /* the search was hopeless */
	const struct structure_search *how;
	int ban;                        /* roundings that are not allowed: nowhere (-2), of no site (-1), not of this one */
	uint64_t order;                 /* 0, or the state from which orders of choices are drawn */
	uint64_t faults;                /* of the formula that is read, at these values */
	double value[MAX_FAULT];
	int rival;                      /* a form that fits about as well, or -1 */
	bool stopped;                   /* the budget was used up before the search was over */
	struct error *e;
	bool failed;
	FILE *log;
};

double used(const struct search *s);             /* of what is budgeted */
bool is_hopeless(const struct search *s);        /* see compare/limits */
static inline bool late(struct search *s)
{
	s->stopped = s->stopped || used(s) > s->budget;
	s->given_up = s->given_up || is_hopeless(s);
	return s->stopped || s->given_up;
}

static inline int glance(const struct search *s) { return s->step[s->n_stage] > s->step[s->n_stage - 1] ? s->n_stage : s->n_stage - 1; }

/* Everything that the formula says is made ready, or *why says what is missing (in a constant text). */
bool search_make(struct search *s, const struct call *call, const struct structure_search *how, const char **why, struct error *e);
void search_free(struct search *s);

/* Energy, which a few near ties can rule, and bits, which they cannot: of each output, and of each prefix of it. */
void cost_of(const struct search *s, const struct score score[MAX_OUT], int k, struct candidate *c);
bool counts(const struct search *s, int out);          /* is the cost of this output too? */
/* What x, a put's value, adds to *to; errors, where not NULL: of each element. False: no memory. */
bool compare_put(const struct search *s, const struct view *v, const struct put_view *p, const struct value *x, const struct sym_put *put, struct score *to, float *errors);
/* The candidate at stage k: cost and choices. */
void try(struct search *s, struct candidate *c, int k);
/* Of a call in one piece, which one core computes alone, both side by side; of any other a. Was b tried? */
bool try_two(struct search *s, struct candidate *a, struct candidate *b, int k);
static inline void try_both(struct search *s, struct candidate *a, struct candidate *b, int k) { if (!try_two(s, a, b, k)) try(s, b, k); }
/* Of all tokens every step-th piece is looked at from now on; returns what it was. */
size_t look_at(struct search *s, size_t step);
/* The same of all tokens: per output; errors, where not NULL: |error| weight of each element of outputs, in the order in which the form stores them. */
bool measured(struct search *s, const struct candidate *c, struct score score[MAX_OUT], float *errors[MAX_OUT]);
/* What is left of the errors of the worst output that is not explained but for float32's noise; 0: none is. */
double left_of(struct search *s, const struct candidate *c);
bool measured_at(struct search *s, const struct candidate *c, int k, struct score score[MAX_OUT], float *errors[MAX_OUT]);
/* The reference in that form, in chunks of that size where it has chunks, with the search's faults. */
struct plan search_plan(const struct search *s, const struct arith *as, int form, size_t chunk);
/* A form in chunks of that size with those faults beside the search's; *why: what of it cannot be read. False with an error. */
bool graph_make(struct search *s, struct graph *g, int form, size_t chunk, uint64_t faults, const char **why);
void graph_free(struct graph *g);
void view_free(struct view *v);
bool measured_in(struct search *s, struct graph *g, const struct candidate *c, int k, struct score score[MAX_OUT], float *errors[MAX_OUT]);
struct graph *graph_of(struct search *s, const struct candidate *c);
/* In each lane all values of its own, so that candidates in several can be computed side by side. */
struct view *view_in(struct search *s, struct graph *g, int k, int lane);
static inline struct view *view_of(struct search *s, struct graph *g, int k) { return view_in(s, g, k, 0); }
void add_met(struct met *to, const struct met *from);   /* in the order in which they are met, each once */
/* What the candidate does in pieces of this kind. */
bool lower_in(struct search *s, struct graph *g, const struct candidate *c, FILE *text, struct lowered *to);
bool exact_agrees(struct search *s, int form);
void store_type(enum dtype d, double *x, size_t n);      /* as an output of that type has them */
/* y[o], where not NULL: what the candidate answers in all pieces, not stored. */
bool answered_in(struct search *s, struct graph *g, const struct candidate *c, double *y[MAX_OUT]);
bool answers_make(const struct search *s, double *y[MAX_OUT]);          /* room for it, of each output; freed by the caller, of false too */

void descend(struct search *s, struct candidate *c, int k, bool wide);
struct list { int n, key[MAX_KEY]; };
static inline bool list_has(const struct list *l, int key)
{
	for (int i = 0; i < l->n; i++)
		if (l->key[i] == key) return true;
	return false;
}
/* One of the values of a choice that is not taken: what the cost fell by when it was last tried, and how many changes ago that was. */
struct change { int key, value, when; double gain; };
enum { MAX_STEPS = 4096 };
/* All of them, of these choices, in the search's order; how many. */
int steps_of(struct search *s, const struct candidate *c, int k, const struct list *keys, struct change *to);
struct candidate with_change(const struct candidate *c, const struct change *x);
int value_of_default(const struct search *s, const struct candidate *c, enum choice_kind kind);
/* Of all values of these choices the one by which the cost falls most, again and again. */
void steepest(struct search *s, struct candidate *c, int k, const struct list *keys);
/* Where *new may round and *old could not: in float32, whatever the default is. */
void round_nothing_new(struct search *s, const struct candidate *old, struct candidate *new, int k);
/* Was the choice asked for when the candidate was lowered? */
bool is_met(const struct candidate *c, int key);
/* What is near a choice that *new has otherwise than *old, chosen anew. */
void choose_near(struct search *s, const struct candidate *old, struct candidate *new, int key, int k);
/* The first choice about that which the candidate meets, or -1. */
int key_about(const struct search *s, const struct candidate *c, enum what what);
/* How exponents are made is one choice of several parts, each of which is lost in near ties alone: all of them at once. */
void exponents(struct search *s, struct candidate *c, int k);
/* What decides near ties alone: how functions are computed. */
void last_bits(struct search *s, struct candidate *c, int k);
/* Products of which an operand is float32, or (half) of which one is float16. */
int products(struct search *s, const struct candidate *c, bool half);
/* Factors whose place *old had no choice of. */
void new_factors_on_results(struct search *s, const struct candidate *old, struct candidate *new);
void factors_on_results(struct search *s, struct candidate *c, int k);
/* What is met but last bits and sums. */
void choices_of(const struct search *s, const struct candidate *c, struct list *l);
/* Is t, which changes c, so much worse that nothing near it makes up for it? */
static inline bool out_of_reach(const struct candidate *c, const struct candidate *t) { return t->cost > c->cost * 50 + 1; }
void expand(struct search *s, struct candidate *c, int k, void (*to)(struct candidate *t, void *with), void *with);
/* Each sum goes on from the other terms, where that does better. */
void onto(struct search *s, struct candidate *c, int k);
/* Every two changes at once, of these choices (NULL: of all), in an order by lot, while the budget lasts: `to` is shown each. Likely ones: of structure
 * and of roundings to what operands are narrowed to or to float32; or of last bits and sums. */
enum pairs { PAIRS_LIKELY, PAIRS_LAST };
void two_at_once(struct search *s, const struct candidate *c, int k, enum pairs of, const struct list *among, void (*to)(struct candidate *t, void *with), void *with);
/* Every change of one of these choices. */
void one_at_once(struct search *s, const struct candidate *c, int k, const struct list *among, void (*to)(struct candidate *t, void *with), void *with);
void find_structure(struct search *s, struct candidate *best);
/* The errors of each element, and what a change did to them: of all outputs and of the worst (farther - nearer) / sqrt of how many
 * changed; energy: after, of before; louder: an output has half as much again. */
struct errors { float *of[MAX_OUT]; };
struct contrast { double all, worst, changed, energy; bool louder; };
bool errors_make(const struct search *s, struct errors *e);
void errors_free(struct errors *e);
struct contrast contrast(const struct search *s, const struct errors *a, const struct errors *base);
bool nearer(const struct contrast *c, enum choice_kind kind);
bool better(const struct contrast *c);           /* as a choice of structure has to be */
/* The errors of a candidate and of another, on all of the call and at a glance; seen: is `glance` the candidate's? */
struct beside { struct errors base, other, glance, glanced; bool seen; };
bool beside_make(const struct search *s, struct beside *b);
void beside_free(struct beside *b);
/* Is an output of t clearly farther off than of c, already at a glance? */
bool far_off(struct search *s, struct beside *b, const struct candidate *c, const struct candidate *t);
void beside_take(struct beside *b);      /* the other is the candidate now */
/* How exponents are made, all of it at once; b: of *c. */
void settle_exponents(struct search *s, struct candidate *c, struct beside *b);
/* A fault with which the candidate does better, or -1. */
int fault_of(struct search *s, const struct candidate *c);
/* The candidate's own form and chunks with one fault more. */
bool graph_with(struct search *s, struct graph *g, const struct candidate *c, int fault, const char **why);
static inline bool form_has(const struct op *op, int fault, int form) { return op->faults[fault].form < 0 || op->faults[fault].form == form; }

/* What a choice's value rounds to beyond float32, if it does. */
bool rounding_at(const struct search *s, const struct candidate *c, int key, int value, struct structure_rounding *r);
/* Chooses that value, where the choice is of a rounding that has it. */
void round_as(const struct search *s, struct candidate *c, int key, const struct site_rounding *r);
bool banned(const struct search *s, const struct candidate *c, int key, int value);
bool any_banned(const struct search *s, const struct candidate *c);     /* where its factors stand, after it was lowered */
/* effect[site]: of a rounding that is not allowed and in every structure that explains as well, else 0; more[site]: what the best that does
 * without answers, less what *best does. *best may become one that is allowed. */
void needed_roundings(struct search *s, struct candidate *best, double effect[MAX_SITE], double *more[MAX_SITE][MAX_OUT]);
/* A choice that stays open: n values that do as well as the one that is taken; same: to the bit. */
enum { MAX_OPEN = 32 };
struct open_choice { int key, n; unsigned char value[MAX_OPEN]; bool same[MAX_OPEN]; };
struct open_list { int n; struct open_choice at[MAX_KEY]; };
bool is_open(const struct open_list *open, int key);
void polish(struct search *s, struct candidate *c, struct open_list *open);
/* What stays open beside *c, a choice a line: by the text that it changes, where it changes one line; NULL: no memory. Freed with free. */
char *open_text(struct search *s, const struct candidate *c, const struct open_list *open);
char *formula_text(struct search *s, const struct candidate *c);       /* as the candidate computes it; NULL: it cannot be lowered, or no memory */
/* Where two lines or more differ: *from and *to_end, behind which they are the same; brackets and words are whole. */
struct differing { size_t from, behind; };
struct differing lines_differ(int n, const char *const line[]);
/* Goes on from what was found in all pieces, if they show what those that were looked at do not. Was anything chosen anew? */
bool look_at_all(struct search *s, struct candidate *best);
int type_of(const struct search *s, const struct candidate *c, int key, int value);       /* what a rounding's value means: of its default where it is 0 */
bool is_rounding(const struct key *k);

#endif
