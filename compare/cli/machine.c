/* Address space that is limited, a processor that is new, and libraries that do not expect them. */
#define _GNU_SOURCE     /* on_exit, pthread_getattr_default_np */
#include "machine.h"

#include <cblas.h>
#include <errno.h>
#include <gmp.h>
#include <limits.h>
#include <malloc.h>
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fixtures/io/surroundings.h"
#include "ref/ranks/ranks.h"

/* What OpenBLAS maps for a thread on x86-64: BUFFER_SIZE of its common_x86_64.h, 32 << 22, and a page. It keeps what was mapped,
 * and its next caller on whichever thread gets it. Where these two are hidden, products take their buffers when they come. */
static const size_t blas_buffer = ((size_t)32 << 22) + 4096;
extern void *blas_memory_alloc(int) __attribute__((weak));
extern void blas_memory_free(void *) __attribute__((weak));

/* What the main thread's stack may grow by: it grows within the limit too, and a page that it cannot have is a crash. */
enum { MAIN_STACK = 1 << 20, PAGE = 4096 };

static bool is_limited(struct rlimit *r) { return getrlimit(RLIMIT_AS, r) == 0 && r->rlim_cur != RLIM_INFINITY; }

static bool is_set(const char *entry, const char *wanted) { return !strncmp(entry, wanted, (size_t)(strchr(wanted, '=') - wanted) + 1); }

/* libc's environment is not there yet. */
void machine_begin(char **argv, char **env, bool computes)
{
	char one_thread[] = "OPENBLAS_NUM_THREADS=1", asleep[] = "OMP_WAIT_POLICY=passive";
	struct rlimit r;
	bool one = is_limited(&r), waits = computes;
	size_t n = 0, to = 0;

	for (; env[n]; n++) {
		if (!strcmp(env[n], one_thread)) one = false;
		if (is_set(env[n], asleep)) waits = false;
	}
	if (!one && !waits) return;
	char *with[n + 3];
	for (size_t i = 0; i < n; i++)
		if (!one || !is_set(env[i], one_thread)) with[to++] = env[i];
	if (one) with[to++] = one_thread;
	if (waits) with[to++] = asleep;
	with[to] = NULL;
	execve("/proc/self/exe", argv, with);
}

const char *machine_core(const char *taken, const char *asked, bool avx2, bool avx512)
{
	return asked || strcmp(taken, "Prescott") ? NULL : avx512 ? "SkylakeX" : avx2 ? "Haswell" : NULL;
}

void machine_again(char **argv)
{
#ifdef __x86_64__
	bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	bool avx512 = __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
	const char *core = machine_core(openblas_get_corename(), getenv("OPENBLAS_CORETYPE"), avx2, avx512);

	if (core && !setenv("OPENBLAS_CORETYPE", core, 0)) execv("/proc/self/exe", argv);
#else
	(void)argv;
#endif
}

static bool is_room(size_t bytes)
{
	void *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return p != MAP_FAILED && munmap(p, bytes) == 0;
}

__attribute__((noinline)) static void grow_stack(void)
{
	volatile char page[MAIN_STACK];

	for (size_t i = 0; i < sizeof page; i += PAGE) page[i] = 0;
}

/* Of a new thread, in a team and, while that rests, in a team within a team. */
static size_t stacks(void)
{
	pthread_attr_t a;
	size_t n = 0;

	if (pthread_getattr_default_np(&a) != 0) return 0;
	pthread_attr_getstacksize(&a, &n);
	pthread_attr_destroy(&a);
	return 2 * n;
}

/* All at a time, so that there are n. */
static bool take_buffers(int n)
{
	void **buffer = calloc((size_t)n, sizeof *buffer);

	if (!buffer) return false;
	for (int i = 0; blas_memory_alloc && blas_memory_free && i < n; i++) buffer[i] = blas_memory_alloc(0);
	for (int i = 0; i < n; i++)
		if (buffer[i]) blas_memory_free(buffer[i]);
	free(buffer);
	return true;
}

static void no_memory(size_t bytes)
{
	struct error e;

	error_set(&e, E_MEMORY, "GMP", NO_OFFSET, "%zu bytes", bytes);
	fputs("etalon: ", stderr);
	error_print(stderr, &e);
	putc('\n', stderr);
	_exit(EXIT_MACHINE);
}

/* GMP, which has no errors, would call abort. */
static void *gmp_malloc(size_t n)
{
	void *p = malloc(n);

	if (!p) no_memory(n);
	return p;
}

static void *gmp_realloc(void *old, size_t before, size_t n)
{
	void *p = realloc(old, n);

	(void)before;
	if (!p) no_memory(n);
	return p;
}

static void gmp_free(void *p, size_t n) { (void)n, free(p); }

/* A search asks again for what it has freed, and each page that went back to the system is filled with zeros anew: some 15 % of its time. */
static void keep_what_is_freed(void)
{
	mallopt(M_MMAP_THRESHOLD, 32 << 20);    /* the most that mallopt takes */
	mallopt(M_TRIM_THRESHOLD, INT_MAX);
}

bool machine_ready(struct error *e)
{
	struct rlimit r;
	int n = surroundings_threads(), started = 0;
	size_t each = blas_buffer + stacks();

	n = ranks_threads(n);
	omp_set_num_threads(n);
	if (!is_limited(&r)) {
		keep_what_is_freed();
		return true;
	}
	mallopt(M_ARENA_MAX, 1);                /* else each thread maps 128 MiB for malloc alone, at its first call */
	mp_set_memory_functions(gmp_malloc, gmp_realloc, gmp_free);
	if (is_room(MAIN_STACK)) grow_stack();
	while (n > 1 && !is_room(2 * (size_t)n * each)) n--;            /* half of the room is for the work */
	if (!is_room(blas_buffer) || !take_buffers(n))
		return error_set(e, E_MEMORY, NULL, NO_OFFSET, "the address space is limited to %llu KiB, in which there is no room for OpenBLAS's"
			" buffer of %zu KiB; see ulimit -v", (unsigned long long)r.rlim_cur / 1024, blas_buffer / 1024);
	omp_set_num_threads(n);
	#pragma omp parallel reduction(+ : started)
	started++;                              /* threads are made while there is room for them */
	return started > 0;
}

/* ---- the stack ---- */
struct command_run { int (*run)(int argc, char **argv); int argc, status; char **argv; };
static void run_command(void *with)
{
	struct command_run *c = with;

	c->status = c->run(c->argc, c->argv);
}

bool machine_run(int (*run)(int argc, char **argv), int argc, char **argv, int *status, struct error *e)
{
	struct command_run c = { run, argc, EXIT_MACHINE, argv };
	struct rlimit r;
	const bool small = getrlimit(RLIMIT_STACK, &r) == 0 && r.rlim_cur != RLIM_INFINITY && r.rlim_cur < STACK / 2;

	if (!small) run_command(&c);
	else if (!surroundings_run(run_command, &c)) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "a stack of %d KiB", STACK / 1024);
	*status = c.status;
	return true;
}

/* ---- exit ---- */
static void turn_failure(int status, void *guarded)
{
	if (status != EXIT_FAIL || !*(bool *)guarded) return;
	fflush(NULL);
	_exit(EXIT_MACHINE);
}

void machine_guard(bool *guarded) { *guarded = on_exit(turn_failure, guarded) == 0; }
