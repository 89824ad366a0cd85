#include <stdlib.h>
#include <string.h>

#include "arith.h"

const char *const number_name[NUMBERS] = { "f32", "tf32", "tf32 cut", "f16", "bf16" };
const char *const order_name[ORDERS] = { "in turn", "fused", "backwards", "32 lanes", "halves", "by 16" };

/* ---- numbers ---- */

static float cut(float x, uint32_t add, int bits)
{
	uint32_t b;

	memcpy(&b, &x, sizeof b);
	b = (b + add) >> bits << bits;
	memcpy(&x, &b, sizeof x);
	return x;
}

/* Half of the last place that stays, less one where it is even: to nearest, ties to even. */
static uint32_t to_even(float x, int bits)
{
	uint32_t b;

	memcpy(&b, &x, sizeof b);
	return (UINT32_C(1) << (bits - 1)) - 1 + (b >> bits & 1);
}

/* Below 2^-14 the spacing is 2^-24, as that of floats from 1/2 to 1. */
static float half(float x)
{
	float a = fabsf(x);

	if (a >= 65520) return copysignf(INFINITY, x);
	return copysignf(a < 0x1p-14f ? (a + 0.5f) - 0.5f : cut(a, to_even(a, 13), 13), x);
}

float rounded(enum number to, float x)
{
	if (!isfinite(x)) return x;
	switch (to) {
	case TF32: return cut(x, 0x1000, 13);
	case TF32_CUT: return cut(x, 0, 13);
	case F16: return half(x);
	case BF16: return cut(x, to_even(x, 16), 16);
	default: return x;
	}
}

void round_all(enum number to, float *x, size_t n)
{
	for (size_t i = 0; to != F32 && i < n; i++) x[i] = rounded(to, x[i]);
}

/* ---- sums ---- */

static float in_lanes(const float *a, size_t as, const float *b, size_t bs, size_t n)
{
	float lane[32] = { 0 };

	for (size_t i = 0; i < n; i++) lane[i % 32] += a[i * as] * b[i * bs];
	for (size_t w = 16; w; w /= 2)
		for (size_t i = 0; i < w; i++) lane[i] += lane[i + w];
	return lane[0];
}

static float in_halves(const float *a, size_t as, const float *b, size_t bs, size_t n)
{
	if (n == 0) return 0;
	if (n == 1) return *a * *b;
	return in_halves(a, as, b, bs, n / 2) + in_halves(a + n / 2 * as, as, b + n / 2 * bs, bs, n - n / 2);
}

/* 16 products and the sum so far at once, rounded to float32. */
static float in_blocks(float from, const float *a, size_t as, const float *b, size_t bs, size_t n)
{
	for (size_t i = 0; i < n; i += 16) {
		double sum = (double)from;
		for (size_t j = i; j < n && j < i + 16; j++) sum += (double)a[j * as] * (double)b[j * bs];
		from = (float)sum;
	}
	return from;
}

float dot(enum order o, float from, const float *a, size_t as, const float *b, size_t bs, size_t n)
{
	switch (o) {
	case FUSED:
		for (size_t i = 0; i < n; i++) from = (float)((double)a[i * as] * (double)b[i * bs] + (double)from);
		return from;
	case BACKWARDS:
		for (size_t i = n; i-- > 0;) from += a[i * as] * b[i * bs];
		return from;
	case LANES: return from + in_lanes(a, as, b, bs, n);
	case HALVES: return from + in_halves(a, as, b, bs, n);
	case BLOCKS: return in_blocks(from, a, as, b, bs, n);
	default:
		for (size_t i = 0; i < n; i++) from += a[i * as] * b[i * bs];
		return from;
	}
}

void product(enum order o, float *C, struct view A, struct view B, size_t m, size_t k, size_t n, bool more)
{
	for (size_t i = 0; i < m; i++)
		for (size_t j = 0; j < n; j++)
			C[i * n + j] = dot(o, more ? C[i * n + j] : 0, A.x + i * A.row, A.col, B.x + j * B.col, B.row, k);
}

/* ---- memory ---- */

enum { ROOM = 1 << 24 };
static _Thread_local float *room;
static _Thread_local size_t used;

float *floats(size_t n)
{
	if (!room) room = malloc(ROOM * sizeof *room);
	if (!room || n > ROOM - used) abort();  /* cases are small: see the families */
	float *x = room + used;
	used += n;
	memset(x, 0, n * sizeof *x);
	return x;
}

float *floats_of(const float *x, size_t n)
{
	float *y = floats(n);

	memcpy(y, x, n * sizeof *y);
	return y;
}

size_t floats_mark(void) { return used; }
void floats_release(size_t mark) { used = mark; }

float *input(const struct capture *c, const char *name)
{
	struct tensor *t = capture_in(c, name);
	float *x = t ? floats(t->count) : NULL;

	for (size_t i = 0; t && i < t->count; i++) {
		double v;
		dtype_load(t->dtype, (char *)t->data + i * dtype_info[t->dtype].size, 1, &v);
		x[i] = (float)v;
	}
	return x;
}

size_t dim_of(const struct capture *c, const char *name, int axis)
{
	const struct tensor *t = capture_in(c, name);

	return t ? t->shape[axis] : 1;
}

void output(struct capture *c, const char *name, const float *y)
{
	struct tensor *t = capture_out(c, name);

	for (size_t i = 0; t && i < t->count; i++) {
		double v = (double)y[i];
		dtype_store(t->dtype, &v, 1, (char *)t->data + i * dtype_info[t->dtype].size);
	}
}

/* ---- dice ---- */

size_t pick(struct dice *d, size_t n) { return (size_t)(random_next(&d->state) >> 11) % n; }
size_t between(struct dice *d, size_t low, size_t high) { return low + pick(d, high - low + 1); }
bool chance(struct dice *d, int percent) { return pick(d, 100) < (size_t)percent; }
