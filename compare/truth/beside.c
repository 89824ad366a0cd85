#include <omp.h>

#include "beside.h"
#include "ref/ranks/ranks.h"

bool has_few_pieces(const struct call *call)
{
	return ranks_count() == 1 && !omp_in_parallel() && call->op->pieces(call) < (size_t)omp_get_max_threads();
}

/* Each has an answer of its own, and what it computes with. */
enum { MOST = 16, SMALL = 1 << 18 };
static int side_by_side(const struct call *call, int n)
{
	int threads = omp_get_max_threads(), most = threads < MOST ? threads : MOST;
	size_t elements = 0;

	for (int i = 0; i < MAX_OUT; i++) elements += call->out_count[i];
	return elements > SMALL || call->op->pieces(call) > 1 || !has_few_pieces(call) ? 1 : most < n ? most : n;
}

bool run_beside(const struct call *call, struct stream *stream, int n, size_t strip, size_t strips, struct answer *room, run_taker *take, void *with,
	struct error *e)
{
	const int beside = side_by_side(call, n);
	const struct strip s = call_strip(call, strip, strips);
	struct answer run[MOST] = { *room };
	bool ok = true;

	for (int k = 1; k < beside && ok; k++)
		ok = answer_make(&run[k], s.count, false) || error_set(e, E_MEMORY, call->op->name, NO_OFFSET, "%d runs side by side", beside);
	for (int r = 0, m; r < n && ok; r += m) {
		struct error each[MOST];
		bool ran[MOST];
		m = n - r < beside ? n - r : beside;
		#pragma omp parallel for if (m > 1)
		for (int k = 0; k < m; k++) ran[k] = ref_strip(call, &stream[r + k], strip, strips, &run[k], &each[k]);
		for (int k = 0; k < m && ok; k++) {
			if ((ok = ran[k])) take(r + k, &run[k], with);
			else *e = each[k];
		}
	}
	for (int k = 1; k < beside; k++) answer_free(&run[k]);
	return ok;
}
