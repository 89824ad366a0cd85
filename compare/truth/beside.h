/* Runs of the reference that know nothing of each other. */
#ifndef ETALON_BESIDE_H
#define ETALON_BESIDE_H

#include "ref/call/op.h"

/* Has a run fewer pieces than there are threads? */
bool has_few_pieces(const struct call *call);

/* Strip `strip` of `strips` of n streams, into *room, which has room for it; `take` gets run after run, in their order. Where the call is one piece
 * and small, some run side by side. E_MEMORY is the only error. */
typedef void run_taker(int r, const struct answer *run, void *with);
bool run_beside(const struct call *call, struct stream *stream, int n, size_t strip, size_t strips, struct answer *room, run_taker *take, void *with,
	struct error *e);

#endif
