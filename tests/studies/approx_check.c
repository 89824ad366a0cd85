/* ref/approx against what a GPU answered to all 2^32 inputs, as sums over blocks of them. Not part of the build:
 *   gcc -O2 -march=native -fopenmp -I. -o approx_check tests/studies/approx_check.c ref/approx/*.c -lm && ./approx_check SUMS [VARIANT …]
 * SUMS: what `approx_record sums` wrote. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/ref/approx/variants.h"

static uint32_t sums[VARIANTS][1 << 14];

int main(int argc, char **argv)
{
	FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
	int wrong = 0;

	if (!f || fread(sums, sizeof sums, 1, f) != 1) { fprintf(stderr, "approx_check: %d words are expected\n", VARIANTS << 14); return 2; }
	for (int v = 0; v < VARIANTS; v++) {
		int asked = argc == 2, differ = 0, first = 1 << 14;
		for (int i = 2; i < argc; i++) asked |= !strcmp(argv[i], variant_names[v]);
		if (!asked) continue;
		#pragma omp parallel for schedule(dynamic) reduction(+: differ) reduction(min: first)
		for (int b = 0; b < 1 << 14; b++)
			if (variant_sum(v, (uint32_t)b << 18, 1 << 18) != sums[v][b]) differ++, first = b < first ? b : first;
		printf("%-10s %d of 16384 blocks differ", variant_names[v], differ);
		if (differ) printf(", first 0x%08x", (uint32_t)first << 18);
		puts("");
		fflush(stdout);
		wrong |= differ;
	}
	return wrong != 0;
}
