/* ref/approx against what a GPU answered to all 2^32 inputs, as sums over blocks of them; and what of that the test keeps. Not part of the build:
 *   gcc -O3 -flto -march=native -fopenmp -I. -o approx_check tests/studies/approx_check.c ref/approx/approx.c ref/approx/approx_tables.c \
 *       ref/approx/square.c -lm && ./approx_check SUMS [STEP]
 * SUMS: what `approx_record sums` wrote. STEP: one block in so many; 1. All: some 17 minutes of one core.
 *   ./approx_check SUMS keep SAMPLES DEVICE >tests/ref/approx/hopper.safetensors
 * SAMPLES: what `approx_record samples` wrote. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/ref/approx/variants.h"

static uint32_t sums[VARIANTS][1 << 14];

/* The sums of octaves, and the answers to 256 inputs. */
static int keep(FILE *samples, const char *device)
{
	static uint32_t in[2][1 << 16], octaves[KEPT][512], kept[KEPT][256];
	char head[1000];

	for (int v = 0; v < KEPT; v++) {
		if (fread(in, sizeof in, 1, samples) != 1) return 2;
		for (int b = 0; b < 1 << 14; b++) octaves[v][b >> 5] += sums[v][b];
		for (uint32_t i = 0; i < 256; i++) kept[v][i] = in[1][variant_sample(i) >> 16];
	}
	int n = snprintf(head, sizeof head, "{\"__metadata__\":{\"device\":\"%s\"},\"sums\":{\"dtype\":\"I32\",\"shape\":[%d,512],\"data_offsets\":[0,%zu]},"
		"\"samples\":{\"dtype\":\"I32\",\"shape\":[%d,256],\"data_offsets\":[%zu,%zu]}}", device, KEPT, sizeof octaves, KEPT, sizeof octaves,
		sizeof octaves + sizeof kept);
	for (; n % 8; n++) head[n] = ' ';
	uint64_t length = (uint64_t)n;
	fwrite(&length, 8, 1, stdout);
	fwrite(head, 1, length, stdout);
	fwrite(octaves, sizeof octaves, 1, stdout);
	return fwrite(kept, sizeof kept, 1, stdout) == 1 ? 0 : 4;
}

int main(int argc, char **argv)
{
	FILE *f = argc > 1 ? fopen(argv[1], "rb") : NULL;
	int wrong = 0, step = argc > 2 && argc < 5 ? atoi(argv[2]) : 1;

	if (!f || step < 1 || fread(sums, sizeof sums, 1, f) != 1) { fprintf(stderr, "approx_check: %d words are expected\n", VARIANTS << 14); return 2; }
	FILE *samples = argc > 4 && !strcmp(argv[2], "keep") ? fopen(argv[3], "rb") : NULL;
	if (samples) return keep(samples, argv[4]);
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
