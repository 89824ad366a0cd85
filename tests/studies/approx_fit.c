/* Made ref/approx/approx_tables.c from recordings of one GPU: for each interval of each table the only coefficients with which
 *   F = K + C1 x + 2 C2 S(x)    in units of 2^-40, x of 17 bits, S the square without its columns below 2^19, over 2^19
 * cut to a float is what the GPU answered, for every x recorded. Not part of the build:
 *   gcc -O2 -march=native -I. -o approx_fit tests/studies/approx_fit.c ref/approx/square.c -lm && ./approx_fit FOLDER >ref/approx/approx_tables.c
 * FOLDER has what approx_record.cu wrote, as VARIANT.SIGN.EXPONENT: [1,2) of ex2, rcp, rsqrt, sqrt, [2,4) of rsqrt, sqrt, lg2,
 * [2,4), [4,8), [8,16), [32,64) of sin and cos, [2^-8,2^-7) up to [4,8) of tanh. An interval without such coefficients, or with more
 * than one choice of C1 and C2, is said on stderr. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ref/approx/square.h"

enum { XS = 1 << 17, MOST = 128, NEAR = 4 };
#define UNIT 48                 /* bounds of F in 2^-48; a unit of K and C1 is 2^8 of them, one of C2 2^9 */

/* The answers for all x of one interval: low[x] <= F < high[x]; low > high: not recorded. */
static int64_t (*low)[XS], (*high)[XS], square[XS];
static struct piece { int64_t least, most, c1, c2; } pieces[MOST];

static uint32_t *octave(const char *folder, const char *name, int exponent)
{
	static uint32_t y[1 << 23];
	char path[500];

	snprintf(path, sizeof path, "%s/%s.0.%d", folder, name, exponent);
	FILE *f = fopen(path, "rb");
	if (!f || fread(y, 4, 1 << 23, f) != 1 << 23) { fprintf(stderr, "approx_fit: %s: 2^23 words are expected\n", path); exit(2); }
	fclose(f);
	return y;
}

/* F, taken down by `down`, was cut to the float y, |y| 2^power is meant. */
static void bound(int interval, int x, uint32_t y, int power, int64_t down)
{
	int exponent = (int)(y >> 23 & 255) - 150 + UNIT + power;
	int64_t m = (int64_t)(y & 0x7fffff) | 0x800000, l, u;

	if (!(y & 0x7f800000)) return;
	l = exponent >= 0 ? m << exponent : m >> -exponent;
	u = exponent >= 0 ? 1ll << exponent : 1;
	l -= down, u += l;
	if (l > low[interval][x]) low[interval][x] = l;
	if (u < high[interval][x]) high[interval][x] = u;
}

static int64_t room(int interval, int step, int64_t c1, int64_t c2, int64_t *least)
{
	int64_t most = INT64_MAX / 4;

	*least = -most;
	for (int x = 0; x < XS; x += step) {
		int64_t d = (c1 * x + 2 * c2 * square[x]) * 256;
		if (low[interval][x] < -(1ll << 60)) continue;
		if (low[interval][x] - d > *least) *least = low[interval][x] - d;
		if (high[interval][x] - d < most) most = high[interval][x] - d;
	}
	return most - *least;
}

/* Least squares of the bounds' middles on 1, x, S(x). */
static void near(int interval, double *c1, double *c2)
{
	double m[3][4] = { { 0 } };

	for (int x = 0; x < XS; x += 7) {
		double f[3] = { 1, (double)x / XS, (double)square[x] / 32768 }, v = (double)low[interval][x] / 2 + (double)high[interval][x] / 2;
		if (low[interval][x] < -(1ll << 60)) continue;
		for (int i = 0; i < 3; i++) {
			for (int j = 0; j < 3; j++) m[i][j] += f[i] * f[j];
			m[i][3] += f[i] * (v - (double)low[interval][XS / 2]);
		}
	}
	for (int i = 0; i < 3; i++)
		for (int k = 0; k < 3; k++) {
			double r = m[k][i] / m[i][i];
			for (int j = i; j < 4 && k != i; j++) m[k][j] -= r * m[i][j];
		}
	*c1 = m[1][3] / m[1][1] / XS / 256;
	*c2 = m[2][3] / m[2][2] / 32768 / 512;
}

static void fit(const char *name, int interval)
{
	struct piece *p = &pieces[interval];
	int64_t best = 0, least;
	double c1, c2;
	int ways = 0;

	near(interval, &c1, &c2);
	for (int64_t i = lrint(c1) - NEAR; i <= lrint(c1) + NEAR; i++)
		for (int64_t j = lrint(c2) - NEAR; j <= lrint(c2) + NEAR; j++) {
			if (room(interval, 37, i, j, &least) <= 0) continue;
			int64_t r = room(interval, 1, i, j, &least);
			ways += r > 0;
			if (r > best) {
				best = r;
				*p = (struct piece){ -(-least >> 8), (least + r - 1) >> 8, i, j };
			}
		}
	if (ways != 1) fprintf(stderr, "approx_fit: %s: interval %d: %d choices fit\n", name, interval, ways);
}

/* K is C0 2^14 + bias, with one bias for all intervals of a table. */
static void print(const char *name, int n)
{
	int64_t bias = -1;

	for (int b = 0; b < 1 << 14 && bias < 0; b++) {
		bool all = true;
		for (int i = 0; i < n && all; i++) all = pieces[i].least + ((b - pieces[i].least) & 0x3fff) <= pieces[i].most;
		if (all) bias = b;
	}
	if (bias < 0) fprintf(stderr, "approx_fit: %s: no common bias\n", name);
	printf("const struct approx_table approx_%s = { %d, {", name, (int)bias);
	for (int i = 0; i < n; i++) {
		struct piece *p = &pieces[i];
		int64_t k = p->least + ((bias - p->least) & 0x3fff);
		printf("%s{ %d, %d, %d },", i % 4 ? " " : "\n\t", (int)((k - bias) >> 14), (int)p->c1, (int)p->c2);
	}
	printf("\n} };\n");
	fprintf(stderr, "%s: %d intervals, bias %d\n", name, n, (int)bias);
}

static void clear(void)
{
	for (int i = 0; i < MOST; i++)
		for (int x = 0; x < XS; x++) low[i][x] = INT64_MIN / 2, high[i][x] = INT64_MAX / 2;
}

/* Of [2^exponent, 2^(exponent+1)): `intervals` of them from `first` on. */
static void add(const char *folder, const char *name, int exponent, int first, int intervals, int power, int64_t down)
{
	const uint32_t *y = octave(folder, name, exponent);
	int each = (1 << 23) / intervals;

	for (int i = 0; i < 1 << 23; i++) {
		int64_t x = (int64_t)(i % each) * XS / each;
		if (i || (strcmp(name, "rsqrt_ftz") || exponent)) bound(first + i / each, (int)x, y[i], power, down);    /* 1/sqrt(1) is 1 */
	}
}

/* sin and cos of a are those of the first quarter of a turn, at t = a / 2 pi cut to a float and to 25 bits behind the point. */
static void add_turns(const char *folder, const char *name, int exponent)
{
	const uint32_t *y = octave(folder, name, exponent);
	int64_t per_turn = 0xa2f983;                                    /* the float 0x1.45f306p-3 */

	for (int64_t i = 0; i < 1 << 23; i++) {
		int64_t product = (i | 1 << 23) * per_turn, cut = product >> 47 ? 24 : 23;
		int power = (int)cut + exponent - 49 + 25;
		int64_t t = product >> cut;
		t = power >= 0 ? t << power : t >> -power;
		int64_t quarter = (t >> 23) + (*name == 'c'), f = t & 0x7fffff;
		if (quarter & 1) f ^= 0x7fffff;
		bound((int)(f >> 17), (int)(f & 0x1ffff), y[i] & 0x7fffffff, 0, 0);
	}
}

static void done(const char *name, int n)
{
	for (int i = 0; i < n; i++) fit(name, i);
	print(name, n);
	clear();
}

int main(int argc, char **argv)
{
	static const int tanh_intervals[] = { 1, 1, 1, 2, 2, 4, 4, 4, 8, 16, 8 };       /* of [2^-8, 2^-7), … [4, 8) */
	const char *from = argc > 1 ? argv[1] : ".";
	int n = 0;

	low = malloc(MOST * sizeof *low), high = malloc(MOST * sizeof *high);
	if (!low || !high) return 1;
	for (int x = 0; x < XS; x++) square[x] = approx_square((uint32_t)x);
	clear();
	printf("/* Made by tests/studies/approx_fit.c of an H100's answers; docs/arithmetics.md says how. %s */\n#include \"approx_tables.h\"\n\n",
		"A row: C0, C1, C2.");
	add(from, "ex2_ftz", 0, 0, 64, -1, 0), done("ex2", 64);
	add(from, "lg2_ftz", 1, 0, 64, 0, 1ll << UNIT), done("lg2", 64);
	add(from, "rcp_ftz", 0, 0, 128, 0, 0), done("rcp", 128);
	add(from, "rsqrt_ftz", 0, 0, 64, 0, 0), add(from, "rsqrt_ftz", 1, 64, 64, 0, 0), done("rsqrt", 128);
	add(from, "sqrt_ftz", 0, 0, 64, 0, 0), add(from, "sqrt_ftz", 1, 64, 64, 0, 0), done("sqrt", 128);
	for (int k = 1; k <= 5; k += k < 3 ? 1 : 2) add_turns(from, "sin_ftz", k), add_turns(from, "cos_ftz", k);
	done("sin", 64);
	for (int k = -8; k <= 2; n += tanh_intervals[k++ + 8]) add(from, "tanh", k, n, tanh_intervals[k + 8], 0, 0);
	done("tanh", n);
	return 0;
}
