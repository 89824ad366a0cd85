/* Built without MPI: this process is alone. */
#include "ranks.h"

#include <stdlib.h>

/* What Open MPI's and other launchers tell a process. */
static const char *const sizes[] = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE" };

bool ranks_begin(const char *who, bool may, struct error *e)
{
	(void)who, (void)may;
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		const char *n = getenv(sizes[i]);
		if (n && atoi(n) > 1)
			return error_set(e, E_USAGE, NULL, NO_OFFSET, "started as one of %d ranks, but built without MPI: make deps MPI=1", atoi(n));
	}
	return true;
}

int ranks_threads(int mine) { return mine; }
int ranks_count(void) { return 1; }
int ranks_me(void) { return 0; }
void ranks_meet(uint64_t where, const uint64_t mine[RANK_WORDS], uint64_t (*all)[RANK_WORDS]) { (void)where, (void)mine, (void)all; }
void ranks_gather(const double *mine, const size_t *n, double *all) { (void)mine, (void)n, (void)all; }
void ranks_union(double *data, size_t n) { (void)data, (void)n; }
void ranks_send(int from, void *data, size_t bytes) { (void)from, (void)data, (void)bytes; }
struct rank_figures ranks_figures(void) { return (struct rank_figures){ 0 }; }
