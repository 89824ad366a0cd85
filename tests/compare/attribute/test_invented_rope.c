/* Ten faults of a rotary embedding that the list of faults does not have. */
#include "tests/compare/attribute/invented.h"

enum fault {
	LAST_PAIR_LEFT = 1, ODD_HEADS_BACKWARDS, LAST_POSITION_EARLY, TABLE_OF_NEXT_TOKEN, TILE_END_STALE, IN_PLACE,
	LAST_NOT_COPIED, SHORT_LOGARITHM, SHORT_SERIES, POSITION_IN_16_BITS
};

static const struct invention list[INVENTED + 1] = {
	[LAST_PAIR_LEFT] = { "the last pair is copied, not turned", "partial", NULL,
		"63]|31]|at D = 31 and 63" },
	[ODD_HEADS_BACKWARDS] = { "odd heads take the sine with the other sign", "full", NULL,
		"at H = 1" },
	[LAST_POSITION_EARLY] = { "the last token's position is read before it is counted up",
		"partial", NULL, "at T = 15" },
	[TABLE_OF_NEXT_TOKEN] = { "a second block of 16 heads reads the table one token on",
		"many_heads", NULL, "at the upper half of H" },
	[TILE_END_STALE] = { "a tile's last token turns as the one before it", "many_tokens", NULL,
		"at T = 63 mod 64" },
	[IN_PLACE] = { "x1 is overwritten before x2 reads it", "full", NULL,
		"at the upper half of D" },
	[LAST_NOT_COPIED] = { "the last element of a row that is only copied stays 0", "partial",
		NULL, "which is 0 at D = 255" },
	[SHORT_LOGARITHM] = { "theta's logarithm has three decimals", "partial_f32", NULL,
		"has the fault theta_wrong" },
	[SHORT_SERIES] = { "sines of small angles are x - x^3/6", "partial_f32", NULL,
		"out.y: [2,0,4]|of it in y" },
	[POSITION_IN_16_BITS] = { "positions pass through 16 bits", "full", NULL,
		"at the last 5 of T" },
};

#define TENSORS .in = (const struct case_tensor[]){ { "x", "T,H,D", DT_BF16, DRAW_NORMAL, 0, 1 }, \
		{ "positions", "T", DT_I32, DRAW_UNIFORM, 0, 4000 }, { 0 } }, \
	.out = (const struct case_tensor[]){ { "y", "T,H,D", DT_BF16, DRAW_NORMAL, 0, 0 }, { 0 } }

static const struct test_case own[] = {
	{ .op = "rope", .name = "many_heads", .params = "{\"rotary_dim\": 32, \"theta\": 1e4}",
		.dims = (const struct case_dim[]){ { "T", 6 }, { "H", 32 }, { "D", 32 }, { 0 } }, TENSORS },
	{ .op = "rope", .name = "many_tokens", .params = "{\"rotary_dim\": 32, \"theta\": 1e4}",
		.dims = (const struct case_dim[]){ { "T", 200 }, { "H", 2 }, { "D", 32 }, { 0 } }, TENSORS },
	{ 0 }
};

static float position_of(const float *positions, size_t T, size_t t, size_t h, int fault)
{
	if (fault == TABLE_OF_NEXT_TOKEN && h >= 16) t = (t + 1) % T;
	if (fault == TILE_END_STALE && t % 64 == 63) t--;
	float p = positions[t];
	if (fault == LAST_POSITION_EARLY && t + 1 == T) p -= 1;
	return fault == POSITION_IN_16_BITS ? (float)(int16_t)(uint16_t)(int32_t)p : p;
}

static float frequency(float theta, size_t i, size_t rotary, int fault)
{
	float exponent = (float)(2 * i) / (float)rotary;

	if (fault != SHORT_LOGARITHM) return 1 / powf(theta, exponent);
	return exp2f(-exponent * roundf(1000 * log2f(theta)) / 1000);
}

static float sine(float angle, int fault)
{
	return fault == SHORT_SERIES && fabsf(angle) < 0.3f ? angle - angle * angle * angle / 6 : sinf(angle);
}

static void turn(const float *x, float *y, size_t a, size_t b, float angle, int fault)
{
	float c = cosf(angle), s = sine(angle, fault);

	y[a] = x[a] * c - x[b] * s;
	y[b] = x[b] * c + (fault == IN_PLACE ? y[a] : x[a]) * s;
}

static void kernel(struct capture *c, int fault, const char *rounds)
{
	const struct tensor *shape = capture_in(c, "x");
	size_t T = shape->shape[0], H = shape->shape[1], D = shape->shape[2], rotary = (size_t)capture_number(c, "rotary_dim", 0);
	float theta = (float)capture_number(c, "theta", 0);
	const float *x = input(c, "x"), *positions = input(c, "positions");
	float *y = floats(T * H * D);

	(void)rounds;
	for (size_t row = 0; row < T * H; row++) {
		size_t t = row / H, h = row % H, pairs = fault == LAST_PAIR_LEFT ? rotary / 2 - 1 : rotary / 2;
		for (size_t d = 0; d < D; d++) y[row * D + d] = x[row * D + d];
		if (fault == LAST_NOT_COPIED) y[row * D + D - 1] = 0;
		for (size_t i = 0; i < pairs; i++) {
			float angle = position_of(positions, T, t, h, fault) * frequency(theta, i, rotary, fault);
			turn(x + row * D, y + row * D, i, i + rotary / 2, fault == ODD_HEADS_BACKWARDS && h % 2 ? -angle : angle, fault);
		}
	}
	output(c, "y", y);
}

static const struct inventions all = { "rope", own, list, kernel };

int main(void) { return run_inventions(&all); }
