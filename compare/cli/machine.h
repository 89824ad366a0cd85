/* What a command needs of the machine before it computes. */
#ifndef ETALON_MACHINE_H
#define ETALON_MACHINE_H

#include "fixtures/io/error.h"

/* Of a program's .preinit_array, before OpenBLAS and libgomp are initialised: the program begins again where its environment lacks
 * - OMP_WAIT_POLICY, if it computes: threads that wait sleep, as spinning ones take half of all processor time;
 * - OPENBLAS_NUM_THREADS=1, if the address space is limited (setrlimit RLIMIT_AS, ulimit -v): OpenBLAS's pool of threads, which
 *   nothing here uses, asks for its buffers for ever where there is no room, and the program's exit waits for it. */
void machine_begin(char **argv, char **env, bool computes);

/* The program begins again where OpenBLAS takes the processor for one of 2004, with OPENBLAS_CORETYPE: OpenBLAS 0.3.21, Debian 12's, does so
 * with Intel's of 2023 (family 6, model 207), and multiplies at a fifth of the speed. Not where the variable is set. */
void machine_again(char **argv);

/* The core that OpenBLAS should take instead of the one that it has taken; NULL: none. asked: what the variable says, or NULL. */
const char *machine_core(const char *taken, const char *asked, bool avx2, bool avx512);

/* Where the address space is limited: as many threads as half of the room is enough for, each with the buffer that OpenBLAS would ask for
 * at its first product, again and again. E_MEMORY where not even one fits. Else: memory that is freed is kept for what asks next. */
bool machine_ready(struct error *e);

/* Runs a command, in a thread with a larger stack where `ulimit -s` leaves too small a one. E_MEMORY: there is no room for that. */
bool machine_run(int (*run)(int argc, char **argv), int argc, char **argv, int *status, struct error *e);

/* From now on exit(EXIT_FAIL) is no verdict, as libgomp calls it where it cannot make a thread, and becomes EXIT_MACHINE, while
 * *guarded, which must be there at the exit. */
void machine_guard(bool *guarded);

#endif
