/* ref/approx against what a GPU answered to all 2^32 inputs, as sums over blocks of them. Not part of the build:
 *   gcc -O3 -flto -march=native -fopenmp -I. -o approx_check tests/studies/approx_check.c ref/approx/approx.c ref/approx/approx_tables.c \
 *       ref/approx/square.c -lm && ./approx_check SUMS [STEP]
 * SUMS: what `approx_record sums` wrote. STEP: one block in so many; 1. All: some 17 minutes of one core. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/ref/approx/variants.h"

static uint32_t sums[VARIANTS][1 << 14];

int main(int argc, char **argv)
{
	FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
	int wrong = 0, step = argc > 2 ? atoi(argv[2]) : 1;

	if (!f || step < 1 || fread(sums, sizeof sums, 1, f) != 1) { fprintf(stderr, "approx_check: %d words are expected\n", VARIANTS << 14); return 2; }
	for (int v = 0; v < VARIANTS; v++) {
		int differ = 0, first = 1 << 14, seen = 0;
		#pragma omp parallel for schedule(dynamic) reduction(+: differ, seen) reduction(min: first)
		for (int b = 0; b < 1 << 14; b += step) {
			seen++;
			if (variant_sum(v, (uint32_t)b << 18, 1 << 18) != sums[v][b]) differ++, first = b < first ? b : first;
		}
		printf("%-10s %d of %d blocks differ", variant_names[v], differ, seen);
		if (differ) printf(", first 0x%08x", (uint32_t)first << 18);
		puts("");
		fflush(stdout);
		wrong |= differ;
	}
	return wrong != 0;
}
