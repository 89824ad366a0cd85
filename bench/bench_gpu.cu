/* bench-gpu: its parts, and all of them in one run with its page. */
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <sys/stat.h>

#include "bench/bench_gpu.h"
#include "bench/bench_gpu_page.h"
#include "bench/bench_gpu_works.h"
#include "bench/timed.cuh"
#include "fixtures/io/error.h"

static void found(const char *work, const char *kernel, int n, const double *errors)
{
	printf("  %-16s %-48s", work, kernel);
	for (int i = 0; i < n; i++)
		printf(" %.3e", errors[i]);
	putchar('\n');
	note_errors(work, kernel, std::vector<double>(errors, errors + n));
}

static void write_page(const std::string &path, void print(FILE *, const std::string &), const std::string &about)
{
	FILE *to = fopen(path.c_str(), "w");

	if (to)
		print(to, about);
	if (!to || fclose(to) != 0)
		refuse(E_OPEN, path.c_str(), "cannot be written");
}

/* Everything, and the page. */
static void bench_page(cublas &general, cudaStream_t stream, const std::string &path, const std::string &about)
{
	std::string folder = path + ".rivals";
	struct error e;

	mkdir(folder.c_str(), 0777);
	bench_products(general, stream, folder);
	bench_executor();
	bench_fused();
	bench_rows(stream);
	bench_prefill(stream);
	printf("\nerrors |x - y| / |y| of each output, y the reference in float64\n");
	if (!bench_works(folder.c_str(), found, &e))
		throw e;
	fflush(stdout);
	run_rivals(folder);
	write_page(path, print_page, about);
	write_page(path + ".ladder", print_gains, about);
}

static std::string device_line(const cudaDeviceProp &device)
{
	char to[512], driver[64] = "";
	FILE *from = popen("nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null", "r");

	if (from && fgets(driver, sizeof driver, from))
		driver[strcspn(driver, "\n")] = 0;
	if (from)
		pclose(from);
	snprintf(to, sizeof to, "%s, %d multiprocessors, driver %s, CUDA %d.%d; median of %d rounds after %d%s", device.name,
	         device.multiProcessorCount, driver[0] ? driver : "unknown", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10, ROUNDS,
	         WARM, wgmma_form::overlap ? "" : "; grids do not overlap");
	return to;
}

static int run(const std::string &part, const char *path)
{
	cudaDeviceProp device;
	cudaStream_t stream;

	check(cudaGetDeviceProperties(&device, 0), "device 0");
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
	std::string about = device_line(device);
	printf("%s\n", about.c_str());
	if (part == "--executor")
		bench_executor();
	else if (part == "--fused")
		bench_fused();
	else if (part == "--rows")
		bench_rows(stream);
	else if (part == "--prefill")
		bench_prefill(stream);
	else {
		cublas general;

		if (part == "--selftest")
			return selftest(general) ? 0 : 1;
		if (part == "--page")
			bench_page(general, stream, path, about);
		else
			bench_products(general, stream, "");
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const parts[] = { "--selftest", "--no-overlap", "--products", "--executor", "--fused", "--rows",
		"--prefill", "--page" };
	std::string part = argc > 1 ? argv[1] : "";
	bool known = std::find(std::begin(parts), std::end(parts), part) != std::end(parts);

	if (!known || argc != (part == "--page" ? 3 : 2)) {
		fprintf(stderr, "usage: bench-gpu --page FILE | --selftest | --products | --no-overlap | --executor | --fused | --rows | --prefill\n"
		        "FILE.rivals: a folder for what rivals need; FILE.ladder: what docs/ladder.md shows of it\n"
		        "--no-overlap: products whose grids do not overlap\n");
		return 2;
	}
	wgmma_form::overlap = part != "--no-overlap";
	try {
		return run(part, argv[2]);
	} catch (const struct error &e) {
		error_print(stderr, &e);
		fputc('\n', stderr);
		return error_exit(&e);
	}
}
