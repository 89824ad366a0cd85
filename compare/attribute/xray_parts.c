/* Sums over the strip held, part by part, on all threads. */
#include <string.h>

#include "xray_private.h"

static size_t part_end(size_t at, size_t end) { return end - at < WORTH ? end : at + WORTH; }

void xray_copy(double *to, const double *from, size_t n)
{
	#pragma omp parallel for if (n > WORTH)
	for (size_t at = 0; at < n; at += WORTH) memcpy(to + at, from + at, (part_end(at, n) - at) * sizeof *to);
}

void xray_store(const struct xray *x, const double *y, double *stored)
{
	for (int i = 0; i < MAX_OUT; i++) {
		const size_t first = x->first[i], end = x->first[i + 1];
		#pragma omp parallel for if (end - first > WORTH)
		for (size_t at = first; at < end; at += WORTH) {
			size_t n = part_end(at, end) - at;
			if (stored != y) memcpy(stored + at, y + at, n * sizeof *y);
			format_round_all(dtype_info[out_dtype(x->call, i)].format, ROUND_NEAREST_EVEN, stored + at, n);
		}
	}
}

/* Parts are whole rows. What each adds up goes to the sums in order, so that none depends on the number of threads. */
void xray_add_up(const struct xray *x, int i, xray_adder *add, const void *with, double *sum, size_t n)
{
	const size_t row = x->row[i], step = row < WORTH ? WORTH / row * row : row, end = x->first[i + 1];

	#pragma omp parallel for ordered schedule(static, 1) if (end - x->first[i] > step)
	for (size_t at = x->first[i]; at < end; at += step) {
		double part[MOST_SUMS];
		memset(part, 0, n * sizeof *part);
		add(x, i, at, end - at < step ? end : at + step, with, part);
		#pragma omp ordered
		for (size_t k = 0; k < n; k++) sum[k] += part[k];
	}
}
