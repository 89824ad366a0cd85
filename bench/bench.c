/* Time, for the programs of `make bench`. */
#include "bench/bench.h"

#include <omp.h>
#include <stdint.h>
#include <stdlib.h>

bool bench_quick(void) { return getenv("QUICK") != NULL; }

double bench_drawn(size_t i) { return (double)((i * 0x9e3779b97f4a7c15u >> 40) & 0xffff) / 65536 - 0.5; }

void bench_stop(const char *what)
{
	fprintf(stderr, "bench: %s\n", what);
	exit(4);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median(double *t, size_t n)
{
	qsort(t, n, sizeof *t, by_value);
	return t[n / 2];
}

static double seconds(void (*run)(void *), void *data, int calls)
{
	double start = omp_get_wtime();

	for (int k = 0; k < calls; k++) run(data);
	return (omp_get_wtime() - start) / calls;
}

/* For some 20 ms; the first call is not counted. */
static int calls_of(void (*run)(void *), void *data)
{
	return (int)(0.02 / (seconds(run, data, 1) + 1e-9)) + 1;
}

double bench_time(void (*run)(void *), void *data)
{
	double t[BENCH_REPEATS];
	int calls = calls_of(run, data), repeats = bench_quick() ? 1 : BENCH_REPEATS;

	for (int i = 0; i < repeats; i++) t[i] = seconds(run, data, calls);
	return bench_median(t, (size_t)repeats);
}

struct bench_pair bench_turns(void (*run)(void *), void *data, void (*other)(void *), void *others)
{
	double t[BENCH_TURNS], u[BENCH_TURNS], ratio[BENCH_TURNS];
	int calls = calls_of(run, data), other_calls = calls_of(other, others);

	for (int i = 0; i < BENCH_TURNS; i++) {
		t[i] = seconds(run, data, calls), u[i] = seconds(other, others, other_calls);
		ratio[i] = u[i] / t[i];
	}
	return (struct bench_pair){ bench_median(t, BENCH_TURNS), bench_median(u, BENCH_TURNS),
		bench_median(ratio, BENCH_TURNS) };
}

double peer_time(struct peer p) { return p.run ? p.scale * bench_time(p.run, p.data) : NAN; }

double peer_python(const char *what)
{
	char command[256];
	double s = NAN;

	snprintf(command, sizeof command,
		"for p in python3 /usr/bin/python3; do $p bench/peers.py %s 2>/dev/null && break; done", what);
	FILE *f = popen(command, "r");
	if (f && fscanf(f, "%lf", &s) != 1) s = NAN;
	if (f) pclose(f);
	return s;
}
