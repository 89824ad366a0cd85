/* make bench: docs/performance.md. What etalon takes, as ratios: dd against its peers, comparison against reading memory,
 * and what the reference costs in each arithmetic. Medians. usage: bench GROWTH.tsv */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "compare/cli/cli.h"
#include "fixtures/cases/cases.h"
#include "ref/call/op.h"

enum { REPEATS = BENCH_REPEATS, HEADS = 48 };

/* Work sizes that take some 0.1 s in each arithmetic. */
static const struct { const char *arith; size_t tokens, rows; } ariths_timed[] = {
	{ "f32", 64, 512 }, { "f64", 64, 512 }, { "dd", 16, 128 }, { "noisy", 16, 128 }, { "mpfr:128", 2, 16 }
};

static void stop(const struct error *e)
{
	exit(print_failure(e));
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *t, size_t n)
{
	qsort(t, n, sizeof *t, by_value);
	return t[n / 2];
}

/* ---- the reference ---- */

/* Seconds of one run on the case's inputs with the given sizes; *outputs: elements of its first. */
static double time_ref(const char *op, const char *case_name, const struct case_dim *dims, const char *arith, size_t *outputs)
{
	struct test_case k = *case_find(op, case_name);
	struct capture c;
	struct call call;
	struct error e;
	const struct arith *a;
	int bits;
	double t[REPEATS];

	k.dims = dims;
	if (!arith_by_name(arith, &a, &bits) || !case_make(&c, &k, 1, false, &e) || !call_bind(&call, &c, false, &e))
		stop(&e);
	struct plan p = plan_plain(a, bits);
	for (int i = 0; i < REPEATS; i++) {
		struct answer answer;
		double start = omp_get_wtime();
		if (!ref_run(&call, &p, &answer, &e))
			stop(&e);
		t[i] = omp_get_wtime() - start;
		answer_free(&answer);
	}
	*outputs = call.out_count[0];
	capture_free(&c);
	return median(t, REPEATS);
}

static void references(void)
{
	printf("\n| time of all cores together for | a delta-rule step of a head, 128 × 128 | an element of rmsnorm | of rope | "
		"of causal_conv1d |\n"
		"|---|--:|--:|--:|--:|\n");
	for (size_t i = 0; i < sizeof ariths_timed / sizeof *ariths_timed; i++) {
		size_t T = ariths_timed[i].tokens, R = ariths_timed[i].rows, n;
		struct case_dim delta[] = { { "T", T }, { "N", 1 }, { "Hk", 16 }, { "Hv", HEADS }, { "Dk", 128 }, { "Dv", 128 }, { 0 } };
		struct case_dim norm[] = { { "R", R }, { "D", 5120 }, { 0 } }, rope[] = { { "T", R }, { "H", 24 }, { "D", 256 }, { 0 } };
		struct case_dim conv[] = { { "T", R }, { "N", 1 }, { "C", 10240 }, { "W", 4 }, { 0 } };
		const struct { const char *op, *name; const struct case_dim *dims; } timed[] = {
			{ "rmsnorm", "zero_centred_5120", norm }, { "rope", "partial", rope }, { "causal_conv1d", "prefill_silu", conv }
		};
		double s = time_ref("gated_delta_rule", "prefill", delta, ariths_timed[i].arith, &n) / (double)(T * HEADS);
		printf("| %s | %s |", ariths_timed[i].arith, bench_seconds(s * omp_get_max_threads()));
		for (size_t k = 0; k < 3; k++) {
			s = time_ref(timed[k].op, timed[k].name, timed[k].dims, ariths_timed[i].arith, &n);
			printf(" %s |", bench_seconds(s / (double)n * omp_get_max_threads()));
		}
		putchar('\n');
	}
}

/* ---- growth ---- */
static double delta_time(size_t T, size_t heads)
{
	size_t unused;
	struct case_dim dims[] = { { "T", T }, { "N", 1 }, { "Hk", heads }, { "Hv", heads }, { "Dk", 128 }, { "Dv", 128 }, { 0 } };

	return time_ref("gated_delta_rule", "prefill", dims, "dd", &unused);
}

static double kl_time(size_t width)
{
	struct tensors t = { 0 };
	size_t n = 64 * width;
	double time[REPEATS];

	if (!tensors_add(&t, "a", DT_F32, 1, &n) || !tensors_add(&t, "b", DT_F32, 1, &n)) exit(4);
	for (size_t i = 0; i < n; i++) {
		((float *)t.item[0].data)[i] = (float)(i * 2654435761u % 65536) * 0x1p-13f;
		((float *)t.item[1].data)[i] = (float)(i * 2654435761u % 65521) * 0x1p-13f;
	}
	for (int i = 0; i < REPEATS; i++) {
		double start = omp_get_wtime();
		bench_divergences(&t.item[0], &t.item[1], width);
		time[i] = omp_get_wtime() - start;
	}
	tensors_free(&t);
	return median(time, REPEATS);
}

/* Blocks "size seconds", for plots/growth.gp: tokens, heads, vocabulary, cores. */
static void growth(const char *path)
{
	FILE *f = fopen(path, "w");
	int cores = omp_get_max_threads();

	if (!f) exit(4);
	fputs("# tokens, 4 heads\n", f);
	for (size_t T = 64; T <= 4096; T *= 4) fprintf(f, "%zu\t%g\n", T, delta_time(T, 4));
	fputs("\n\n# heads, 256 tokens\n", f);
	for (size_t heads = 1; heads <= 32; heads *= 2) fprintf(f, "%zu\t%g\n", heads, delta_time(256, heads));
	fputs("\n\n# vocabulary, 64 rows\n", f);
	for (size_t width = 1 << 14; width <= 1 << 20; width *= 4) fprintf(f, "%zu\t%g\n", width, kl_time(width));
	fputs("\n\n# cores, 256 tokens of 32 heads\n", f);
	for (int n = 1; n <= cores; n *= 2) {
		omp_set_num_threads(n);
		fprintf(f, "%d\t%g\n", n, delta_time(256, 32));
	}
	omp_set_num_threads(cores);
	fclose(f);
}

/* ---- what the parts share ---- */
static double seconds(void (*run)(void *), void *data, int calls)
{
	double start = omp_get_wtime();

	for (int k = 0; k < calls; k++) run(data);
	return (omp_get_wtime() - start) / calls;
}

/* For some 20 ms; the first call is not counted. */
static int calls_of(void (*run)(void *), void *data) { return (int)(0.02 / (seconds(run, data, 1) + 1e-9)) + 1; }

double bench_time(void (*run)(void *), void *data)
{
	double t[BENCH_REPEATS];
	int calls = calls_of(run, data);

	for (int i = 0; i < BENCH_REPEATS; i++) t[i] = seconds(run, data, calls);
	return median(t, BENCH_REPEATS);
}

struct bench_pair bench_turns(void (*run)(void *), void *data, void (*other)(void *), void *others)
{
	double t[BENCH_TURNS], u[BENCH_TURNS], ratio[BENCH_TURNS];
	int calls = calls_of(run, data), other_calls = calls_of(other, others);

	for (int i = 0; i < BENCH_TURNS; i++) {
		t[i] = seconds(run, data, calls), u[i] = seconds(other, others, other_calls);
		ratio[i] = u[i] / t[i];
	}
	return (struct bench_pair){ median(t, BENCH_TURNS), median(u, BENCH_TURNS), median(ratio, BENCH_TURNS) };
}

const char *bench_seconds(double s)
{
	static char text[8][24];
	static int at;
	char *to = text[at++ % 8];

	if (isnan(s)) return "missing";
	if (s < 1e-6) snprintf(to, sizeof text[0], "%.3g ns", 1e9 * s);
	else if (s < 1e-3) snprintf(to, sizeof text[0], "%.3g µs", 1e6 * s);
	else if (s < 1) snprintf(to, sizeof text[0], "%.3g ms", 1e3 * s);
	else snprintf(to, sizeof text[0], "%.3g s", s);
	return to;
}

void bench_ratio(const char *what, double own, const char *peer, double seconds, const char *goal)
{
	char ratio[24] = "";

	if (!isnan(seconds)) snprintf(ratio, sizeof ratio, "%.3g", seconds / own);
	printf("| %s | %s | %s | %s | %s | %s |\n", what, bench_seconds(own), peer, bench_seconds(seconds), ratio, goal);
	fflush(stdout);
}

static void machine(void)
{
	FILE *f = fopen("/proc/cpuinfo", "r");
	char line[256], model[256] = "unknown CPU";

	while (f && fgets(line, sizeof line, f))
		if (!strncmp(line, "model name", 10) && strchr(line, ':')) {
			snprintf(model, sizeof model, "%.*s", (int)strcspn(strchr(line, ':') + 2, "\n"), strchr(line, ':') + 2);
			break;
		}
	if (f) fclose(f);
	printf("# How fast\nWritten by `make bench` on %s, %d cores; medians of %d. Ratios count, not times; a peer that "
		"`make bench-deps` has not\ninstalled is missing. The first table on one core.\n", model, omp_get_max_threads(), REPEATS);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "--check")) return bench_check(), 0;
	if (argc == 2 && !strcmp(argv[1], "--memory")) return bench_memory(), 0;
	if (argc == 3 && !strcmp(argv[1], "--check")) return bench_check_call(strtoul(argv[2], NULL, 10)), 0;
	if (argc != 2) return fputs("usage: bench GROWTH.tsv | --check | --memory\n", stderr), 2;
	machine();
	printf("\n| | etalon | peer | its time | ratio | goal |\n|---|--:|---|--:|--:|--:|\n");
	bench_dd();
	bench_memory();
	bench_check();
	references();
	growth(argv[1]);
	puts("\n![How time grows with tokens, heads, the vocabulary and cores](performance.png)");
	return 0;
}
