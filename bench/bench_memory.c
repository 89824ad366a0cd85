/* Comparison against the rate at which the machine reads two arrays, and against NumPy. */
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "compare/diff/elementwise.h"
#include "compare/logits/kl_sums.h"
#include "compare/logits/logit_row.h"
#include "compare/diff/scan.h"

struct two { const struct tensor *a, *b; size_t bytes; };
enum { WIDTH = 248320, ROWS = 256 };

typedef uint64_t line __attribute__((vector_size(64), aligned(8)));
enum { AHEAD = 4096 / sizeof(line) };

/* Both arrays, whole, 4 KiB ahead: as fast as the machine can. */
static void read_both(void *data)
{
	struct two *t = data;
	const line *a = t->a->data, *b = t->b->data;
	static volatile uint64_t used;

	#pragma omp parallel
	{
		line sum = { 0 };
		#pragma omp for
		for (size_t i = 0; i < t->bytes / 2 / sizeof *a; i++) {
			__builtin_prefetch(a + i + AHEAD), __builtin_prefetch(b + i + AHEAD);
			sum += a[i] ^ b[i];
		}
		used = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
	}
	(void)used;
}

static void compare(void *data)
{
	struct two *t = data;
	struct elementwise r;
	struct error e;

	if (!elementwise(t->a, t->b, 1, false, &r, &e)) exit(4);
	elementwise_free(&r);
}

void bench_divergences(const struct tensor *a, const struct tensor *b, size_t width)
{
	size_t bytes = width * dtype_info[a->dtype].size;

	#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < a->count / width; i++) {
		struct logit_row r;
		logit_row(a->dtype, (char *)a->data + i * bytes, b->dtype, (char *)b->data + i * bytes, width, 10, NULL, &r);
		if (!(r.kl >= 0)) exit(4);
	}
}

static void divergences(void *data)
{
	struct two *t = data;

	bench_divergences(t->a, t->b, WIDTH);
}

/* Logits, or numbers; b is off by up to 2^-12 of a. */
static void fill(struct tensors *t, enum dtype d, size_t n, const char *a, const char *b)
{
	if (!tensors_add(t, a, d, 1, &n) || !tensors_add(t, b, d, 1, &n)) exit(4);
	#pragma omp parallel for
	for (size_t first = 0; first < n; first += 4096) {
		double x[4096], y[4096];
		size_t m = n - first < 4096 ? n - first : 4096, size = dtype_info[d].size;
		for (size_t i = 0; i < m; i++) {
			uint64_t h = (first + i) * 0x9e3779b97f4a7c15u;
			double u = (double)(h >> 40) * 0x1p-24;
			x[i] = 12 * u * u * u + 0.25;
			y[i] = x[i] * (1 + ((double)(h >> 8 & 0xffff) - 32768) * 0x1p-27);
		}
		dtype_store(d, x, m, (char *)t->item[0].data + first * size);
		dtype_store(d, y, m, (char *)t->item[1].data + first * size);
	}
}

/* Bytes a second at which both arrays were read, in the row where it was lowest and where it was highest. */
static double lowest = INFINITY, highest;

static void rate(const char *what, const char *form, const char *where, void (*run)(void *), void *data, struct two *memory,
	const char *goal)
{
	struct bench_pair p = bench_turns(run, data, read_both, memory);

	printf("| %s%s%s | %.1f GB/s | %.1f GB/s | %.0f %% | %s |\n", what, form, where, 1e-9 * (double)memory->bytes / p.own,
		1e-9 * (double)memory->bytes / p.other, 100 * p.ratio, goal);
	lowest = fmin(lowest, (double)memory->bytes / p.other), highest = fmax(highest, (double)memory->bytes / p.other);
	fflush(stdout);
}

/* Two files of one tensor each, mapped and in the page cache. */
static void compare_files(void *data)
{
	char (*path)[64] = data;
	struct tensors x, y;
	struct elementwise r;
	struct error e;

	if (!tensors_read(&x, path[0], &e) || !tensors_read(&y, path[1], &e)) exit(4);
	if (!elementwise(&x.item[0], &y.item[0], 1, true, &r, &e)) exit(4);
	elementwise_free(&r);
	tensors_free(&x), tensors_free(&y);
}

static void from_files(struct tensors *made, const char *what, const char *form, const char *goal)
{
	char folder[] = "/tmp/etalon.bench.XXXXXX", path[2][64];
	struct two memory = { &made->item[0], &made->item[1], 2 * made->item[0].bytes };
	struct error e;

	if (!mkdtemp(folder)) exit(4);
	for (int i = 0; i < 2; i++) {
		struct tensors one = { .item = &made->item[i], .n = 1 };
		snprintf(path[i], sizeof path[i], "%s/%d", folder, i);
		if (!tensors_write(&one, path[i], &e)) exit(4);
	}
	rate(what, form, ", mapped files in the page cache", compare_files, path, &memory, goal);
	unlink(path[0]), unlink(path[1]), rmdir(folder);
}

static void logits(const char *form, const char *goal)
{
	struct tensors t = { 0 };

	fill(&t, DT_F32, (size_t)ROWS * WIDTH, "a", "b");
	struct two two = { &t.item[0], &t.item[1], (size_t)8 * ROWS * WIDTH };
	rate("KL both ways and top 10, 256 rows of 248,320 F32", form, "", divergences, &two, &two, goal);
	tensors_free(&t);
}

void bench_memory(void)
{
	static const struct { const char *what, *goal; enum dtype type; int size; } compared[] = {
		{ "F32, 2^28 elements", "85 %", DT_F32, 28 }, { "F64, 2^26 elements", "", DT_F64, 26 },
		{ "BF16, 2^27 elements", "", DT_BF16, 27 },
		{ "F16, 2^27 elements", "", DT_F16, 27 }
	};
	double f32 = NAN;

	printf("\n| all figures of two arrays | etalon | the machine reads both | of it | goal |\n|---|--:|--:|--:|--:|\n");
	for (size_t i = 0; i < sizeof compared / sizeof *compared; i++) {
		struct tensors t = { 0 };
		size_t n = (size_t)1 << compared[i].size;
		fill(&t, compared[i].type, n, "a", "b");
		struct two two = { &t.item[0], &t.item[1], 2 * n * dtype_info[compared[i].type].size };
		rate(compared[i].what, "", "", compare, &two, &two, compared[i].goal);
		if (compared[i].type == DT_F32) {
			f32 = bench_time(compare, &two) / 4;
			from_files(&t, compared[i].what, "", "60 %");
			if (scan_best() != scan_plain) {
				scan_use(scan_avx2);
				rate(compared[i].what, ", avx2", "", compare, &two, &two, "57 %");
				from_files(&t, compared[i].what, ", avx2", "40 %");
				scan_use(NULL);
			}
		}
		tensors_free(&t);
	}
	logits("", "45 %");
	if (kl_best() != &kl_plain) {
		kl_use(&kl_avx2);
		logits(", avx2", "30 %");
		kl_use(NULL);
	}
	printf("\nBoth turns of a row share its moment; from row to row the machine read %.0f to %.0f GB/s.\n", 1e-9 * lowest, 1e-9 * highest);
	printf("\n| | etalon | peer | its time | ratio | goal |\n|---|--:|---|--:|--:|--:|\n");
	bench_ratio("all figures of two arrays of 2^26 F32", f32, "NumPy", peer_numpy(), "");
}
