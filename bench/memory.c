/* Comparison against the rate at which the machine reads two arrays, and against NumPy. */
#include <stdlib.h>
#include <unistd.h>

#include "bench/bench.h"
#include "compare/diff/elementwise.h"
#include "compare/logits/kl_sums.h"
#include "compare/logits/logit_row.h"
#include "compare/diff/scan.h"

struct two { const struct tensor *a, *b; double bytes; size_t width; };
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
		for (size_t i = 0; i < t->a->bytes / sizeof *a; i++) {
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

	if (!elementwise(t->a, t->b, 1, false, &r, &e)) bench_stop("elementwise");
	elementwise_free(&r);
}

/* Divergences both ways and top 10 of rows, on all cores. */
static void divergences(void *data)
{
	struct two *t = data;
	size_t bytes = t->width * dtype_info[t->a->dtype].size;

	#pragma omp parallel for schedule(dynamic)
	for (size_t i = 0; i < t->a->count / t->width; i++) {
		const char *a = (char *)t->a->data + i * bytes, *b = (char *)t->b->data + i * bytes;
		struct logit_row r;
		logit_row(t->a->dtype, a, t->b->dtype, b, t->width, 10, NULL, &r);
		if (!(r.kl >= 0)) bench_stop("logit_row");
	}
}

/* Logits, or numbers; b is off by up to 2^-12 of a. */
static struct two fill(struct tensors *t, enum dtype d, size_t n)
{
	if (!tensors_add(t, "a", d, 1, &n) || !tensors_add(t, "b", d, 1,
		&n)) bench_stop("no memory");
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
	return (struct two){ &t->item[0], &t->item[1], 2.0 * (double)t->item[0].bytes, WIDTH };
}

static void rate(const char *what, const char *way, void (*run)(void *), void *data,
	struct two *two, double goal)
{
	struct bench_pair p = bench_turns(run, data, read_both, two);

	row_print((struct row){ .table = "reading", .row = what, .way = way,
		.ours = two->bytes / p.own, .unit = "B/s",
		.moved = two->bytes, .rival = "the machine reads both",
		.theirs = two->bytes / p.other, .ratio = p.ratio,
		.goal = goal });
}

/* Two files of one tensor each, mapped and in the page cache. */
static void compare_files(void *data)
{
	char (*path)[64] = data;
	struct tensors x, y;
	struct elementwise r;
	struct error e;

	if (!tensors_read(&x, path[0], &e) || !tensors_read(&y, path[1],
		&e)) bench_stop("its files");
	if (!elementwise(&x.item[0], &y.item[0], 1, true, &r, &e)) bench_stop("elementwise");
	elementwise_free(&r);
	tensors_free(&x), tensors_free(&y);
}

static void from_files(struct tensors *made, struct two *two, const char *what, const char *way,
	double goal)
{
	char folder[] = "/tmp/etalon.bench.XXXXXX", path[2][64];
	struct error e;

	if (!mkdtemp(folder)) bench_stop("/tmp");
	for (int i = 0; i < 2; i++) {
		struct tensors one = { .item = &made->item[i], .n = 1 };
		snprintf(path[i], sizeof path[i], "%s/%d", folder, i);
		if (!tensors_write(&one, path[i], &e)) bench_stop(path[i]);
	}
	rate(what, way, compare_files, path, two, goal);
	unlink(path[0]), unlink(path[1]), rmdir(folder);
}

/* F32 too from files, and with AVX2 where that is not what runs; returns the seconds that F32
 * takes. */
static double arrays(int smaller)
{
	static const struct { const char *what; enum dtype type; int size; double goal; } all[] = {
		{ "F32, 2^28 elements", DT_F32, 28, 0.85 }, { "F64, 2^26 elements", DT_F64, 26, 0 },
		{ "BF16, 2^27 elements", DT_BF16, 27, 0 }, { "F16, 2^27 elements", DT_F16, 27, 0 }
	};
	double f32 = NAN;

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct tensors t = { 0 };
		struct two two = fill(&t, all[i].type, (size_t)1 << (all[i].size - smaller));
		rate(all[i].what, "", compare, &two, &two, all[i].goal);
		if (all[i].type == DT_F32) {
			f32 = bench_time(compare, &two);
			from_files(&t, &two, all[i].what, ", mapped files in the page cache", 0.60);
		}
		if (all[i].type == DT_F32 && scan_best() != scan_plain) {
			scan_use(scan_avx2);
			rate(all[i].what, ", avx2", compare, &two, &two, 0.57);
			from_files(&t, &two, all[i].what, ", avx2, mapped files in the page cache",
				0.40);
			scan_use(NULL);
		}
		tensors_free(&t);
	}
	return f32;
}

static void logits(size_t rows)
{
	static const char what[] = "KL both ways and top 10, 256 rows of 248,320 F32";
	struct tensors t = { 0 };
	struct two two = fill(&t, DT_F32, rows * WIDTH);

	rate(what, "", divergences, &two, &two, 0.45);
	if (kl_best() != &kl_plain) {
		kl_use(&kl_avx2);
		rate(what, ", avx2", divergences, &two, &two, 0.30);
		kl_use(NULL);
	}
	tensors_free(&t);
}

static void vocabularies(size_t most)
{
	for (size_t width = 1 << 14; width <= most; width *= 4) {
		struct tensors t = { 0 };
		struct two two = fill(&t, DT_F32, 64 * width);
		char name[24];
		two.width = width;
		snprintf(name, sizeof name, "%zu", width);
		row_print((struct row){ .table = "vocabulary", .row = name,
			.ours = bench_time(divergences, &two), .unit = "s" });
		tensors_free(&t);
	}
}

int main(void)
{
	int smaller = bench_quick() ? 8 : 0;
	double own = arrays(smaller) / 4, theirs = smaller ? NAN : peer_python("compare");

	row_print((struct row){ .table = "numpy", .row = "all figures of two arrays of 2^26 F32",
		.ours = own, .unit = "s",
		.rival = "NumPy", .theirs = theirs, .ratio = isnan(theirs) ? 0 : theirs / own });
	logits(ROWS >> smaller / 2);
	vocabularies(1 << (20 - smaller / 2));
	return 0;
}
