/* bench-gpu: Newton-Schulz in f16 with our symmetric product against the same with cuBLAS only. Times are medians of ROUNDS
 * replays of a CUDA graph, the two taking turns. */
#include <cmath>
#include <cstdio>

#include "bench/bench_gpu.h"
#include "bench/bench_gpu_page.h"
#include "bench/timed.cuh"
#include "fixtures/io/tensor.h"

enum { PRODUCTS = 10 };         /* in one timed graph */

newton_schulz_plan polar_express(enum algorithm a)
{
	newton_schulz_plan plan = { a, {
		{ 7.892582874424408f, -20.38301394587957f, 13.555306149406924f },
		{ 3.911484868135431f, -2.5464635929060884f, 0.4268988319673074f },
		{ 3.760657955697423f, -2.512819018216563f, 0.4323647349070073f },
		{ 3.160399673686287f, -2.149649518898498f, 0.3996366907664389f },
		{ 2.1910971618617303f, -1.441662010214663f, 0.328146487623155f } }, std::vector<bool>(5), 1e-7f };

	plan.restart[2] = a == GRAM;
	return plan;
}

/* ---- input and errors ---- */

/* Normal numbers of a hash of the place; rows shrink from 1 to 1/100, so that singular values spread. */
static __global__ void draw(f16 *x, int n, int m)
{
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	uint64_t z = i * 0x9e3779b97f4a7c15u + 1;

	if (i >= (size_t)n * m)
		return;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	float u = ((float)(z >> 40) + 1) * 0x1p-24f, v = (float)(z & 0xffffff) * 0x1p-24f;
	from_float(x[i], sqrtf(-2 * logf(u)) * cospif(2 * v) * exp10f(-2.0f * (float)(i / m) / (float)n));
}

enum { SUMS = 1024 };

/* sums[block] of (x - y)^2, y NULL: the unit matrix of `columns` columns; norm: of y^2 instead. */
static __global__ void sum_differences(const float *x, const float *y, size_t count, int columns, bool norm, double *sums)
{
	__shared__ double part[256];
	double sum = 0;

	for (size_t i = (size_t)blockIdx.x * 256 + threadIdx.x; i < count; i += (size_t)SUMS * 256) {
		double one = y ? y[i] : i / columns == i % columns, d = norm ? one : x[i] - one;
		sum += d * d;
	}
	part[threadIdx.x] = sum;
	__syncthreads();
	for (int half = 128; half; half /= 2) {
		if (threadIdx.x < half)
			part[threadIdx.x] += part[threadIdx.x + half];
		__syncthreads();
	}
	if (threadIdx.x == 0)
		sums[blockIdx.x] = part[0];
}

static double norm_of(const float *x, const float *y, size_t count, int columns, bool norm)
{
	buffer sums(sizeof(double) * SUMS);
	std::vector<double> list(SUMS);
	double sum = 0;

	sum_differences<<<SUMS, 256>>>(x, y, count, columns, norm, sums.as<double>());
	check(cudaGetLastError(), "sum_differences");
	sums.download(list.data());
	for (double part : list)
		sum += part;
	return sqrt(sum);
}

/* |y - right| / |right|, and |y y' - I| / sqrt(n), Frobenius norms; y [n,m]. */
struct errors { double distance, orthogonality; };

static errors errors_of(const buffer &y, const buffer &right, int n, int m, cublas &general)
{
	size_t count = (size_t)n * m;
	const float *a = y.as<const float>(), *b = right.as<const float>();
	buffer gram(sizeof(float) * n * n);

	general.multiply<float>({ n, n, m, m, m, n, 1, true }, 1, a, a, 0, nullptr, gram.as<float>(), nullptr);
	return { norm_of(a, b, count, m, false) / norm_of(a, b, count, m, true),
	         norm_of(gram.as<const float>(), nullptr, (size_t)n * n, n, false) / sqrt(n) };
}

/* ---- one shape ---- */

struct bench {
	cublas &general;
	cudaStream_t stream;
	int n, m;               /* n <= m, multiples of 8 */
	buffer x;
	double best_rate;       /* operations in a microsecond of cuBLAS' best product */
};

/* A A' of A [n,K] by cuBLAS and by every form: the symmetric product in its two uses. */
static void bench_product(bench &b, int K, const char *name)
{
	int n = b.n;
	const f16 *A = b.x.as<const f16>();
	buffer full(sizeof(f16) * n * n), half(sizeof(f16) * n * n);
	symmetric_product<f16> p = { A, A, nullptr, half.as<f16>(), n, K, K, n, 1, 1, 0, 0 };
	double operations = 2.0 * n * n * K;
	std::vector<const symmetric_form<f16> *> forms;
	std::vector<std::unique_ptr<timed>> all;
	std::vector<timed *> list;
	auto add = [&](const std::function<void()> &product) {
		all.emplace_back(new timed(b.stream, product, [=] {
			for (int i = 0; i < PRODUCTS; i++)
				product();
		}));
		list.push_back(all.back().get());
	};

	add([&] {
		b.general.multiply<f16>({ n, n, K, K, K, n, 1, true }, 1, A, A, 0, nullptr, full.as<f16>(), b.stream);
	});
	for (const auto &f : symmetric_forms<f16>())
		if (!f.hopper || limits().hopper) {
			const symmetric_form<f16> *form = &f;
			forms.push_back(form);
			add([&p, &b, form] { multiply_symmetric(p, b.stream, form); });
		}
	std::vector<double> t = times_of(list);
	for (double &z : t)
		z /= PRODUCTS;
	b.best_rate = fmax(b.best_rate, operations / t[0]);
	auto line = [&](const char *product, double needed, double us, bool chosen) {
		printf("%5d x %-5d  %-6s %-18s %9.1f %8.0f %8.2f %8.1f%s\n", n, K, name, product, us, needed / us * 1e-6,
		       t[0] / us, t[0] / 2, chosen ? "  chosen" : "");
	};
	std::string work = "symmetric_" + std::to_string(n) + "x" + std::to_string(K);
	line("cuBLAS, full", operations, t[0], false);
	note({ work, "cuBLAS, full", t[0], operations, operations / t[0], true });
	for (size_t i = 0; i < forms.size(); i++)
		line(forms[i]->name, operations / 2, t[i + 1], forms[i] == &best_form(p));
	for (size_t i = 0; i < forms.size(); i++)
		if (forms[i] == &best_form(p))
			note({ work, forms[i]->name, t[i + 1], operations / 2, operations / t[0], true });
}

/* Operations of the iteration: in symmetric products (in full) and in general ones. gram: X X'
 * and QX twice; five Z, three Q (the others are products with I), three pairs of RZ and R (none
 * before the restart and at the end). */
struct count { double symmetric, general; };

static count operations_of(enum algorithm a, double n, double m)
{
	double wide = 2 * n * n * m, square = 2 * n * n * n;

	if (a == STANDARD)
		return { 5 * (wide + square), 5 * wide };
	return { 2 * wide + (5 + 3 + 2 * 3) * square, 2 * wide };
}

static void bench_iteration(bench &b, enum algorithm a, const buffer &right)
{
	newton_schulz_plan plan = polar_express(a);
	newton_schulz<f16> ours(plan, b.n, b.m, 1, b.general, OWN, b.stream);
	newton_schulz<f16> theirs(plan, b.n, b.m, 1, b.general, CUBLAS_ONLY, b.stream);
	std::vector<errors> e;
	buffer y(sizeof(float) * b.n * b.m);
	operand x = { b.x.as<const void>(), DT_F16 };
	timed t_ours(b.stream, [&] { ours.load(x); }, [&] { ours.iterate(); });
	timed t_theirs(b.stream, [&] { theirs.load(x); }, [&] { theirs.iterate(); });
	std::vector<double> t = times_of({ &t_ours, &t_theirs });
	count operations = operations_of(a, b.n, b.m);

	for (newton_schulz<f16> *w : { &ours, &theirs }) {
		w->answer({ y.as<void>(), DT_F32 });
		check(cudaDeviceSynchronize(), "answer");
		e.push_back(errors_of(y, right, b.n, b.m, b.general));
	}
	auto line = [&](const char *engine, double needed, double us, const errors &error) {
		printf("%5d x %-5d  %-8s  %-6s %9.1f %9.1f %8.2f   %.3e  %.3e\n", b.n, b.m,
		       a == STANDARD ? "standard" : "gram", engine, us, needed / b.best_rate, t[1] / us, error.distance, error.orthogonality);
		std::string work = "schulz_" + std::to_string(b.n) + "x" + std::to_string(b.m);
		std::string kernel = std::string(a == STANDARD ? "standard, " : "gram, ") + engine;
		note({ work, kernel, us, needed, b.best_rate, true });
		note_errors(work, kernel, { error.distance });
	};
	line("cuBLAS", operations.symmetric + operations.general, t[1], e[1]);
	line("ours", operations.symmetric / 2 + operations.general, t[0], e[0]);
}

/* The standard iteration in f32 by cuBLAS: what errors are measured from. */
static void iterate_in_f32(const bench &b, buffer &y)
{
	newton_schulz<float> work(polar_express(STANDARD), b.n, b.m, 1, b.general, CUBLAS_ONLY, b.stream);

	work.load({ b.x.as<const void>(), DT_F16 });
	work.iterate();
	work.answer({ y.as<void>(), DT_F32 });
	check(cudaStreamSynchronize(b.stream), "f32");
}

/* x and y32 as a file for rivals. */
static void share(const bench &b, const buffer &right, const std::string &folder)
{
	std::string path = folder + "/schulz_" + std::to_string(b.n) + "x" + std::to_string(b.m) + ".safetensors";
	size_t shape[] = { (size_t)b.n, (size_t)b.m };
	tensors file = {};
	struct error e;
	tensor *x = tensors_add(&file, "in.x", DT_F16, 2, shape), *y = x ? tensors_add(&file, "truth.y", DT_F32, 2, shape) : nullptr;

	std::string list;
	char row[128];

	for (const polynomial &h : polar_express(STANDARD).coefficients) {
		snprintf(row, sizeof row, "%s[%.9g, %.9g, %.9g]", list.empty() ? "" : ", ", (double)h.a, (double)h.b, (double)h.c);
		list += row;
	}
	list = "{\"coefficients\": [" + list + "]}";
	if (!y || !meta_set(&file, "etalon.op", "newton_schulz") || !meta_set(&file, "etalon.params", list.c_str()))
		refuse(E_MEMORY, path.c_str(), "no memory");
	b.x.download(tensors_find(&file, "in.x")->data);
	right.download(tensors_find(&file, "truth.y")->data);
	bool written = tensors_write(&file, path.c_str(), &e);
	tensors_free(&file);
	if (!written)
		throw e;
}

void bench_products(cublas &general, cudaStream_t stream, const std::string &folder)
{
	static const int shapes[][2] = { { 1024, 4096 }, { 2048, 8192 }, { 5120, 17408 } };
	std::vector<bench> list;

	printf("\nA A', A [n,K], f16; rate: operations that the result needs (n^2 K for a form, 2 n^2 K in full) in 10^12/s\n"
	       "    n x K      use    product                   us  Tflop/s  speedup  floor us\n");
	for (auto [n, m] : shapes) {
		list.push_back({ general, stream, n, m, buffer(sizeof(f16) * n * m), 0 });
		bench &b = list.back();
		draw<<<blocks((size_t)n * m, 256), 256>>>(b.x.as<f16>(), n, m);
		check(cudaDeviceSynchronize(), "draw");
		bench_product(b, n, "A^2");
		bench_product(b, m, "X X'");
	}
	printf("\nNewton-Schulz of x [n,m], f16 iterates, Polar Express x 5 (safety 1.05), gram restarts before the third;\n"
	       "from the normalised X to y. floor: operations (halved where symmetric) at cuBLAS' best rate above.\n"
	       "error: |y - y32|/|y32|, y32 by the standard iteration in f32; orthogonality: |yy' - I|/sqrt n\n"
	       "    n x m      form      engine        us     floor  speedup   error      orthogonality\n");
	for (bench &b : list) {
		buffer right(sizeof(float) * b.n * b.m);

		iterate_in_f32(b, right);
		if (!folder.empty())
			share(b, right, folder);
		errors e = errors_of(right, right, b.n, b.m, general);
		for (enum algorithm a : { STANDARD, GRAM })
			bench_iteration(b, a, right);
		printf("%5d x %-5d  standard  f32    %28s   %.3e  %.3e\n", b.n, b.m, "", e.distance, e.orthogonality);
	}
}
