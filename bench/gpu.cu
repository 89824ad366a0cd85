/* bench-gpu: its parts, and all of them in one run, as rows (bench/row.h). */
#include <cstring>
#include <sys/stat.h>

#include "bench/gpu.h"
#include "bench/gpu_timed.cuh"
#include "bench/gpu_works.h"
#include "fixtures/io/error.h"

/* bench/rivals.py prints rows too; it says on stderr which rivals are missing. */
static void run_rivals(const std::string &folder)
{
	std::string command = "python3 bench/rivals.py '" + folder + "'";
	FILE *from = popen(command.c_str(), "r");
	char line[512];

	while (from && fgets(line, sizeof line, from))
		fputs(line, stdout);
	if (!from || pclose(from) != 0)
		fprintf(stderr, "bench-gpu: %s failed; rivals that it did not reach are missing\n",
			command.c_str());
}

static void print_device(const cudaDeviceProp &device)
{
	char to[512], driver[64] = "";
	FILE *from = popen("nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null", "r");

	if (from && fgets(driver, sizeof driver, from))
		driver[strcspn(driver, "\n")] = 0;
	if (from)
		pclose(from);
	snprintf(to, sizeof to, "%s, %d multiprocessors, driver %s, CUDA %d.%d; median of %d rounds after %d%s", device.name,
	         device.multiProcessorCount, driver[0] ? driver : "unknown", CUDART_VERSION / 1000,
	         CUDART_VERSION % 1000 / 10,
	         ROUNDS, WARM, wgmma_form::overlap ? "" : "; grids do not overlap");
	note("device", to);
}

static void bench_all(cublas &general, cudaStream_t stream, const char *path)
{
	std::string folder = std::string(path) + ".rivals";
	struct error e;

	mkdir(folder.c_str(), 0777);
	bench_products(general, stream, folder);
	bench_executor();
	bench_fused(stream);
	bench_rows(stream);
	bench_prefill(stream);
	if (!bench_works(folder.c_str(), &e))
		throw e;
	note("rivals", "python3 cannot import torch, so all rivals are missing");
	run_rivals(folder);
}

static int run(const std::string &part, const char *path)
{
	cudaDeviceProp device;
	cudaStream_t stream;

	check(cudaGetDeviceProperties(&device, 0), "device 0");
	check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
	cublas general;
	if (part == "--selftest")
		return selftest(general) ? 0 : 1;
	if (part == "--page" && !freopen(path, "w", stdout))
		refuse(E_OPEN, path, "cannot be written");
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);  /* rows that are there stay if it is stopped */
	print_device(device);
	if (part == "--executor")
		bench_executor();
	else if (part == "--fused")
		bench_fused(stream);
	else if (part == "--rows")
		bench_rows(stream);
	else if (part == "--prefill")
		bench_prefill(stream);
	else if (part == "--page")
		bench_all(general, stream, path);
	else
		bench_products(general, stream, "");
	if (fflush(stdout) != 0 || ferror(stdout))
		refuse(E_OPEN, path ? path : "stdout", "cannot be written");
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const parts[] = { "--selftest", "--no-overlap", "--products",
		"--executor", "--fused", "--rows",
		"--prefill", "--page" };
	std::string part = argc > 1 ? argv[1] : "";
	bool known = std::find(std::begin(parts), std::end(parts), part) != std::end(parts);

	if (!known || argc != (part == "--page" ? 3 : 2)) {
		fprintf(stderr, "usage: bench-gpu --page FILE | --selftest | --products | --no-overlap | --executor | --fused | --rows | --prefill\n"
		        "What is measured, as tab-separated rows. --page: all of it into FILE, for `make bench-gpu-page PAGE=FILE`;\n"
		        "FILE.rivals: a folder for what rivals need. --no-overlap: products whose grids do not overlap\n");
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
