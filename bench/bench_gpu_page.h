/* docs/performance-gpu.md: what the parts of bench-gpu found, in one table. */
#ifndef ETALON_BENCH_GPU_PAGE_H
#define ETALON_BENCH_GPU_PAGE_H

#include <cstdio>
#include <string>
#include <vector>

/* Of one kernel on one work. A work's name is that of its shared call (bench_gpu_works.c), behind it perhaps "_SIZE". The
 * last kernel noted of a work stands beside its rivals. */
struct measured {
	std::string work, kernel;
	double us, needed, rate;        /* bytes moved, or operations; rate: of the copy or the product in the same rounds, a us */
	bool product;
	double all = 0;                 /* bytes moved with all else, where `needed` counts one thing alone; 0: no such */
};

/* "error": a float64 reference's, or a distance of its own, as the work's line on the page says; of each output. */
void note(const measured &m);
void note_errors(const std::string &work, const std::string &kernel, const std::vector<double> &errors);

/* Runs python3's rivals on the files in the folder; says on stderr which are missing. */
void run_rivals(const std::string &folder);

/* All that was noted. about: the device and what it runs, a line. */
void print_page(FILE *to, const std::string &about);

/* Of it, for docs/ladder.md: works that have several kernels, and how many times as fast as the first each is. */
void print_gains(FILE *to, const std::string &about);

#endif
