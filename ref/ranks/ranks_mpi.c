/* Ranks of MPI. */
#define _GNU_SOURCE     /* fopencookie, on_exit */
#include "ranks.h"

#include <limits.h>
#include <malloc.h>
#include <math.h>
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fixtures/io/file.h"
#include "ranks_watch.h"

static int count = 1, me;
static struct rank_figures figures;

int ranks_count(void) { return count; }
int ranks_me(void) { return me; }
struct rank_figures ranks_figures(void) { return figures; }

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- what ranks other than the first say: the first line of it, for when they fail alone ---- */
enum { SAID = 512 };
static char said[SAID];
static FILE *terminal;

static ssize_t keep(void *with, const char *text, size_t n)
{
	size_t at = strlen(said);

	(void)with;
	if (!memchr(said, '\n', at) && at < SAID - 1) snprintf(said + at, SAID - at, "%.*s", (int)(n < SAID ? n : SAID), text);
	return (ssize_t)n;
}

/* ---- ends ---- */
static const char name[] = "etalon: ";

/* The first line, without the program's name. */
static void say(int rank, const char *text)
{
	int end = (int)strcspn(text, "\n");

	if (!strncmp(text, name, sizeof name - 1)) text += sizeof name - 1, end -= (int)sizeof name - 1;
	fprintf(terminal ? terminal : stderr, "%srank %d: %.*s\n", name, rank, end > 0 ? end : 10, end > 0 ? text : "it failed");
}

_Noreturn static void end_with(int status)
{
	fflush(NULL);
	MPI_Finalize();
	_exit(status);
}

static void failed(MPI_Comm *comm, int *code, ...)
{
	char text[MPI_MAX_ERROR_STRING];
	int n;

	(void)comm;
	MPI_Error_string(*code, text, &n);
	say(me, text);
	fflush(NULL);
	_exit(EXIT_MACHINE);
}

/* ---- waiting: asleep, for one that spins keeps others from their work where processors are shared; what is on its way is soon there ---- */
enum { SPINS = 200, YIELDS = 20000, NAP_NS = 20000, WORD_S = 60, HOST = 64 };
enum { MEETING, WAITS };                /* tags */
static char (*host)[HOST];
static double *heard;                   /* [count] when rank 0 or 1 last heard that each waits */
static double patience = INFINITY;      /* seconds: ETALON_WAIT */
static const double stopped = 0.5;      /* seconds: of naps that take so long this process itself was stopped */

static double first_word(void) { return patience / 2 < WORD_S ? patience / 2 : WORD_S; }
static double every(void) { return first_word() / 8; }

/* Who waits says so, again and again: all to rank 0, rank 0 to rank 1. So these know who does not, wherever the others wait. */
static void say_alive(void)
{
	MPI_Request r;

	MPI_Isend(NULL, 0, MPI_BYTE, me == 0, WAITS, MPI_COMM_WORLD, &r);
	MPI_Request_free(&r);
}

static void listen_to_all(void)
{
	MPI_Status s;
	int there;

	while (MPI_Iprobe(MPI_ANY_SOURCE, WAITS, MPI_COMM_WORLD, &there, &s), there) {
		MPI_Recv(NULL, 0, MPI_BYTE, s.MPI_SOURCE, WAITS, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		heard[s.MPI_SOURCE] = now();
	}
}

/* Not by rank 1 of a rank 0 that waits too, and says it, or has just given up: then the launcher ends all. */
static void say_waiting(double seconds, bool ends)
{
	int others = 0, who = -1;

	for (int i = me == 0; i < (me == 0 ? count : me == 1); i++) {
		if (now() - heard[i] <= (me == 0 ? 3 * every() : first_word())) continue;
		if (who < 0) who = i;
		else others++;
	}
	if (me == 1 && who < 0 && !ends) return;
	FILE *to = terminal ? terminal : stderr;
	fprintf(to, "%srank %d has waited %.3g s for ", name, me, seconds);
	if (who < 0) fputs("what the others send", to);
	else fprintf(to, "rank %d on %s", who, host[who]);
	if (others) fprintf(to, " and %d more", others);
	fputs(ends ? ": given up (ETALON_WAIT)\n" : "\n", to);
}

/* Rank 0 says for whom it waits, and rank 1 that it waits for rank 0, which may be the silent one; they give up in this order, so that the
 * line names the one that is silent. Not by MPI_Finalize, where all would meet. */
static void be_patient(double seconds, double *word)
{
	double later = me == 0 ? 1 : me == 1 ? 2 : 2.5;

	bool ends = seconds >= patience * later;

	if (seconds < *word && !ends) return;
	if (me < 2 || ends) say_waiting(seconds, ends);
	*word *= 2;
	if (!ends) return;
	fflush(NULL);
	_exit(EXIT_MACHINE);
}

static double wait_for(MPI_Request *r, int n, int yields)
{
	double from = now(), last = from, lost = 0, beat = from + every(), word = first_word() * (me == 0 ? 1 : 2.5);
	int done = 0;

	for (int i = 0; MPI_Testall(n, r, &done, MPI_STATUSES_IGNORE), !done; i++) {
		if (i < SPINS) continue;
		if (i < yields) sched_yield();
		else nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
		double time = now();
		if (time - last > stopped) lost += time - last;
		last = time;
		if (time >= beat) {
			say_alive();
			if (me < 2) listen_to_all();
			beat = time + every();
		}
		be_patient(time - from - lost, &word);
	}
	return now() - from;
}

/* ---- meetings: at rank 0, which so knows who is missing ---- */
enum { COMPUTES = 1, LEAVES };
struct meeting { uint64_t kind, where, word[RANK_WORDS]; char said[SAID]; };

static struct meeting *meet(const struct meeting *mine)
{
	static struct meeting *all;
	MPI_Request r[count];

	if (!all && !(all = calloc((size_t)count, sizeof *all))) MPI_Abort(MPI_COMM_WORLD, EXIT_MACHINE);
	all[me] = *mine;
	for (int i = 1; me == 0 && i < count; i++) MPI_Irecv(&all[i], (int)sizeof *all, MPI_BYTE, i, MEETING, MPI_COMM_WORLD, &r[i - 1]);
	if (me > 0) MPI_Isend(mine, (int)sizeof *mine, MPI_BYTE, 0, MEETING, MPI_COMM_WORLD, r);
	figures.waited += wait_for(r, me == 0 ? count - 1 : 1, SPINS);
	MPI_Ibcast(all, count * (int)sizeof *all, MPI_BYTE, 0, MPI_COMM_WORLD, r);
	figures.waited += wait_for(r, 1, SPINS);
	return all;
}

/* One that leaves while others compute: its line, and its exit code, or that of the machine where it took itself to be done. */
_Noreturn static void one_left(const struct meeting *all)
{
	int i = 0;

	while (all[i].kind != LEAVES) i++;
	if (me == 0 && i != 0) say(i, all[i].said[0] ? all[i].said : "it ended while others computed");
	end_with(all[i].where == EXIT_INPUT ? EXIT_INPUT : EXIT_MACHINE);
}

void ranks_meet(uint64_t where, const uint64_t mine[RANK_WORDS], uint64_t (*all)[RANK_WORDS])
{
	struct meeting m = { .kind = COMPUTES, .where = where };

	memcpy(m.word, mine, sizeof m.word);
	const struct meeting *they = meet(&m);
	for (int i = 0; i < count; i++)
		if (they[i].kind != COMPUTES) one_left(they);
	for (int i = 1; i < count; i++) {
		if (they[i].where == they[0].where) continue;
		if (me == 0) say(i, "what it computes is not what rank 0 does: other files, another etalon or another processor");
		end_with(EXIT_MACHINE);
	}
	for (int i = 0; i < count; i++) memcpy(all[i], they[i].word, sizeof all[i]);
}

/* All leave, or one does: the ranks' exit codes become one, the largest of failures first. */
static void leave(int status, void *with)
{
	struct meeting m = { .kind = LEAVES, .where = (uint64_t)status };
	int worst = status, finalized;

	(void)with;
	fflush(NULL);
	if (MPI_Finalized(&finalized) != MPI_SUCCESS || finalized) return;
	memcpy(m.said, said, sizeof said);
	const struct meeting *all = meet(&m);
	for (int i = 0; i < count; i++)
		if (all[i].kind != LEAVES) one_left(all);
	for (int i = 0; i < count; i++) {
		int his = (int)all[i].where;
		if (me == 0 && his != (int)all[0].where && all[i].said[0]) say(i, all[i].said);
		if (his == EXIT_MACHINE || (his == EXIT_INPUT && worst != EXIT_MACHINE)) worst = his;
	}
	if (worst != status) end_with(worst);
	if (me < 2) listen_to_all();
	MPI_Finalize();
}

/* ---- beginning ---- */
static bool launched(void) { return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK") || getenv("PMI_RANK"); }

static bool read_patience(struct error *e)
{
	const char *text = getenv("ETALON_WAIT");
	char *end;

	if (!text) return true;
	patience = strtod(text, &end);
	if (patience > 0 && end != text && !*end) return true;
	patience = INFINITY;
	return error_set(e, E_USAGE, "ETALON_WAIT", NO_OFFSET, "expected seconds above 0, got '%s'", text);
}

bool ranks_begin(const char *who, bool may, struct error *e)
{
	MPI_Errhandler handler;
	int given;

	if (!launched()) return true;
	watch();
	if (MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &given) != MPI_SUCCESS || given < MPI_THREAD_FUNNELED)
		return error_set(e, E_DEVICE, "MPI", NO_OFFSET, "it has no threads (MPI_THREAD_FUNNELED)");
	MPI_Comm_create_errhandler(failed, &handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Errhandler_free(&handler);
	MPI_Comm_size(MPI_COMM_WORLD, &count);
	MPI_Comm_rank(MPI_COMM_WORLD, &me);
	/* Each rank holds what all computed: memory that goes back after each piece is zeroed by the system again, 2 s a rank of four layers. */
	mallopt(M_MMAP_THRESHOLD, INT_MAX), mallopt(M_TRIM_THRESHOLD, INT_MAX);
	if (!(host = calloc((size_t)count, sizeof *host)) || !(heard = calloc((size_t)count, sizeof *heard)))
		return error_set(e, E_MEMORY, NULL, NO_OFFSET, "beginning as rank %d", me);
	gethostname(host[me], HOST - 1);
	MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, host, HOST, MPI_BYTE, MPI_COMM_WORLD);
	on_exit(leave, NULL);
	if (me > 0) {
		FILE *mine = fopencookie(NULL, "w", (cookie_io_functions_t){ .write = keep });
		if (!mine || !freopen("/dev/null", "w", stdout)) return error_set(e, E_MEMORY, NULL, NO_OFFSET, "beginning as rank %d", me);
		setvbuf(mine, NULL, _IONBF, 0);
		terminal = stderr;
		stderr = mine;
		file_write_never();
	}
	if (!read_patience(e)) return false;
	return may || count == 1 || error_set(e, E_USAGE, who, NO_OFFSET, "no work for %d ranks: without mpirun", count);
}

int ranks_threads(int mine)
{
	int least = mine;

	if (count > 1) MPI_Allreduce(&mine, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	return least == 1 ? 1 : mine;
}

/* ---- what goes round ---- */
void ranks_gather(const double *mine, const size_t *n, double *all)
{
	int counts[count], at[count], next = 0;
	MPI_Request r;

	for (int i = 0; i < count; next += counts[i++]) counts[i] = (int)n[i], at[i] = next;
	MPI_Iallgatherv(mine, counts[me], MPI_DOUBLE, all, counts, at, MPI_DOUBLE, MPI_COMM_WORLD, &r);
	figures.sent += wait_for(&r, 1, YIELDS);
	figures.bytes += ((uint64_t)next - n[me]) * sizeof *all;
}

enum { AT_ONCE = 1 << 28 };             /* bytes */

void ranks_union(double *data, size_t n)
{
	enum { NUMBERS = AT_ONCE / sizeof *data };

	for (size_t at = 0, some; count > 1 && at < n; at += some) {
		MPI_Request r;
		some = n - at < NUMBERS ? n - at : NUMBERS;
		MPI_Iallreduce(MPI_IN_PLACE, data + at, (int)some, MPI_UINT64_T, MPI_BOR, MPI_COMM_WORLD, &r);
		figures.sent += wait_for(&r, 1, YIELDS);
		figures.bytes += some * sizeof *data;
	}
}

void ranks_send(int from, void *data, size_t bytes)
{
	for (size_t at = 0, n; count > 1 && at < bytes; at += n) {
		MPI_Request r;
		n = bytes - at < AT_ONCE ? bytes - at : AT_ONCE;
		MPI_Ibcast((char *)data + at, (int)n, MPI_BYTE, from, MPI_COMM_WORLD, &r);
		figures.sent += wait_for(&r, 1, YIELDS);
	}
}
