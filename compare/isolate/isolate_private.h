/* What a play knows while it runs. */
#ifndef ETALON_ISOLATE_PRIVATE_H
#define ETALON_ISOLATE_PRIVATE_H

#include "isolate.h"

/* Memory as the scenario means it: where it is, and the tokens that made it. */
struct memory { int slot; size_t n, room; uint64_t *token; };
void memory_free(struct memory *m);
bool memory_copy(struct memory *to, const struct memory *from);
bool memory_push(struct memory *m, uint64_t token);

struct holder {
	int id, handle;                 /* handle: the executor's; -1: not admitted */
	struct memory memory;           /* token: all that it is to have read */
	size_t read;                    /* how many of these its memory has seen: fewer after a preemption */
	size_t fed;                     /* tokens ever, for the executor */
	uint64_t drawn;                 /* tokens ever, new ones */
};
struct kept { int id, handle; struct memory memory; };

/* What one request does in a step. */
struct job { struct holder *holder; int tokens, later, accepted; bool speculative; };   /* later: what a split leaves */

enum { BEYOND = 64 };                   /* slots beyond the executor's, for memory that it has misplaced */
struct model {
	size_t slots;                   /* of the executor */
	int *uses;                      /* [slots + BEYOND] */
	struct holder *holder;
	struct kept *kept;
	size_t holders, checkpoints;
};

bool model_make(struct model *m, const struct scenario *s, size_t slots);
void model_free(struct model *m);
struct holder *model_find(struct model *m, int id);             /* NULL: none */
struct kept *model_find_kept(struct model *m, int id);
struct holder *model_add(struct model *m, int id);              /* not yet admitted */
struct kept *model_keep(struct model *m, int id, const struct holder *h);       /* NULL: out of memory */
void model_drop(struct model *m, struct holder *h);
void model_forget(struct model *m, struct kept *k);
void model_let_go(struct model *m, int slot);                   /* -1: nothing */
int model_beyond(struct model *m);                              /* a slot beyond, in use; -1: no more */
/* Who holds a slot, as text: "request 3", "checkpoint 1", "nobody". */
const char *model_owner(const struct model *m, int slot, char *text, size_t size);

/* Notes a breach, unless there is one. */
void breach(struct play *p, const char *law, int step, int request, int slot, int layer, const char *format, ...)
	__attribute__((format(printf, 7, 8)));

#endif
