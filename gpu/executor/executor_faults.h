/* Faults on purpose: hooks of the executor and of its backends. Without -DETALON_FAULTS all of them are nothing. */
#ifndef ETALON_EXECUTOR_FAULTS_H
#define ETALON_EXECUTOR_FAULTS_H

#include "gpu/executor/executor.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifdef ETALON_FAULTS

/* Is this fault, one of executor_faults[], injected now? */
bool executor_fault_is(const char *name);

/* Of one executor, beside it. faults_open: E_MEMORY. */
struct faults;
bool faults_open(struct executor *x, struct error *e);
void faults_close(struct executor *x);
/* After these happened. */
void faults_checkpointed(struct executor *x, int request, int checkpoint);
void faults_admitted(struct executor *x, int request, int checkpoint);
/* Before its drafts go. */
void faults_accepted(struct executor *x, int request, int k);
/* Runs the planned step as the injected fault has it. */
bool faults_run(struct executor *x, const struct executor_data *data, bool replay, struct error *e);

#else

static inline bool executor_fault_is(const char *name) { (void)name; return false; }

#endif

#ifdef __cplusplus
}
#endif
#endif
