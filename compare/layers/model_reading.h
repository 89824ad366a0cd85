/* What an engine's run of a whole model says: each layer on its own (anchored: started from the engine's own hidden state
 * before it), how the error grows (free-running), and the first layer that went wrong. See docs/models.md. */
#ifndef ETALON_MODEL_READING_H
#define ETALON_MODEL_READING_H

#include <jansson.h>

#include "layer_reading.h"
#include "ref/model/model.h"

/* An engine's tensors: "hidden.0" .. "hidden.L", the last behind the final norm, and "logits", behind a prefix ("" or "NAME."). */
struct model_reading;
/* Who is told how far a run is, and of each part that is read; each may be NULL. */
struct watch {
	void (*tick)(const struct watch *w, const char *stage, size_t done, size_t total);
	void (*part_read)(const struct watch *w, const struct model_reading *r, size_t part);
};
static inline void watch_tick(const struct watch *w, const char *stage, size_t done, size_t total)
{
	if (w && w->tick) w->tick(w, stage, done, total);
}

struct engine {
	const struct tensors *file;
	const char *prefix;
	const struct watch *watch;      /* may be NULL */
	bool probe;                     /* a part that fails without a name ends the reading: another contract will be tried */
};

/* Free-running: of hidden state l, or, behind the last, the logits. */
struct grown {
	double rms;                     /* of the engine's error against the exact model */
	double explained, equal;        /* by the whole emulation: the contract and what is detected in each layer */
};

enum { MAX_LOOKS = 8 };
struct model_reading {
	const struct model *model;
	const char *contract;
	size_t tokens, parts;           /* layers, and the head where logits are there */
	size_t embedding_off;           /* elements of hidden.0 that are not the embedding's, rounded as the contract has it */
	struct layer_reading *part;     /* [parts], the head last */
	struct grown *grown;            /* [parts + 1] */
	/* Free-running in f64, the last hidden state of all tokens: of the exact model; and of the emulation, empty unless that
	 * is the contract's alone, in f64, in every layer. Whoever runs the same may take them. */
	struct values exact, emulation;
	int first;                      /* the first part that does not pass, or NOWHERE */
	bool understood;                /* every part passes, or a fault is detected in it that explains it */
	bool ended;                     /* a probe that ended before all parts were read */
	int looks;                      /* what is plain about the dump, and is said, not searched (model_looks.c): */
	char look[MAX_LOOKS][200];
};

/* How little of the engine's error the contract's emulation leaves, on the first tokens of the first layer of each kind: the largest,
 * over these, of the median over tokens of a row's rms over that of the engine's error. Infinite where it cannot be told. */
double model_nearness(const struct model *m, const char *contract, size_t n, const struct engine *engine);

/* What is plain about a dump that does not pass. x: hidden.0 to hidden.L. */
void model_look(struct model_reading *r, const size_t *ids, const struct tensor *const *x);

/* ids [n] are the tokens of the engine's run. Hidden states must all be there; logits may be absent. On failure *r is zero.
 * Freed with model_reading_free. */
bool model_read(const struct model *m, const char *contract, const size_t *ids, size_t n, const struct engine *engine,
	struct model_reading *r, struct error *e);
void model_reading_free(struct model_reading *r);

/* 0: every part keeps its contract; EXIT_FAIL: one does not. */
int model_reading_exit(const struct model_reading *r);
void model_reading_print(FILE *to, const struct model_reading *r);
/* "layer 3 of 4, full_attention: 2.1 times what its roundings imply (limit 1.4)", of a part that was read. Returns text. */
const char *model_part_sentence(const struct model_reading *r, size_t part, char *text, size_t size);
json_t *model_reading_json(const struct model_reading *r);

/* With logits only: each fault in all layers of its kind, around the contract's emulation, on as many first tokens as time
 * allows (compare/layers/model_suspects.c). Fills found [at most], best
 * first, with those that leave less than half of the logits' squared error; returns how many, or -1: out of memory. */
struct model_suspect { enum layer_kind kind; int fault; double explained; };
int model_suspects(const struct model *m, const char *contract, const size_t *ids, size_t n, const struct tensor *logits,
	struct model_suspect *found, int most, double *alone, struct error *e);

#endif
