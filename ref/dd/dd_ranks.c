#include "dd_form.h"

#include <stdlib.h>
#include <string.h>

#include "fixtures/io/random.h"
#include "ref/ranks/ranks.h"

/* Tiles of rows, as gemm has them (dd_gemm.h); a product of fewer terms is made sooner than sent; more numbers than a message takes. */
enum { ROWS = 64 };
static const size_t least = (size_t)1 << 24, most = (size_t)1 << 29;

static size_t begins(size_t m, int rank) { return (m + ROWS - 1) / ROWS * (size_t)rank / (size_t)ranks_count() * ROWS; }
static size_t ends(size_t m, int rank) { return rank + 1 == ranks_count() ? m : begins(m, rank + 1); }

/* In all: of each rank, its rows' high parts, then their low ones. */
static void take_rows(dds C, size_t n, size_t first, size_t last, const double *all)
{
	size_t count = (last - first) * n;

	memcpy(C.hi + first * n, all + 2 * first * n, count * sizeof *all);
	memcpy(C.lo + first * n, all + 2 * first * n + count, count * sizeof *all);
}

bool dd_gemm_shared(dds C, struct dd_operand A, struct dd_operand B, size_t m, size_t n, size_t k)
{
	int ranks = ranks_count(), me = ranks_me();
	static uint64_t times;

	if (ranks == 1 || m * n * k < least || m * n > most) return false;
	size_t counts[ranks], first = begins(m, me);
	for (int r = 0; r < ranks; r++) counts[r] = 2 * (ends(m, r) - begins(m, r)) * n;
	double *all = malloc(2 * m * n * sizeof *all), *mine = malloc((counts[me] + 1) * sizeof *mine);
	uint64_t ok[RANK_WORDS] = { all && mine }, oks[ranks][RANK_WORDS];
	struct dd_operand rows = { { A.at.hi + first * A.row, A.at.lo + first * A.row }, A.row, A.column };
	if (ends(m, me) > first) dd_form()->gemm((dds){ C.hi + first * n, C.lo + first * n }, n, rows, B, ends(m, me) - first, n, k, false);
	ranks_meet(random_mix(random_mix(m ^ random_at(n)) ^ k ^ ++times << 32), ok, oks);
	bool shared = true;
	for (int r = 0; r < ranks; r++) shared = shared && oks[r][0];
	if (shared) {
		memcpy(mine, C.hi + first * n, counts[me] / 2 * sizeof *mine);
		memcpy(mine + counts[me] / 2, C.lo + first * n, counts[me] / 2 * sizeof *mine);
		ranks_gather(mine, counts, all);
		for (int r = 0; r < ranks; r++) take_rows(C, n, begins(m, r), ends(m, r), all);
	}
	free(all);
	free(mine);
	return shared;
}
