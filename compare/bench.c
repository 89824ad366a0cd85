/* make bench: what the reference costs in each arithmetic, and how near `diff` comes to the rate
 * at which this machine reads memory. Medians; times of a thread are wall time x threads. */
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "elementwise.h"
#include "fixtures/cases.h"
#include "ref/op.h"

enum { REPEATS = 5, HEADS = 48 };
static const size_t bytes_read = (size_t)1 << 29;       /* of each file, and of the buffer: beyond any cache */

/* Work sizes that take some 0.1 s in each arithmetic. */
static const struct { const char *arith; size_t tokens, rows; } ariths_timed[] = {
	{ "f32", 64, 512 }, { "f64", 64, 512 }, { "noisy", 16, 128 }, { "mpfr:128", 2, 16 }
};

static void stop(const struct error *e)
{
	exit(cli_fail(e));
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

static void add_time(struct table *t, double seconds)
{
	if (seconds < 1e-6) table_add(t, "%.3g ns", 1e9 * seconds);
	else if (seconds < 1e-3) table_add(t, "%.3g us", 1e6 * seconds);
	else table_add(t, "%.3g ms", 1e3 * seconds);
}

static void delta_rule(void)
{
	static const char *const heading[] = { "gated_delta_rule", ">a token", ">a head's step (a thread)" };
	struct table t = { .columns = 3, .heading = heading };

	printf("state 128 x 128, %d heads a token\n", HEADS);
	for (size_t i = 0; i < sizeof ariths_timed / sizeof *ariths_timed; i++) {
		size_t T = ariths_timed[i].tokens, unused;
		struct case_dim dims[] = { { "T", T }, { "N", 1 }, { "Hk", 16 }, { "Hv", HEADS }, { "Dk", 128 }, { "Dv", 128 }, { 0 } };
		double s = time_ref("gated_delta_rule", "prefill", dims, ariths_timed[i].arith, &unused) / (double)T;
		table_add(&t, "%s", ariths_timed[i].arith);
		add_time(&t, s);
		add_time(&t, s / HEADS * omp_get_max_threads());
	}
	table_print(&t);
}

static void other_ops(void)
{
	static const char *const heading[] = { "an element (a thread)", ">rmsnorm", ">rope", ">causal_conv1d" };
	struct table t = { .columns = 4, .heading = heading };

	putchar('\n');
	for (size_t i = 0; i < sizeof ariths_timed / sizeof *ariths_timed; i++) {
		size_t R = ariths_timed[i].rows;
		struct case_dim norm[] = { { "R", R }, { "D", 5120 }, { 0 } };
		struct case_dim rope[] = { { "T", R }, { "H", 24 }, { "D", 256 }, { 0 } };
		struct case_dim conv[] = { { "T", R }, { "N", 1 }, { "C", 10240 }, { "W", 4 }, { 0 } };
		const struct { const char *op, *name; const struct case_dim *dims; } timed[] = {
			{ "rmsnorm", "zero_centred_5120", norm }, { "rope", "partial", rope }, { "causal_conv1d", "prefill_silu", conv }
		};
		table_add(&t, "%s", ariths_timed[i].arith);
		for (size_t k = 0; k < 3; k++) {
			size_t n;
			double s = time_ref(timed[k].op, timed[k].name, timed[k].dims, ariths_timed[i].arith, &n);
			add_time(&t, s / (double)n * omp_get_max_threads());
		}
	}
	table_print(&t);
}

/* ---- diff ---- */

static uint64_t *buffer(void)
{
	size_t n = bytes_read / sizeof(uint64_t);
	uint64_t *x = malloc(bytes_read);

	if (!x) {
		struct error e;
		error_set(&e, E_MEMORY, NULL, NO_OFFSET, "%zu bytes", bytes_read);
		stop(&e);
	}
	#pragma omp parallel for simd
	for (size_t i = 0; i < n; i++) x[i] = i;
	return x;
}

/* Seconds for all threads to sum the buffer. */
static double time_read(const uint64_t *x)
{
	static volatile uint64_t used;
	uint64_t sum = 0;
	double start = omp_get_wtime();

	#pragma omp parallel for simd reduction(+:sum)
	for (size_t i = 0; i < bytes_read / sizeof *x; i++) sum += x[i];
	used = sum;
	(void)used;
	return omp_get_wtime() - start;
}

/* A file of one tensor of small odd steps; every `every`-th element is one bit apart. */
static void write_file(const char *path, enum dtype d, size_t every)
{
	struct tensors t = { 0 };
	struct error e;
	size_t n = bytes_read / dtype_info[d].size;
	struct tensor *x = tensors_add(&t, "x", d, 1, &n);

	if (!x) {
		error_set(&e, E_MEMORY, path, NO_OFFSET, "%zu bytes", bytes_read);
		stop(&e);
	}
	#pragma omp parallel for
	for (size_t i = 0; i < n; i++) {
		uint32_t b = 0x3F000000 + (uint32_t)(i * 2654435761u >> 8 & 0xFFFFFE);
		uint16_t half = (uint16_t)(b >> 16 & 0xFFFE);
		b |= every && i % every == 0;
		half = (uint16_t)(half | (every && i % every == 0));
		memcpy((char *)x->data + i * dtype_info[d].size, d == DT_F32 ? (void *)&b : (void *)&half, dtype_info[d].size);
	}
	if (!tensors_write(&t, path, &e))
		stop(&e);
	tensors_free(&t);
}

/* Seconds to compare two files in the page cache. */
static double time_diff(const char *a, const char *b)
{
	struct tensors x, y;
	struct elementwise result;
	struct error e;
	double start = omp_get_wtime();

	if (!tensors_read(&x, a, &e) || !tensors_read(&y, b, &e) || !elementwise(&x.item[0], &y.item[0], 1, true, &result, &e))
		stop(&e);
	double seconds = omp_get_wtime() - start;
	elementwise_free(&result);
	tensors_free(&x);
	tensors_free(&y);
	return seconds;
}

/* Reads and diffs in turn, so that both meet the same load. */
static void add_rates(struct table *t, const char *what, const char *a, const char *b, const uint64_t *x)
{
	double read[REPEATS], both[REPEATS];

	for (int r = 0; r < REPEATS; r++) {
		read[r] = time_read(x);
		both[r] = time_diff(a, b);
	}
	double machine = (double)bytes_read / median(read, REPEATS), rate = 2 * (double)bytes_read / median(both, REPEATS);
	table_add(t, "%s", what);
	table_add(t, "%.1f GB/s", rate / 1e9);
	table_add(t, "%.1f GB/s", machine / 1e9);
	table_add(t, "%.2f", rate / machine);
}

static void diff(void)
{
	static const char *const heading[] = { "diff of two files", ">reads", ">the machine reads", ">ratio" };
	static const struct { const char *what; enum dtype dtype; size_t every; } files[] = {
		{ "F32, equal", DT_F32, 0 }, { "F32, one in 1000 differs", DT_F32, 1000 }, { "F32, all differ", DT_F32, 1 },
		{ "BF16, equal", DT_BF16, 0 }, { "BF16, one in 1000 differs", DT_BF16, 1000 }
	};
	struct table t = { .columns = 4, .heading = heading };
	char folder[] = "/tmp/etalon.bench.XXXXXX", a[64], b[64];
	uint64_t *x = buffer();

	if (!mkdtemp(folder)) {
		struct error e;
		error_set(&e, E_OPEN, folder, NO_OFFSET, "cannot make this folder");
		stop(&e);
	}
	snprintf(a, sizeof a, "%s/a", folder);
	snprintf(b, sizeof b, "%s/b", folder);
	printf("\nfiles of %zu MiB in the page cache; a buffer of as much summed by all threads\n", bytes_read >> 20);
	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		write_file(a, files[i].dtype, 0);
		write_file(b, files[i].dtype, files[i].every);
		add_rates(&t, files[i].what, a, b, x);
	}
	free(x);
	unlink(a);
	unlink(b);
	rmdir(folder);
	table_print(&t);
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
	printf("%s, %d threads; medians of %d runs\n", model, omp_get_max_threads(), REPEATS);
}

int main(void)
{
	machine();
	delta_rule();
	other_ops();
	diff();
	return 0;
}
