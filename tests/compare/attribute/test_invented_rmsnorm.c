/* Ten faults of a norm that the list of faults does not have. */
#include "tests/compare/attribute/invented.h"

enum fault {
	TAIL_LEFT_OUT = 1, PADDED_COUNT, BOUNDARY_TWICE, MEAN_TAKEN_OFF, ONE_NEWTON_STEP, STALE_SCALE, LAST_VECTOR_SHIFTED,
	STALE_WEIGHT, GATE_OF_TILE_BEFORE, LAST_SUM_NOT_WRITTEN
};

static const struct invention list[INVENTED + 1] = {
	[TAIL_LEFT_OUT] = { "the 7 elements that fill no vector of 8 are not in the sum",
		"odd_1007", NULL, "of it in y" },
	[PADDED_COUNT] = { "the sum is divided by D rounded up to a multiple of 16", "odd_1007",
		NULL, "of it in y" },
	[BOUNDARY_TWICE] = { "two tiles both add the element between them", "plain_f32", NULL,
		"of it in y" },
	[MEAN_TAKEN_OFF] = { "the row's mean is subtracted first, as layer norm does", "plain_f32",
		NULL, "of it in y" },
	[ONE_NEWTON_STEP] = { "the inverse root is the integer trick with one Newton step",
		"zero_centred_256", NULL, "of it in y" },
	[STALE_SCALE] = { "the last row reads shared memory before its own scale is there",
		"zero_centred_256", NULL, "at R = 23" },
	[LAST_VECTOR_SHIFTED] = { "the weights of a row's last 8 elements are one too early",
		"zero_centred_256", NULL, "at the last 8 of D" },
	[STALE_WEIGHT] = { "one thread keeps its neighbour's weight", "gated_128", "xhat_bf16",
		"at D = 100" },
	[GATE_OF_TILE_BEFORE] = { "a tile of 16 rows begins with the gate of the row before it",
		"gated_128", NULL, "at R = 16, 32, 48, 64 and 80" },
	[LAST_SUM_NOT_WRITTEN] = { "a row's last sum is not written back", "residual", NULL,
		"100 % of it in residual_out, at D = 5119" },
};

/* Σ over the row of h²/D. */
static float mean_square(const float *h, size_t D, int fault)
{
	size_t n = fault == TAIL_LEFT_OUT ? D / 8 * 8 : D, count = fault == PADDED_COUNT ? (D + 15) / 16 * 16 : D;
	float sum = warp_dot(h, h, n / 2) + warp_dot(h + n / 2, h + n / 2, n - n / 2);

	if (fault == BOUNDARY_TWICE) sum += h[n / 2] * h[n / 2];
	return sum / (float)count;
}

static float inverse_root(float x, int fault)
{
	uint32_t bits;
	float y;

	if (fault != ONE_NEWTON_STEP) return 1 / sqrtf(x);
	memcpy(&bits, &x, sizeof bits);
	bits = UINT32_C(0x5f3759df) - (bits >> 1);
	memcpy(&y, &bits, sizeof bits);
	return y * (1.5f - 0.5f * x * y * y);
}

static size_t weight_index(size_t d, size_t D, int fault)
{
	if (fault == LAST_VECTOR_SHIFTED && d >= D - 8) return d - 1;
	return fault == STALE_WEIGHT && d == 100 ? d - 1 : d;
}

static void center(float *h, size_t D)
{
	float mean = 0;

	for (size_t d = 0; d < D; d++) mean += h[d] / (float)D;
	for (size_t d = 0; d < D; d++) h[d] -= mean;
}

static void kernel(struct capture *c, int fault, const char *rounds)
{
	size_t R = capture_in(c, "x")->shape[0], D = capture_in(c, "x")->shape[1];
	const float *x = input(c, "x"), *w = input(c, "weight"), *residual = input(c, "residual"), *gate = input(c, "gate");
	float eps = (float)capture_number(c, "eps", 0), offset = (float)capture_number(c, "weight_offset", 0);
	float *y = floats(R * D), *sum = floats(R * D), *h = floats(D), scale = 0;

	for (size_t r = 0; r < R; r++) {
		for (size_t d = 0; d < D; d++) sum[r * D + d] = h[d] = x[r * D + d] + (residual ? residual[r * D + d] : 0);
		if (fault == LAST_SUM_NOT_WRITTEN) sum[r * D + D - 1] = x[r * D + D - 1];
		if (fault == MEAN_TAKEN_OFF) center(h, D);
		if (fault != STALE_SCALE || r + 1 < R) scale = inverse_root(mean_square(h, D, fault) + eps, fault);
		for (size_t d = 0; d < D; d++) {
			float xhat = h[d] * scale, weight = offset + w[weight_index(d, D, fault)];
			size_t g = fault == GATE_OF_TILE_BEFORE && r % 16 == 0 && r > 0 ? r - 1 : r;
			float v = rounds ? bf16(bf16(xhat) * weight) : xhat * weight;
			y[r * D + d] = gate ? v * gate[g * D + d] * sigmoid(gate[g * D + d]) : v;
		}
	}
	output(c, "y", y);
	output(c, "residual_out", sum);
}

static const struct inventions all = { "rmsnorm", NULL, list, kernel };

int main(void) { return run_inventions(&all); }
