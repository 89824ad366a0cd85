/* What the reference costs in each arithmetic, and how its time grows with tokens, heads and
 * cores. */
#include <omp.h>
#include <stdlib.h>

#include "bench/call.h"

enum { HEADS = 48, MAX_DIMS = 7 };

/* Seconds of one run with the given sizes; *outputs: elements of its first. */
static double time_ref(const char *op, const char *name, const struct case_dim *dims,
	const char *arith, size_t *outputs)
{
	struct bench_call k;
	int repeats = bench_quick() ? 1 : BENCH_REPEATS;
	double t[BENCH_REPEATS];

	bench_bind(&k, op, name, dims, arith);
	for (int i = 0; i < repeats; i++) {
		t[i] = -omp_get_wtime();
		bench_run(&k);
		t[i] += omp_get_wtime();
	}
	*outputs = k.call.out_count[0];
	capture_free(&k.capture);
	return bench_median(t, (size_t)repeats);
}

/* Of all cores together, for a step of a head or an element. Sizes take some 0.1 s in each
 * arithmetic. */
static void arithmetics(void)
{
	static const struct { const char *name; size_t tokens, rows; } costs[] = {
		{ "f32", 64, 512 }, { "f64", 64, 512 }, { "dd", 16, 128 }, { "noisy", 16, 128 },
		{ "mpfr:128", 2, 16 }
	};

	for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
		size_t T = costs[i].tokens, R = costs[i].rows, n;
		const struct { const char *op, *name; size_t each; struct case_dim dims[MAX_DIMS];
		} timed[] = {
			{ "gated_delta_rule", "prefill", 128, DELTA(T, 16, HEADS, 128) },
			{ "rmsnorm", "zero_centred_5120", 1, { { "R", R }, { "D", 5120 }, { 0 } } },
			{ "rope", "partial", 1, { { "T", R }, { "H", 24 }, { "D", 256 }, { 0 } } },
			{ "causal_conv1d", "prefill_silu", 1,
				{ { "T", R }, { "N", 1 }, { "C", 10240 }, { "W", 4 }, { 0 } } },
		};
		for (size_t k = 0; k < sizeof timed / sizeof *timed; k++) {
			double s = time_ref(timed[k].op, timed[k].name, timed[k].dims,
				costs[i].name, &n);
			row_print((struct row){ .table = "arithmetic", .row = costs[i].name,
				.way = timed[k].op, .unit = "s",
				.ours = s / (double)(n / timed[k].each) * omp_get_max_threads() });
		}
	}
}

static void grown(const char *table, size_t size, size_t T, size_t heads)
{
	struct case_dim dims[] = DELTA(T, heads, heads, 128);
	char name[24];
	size_t n;

	snprintf(name, sizeof name, "%zu", size);
	row_print((struct row){ .table = table, .row = name, .unit = "s",
		.ours = time_ref("gated_delta_rule", "prefill", dims, "dd", &n) });
}

int main(void)
{
	size_t cores = (size_t)omp_get_max_threads(), less = bench_quick() ? 8 : 1;

	arithmetics();
	for (size_t T = 64; T <= 4096 / less; T *= 4) grown("tokens", T, T, 4);
	for (size_t heads = 1; heads <= 32 / less; heads *= 2) grown("heads", heads, 256, heads);
	for (size_t n = 1; n <= cores; n *= 2) {
		omp_set_num_threads((int)n);
		grown("cores", n, 256, 32 / less);
	}
	return 0;
}
