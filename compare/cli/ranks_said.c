/* What ranks have done, for those who wait for them. */
#include "ranks_said.h"

#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "ref/ranks/ranks.h"

enum { PROCESSOR, WAITED, SENT, BYTES, PEAK, MAPPED };

static uint64_t of_status(const char *line)
{
	FILE *f = fopen("/proc/self/status", "re");
	char text[128];
	unsigned long long kib = 0;

	while (f && fgets(text, sizeof text, f))
		if (!strncmp(text, line, strlen(line))) sscanf(text + strlen(line), ": %llu", &kib);
	if (f) fclose(f);
	return kib * 1024;
}

static uint64_t bits(double x) { uint64_t b; memcpy(&b, &x, sizeof b); return b; }
static double number(uint64_t b) { double x; memcpy(&x, &b, sizeof x); return x; }

void ranks_said(FILE *to)
{
	struct rank_figures f = ranks_figures();
	struct timespec t;
	uint64_t mine[RANK_WORDS] = { 0 }, all[ranks_count()][RANK_WORDS];

	if (ranks_count() == 1) return;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	mine[PROCESSOR] = bits((double)t.tv_sec + 1e-9 * (double)t.tv_nsec);
	mine[WAITED] = bits(f.waited), mine[SENT] = bits(f.sent), mine[BYTES] = f.bytes;
	mine[PEAK] = of_status("VmHWM"), mine[MAPPED] = of_status("RssFile");
	ranks_meet(2, mine, all);
	for (int r = 0; r < ranks_count(); r++)
		fprintf(to, "rank %d: %.1f s of processors; waited %.1f s for others and %.1f s for what they sent, %.3g GB; at most %.3g GB of memory, %.3g GB"
			" of it mapped files at the end\n", r, number(all[r][PROCESSOR]), number(all[r][WAITED]), number(all[r][SENT]), 1e-9 * (double)all[r][BYTES],
			1e-9 * (double)all[r][PEAK], 1e-9 * (double)all[r][MAPPED]);
}
