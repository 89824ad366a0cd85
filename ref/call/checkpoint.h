/* A folder that keeps the answers of long runs, so that a run which was ended goes on where it stood. */
#ifndef ETALON_CHECKPOINT_H
#define ETALON_CHECKPOINT_H

#include "fixtures/io/sha256.h"
#include "op.h"

/* What a run is of: "model", "tokens", "arithmetic", ..., each as text without spaces. */
struct checkpoint_of { const char *what; char is[SHA256_TEXT]; };

/* From now on runs whose plan says `keep` are kept in the folder, which is made, and found there. One that another run began is refused:
 * what it is of, and the program that began it, stand in its run.txt. Rank 0 alone reads and writes there. */
bool checkpoint_open(const char *folder, const struct checkpoint_of *of, size_t n, struct error *e);
/* Of these bytes the run's own text tells already: tensors in them are told apart by where they lie in them. */
bool checkpoint_known(const void *data, size_t n, struct error *e);
bool checkpoint_is_open(void);
void checkpoint_close(void);
/* How many answers were found, and how many kept. */
void checkpoint_figures(size_t *found, size_t *kept);

/* The plan's answer, if the folder has it whole: *found. Where it has not, key tells where it is to be kept. For all ranks at once. */
bool checkpoint_find(const struct call *call, const struct plan *p, struct answer *a, char key[SHA256_TEXT], bool *found, struct error *e);
bool checkpoint_keep(const struct call *call, const struct answer *a, const char *key, struct error *e);

#endif
