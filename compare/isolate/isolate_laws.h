/* The laws of isolation, and what came of them. */
#ifndef ETALON_ISOLATE_LAWS_H
#define ETALON_ISOLATE_LAWS_H

#include "isolate_values.h"

enum { LAW_TABLES, LAW_UNTOUCHED, LAW_PADDING, LAW_POISON, LAW_VALUES, LAW_REPEAT, LAW_GRAPH, LAW_CONTENT, LAW_PRESENCE, LAW_ORDER,
	LAW_BATCH, LAW_SPLIT, LAW_TRANSFER, LAW_GUARDS, LAW_SCRATCH, LAW_LARGE, LAWS };

struct law {
	const char *name, *what;
	const char *unit;               /* of what is counted */
	const char *fault, *fault_what, *seen;      /* the one that no other law sees; NULL: several, named by the reference */
};
extern const struct law laws[LAWS];
int law_find(const char *name);         /* -1: none of that name */

struct outcome_of_law {
	size_t plays, counted;
	size_t within;                  /* plays that were not equal bit for bit, but within the expected error */
	double worst;                   /* the largest error then, or of the law "values", in sigma */
};
struct isolation {
	struct outcome_of_law law[LAWS];
	int broken;                     /* the law that was broken first, or -1 */
	struct breach breach;
};

/* Notes the breach of a law, unless one was broken before. */
void law_broken(struct isolation *x, int law, const struct breach *b);

/* Holds one scenario against all laws of a play, or only one (only >= 0). Stops at the first that is broken; *x adds up
 * over calls. false: bad input or a failing machine. */
bool isolate_scenario(struct isolation *x, const struct setup *s, const struct scenario *scenario, int only, struct error *e);

/* The laws that need shapes of their own: the widths of scratch at lengths up to 600 at the sizes of a 35B mixture of
 * experts (all of them if thorough, else a few), and slots whose elements lie past 2^31. */
bool isolate_shapes(struct isolation *x, const struct executor_backend *backend, bool thorough, int only,
	void (*tick)(const char *, size_t, size_t), struct error *e);

/* Plays again until it knows what explains the failure: by the reference's faults, or by the law alone. */
struct explanation {
	const char *fault, *what, *seen;      /* NULL: nothing known */
	size_t wrong, explained;                /* tokens; 0: told by the law alone */
	bool alone;
	int graph;                      /* of the play that showed it: AS_GIVEN or REPLAYED */
	int leaks_from;                         /* a slot whose content reaches an output that it should not; -1 */
};
bool isolate_explain(struct explanation *x, const struct setup *s, const struct scenario *scenario, const struct isolation *failed, struct error *e);

/* The shortest scenario found that breaks the same law and, where a fault was named, shows that fault. */
bool isolate_shrink(struct scenario *to, const struct setup *s, const struct scenario *from, const struct isolation *failed,
	const struct explanation *why, void (*tick)(const char *, size_t, size_t), struct error *e);

#endif
