/* What growing, pruning and searching have in common. */
#ifndef ETALON_REPLICA_PRIVATE_H
#define ETALON_REPLICA_PRIVATE_H

#include "replica.h"

/* Of what is left, as its mean square in units of float32's noise: sums in order leave that much. */
extern const double float32s_size;

/* Takes each rounding and each mistake out that x->replica does as well without; while something is left unexplained,
 * puts the best of the types in a rounding's place. E_MEMORY is the only error. */
bool replica_prune(struct xray *x);

/* float16 and TF32 have as many bits, and differ where numbers are small: start's own type stays, unless the other
 * does better by what is worth keeping. E_MEMORY is the only error. */
bool replica_prefer_types(struct xray *x, const struct plan *start);

#endif
