/* bench-gpu: Newton-Schulz in f16 with our symmetric product against the same with cuBLAS only.
 * The two take turns. */
#include <cmath>

#include "bench/gpu.h"
#include "bench/gpu_timed.cuh"
#include "bench/gpu_works.h"
#include "fixtures/io/tensor.h"

enum { PRODUCTS = 10 };         /* in one timed graph */

newton_schulz_plan polar_express(enum algorithm a)
{
	newton_schulz_plan plan = { a, {
		{ 7.892582874424408f, -20.38301394587957f, 13.555306149406924f },
		{ 3.911484868135431f, -2.5464635929060884f, 0.4268988319673074f },
		{ 3.760657955697423f, -2.512819018216563f, 0.4323647349070073f },
		{ 3.160399673686287f, -2.149649518898498f, 0.3996366907664389f },
		{ 2.1910971618617303f, -1.441662010214663f, 0.328146487623155f } },
			std::vector<bool>(5), 1e-7f };

	plan.restart[2] = a == GRAM;
	return plan;
}

/* ---- errors ---- */

static std::vector<float> on_host(const buffer &b)
{
	std::vector<float> x(b.bytes() / sizeof(float));

	b.download(x.data());
	return x;
}

/* |y - right| / |right| of numbers, and |y y' - I| / sqrt(n), Frobenius norms; y [n,m]. */
static double distance(const buffer &y, const buffer &right)
{
	std::vector<float> a = on_host(y), b = on_host(right);
	double apart = 0, size = 0;

	for (size_t i = 0; i < a.size(); i++) {
		double d = (double)a[i] - (double)b[i];
		apart += d * d, size += (double)b[i] * (double)b[i];
	}
	return sqrt(apart / size);
}

static double orthogonality(const buffer &y, int n, int m, cublas &general)
{
	const float *a = y.as<const float>();
	buffer gram(sizeof(float) * n * n);
	double apart = 0;

	general.multiply<float>({ n, n, m, m, m, n, 1, true }, 1, a, a, 0, nullptr,
		gram.as<float>(), nullptr);
	std::vector<float> g = on_host(gram);
	for (size_t i = 0; i < g.size(); i++) {
		double d = (double)g[i] - (i / n == i % n);
		apart += d * d;
	}
	return sqrt(apart / n);
}

/* ---- one shape ---- */

struct bench {
	cublas &general;
	cudaStream_t stream;
	int n, m;               /* n <= m, multiples of 8 */
	buffer x;
	double best_rate;       /* operations in a microsecond of cuBLAS' best product */
};

/* "1024x4096" */
static std::string sized(int n, int m) { return std::to_string(n) + "x" + std::to_string(m); }

/* A A' of A [n,K] by cuBLAS and by every form: the symmetric product in its two uses. The form
 * that is chosen is a kernel of the work, the others are forms. */
static void bench_product(bench &b, int K)
{
	int n = b.n;
	const f16 *A = b.x.as<const f16>();
	buffer full(sizeof(f16) * n * n), half(sizeof(f16) * n * n);
	symmetric_product<f16> p = { A, A, nullptr, half.as<f16>(), n, K, K, n, 1, 1, 0, 0 };
	double operations = 2.0 * n * n * K;
	std::vector<const symmetric_form<f16> *> forms;
	std::vector<job> jobs = { { [&] {
		b.general.multiply<f16>({ n, n, K, K, K, n, 1, true }, 1, A, A, 0, nullptr,
			full.as<f16>(), b.stream);
	} } };

	for (const auto &f : symmetric_forms<f16>())
		if (!f.hopper || limits().hopper) {
			const symmetric_form<f16> *form = &f;
			forms.push_back(form);
			jobs.push_back({ [&p, &b, form] { multiply_symmetric(p, b.stream,
				form); } });
		}
	std::vector<double> t = times_of(b.stream, jobs, PRODUCTS);
	std::string work = "symmetric_" + sized(n, K);
	b.best_rate = fmax(b.best_rate, operations / t[0]);
	note("kernel", work, "cuBLAS, full", t[0], t[0], operations, "flop");
	for (size_t i = 0; i < forms.size(); i++)
		note(forms[i] == &best_form(p) ? "kernel" : "form", work, forms[i]->name, t[i + 1],
			t[0] / 2, operations / 2, "flop");
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
	buffer y(sizeof(float) * b.n * b.m);
	operand x = { b.x.as<const void>(), DT_F16 };
	std::vector<double> t = times_of(b.stream, {
		{ [&] { theirs.iterate(); }, [&] { theirs.load(x); } },
		{ [&] { ours.iterate(); }, [&] { ours.load(x); } },
	});
	count operations = operations_of(a, b.n, b.m);

	for (newton_schulz<f16> *w : { &theirs, &ours }) {
		bool own = w == &ours;
		double needed = operations.symmetric / (own ? 2 : 1) + operations.general;
		std::string work = "schulz_" + sized(b.n, b.m);
		std::string kernel = a == STANDARD ? "standard, " : "gram, ";
		char error[32];

		w->answer({ y.as<void>(), DT_F32 });
		check(cudaDeviceSynchronize(), "answer");
		kernel += own ? "ours" : "cuBLAS";
		snprintf(error, sizeof error, "%.3e", distance(y, right));
		note("kernel", work, kernel, t[own], needed / b.best_rate, needed, "flop");
		note("error", work, kernel, 0, 0, 0, "", error);
		note("orthogonality", work, kernel, orthogonality(y, b.n, b.m, b.general));
	}
}

/* The standard iteration in f32 by cuBLAS: what errors are measured from. */
static void iterate_in_f32(const bench &b, buffer &y)
{
	newton_schulz<float> work(polar_express(STANDARD), b.n, b.m, 1, b.general, CUBLAS_ONLY,
		b.stream);

	work.load({ b.x.as<const void>(), DT_F16 });
	work.iterate();
	work.answer({ y.as<void>(), DT_F32 });
	check(cudaStreamSynchronize(b.stream), "f32");
}

/* x and y32 as a file for rivals. */
static void share(const bench &b, const buffer &right, const std::string &folder)
{
	std::string path = folder + "/schulz_" + sized(b.n, b.m) + ".safetensors";
	size_t shape[] = { (size_t)b.n, (size_t)b.m };
	tensors file = {};
	struct error e;
	bool room = tensors_add(&file, "in.x", DT_F16, 2, shape)
		&& tensors_add(&file, "truth.y", DT_F32, 2, shape);

	if (!room || !meta_set(&file, "etalon.op", "newton_schulz")
		|| !meta_set(&file, "etalon.params", "{\"coefficients\": " POLAR_EXPRESS "}"))
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

	for (auto [n, m] : shapes) {
		list.push_back({ general, stream, n, m, drawn<f16>((size_t)n * m, 1, 0, m, 0.01f),
			0 });
		bench_product(list.back(), n);
		bench_product(list.back(), m);
	}
	for (bench &b : list) {
		buffer right(sizeof(float) * b.n * b.m);

		iterate_in_f32(b, right);
		if (!folder.empty())
			share(b, right, folder);
		note("orthogonality", "schulz_" + sized(b.n, b.m), "standard, f32",
		     orthogonality(right, b.n, b.m, general));
		for (enum algorithm a : { STANDARD, GRAM })
			bench_iteration(b, a, right);
	}
}
