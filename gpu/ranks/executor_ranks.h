/* An executor whose heads are split over ranks: rows that prefill run on some ranks, all others on
 * other ranks, among which the heads are split in another way. Each rank is a backend of its own,
 * with its heads' weights and pools. A memory is on one side at a time: it moves, and is split
 * anew, before a row of the other side reads or writes its slot. */
#ifndef ETALON_EXECUTOR_RANKS_H
#define ETALON_EXECUTOR_RANKS_H

#include "gpu/executor/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Of backends of this name, "cpu" or "cuda": `prefill` ranks to `decode` ranks, 1, 2 or 4 each;
 * open refuses heads that they do not share out evenly. Ranks that share a key head have a copy
 * each. NULL: no such name or number. */
const struct executor_backend *executor_ranks(const char *inner, int prefill, int decode);

#ifdef __cplusplus
}
#endif
#endif
